// The command under load: 8 clients with mixed requests (faces, text in pictures, mistakes; with ITG_LOAD_SECONDS also search, by
// encoders with made weights) for ITG_LOAD_SECONDS (15), every answer compared with the one that the same request got alone; /ping and
// the status page beside them; memory; then kill -9 in the middle, a start on the same port, and on.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "intaglio/pipelines.h"
#include "server/service.h"
#include "server/statistics.h"

// Sanitizers are slow, and keep freed memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { CLIENTS = 8, FACE_REQUESTS = 28, MOST_REQUESTS = 40 };

typedef struct request_pair {
  body request;
  char *answer;
  int status;
} request_pair;

static request_pair requests[MOST_REQUESTS];
static size_t request_count;
static char photographs[4096];
static uint16_t port;
static atomic_bool stopping, may_fail;
static atomic_ulong answers, crossed, errors, pings, interrupted;
static itg_statistics ping_times;

static pid_t start_server(uint16_t wanted_port) {
  static const char *const options[] = {"--queue", "256", NULL};
  uint16_t got = 0;
  const pid_t child = service_spawn(options, wanted_port, &got);
  if (child < 0) fail_msg("the server did not start; see %s", service_log_path());
  if (wanted_port == 0) port = got; // Otherwise clients already use it.
  return child;
}

static size_t server_memory(void) {
  http_reply reply = http_call(port, "GET", "/status", NULL, "", 0);
  json_t *root = reply.body ? json_loadb(reply.body, reply.size, 0, NULL) : NULL;
  const size_t memory = (size_t)json_integer_value(json_object_get(json_object_get(root, "memory"), "process"));
  json_decref(root);
  http_free(&reply);
  return memory;
}

// ---- models beside the faces, and requests for them ----

static void link_model(const char *source, const char *place) {
  char from[4096], to[4096], command[4200];
  snprintf(from, sizeof from, "%s/%s", oracle_models(), source);
  snprintf(to, sizeof to, "%s/models/%s/model.onnx", service_folder, place);
  snprintf(command, sizeof command, "mkdir -p %s/models/%s", service_folder, place);
  if (system(command) != 0 || symlink(from, to) != 0) abort();
}

static void add_request(body request) { requests[request_count++].request = request; }

// Networks for other sizes of pictures are opened while requests are answered.
static void add_text_requests(void) {
  static const int resolutions[] = {160, 320};
  char path[4096], entries[512];
  snprintf(path, sizeof path, "%s/rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", oracle_models());
  if (!oracle_exists(path)) return;
  link_model("rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "ocr/made/detection");
  link_model("rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "ocr/made/recognition");
  for (int i = 0; i < 2; i++) {
    size_t size;
    snprintf(path, sizeof path, "%s/../photos/ocr/%s.png", oracle_models(), i ? "text" : "page");
    char *image = service_read_file(path, &size);
    snprintf(entries, sizeof entries,
             "{\"ocr\":{\"detection\":{\"modelName\":\"made\",\"options\":{\"maxResolution\":%d}},"
             "\"recognition\":{\"modelName\":\"made\",\"options\":{\"minScore\":0.5}}}}",
             resolutions[i]);
    add_request(body_of(entries, image, size, NULL));
    free(image);
  }
}

static void add_search_requests(const char *photograph) {
  static const char *const models[] = {"ViT-test__openai", "ViT-test-SigLIP__webli", "XLM-Roberta-test"};
  char command[16384], entries[512];
  if (!getenv("ITG_LOAD_SECONDS") || !oracle_has("tokenizers, onnx, onnxruntime")) return;
  snprintf(command, sizeof command,
           "cd %s && mkdir tokenizers && '%s' '%s/tests/real/tokenizer_oracle.py' tokenizers 0 1 >/dev/null && "
           "'%s' '%s/tests/real/clip_oracle.py' made tokenizers '%s' && mv made/clip models/",
           service_folder, oracle_python(), ITG_SOURCE_DIR, oracle_python(), ITG_SOURCE_DIR, photograph);
  if (system(command) != 0) fail_msg("failed: %s", command);
  size_t size;
  char *image = service_read_file(photograph, &size);
  for (int i = 0; i < 3; i++) {
    snprintf(entries, sizeof entries, "{\"clip\":{\"visual\":{\"modelName\":\"%s\"}}}", models[i]);
    add_request(body_of(entries, image, size, NULL));
    snprintf(entries, sizeof entries, "{\"clip\":{\"textual\":{\"modelName\":\"%s\"}}}", models[i]);
    add_request(body_of(entries, NULL, 0, i == 0 ? "two red cars in the snow" : "the sea at night"));
  }
  free(image);
}

// ---- clients ----

static void make_requests(void) {
  itg_image_list list = {0};
  assert_int_equal(itg_image_list_folder(photographs, NULL, &list), ITG_OK);
  for (size_t i = 0; i < list.count && request_count < FACE_REQUESTS; i += list.count / FACE_REQUESTS + 1) {
    char entries[512];
    size_t size;
    char *image = service_read_file(list.paths[i], &size);
    snprintf(entries, sizeof entries, FACES_ENTRIES, i % 2 ? 0.5 : 0.7);
    add_request(body_of(entries, image, size, NULL));
    free(image);
  }
  add_text_requests();
  add_search_requests(list.paths[0]);
  itg_image_list_free(&list);
  add_request(body_of("{", "x", 1, NULL)); // Mistakes are part of the mixture.
  add_request(body_of("{\"clip\":{\"textual\":{\"modelName\":\"none\"}}}", NULL, 0, "text"));
  add_request(body_of("{\"clip\":{\"visual\":{\"modelName\":\"none\"}}}", "no picture", 10, NULL));
  size_t good = 0;
  for (size_t i = 0; i < request_count; i++) {
    http_reply reply = body_post(port, &requests[i].request);
    requests[i].status = reply.status;
    requests[i].answer = reply.body;
    assert_non_null(reply.body);
    good += reply.status == 200;
  }
  assert_int_equal(good, request_count - 3);
}

static void *use_server(void *argument) {
  uint32_t seed = (uint32_t)(uintptr_t)argument * 2654435761u + 1;
  int client = -1;
  while (!atomic_load(&stopping)) {
    seed = seed * 1664525 + 1013904223;
    const request_pair *pair = &requests[(seed >> 8) % request_count];
    http_reply reply = {0};
    if (client < 0) client = http_connect(port);
    const bool good = client >= 0 &&
                      http_send_request(client, "POST", "/predict", "Content-Type: " BODY_TYPE "\r\n",
                                        pair->request.data, pair->request.size) &&
                      http_read(client, &reply);
    if (!good && atomic_load(&may_fail)) {
      atomic_fetch_add(&interrupted, 1);
      service_sleep(20);
    } else if (!good || reply.status != pair->status) {
      atomic_fetch_add(&errors, 1);
    } else if (strcmp(reply.body, pair->answer) != 0) {
      atomic_fetch_add(&crossed, 1);
    } else {
      atomic_fetch_add(&answers, 1);
    }
    if (!good || reply.closes || seed >> 28 == 0) { // Some connections are new.
      if (client >= 0) close(client);
      client = -1;
    }
    http_free(&reply);
  }
  if (client >= 0) close(client);
  return NULL;
}

static void *ping_server(void *argument) {
  (void)argument;
  for (unsigned long i = 0; !atomic_load(&stopping); i++) {
    if (i % 8 == 0) {
      http_reply page = http_call(port, "GET", "/", "Accept: text/html\r\n", "", 0);
      http_free(&page);
    }
    const double start = itg_clock();
    http_reply reply = http_call(port, "GET", "/ping", NULL, "", 0);
    if (reply.status == 200) {
      itg_statistics_add(&ping_times, itg_clock() - start);
      atomic_fetch_add(&pings, 1);
    } else if (!atomic_load(&may_fail)) {
      atomic_fetch_add(&errors, 1);
    }
    http_free(&reply);
    service_sleep(20);
  }
  return NULL;
}

static void run_clients(int seconds, size_t *warm, size_t *end) {
  pthread_t clients[CLIENTS], pinger;
  atomic_store(&stopping, false);
  for (uintptr_t i = 0; i < CLIENTS; i++)
    assert_int_equal(pthread_create(&clients[i], NULL, use_server, (void *)(i + 1)), 0);
  assert_int_equal(pthread_create(&pinger, NULL, ping_server, NULL), 0);
  service_sleep(seconds * 300L);
  if (warm) *warm = server_memory();
  service_sleep(seconds * 700L);
  if (end) *end = server_memory();
  atomic_store(&stopping, true);
  for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i], NULL);
  pthread_join(pinger, NULL);
}

static void answers_under_load(void **state) {
  (void)state;
  const char *asked = getenv("ITG_LOAD_SECONDS");
  const int seconds = asked ? atoi(asked) : 15;
  size_t warm = 0, end = 0;
  const pid_t server = start_server(0);
  make_requests();
  run_clients(seconds, &warm, &end);
  const double p99 = itg_statistics_percentile(&ping_times, 0.99);
  print_message(
      "%d s, %d clients: %lu answers (%.1f a second), %lu crossed, %lu errors; /ping %lu times, p50 %.1f ms, p99 %.1f "
      "ms; memory %.1f -> %.1f MiB\n",
      seconds, CLIENTS, atomic_load(&answers), (double)atomic_load(&answers) / seconds, atomic_load(&crossed),
      atomic_load(&errors), atomic_load(&pings), 1e3 * itg_statistics_percentile(&ping_times, 0.5), 1e3 * p99,
      (double)warm / (1 << 20), (double)end / (1 << 20));
  assert_int_equal(atomic_load(&crossed), 0);
  assert_int_equal(atomic_load(&errors), 0);
  assert_true(atomic_load(&answers) > 0);
#if !SANITIZED
  assert_true(atomic_load(&answers) > (unsigned long)seconds);
  assert_true(p99 < 0.1);
  assert_true((double)end < 1.05 * (double)warm);
#endif
  assert_true(service_end(server));
}

static void *kill_and_start(void *argument) {
  pid_t *server = argument;
  for (int i = 0; i < 3; i++) {
    service_sleep(700);
    kill(*server, SIGKILL);
    waitpid(*server, NULL, 0);
    *server = start_server(port);
  }
  service_sleep(300);
  atomic_store(&may_fail, false);
  return NULL;
}

static void comes_back_after_kill(void **state) {
  (void)state;
  pid_t server = start_server(port);
  pthread_t killer;
  atomic_store(&answers, 0);
  atomic_store(&may_fail, true);
  assert_int_equal(pthread_create(&killer, NULL, kill_and_start, &server), 0);
  run_clients(6, NULL, NULL);
  pthread_join(killer, NULL);
  print_message("killed three times: %lu requests interrupted, %lu answered, %lu crossed, %lu errors\n",
                atomic_load(&interrupted), atomic_load(&answers), atomic_load(&crossed), atomic_load(&errors));
  assert_true(atomic_load(&interrupted) > 0);
  assert_true(atomic_load(&answers) > 0);
  assert_int_equal(atomic_load(&crossed), 0);
  assert_int_equal(atomic_load(&errors), 0);
  assert_true(service_end(server));
}

// Closed models leave nothing behind, and a service at rest is small: users have 2 to 4 GB for all of Immich.
static void gives_memory_back(void **state) {
  (void)state;
  if (SANITIZED) skip();
  static const char *const options[] = {"--model-ttl", "1", NULL};
  double best = 1e9;
  size_t fresh = 0, used = 0, after[2] = {0};
  setenv("MACHINE_LEARNING_MODEL_TTL_POLL_S", "1", 1);
  pid_t server = -1;
  for (int i = 0; i < 3; i++) { // Starts take turns with whatever else this machine does: the best counts.
    if (server > 0) assert_true(service_end(server));
    const double start = itg_clock();
    server = service_spawn(options, 0, &port);
    assert_true(server > 0);
    fresh = server_memory();
    http_reply reply = body_post(port, &requests[0].request);
    best = fmin(best, itg_clock() - start);
    assert_int_equal(reply.status, 200);
    http_free(&reply);
  }
  for (int round = 0; round < 2; round++) {
    run_clients(2, NULL, &used);
    // Models are closed after a second, and the allocator gives pages back after five more without a request.
    service_sleep(9000);
    after[round] = server_memory();
  }
  unsetenv("MACHINE_LEARNING_MODEL_TTL_POLL_S");
  print_message("first answer %.0f ms after the start; memory %.1f MiB fresh, %.1f busy, %.1f and %.1f after models "
                "were closed\n",
                1e3 * best, (double)fresh / (1 << 20), (double)used / (1 << 20), (double)after[0] / (1 << 20),
                (double)after[1] / (1 << 20));
  assert_true(best < 0.3);
  assert_true(after[0] < (size_t)40e6 && after[1] < (size_t)40e6);
  assert_true(after[1] < after[0] + (size_t)4e6);
  assert_true(service_end(server));
}

int main(void) {
  snprintf(photographs, sizeof photographs, "%s/data/faces", oracle_shared());
  if (!oracle_exists(photographs) || !service_prepare()) {
    printf("skipped: needs the face models and the shared photographs\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_under_load), cmocka_unit_test(comes_back_after_kill),
                                     cmocka_unit_test(gives_memory_back)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (size_t i = 0; i < request_count; i++) {
    free(requests[i].request.data);
    free(requests[i].answer);
  }
  service_remove();
  return failed;
}
