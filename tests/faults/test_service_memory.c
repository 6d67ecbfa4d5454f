// The whole service while memory is short: every allocation of a request fails once, in a server that answers over a socket. The
// server says so (500, 503) or drops the connection, the next request gets its right answer, and nothing is lost.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "faults/fail_allocation.h"
#include "server/service.h"

enum { ANSWER = 1 << 20, LOADING_STEPS = 40 };

typedef struct answered {
  int status;
  size_t size;
  char text[ANSWER];
} answered;

static service running;
static answered now, right;
static body requests[8];
static size_t request_count;
static char paths[8][32];

// A client that allocates nothing itself: one connection, the whole answer. Status 0: dropped.
static void ask(const char *path, const body *b, answered *out) {
  char head[256];
  const int client = http_connect(running.port);
  const int length = snprintf(head, sizeof head,
                              "%s %s HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nConnection: close\r\n"
                              "Content-Type: " BODY_TYPE "\r\nContent-Length: %zu\r\n\r\n",
                              b ? "POST" : "GET", path, b ? b->size : 0);
  out->status = 0;
  out->size = 0;
  if (client < 0) return;
  if (http_send(client, head, (size_t)length) && b) http_send(client, b->data, b->size);
  while (out->size < ANSWER - 1) {
    const ssize_t got = http_receive(client, out->text + out->size, ANSWER - 1 - out->size);
    if (got <= 0) break;
    out->size += (size_t)got;
  }
  out->text[out->size] = '\0';
  close(client);
  sscanf(out->text, "HTTP/1.1 %d", &out->status);
}

// The server may still be tidying up behind the answer.
static void wait_for_blocks(long expected) {
  for (int i = 0; i < 2000 && live_blocks() != expected; i++) service_sleep(1);
}

static const char *body_in(const answered *a) {
  const char *end = strstr(a->text, "\r\n\r\n");
  return end ? end + 4 : "";
}

static void add(const char *path, body b) {
  snprintf(paths[request_count], sizeof paths[0], "%s", path);
  requests[request_count++] = b;
}

static char small[4096]; // A photograph of one face.

static int prepare(void **state) {
  (void)state;
  size_t size;
  char entries[512], *image = service_read_file(small, &size);
  snprintf(entries, sizeof entries, FACES_ENTRIES, 0.5);
  add("/predict", body_of(entries, image, size, NULL));
  add("/predict",
      body_of("{\"facial-recognition\":{\"detection\":{\"modelName\":\"faceplugin\"}}}", image, size, NULL));
  add("/predict", body_of("{\"facial-recognition\":{\"detection\":{\"modelName\":\"nobody\"}}}", image, size, NULL));
  add("/predict", body_of("{\"clip\":{\"textual\":{\"modelName\":\"none\"}}}", NULL, 0, "text"));
  add("/predict", body_of("{\"ocr\":7}", "x", 1, NULL));
  free(image);
  add("/ping", (body){0});
  add("/", (body){0});
  add("/status", (body){0});
  return 0;
}

static bool is_page(const char *path) { return strcmp(path, "/") == 0 || strcmp(path, "/status") == 0; }

static void every_allocation_of_a_request_may_fail(void **state) {
  (void)state;
  service_start(&running, (itg_models_options){0}, (itg_immich_options){.worker_count = 1});
  ask("/predict", &requests[0], &right); // Loads the models.
  assert_int_equal(right.status, 200);
  for (size_t r = 0; r < request_count; r++) {
    const body *b = requests[r].data ? &requests[r] : NULL;
    long failures = 0, dropped = 0;
    ask(paths[r], b, &right);
    service_sleep(20);
    const long before = live_blocks();
    for (long n = 1;; n++) {
      fail_allocation(n);
      ask(paths[r], b, &now);
      const bool done = fail_is_pending();
      fail_allocation(0);
      dropped += now.status == 0;
      failures += now.status == 500 || now.status == 503;
      // 422: within a string the JSON library calls a failed allocation an invalid token.
      if (now.status != 0 && now.status != 500 && now.status != 503 && now.status != 422 && now.status != right.status)
        fail_msg("request %zu, allocation %ld: status %d", r, n, now.status);
      if (now.status == 200 && !is_page(paths[r]) && strcmp(body_in(&now), body_in(&right)) != 0)
        fail_msg("request %zu, allocation %ld: another answer", r, n);
      wait_for_blocks(before);
      assert_int_equal(live_blocks(), before);
      if (done) {
        print_message("%s %zu: %ld allocations, %ld failed, %ld dropped\n", paths[r], r, n - 1, failures, dropped);
        assert_int_equal(now.status, right.status);
        assert_true(n > 1 && n < 100000);
        break;
      }
      ask("/ping", NULL, &now);
      assert_int_equal(now.status, 200);
    }
  }
  service_stop(&running);
}

// Loading a model makes very many allocations: some of them fail, spread evenly over all.
static void loading_may_fail(void **state) {
  (void)state;
  long all = 0;
  int failed = 0;
  for (int step = 0; step <= LOADING_STEPS; step++) {
    const long before = live_blocks();
    service_start(&running, (itg_models_options){0}, (itg_immich_options){.worker_count = 1});
    const long first = allocation_count();
    if (step > 0) fail_allocation(1 + (all - 1) * (step - 1) / (LOADING_STEPS - 1));
    ask("/predict", &requests[0], &now);
    fail_allocation(0);
    if (step == 0) {
      all = allocation_count() - first;
      right = now;
      assert_int_equal(right.status, 200);
    } else if (now.status == 200) {
      assert_string_equal(body_in(&now), body_in(&right)); // Did without, e.g. the status line of a page.
    } else {
      failed++;
      if (now.status != 500 && now.status != 503 && now.status != 0) fail_msg("step %d: status %d", step, now.status);
      ask("/predict", &requests[0],
          &now); // Memory is there again. What passed for a damaged file is tried after five seconds.
      for (int i = 0; i < 60 && now.status == 500 && strstr(now.text, "not JSON"); i++) {
        service_sleep(100);
        ask("/predict", &requests[0], &now);
      }
      if (now.status != 200) fail_msg("step %d: afterwards %s", step, body_in(&now));
      assert_string_equal(body_in(&now), body_in(&right));
    }
    service_stop(&running);
    assert_int_equal(live_blocks(), before);
  }
  print_message("loading: %ld allocations, %d of %d failures were noticed\n", all, failed, LOADING_STEPS);
  assert_true(failed > LOADING_STEPS / 2);
}

int main(void) {
  snprintf(small, sizeof small, "%s/data/faces", oracle_shared());
  itg_image_list list = {0};
  if (!oracle_exists(small) || !service_prepare() || itg_image_list_folder(small, NULL, &list) != ITG_OK) {
    printf("skipped: needs the face models and the shared photographs\n");
    return 77;
  }
  snprintf(small, sizeof small, "%s", list.paths[0]);
  itg_image_list_free(&list);
  json_set_alloc_funcs(__wrap_malloc, __wrap_free); // What the JSON library allocates fails as well.
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_a_request_may_fail),
                                     cmocka_unit_test(loading_may_fail)};
  const int failed = cmocka_run_group_tests(tests, prepare, NULL);
  for (size_t i = 0; i < request_count; i++) free(requests[i].data);
  service_remove();
  return failed;
}
