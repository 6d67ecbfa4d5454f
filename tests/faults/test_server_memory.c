// Every allocation of a request fails once: forms, entries, answers. No crash, no leak, and a status that says so or is right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "faults/fail_allocation.h"
#include "hub/listing.h"
#include "server/log.h"
#include "server/models.h"
#include "server/openai_request.h"
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

// ---- listings of the hub, requests of chats ----

static itg_diagnostic last; // Of the call that failed last.

// Runs `function` with every allocation failing once, until none does; it returns a status and leaves nothing behind.
static void count_down_calls(itg_status (*function)(void), itg_status right) {
  for (long n = 1; n < 10000; n++) {
    const long before = live_blocks();
    fail_allocation(n);
    const itg_status status = function();
    const bool done = fail_is_pending();
    fail_allocation(0);
    assert_int_equal(live_blocks(), before);
    if (done) {
      assert_int_equal(status, right);
      assert_true(n > 1);
      return;
    }
    // The JSON library calls a failed allocation within a string an invalid token, or goes on without the character.
    if (status != ITG_ERROR_MEMORY && status != ITG_ERROR_FORMAT && status != ITG_ERROR_ARGUMENT)
      fail_msg("allocation %ld: status %d %s", n, status, last.message);
  }
  fail_msg("it never came to an end");
}

static itg_status read_listing(void) {
  static const char text[] =
      "{\"sha\": \"0123456789012345678901234567890123456789\", \"siblings\": [{\"rfilename\": \"visual/model.onnx\", "
      "\"size\": 3, \"lfs\": {\"sha256\": \"0123456789012345678901234567890123456789012345678901234567890123\", "
      "\"size\": 5}}, {\"rfilename\": \"config.json\", \"size\": 7, "
      "\"blobId\": \"0123456789012345678901234567890123456789\"}]}";
  itg_hub_listing listing = {0};
  const itg_status status = itg_hub_listing_read((itg_span){(const uint8_t *)text, sizeof text - 1}, NULL, &listing);
  if (status == ITG_OK) itg_hub_listing_free(&listing);
  return status;
}

// A PNG of one white pixel.
static itg_status read_chat(void) {
  static const char text[] =
      "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
      "{\"type\": \"image_url\", \"image_url\": {\"url\": "
      "\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4"
      "DwABAQEAsTj2FAAAAABJRU5ErkJggg==\"}}]}], \"stop\": [\"b\", \"c\"]}";
  itg_openai_request request = {0};
  const itg_status status =
      itg_openai_request_parse((itg_span){(const uint8_t *)text, sizeof text - 1}, NULL, &last, &request);
  itg_openai_request_free(&request);
  return status;
}

static void listings_and_chats_are_read_without_memory(void **state) {
  (void)state;
  count_down_calls(read_listing, ITG_OK);
  count_down_calls(read_chat, ITG_OK);
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
  json_set_alloc_funcs(__wrap_malloc, __wrap_free); // What the JSON library allocates fails as well.
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_without_memory),
                                     cmocka_unit_test(listings_and_chats_are_read_without_memory),
                                     cmocka_unit_test(starts_without_memory)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  itg_models_destroy(models);
  return failed;
}
