// serve --backend qnn with the vendor's own library, which simulates the NPU on this machine (half a second a network and picture):
// faces answered by contexts for a chip, never mixed up between clients, and the CPU with a reason where the NPU cannot.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <pthread.h>

#include "intaglio/pipelines.h"
#include "server/service.h"
#include "server/statistics.h"
#include "support/npu_library.h"

enum { PHOTOGRAPHS = 4, ROUNDS = 2 };

static char calibration[4096], library[512];
static char *alone[PHOTOGRAPHS]; // The answer that a photograph gets when nobody else asks.
static body requests[PHOTOGRAPHS];
static uint16_t port;

static void run_command(const char *command) {
  if (system(command) != 0) fail_msg("failed: %s", command);
}

static void compile(const char *model, const char *place, const char *options) {
  char command[16384];
  snprintf(
      command, sizeof command,
      "cd %s/models/facial-recognition/%s && '%s/intaglio' compile %s.onnx -o %s.itg --calibration '%s' --limit 16 "
      "--split --quiet %s >/dev/null 2>&1",
      service_folder, model, ITG_BINARY_DIR, place, place, calibration, options);
  run_command(command);
}

// "npu": detection and recognition with contexts, landmarks as a float model. "plain": recognition without a context.
static void prepare_models(void) {
  char command[2048], target[1024];
  for (int i = 0; i < 2; i++) {
    snprintf(command, sizeof command, "cp -r %s/models/facial-recognition/faceplugin %s/models/facial-recognition/%s",
             service_folder, service_folder, i ? "plain" : "npu");
    run_command(command);
  }
  snprintf(target, sizeof target, "--kind face-detection --precision a16w8 --target qcs6490 --qnn-dir '%s'", library);
  compile("npu", "detection/model", target);
  snprintf(target, sizeof target, "--kind face-recognition --face-models detection --target qcs6490 --qnn-dir '%s'",
           library);
  compile("npu", "recognition/model", target);
  compile("plain", "recognition/model", "--kind face-recognition --face-models detection");
}

// The value of a member of one network in the status, "" when there is none. `type`: "detection", "recognition".
static const char *network_member(const json_t *status, const char *model, const char *type, const char *network,
                                  const char *member) {
  size_t i, k;
  const json_t *entry, *found;
  json_array_foreach(json_object_get(status, "models"), i, entry) {
    if (strcmp(json_string_value(json_object_get(entry, "name")), model) != 0 ||
        strcmp(json_string_value(json_object_get(entry, "type")), type) != 0)
      continue;
    json_array_foreach(json_object_get(entry, "networks"), k,
                       found) if (strcmp(json_string_value(json_object_get(found, "name")), network) ==
                                  0) return json_string_value(json_object_get(found, member));
  }
  return "";
}

static json_t *get_status(void) {
  http_reply reply = http_call(port, "GET", "/status", NULL, "", 0);
  json_t *status = json_loadb(reply.body, reply.size, 0, NULL);
  assert_non_null(status);
  http_free(&reply);
  return status;
}

static body ask_for(const char *model, const char *photograph) {
  char entries[512];
  size_t size;
  char *image = service_read_file(photograph, &size);
  snprintf(entries, sizeof entries,
           "{\"facial-recognition\":{\"detection\":{\"modelName\":\"%s\"},\"recognition\":{\"modelName\":\"%s\"}}}",
           model, model);
  const body b = body_of(entries, image, size, NULL);
  free(image);
  return b;
}

static size_t face_count(const char *answer) {
  json_t *root = json_loads(answer, 0, NULL);
  const size_t count = json_array_size(json_object_get(root, "facial-recognition"));
  json_decref(root);
  return count;
}

// Cosine of two faces' embeddings.
static double similarity(const json_t *a, const json_t *b) {
  json_t *x = json_loads(json_string_value(json_object_get(a, "embedding")), 0, NULL);
  json_t *y = json_loads(json_string_value(json_object_get(b, "embedding")), 0, NULL);
  double xy = 0, xx = 0, yy = 0;
  assert_true(json_array_size(x) > 0 && json_array_size(x) == json_array_size(y));
  for (size_t i = 0; i < json_array_size(x); i++) {
    const double u = json_number_value(json_array_get(x, i)), v = json_number_value(json_array_get(y, i));
    xy += u * v, xx += u * u, yy += v * v;
  }
  json_decref(x);
  json_decref(y);
  return xy / sqrt(xx * yy);
}

static char *answer_of(const body *b) {
  http_reply reply = body_post(port, b);
  if (reply.status != 200) fail_msg("status %d: %s", reply.status, reply.body ? reply.body : "");
  return reply.body;
}

static void assert_contains(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

// ---- concurrent clients ----

static void *ask_concurrently(void *argument) {
  const size_t first = (size_t)(uintptr_t)argument;
  size_t different = 0;
  for (size_t i = 0; i < ROUNDS; i++) {
    const size_t which = (first + i) % PHOTOGRAPHS;
    http_reply reply = body_post(port, &requests[which]);
    different += reply.status != 200 || strcmp(reply.body, alone[which]) != 0;
    http_free(&reply);
  }
  return (void *)(uintptr_t)different;
}

static void answers_from_the_npu(void **state) {
  (void)state;
  const char *const options[] = {"--backend", "qnn", "--qnn-dir", library, "--target", "qcs6490", NULL};
  const pid_t server = service_spawn(options, 0, &port);
  assert_true(server > 0);
  itg_image_list list = {0};
  assert_int_equal(itg_image_list_folder(calibration, NULL, &list), ITG_OK);
  assert_true(list.count >= PHOTOGRAPHS);
  for (size_t i = 0; i < PHOTOGRAPHS; i++) {
    requests[i] = ask_for("npu", list.paths[i * list.count / PHOTOGRAPHS]);
    alone[i] = answer_of(&requests[i]);
    assert_true(face_count(alone[i]) >= 1);
    for (size_t k = 0; k < i; k++) assert_string_not_equal(alone[i], alone[k]);
  }
  itg_image_list_free(&list);

  pthread_t clients[PHOTOGRAPHS];
  const double start = itg_clock();
  for (uintptr_t i = 0; i < PHOTOGRAPHS; i++)
    assert_int_equal(pthread_create(&clients[i], NULL, ask_concurrently, (void *)i), 0);
  http_reply ping = http_call(port, "GET", "/ping", NULL, "", 0);
  const double ping_seconds = itg_clock() - start;
  assert_int_equal(ping.status, 200);
  http_free(&ping);
  for (size_t i = 0; i < PHOTOGRAPHS; i++) {
    void *different;
    pthread_join(clients[i], &different);
    assert_null(different);
  }
  print_message("%d requests of %d clients in %.1f s, /ping in %.0f ms\n", PHOTOGRAPHS * ROUNDS, PHOTOGRAPHS,
                itg_clock() - start, 1e3 * ping_seconds);

  json_t *status = get_status();
  const char *const types[] = {"detection", "recognition"};
  for (int i = 0; i < 2; i++) {
    const char *place = network_member(status, "npu", types[i], "model", "place");
    assert_true(strcmp(place, "simulated") == 0 || strcmp(place, "npu") == 0);
    assert_contains(network_member(status, "npu", types[i], "model", "reason"), "ops");
  }
  assert_string_equal(network_member(status, "npu", "detection", "landmarks", "place"), "float");
  json_decref(status);
  assert_true(service_end(server));
}

// The same faces as by our model of the chip's arithmetic on the CPU, and embeddings that differ by roundings alone.
static void agrees_with_the_chips_arithmetic(void **state) {
  (void)state;
  const char *const options[] = {"--cpu", "htp-v68", NULL};
  const pid_t server = service_spawn(options, 0, &port);
  assert_true(server > 0);
  double lowest = 1;
  size_t faces = 0;
  for (size_t i = 0; i < PHOTOGRAPHS; i++) {
    char *answer = answer_of(&requests[i]);
    assert_int_equal(face_count(answer), face_count(alone[i]));
    json_t *ours = json_loads(answer, 0, NULL), *theirs = json_loads(alone[i], 0, NULL);
    size_t k;
    const json_t *face;
    json_array_foreach(json_object_get(ours, "facial-recognition"), k, face) {
      const json_t *other = json_array_get(json_object_get(theirs, "facial-recognition"), k);
      lowest = fmin(lowest, similarity(face, other));
      faces++;
    }
    json_decref(ours);
    json_decref(theirs);
    free(answer);
  }
  print_message("%zu faces: lowest cosine of the NPU's embedding to that of the predicted arithmetic %.5f\n", faces,
                lowest);
  assert_true(lowest >= 0.98);
  assert_true(service_end(server));
}

// ---- where the NPU cannot ----

// Starts with `options`, asks `model` once, and returns why its recognition is on the CPU; the log says so too.
static void expect_cpu(const char *const *options, const char *model, const char *place, const char *reason) {
  const pid_t server = service_spawn(options, 0, &port);
  assert_true(server > 0);
  itg_image_list list = {0};
  assert_int_equal(itg_image_list_folder(calibration, NULL, &list), ITG_OK);
  body b = ask_for(model, list.paths[0]);
  itg_image_list_free(&list);
  char *answer = answer_of(&b);
  assert_true(face_count(answer) >= 1);
  free(answer);
  free(b.data);
  json_t *status = get_status();
  assert_string_equal(network_member(status, model, "recognition", "model", "place"), place);
  assert_contains(network_member(status, model, "recognition", "model", "reason"), reason);
  json_decref(status);
  assert_true(service_end(server));
  size_t size;
  char *log = service_read_file(service_log_path(), &size);
  assert_contains(log, reason);
  free(log);
}

static void falls_back_with_a_reason(void **state) {
  (void)state;
  const char *const same[] = {"--backend", "qnn", "--qnn-dir", library, "--target", "qcs6490", NULL};
  const char *const other_chip[] = {"--backend", "qnn", "--qnn-dir", library, "--target", "sm8550", NULL};
  const char *const no_library[] = {"--backend", "qnn", "--qnn-dir", service_folder, "--target", "qcs6490", NULL};
  expect_cpu(same, "plain", "cpu", "not on the NPU: ");
  expect_cpu(same, "faceplugin", "float", "there is no compiled file");
  expect_cpu(other_chip, "npu", "cpu", "sm8550");
  expect_cpu(no_library, "npu", "cpu", "libQnnHtp.so");
}

int main(void) {
  snprintf(calibration, sizeof calibration, "%s/data/faces", oracle_shared());
  itg_qnn_library probe = {0};
  itg_diagnostic why = {0};
  if (itg_qnn_library_open(NULL, "libQnnHtp.so", NULL, &why, &probe) != ITG_OK) {
    printf("skipped: %s\n", why.message);
    return 77;
  }
  snprintf(library, sizeof library, "%s", probe.path);
  dirname(library);
  itg_qnn_library_close(&probe);
  if (!oracle_exists(calibration) || !service_prepare()) {
    printf("skipped: needs the face models and the shared photographs\n");
    return 77;
  }
  prepare_models();
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_from_the_npu),
                                     cmocka_unit_test(agrees_with_the_chips_arithmetic),
                                     cmocka_unit_test(falls_back_with_a_reason)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (size_t i = 0; i < PHOTOGRAPHS; i++) {
    free(requests[i].data);
    free(alone[i]);
  }
  service_remove();
  return failed;
}
