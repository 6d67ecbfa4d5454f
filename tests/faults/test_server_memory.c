// Every allocation of a request fails once: forms, entries, answers. No crash, no leak, and a status that says so or is right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "faults/fail_allocation.h"
#include "server/log.h"
#include "server/models.h"
#include "server/predict.h"
#include "server/queue.h"

static itg_models *models;

static void count_down(const char *type, const char *text) {
  const itg_predict predict = {
      .models = models, .version = ITG_IMMICH_3, .content_type = type, .body = {(const uint8_t *)text, strlen(text)}};
  itg_reply whole = {0};
  const int right = itg_predict_run(&predict, &whole);
  for (long n = 1; n < 10000; n++) {
    itg_reply reply = {0};
    const long before = live_blocks();
    fail_allocation(n);
    const int status = itg_predict_run(&predict, &reply);
    const bool done = fail_is_pending();
    fail_allocation(0);
    if (!reply.failed && status != right && status != 503 && status != 422) fail_msg("allocation %ld: %d", n, status);
    if (done) {
      assert_int_equal(status, right);
      assert_int_equal(reply.size, whole.size);
      assert_memory_equal(reply.data, whole.data, whole.size);
    }
    itg_reply_free(&reply);
    assert_int_equal(live_blocks(), before);
    if (done) {
      itg_reply_free(&whole);
      return;
    }
  }
  fail_msg("it never came to an end");
}

static void answers_without_memory(void **state) {
  (void)state;
  const char *type = "multipart/form-data; boundary=X";
  count_down(type,
             "--X\r\nContent-Disposition: form-data; name=entries\r\n\r\n{\"clip\":{\"textual\":{\"modelName\":\"m\"}}}"
             "\r\n--X\r\nContent-Disposition: form-data; name=text\r\n\r\na\r\n--X--");
  count_down(type, "--X\r\nContent-Disposition: form-data; name=entries\r\n\r\n{\r\n--X--");
  count_down(type, "--X");
  count_down("application/x-www-form-urlencoded",
             "text=a&entries=%7B%22clip%22%3A%7B%22visual%22%3A%7B%22modelName%22%3A%22m"
             "%22%7D%7D%7D");
}

static void ignore(void *context, void *job) {
  (void)context;
  (void)job;
}

static void starts_without_memory(void **state) {
  (void)state;
  for (long n = 1;; n++) {
    const long before = live_blocks();
    itg_queue *queue = NULL;
    itg_models *other = NULL;
    const itg_models_options options = {.folder = "/nonexistent"};
    fail_allocation(n);
    itg_status status = itg_queue_create(2, 4, ignore, NULL, NULL, &queue);
    if (status == ITG_OK) status = itg_models_create(&options, NULL, &other);
    const bool done = fail_is_pending();
    fail_allocation(0);
    assert_int_equal(status, done ? ITG_OK : ITG_ERROR_MEMORY);
    itg_queue_destroy(queue);
    itg_models_destroy(other);
    assert_int_equal(live_blocks(), before);
    if (done) break;
  }
}

int main(void) {
  const itg_models_options options = {.folder = "/nonexistent", .poll_seconds = 3600};
  itg_log_set_level(ITG_LOG_ERROR);
  if (itg_models_create(&options, NULL, &models) != ITG_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_without_memory), cmocka_unit_test(starts_without_memory)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  itg_models_destroy(models);
  return failed;
}
