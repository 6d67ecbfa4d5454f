// The chat completions service: the official client, hostile bodies, clients that leave, more of them than it takes.
#include "support/integer_net.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http_client.h"
#include "server/log.h"
#include "server/openai.h"
#include "support/language_file.h"
#include "support/oracle.h"

static char path[] = "/tmp/intaglio-openai-XXXXXX";
static itg_language *language;
static itg_openai *service;

static int start(void **state) {
  (void)state;
  static const char *const texts[] = {"The quick brown fox jumps over the lazy dog, and then it sleeps.",
                                      "<|im_start|>User: What is this?<end_of_utterance>\nAssistant: A test."};
  char checkpoint[4096];
  snprintf(checkpoint, sizeof checkpoint, "%s/data/vlm/smolvlm-tiny", oracle_shared());
  signal(SIGPIPE, SIG_IGN);
  itg_log_set_level(ITG_LOG_WARNING);
  const int descriptor = mkstemp(path);
  if (descriptor < 0) return -1;
  close(descriptor);
  const language_file file = {checkpoint, path, "a16w8", 16, 2048, texts, 2};
  itg_openai_options options = {
      .host = "127.0.0.1", .model_name = "tiny", .conversations = 1, .queue_capacity = 2, .image_limits = {0}};
  itg_session_options_default(&options.session);
  options.session.thread_count = 1;
  itg_diagnostic why = {0};
  if (language_file_make(&file, &why) == ITG_OK && itg_language_open(path, &why, &language) == ITG_OK &&
      itg_openai_start(&options, language, &why, &service) == ITG_OK)
    return 0;
  print_error("%s: %s\n", why.subject, why.message);
  return -1;
}

static int stop(void **state) {
  (void)state;
  itg_openai_stop(service);
  itg_language_close(language);
  unlink(path);
  return 0;
}

static http_reply post(const char *body) {
  return http_call(itg_openai_port(service), "POST", "/v1/chat/completions", "Content-Type: application/json\r\n", body,
                   strlen(body));
}

static void the_official_client_is_content(void **state) {
  (void)state;
  if (!oracle_has("openai")) {
    print_message("skipped: Python has no openai package\n");
    skip();
  }
  char command[8192];
  snprintf(command, sizeof command, "'%s' '%s/tests/server/openai_client.py' http://127.0.0.1:%u tiny", oracle_python(),
           ITG_SOURCE_DIR, itg_openai_port(service));
  assert_int_equal(system(command), 0);
}

static void hostile_bodies_get_errors(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "",
      "{",
      "[]",
      "null",
      "{\"messages\":5}",
      "{\"messages\":[5]}",
      "{\"messages\":[{}]}",
      "{\"messages\":[{\"role\":\"user\"}]}",
      "{\"messages\":[{\"role\":7,\"content\":\"a\"}]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"audio\"}]}]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":\"data:,;base64\"}]}]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stop\":[1]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stop\":\"\"}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":0}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"seed\":1.5}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":\"yes\"}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"b\"}]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"<image>\"}],\"messages\":[]}"};
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
    http_reply reply = post(bodies[i]);
    if (reply.status != 400) fail_msg("%s: %d %s", bodies[i], reply.status, reply.body);
    assert_non_null(strstr(reply.body, "{\"error\":{\"message\":"));
    http_free(&reply);
  }
}

static size_t running(void) {
  http_reply reply = http_call(itg_openai_port(service), "GET", "/health", NULL, "", 0);
  size_t count = 99, waiting = 99;
  assert_int_equal(reply.status, 200);
  assert_int_equal(sscanf(reply.body, "{\"status\":\"ok\",\"running\":%zu,\"waiting\":%zu", &count, &waiting), 2);
  http_free(&reply);
  return count + waiting;
}

static void wait_until_idle(void) {
  for (int i = 0; i < 3000 && running() > 0; i++) usleep(10000);
  assert_int_equal(running(), 0);
}

// A stream whose reader leaves after the first piece ends soon, though it could go on for two thousand tokens.
static void clients_that_leave_free_the_model(void **state) {
  (void)state;
  static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Count to a million, please.\"}],"
                             "\"temperature\":1.9,\"seed\":3,\"stream\":true}";
  for (int i = 0; i < 4; i++) {
    const int client = http_connect(itg_openai_port(service));
    assert_true(client >= 0);
    assert_true(http_send_request(client, "POST", "/v1/chat/completions", NULL, body, sizeof body - 1));
    char first[16];
    if (i % 2) assert_true(recv(client, first, sizeof first, 0) > 0);
    const struct linger now = {1, 0}; // A reset, as when the client's machine goes away.
    if (i > 1) setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(client);
  }
  wait_until_idle();
  http_reply reply = post("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":2}");
  assert_int_equal(reply.status, 200);
  http_free(&reply);
}

typedef struct caller {
  pthread_t thread;
  int status;
} caller;

static void *call(void *argument) {
  caller *c = argument;
  http_reply reply = post("{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a long story.\"}],\"max_tokens\":60,"
                          "\"temperature\":0}");
  c->status = reply.status;
  http_free(&reply);
  return NULL;
}

static void more_clients_than_it_takes(void **state) {
  (void)state;
  caller callers[16] = {0};
  for (int i = 0; i < 16; i++) assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
  int answered = 0, refused = 0;
  for (int i = 0; i < 16; i++) {
    pthread_join(callers[i].thread, NULL);
    answered += callers[i].status == 200;
    refused += callers[i].status == 429;
  }
  assert_int_equal(answered + refused, 16);
  assert_true(answered >= 3); // One at work and two that waited.
  wait_until_idle();
}

int main(void) {
  char checkpoint[4096];
  snprintf(checkpoint, sizeof checkpoint, "%s/data/vlm/smolvlm-tiny/config.json", oracle_shared());
  if (!oracle_exists(checkpoint)) {
    printf("skipped: %s is not there\n", checkpoint);
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_official_client_is_content), cmocka_unit_test(hostile_bodies_get_errors),
      cmocka_unit_test(clients_that_leave_free_the_model), cmocka_unit_test(more_clients_than_it_takes)};
  return cmocka_run_group_tests(tests, start, stop);
}
