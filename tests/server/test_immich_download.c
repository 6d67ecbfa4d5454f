// Models that Immich asks for and that are not there: fetched from a hub while other requests are served, once for all who wait.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>

#include "server/service.h"
#include "server/statistics.h"
#include "support/hub_server.h"

enum { CLIENTS = 5, WAITERS = 2 };

static char *photograph; // With six faces.
static size_t photograph_size;
static service running;

static body faces_of(const char *model) {
  char entries[512];
  snprintf(entries, sizeof entries,
           "{\"facial-recognition\":{\"detection\":{\"modelName\":\"%s\"},\"recognition\":{\"modelName\":\"%s\"}}}",
           model, model);
  return body_of(entries, photograph, photograph_size, NULL);
}

static size_t face_count(const http_reply *reply) {
  json_t *root = json_loadb(reply->body, reply->size, 0, NULL);
  const size_t count = json_array_size(json_object_get(root, "facial-recognition"));
  json_decref(root);
  return count;
}

static int start(void **state) {
  (void)state;
  service_start(&running, (itg_models_options){.download = true, .download_waiters = WAITERS},
                (itg_immich_options){.worker_count = CLIENTS + 1});
  hub_forget_requests();
  return 0;
}

static int stop(void **state) {
  (void)state;
  service_stop(&running);
  return 0;
}

static void *ask(void *argument) {
  const body b = faces_of(argument);
  http_reply reply = body_post(running.port, &b);
  const uintptr_t result = reply.status == 200 ? face_count(&reply) : (uintptr_t)reply.status;
  http_free(&reply);
  free(b.data);
  return (void *)result;
}

static void a_model_comes_when_it_is_asked_for(void **state) {
  (void)state;
  pthread_t clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) assert_int_equal(pthread_create(&clients[i], NULL, ask, "buffalo_test"), 0);
  http_reply page = http_call(running.port, "GET", "/status", NULL, "", 0);
  for (int i = 0; i < 400 && !strstr(page.body, "{\"model\":\"buffalo_test\",\"file\":\""); i++) {
    http_free(&page);
    service_sleep(10);
    page = http_call(running.port, "GET", "/status", NULL, "", 0);
  }
  assert_non_null(strstr(page.body, "\"fetching\":{\"model\":\"buffalo_test\"")); // Says what is being waited for.
  http_free(&page);
  page = http_call(running.port, "GET", "/", "Accept: text/html\r\n", "", 0);
  assert_non_null(strstr(page.body, "Being fetched: buffalo_test"));
  http_free(&page);
  const double start_time = itg_clock();
  const body there = faces_of("faceplugin"); // What is there is answered meanwhile.
  http_reply reply = body_post(running.port, &there);
  assert_int_equal(reply.status, 200);
  assert_int_equal(face_count(&reply), 6);
  http_free(&reply);
  free(there.data);
  print_message("another model answered after %.0f ms\n", 1e3 * (itg_clock() - start_time));
  int good = 0, later = 0;
  for (int i = 0; i < CLIENTS; i++) {
    void *result;
    pthread_join(clients[i], &result);
    good += (uintptr_t)result == 6;
    later += (uintptr_t)result == 503;
  }
  print_message("%d clients were answered, %d told to come again\n", good, later);
  assert_int_equal(good, 1 + WAITERS); // One fetched, these waited for it.
  assert_int_equal(later, CLIENTS - 1 - WAITERS);
  assert_int_equal(hub_requests("/api/models/"), 1);
  assert_int_equal(hub_requests("recognition/model.onnx"), 1);
  assert_int_equal((uintptr_t)ask("buffalo_test"), 6);
  page = http_call(running.port, "GET", "/status", NULL, "", 0);
  assert_non_null(strstr(page.body, "\"fetching\":null"));
  http_free(&page);
  assert_int_equal(hub_requests("/api/models/"), 1);
}

static void ask_in_vain(const char *model, const char *reason) {
  for (int i = 0; i < 3; i++) {
    const body b = faces_of(model);
    http_reply reply = body_post(running.port, &b);
    assert_int_equal(reply.status, 500);
    assert_non_null(strstr(reply.body, reason));
    http_free(&reply);
    free(b.data);
  }
}

static void the_hub_is_not_asked_again_and_again(void **state) {
  (void)state;
  ask_in_vain("antelope_none", "HTTP 404"); // No such model.
  assert_int_equal(hub_requests("/api/models/"), 1);
  hub_forget_requests();
  ask_in_vain("buffalo_half", "nothing for");        // A model, but none for this task: detection alone.
  assert_int_equal(hub_requests("/api/models/"), 2); // For detection, and once for recognition.
}

static void names_from_requests_stay_in_the_cache(void **state) {
  (void)state;
  static const char *const names[] = {
      "../../../../etc", "..",        "/etc/passwd", "a/../../b",     "", ".", "x\\\\..\\\\y", "name with spaces",
      "\\u202etxt",      "%2e%2e%2f", "a?b=c",       "buffalo_test#x"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const body b = faces_of(names[i]);
    http_reply reply = body_post(running.port, &b);
    if (reply.status != 500 && reply.status != 422) fail_msg("%s: %d %s", names[i], reply.status, reply.body);
    http_free(&reply);
    free(b.data);
  }
  char command[512];
  snprintf(command, sizeof command, "test \"$(ls %s | sort | tr '\\n' ' ')\" = 'hub hub-log models port '",
           service_folder);
  assert_int_equal(system(command), 0);
}

static void offline_is_offline(void **state) {
  (void)state;
  setenv("HF_HUB_OFFLINE", "1", 1);
  const body b = faces_of("buffalo_other");
  http_reply reply = body_post(running.port, &b);
  unsetenv("HF_HUB_OFFLINE");
  assert_int_equal(reply.status, 500);
  assert_non_null(strstr(reply.body, "offline"));
  assert_int_equal(hub_requests("GET"), 0);
  http_free(&reply);
  free(b.data);
}

int main(void) {
  char path[4096], command[1024];
  snprintf(path, sizeof path, "%s/../photos/judge/group/t1.jpg", oracle_models());
  if (!hub_possible() || !oracle_exists(path) || !service_prepare()) {
    printf("skipped: needs Python, the face models and photographs (./setup)\n");
    return 77;
  }
  photograph = service_read_file(path, &photograph_size);
  snprintf(command, sizeof command,
           "cd %s && mkdir -p hub/buffalo_half && cp -r models/facial-recognition/faceplugin hub/buffalo_test && "
           "cp -r hub/buffalo_test/detection hub/buffalo_half/ && touch hub-log",
           service_folder);
  snprintf(path, sizeof path, "%s/hub", service_folder);
  if (system(command) != 0 || !hub_start(service_folder, path)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_model_comes_when_it_is_asked_for, start, stop),
      cmocka_unit_test_setup_teardown(the_hub_is_not_asked_again_and_again, start, stop),
      cmocka_unit_test_setup_teardown(names_from_requests_stay_in_the_cache, start, stop),
      cmocka_unit_test_setup_teardown(offline_is_offline, start, stop)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  hub_stop();
  free(photograph);
  service_remove();
  return failed;
}
