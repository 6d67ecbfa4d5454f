// The HTTP layer alone: answers at once and from other threads, streams, limits, leaving clients, a stop in the middle.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "server/http.h"
#include "server/http_client.h"

typedef struct fixture {
  itg_http_server *server;
  uint16_t port;
  pthread_t thread;                               // Of the last handler that answers from elsewhere.
  atomic_int gone, exchanges, cancelled, started; // Threads that answer: `thread` is theirs once counted.
  atomic_bool go_on;
} fixture;

static void sleep_milliseconds(long milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static fixture *the_fixture;

// Waits for the next thread that a handler starts, and for its end.
static void join(fixture *f) {
  while (atomic_load(&f->started) == 0) sleep_milliseconds(1);
  atomic_fetch_sub(&f->started, 1);
  pthread_join(f->thread, NULL);
}

static void ping(void *context, itg_http_request *request) {
  (void)context;
  itg_http_respond_text(request, 200, "text/plain; charset=utf-8", "pong");
}

static void echo(void *context, itg_http_request *request) {
  (void)context;
  const itg_span body = itg_http_body(request);
  char *copy = malloc(body.size + 1);
  if (body.size) memcpy(copy, body.data, body.size);
  itg_http_respond(request, 200, "application/octet-stream", copy, body.size);
}

static void *answer_late(void *request) {
  for (int i = 0; i < 50 && !itg_http_client_gone(request); i++) sleep_milliseconds(4);
  if (itg_http_client_gone(request)) atomic_fetch_add(&the_fixture->gone, 1);
  itg_http_respond_detail(request, 200, "late \"answer\"\n");
  return NULL;
}

static void late(void *context, itg_http_request *request) {
  fixture *f = context;
  assert_int_equal(pthread_create(&f->thread, NULL, answer_late, request), 0);
  atomic_fetch_add(&f->started, 1);
}

static void *write_events(void *request) {
  itg_http_stream_begin(request, 200, "text/event-stream");
  itg_status status = ITG_OK;
  for (int i = 0; i < 100 && status == ITG_OK; i++) {
    char event[32];
    const int size = snprintf(event, sizeof event, "data: %d\n\n", i);
    status = itg_http_stream_write(request, event, (size_t)size, NULL);
    if (i % 10 == 0) sleep_milliseconds(2);
  }
  if (status == ITG_ERROR_CANCELLED) atomic_fetch_add(&the_fixture->cancelled, 1);
  itg_http_stream_end(request);
  return NULL;
}

static void events(void *context, itg_http_request *request) {
  fixture *f = context;
  assert_int_equal(pthread_create(&f->thread, NULL, write_events, request), 0);
  atomic_fetch_add(&f->started, 1);
}

static void *write_much(void *request) {
  static char block[64 << 10];
  itg_http_stream_begin(request, 200, "application/octet-stream");
  itg_status status = ITG_OK;
  for (int i = 0; i < 4096 && status == ITG_OK; i++) status = itg_http_stream_write(request, block, sizeof block, NULL);
  if (status == ITG_ERROR_CANCELLED) atomic_fetch_add(&the_fixture->cancelled, 1);
  itg_http_stream_end(request);
  return NULL;
}

static void much(void *context, itg_http_request *request) {
  fixture *f = context;
  assert_int_equal(pthread_create(&f->thread, NULL, write_much, request), 0);
  atomic_fetch_add(&f->started, 1);
}

static void query(void *context, itg_http_request *request) {
  (void)context;
  const char *a = itg_http_query(request, "a"), *accept = itg_http_header(request, "accept");
  char text[128];
  snprintf(text, sizeof text, "%s %s %s %s", itg_http_method(request), itg_http_path(request), a ? a : "-",
           accept ? accept : "-");
  itg_http_respond_text(request, 200, "text/plain", text);
}

static void observe(void *context, const itg_http_exchange *exchange) {
  fixture *f = context;
  assert_non_null(exchange->path);
  atomic_fetch_add(&f->exchanges, 1);
}

static const itg_http_route routes[] = {{"GET", "/ping", ping},     {"POST", "/echo", echo}, {"POST", "/late", late},
                                        {"GET", "/events", events}, {"GET", "/much", much},  {"GET", "/query", query}};

static int start(void **state) {
  fixture *f = the_fixture = calloc(1, sizeof *f);
  const itg_http_options options = {.host = "[::]",
                                    .routes = routes,
                                    .route_count = sizeof routes / sizeof routes[0],
                                    .context = f,
                                    .limits = {.max_body = 100000, .max_body_total = 300000, .stall_seconds = 2},
                                    .observe = observe};
  itg_diagnostic why = {0};
  if (itg_http_start(&options, &why, &f->server) != ITG_OK) {
    print_message("%s\n", why.message);
    return -1;
  }
  f->port = itg_http_port(f->server);
  *state = f;
  return 0;
}

static int stop(void **state) {
  fixture *f = *state;
  itg_http_stop(f->server);
  free(f);
  return 0;
}

static void answers_on_both_families(void **state) {
  const fixture *f = *state;
  http_reply reply = http_call(f->port, "GET", "/ping", NULL, "", 0);
  assert_int_equal(reply.status, 200);
  assert_string_equal(reply.body, "pong");
  assert_string_equal(http_find_header(&reply, "content-type"), "text/plain; charset=utf-8");
  http_free(&reply);
  const int six = socket(AF_INET6, SOCK_STREAM, 0);
  const struct sockaddr_in6 address = {
      .sin6_family = AF_INET6, .sin6_port = htons(f->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  if (connect(six, (const struct sockaddr *)&address, sizeof address) == 0) { // Not every machine has IPv6.
    assert_true(http_send_request(six, "GET", "/ping", NULL, "", 0));
    assert_true(http_read(six, &reply));
    assert_string_equal(reply.body, "pong");
    http_free(&reply);
  }
  close(six);
}

static void keeps_connections(void **state) {
  const fixture *f = *state;
  const int client = http_connect(f->port);
  for (int i = 0; i < 50; i++) {
    http_reply reply;
    char body[64];
    const int size = snprintf(body, sizeof body, "number %d", i);
    assert_true(http_send_request(client, "POST", "/echo", NULL, body, (size_t)size));
    assert_true(http_read(client, &reply));
    assert_false(reply.closes);
    assert_string_equal(reply.body, body);
    http_free(&reply);
  }
  close(client);
}

static void refuses_by_code(void **state) {
  const fixture *f = *state;
  http_reply reply = http_call(f->port, "GET", "/nothing", NULL, "", 0);
  assert_int_equal(reply.status, 404);
  assert_string_equal(reply.body, "{\"detail\":\"Not Found\"}");
  http_free(&reply);
  reply = http_call(f->port, "DELETE", "/ping", NULL, "", 0);
  assert_int_equal(reply.status, 405);
  assert_string_equal(http_find_header(&reply, "allow"), "GET");
  http_free(&reply);
  char *large = calloc(1, 200000);
  reply = http_call(f->port, "POST", "/echo", NULL, large, 100000);
  assert_int_equal(reply.status, 200);
  assert_int_equal(reply.size, 100000);
  http_free(&reply);
  reply = http_call(f->port, "POST", "/echo", NULL, large, 100001);
  assert_int_equal(reply.status, 413);
  http_free(&reply);
  free(large);
}

// Bodies that are held at the same time share one budget.
static void shares_the_memory_for_bodies(void **state) {
  const fixture *f = *state;
  int clients[4];
  char *large = calloc(1, 100000);
  int refused = 0;
  for (int i = 0; i < 4; i++) {
    clients[i] = http_connect(f->port);
    const char head[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    assert_true(http_send(clients[i], head, sizeof head - 1));
    assert_true(http_send(clients[i], large, 99999));
  }
  sleep_milliseconds(100);
  for (int i = 0; i < 4; i++) {
    http_reply reply;
    assert_true(http_send(clients[i], large, 1));
    assert_true(http_read(clients[i], &reply));
    if (reply.status == 503) {
      refused++;
      assert_non_null(http_find_header(&reply, "retry-after"));
    } else {
      assert_int_equal(reply.status, 200);
    }
    http_free(&reply);
    close(clients[i]);
  }
  assert_int_equal(refused, 1);
  free(large);
}

static void answers_from_another_thread(void **state) {
  fixture *f = *state;
  http_reply reply = http_call(f->port, "POST", "/late", NULL, "x", 1);
  assert_int_equal(reply.status, 200);
  assert_string_equal(reply.body, "{\"detail\":\"late \\\"answer\\\"\\u000a\"}");
  http_free(&reply);
  join(f);
  assert_int_equal(atomic_load(&f->gone), 0);
}

static void notices_clients_that_leave(void **state) {
  fixture *f = *state;
  const int client = http_connect(f->port);
  assert_true(http_send_request(client, "POST", "/late", NULL, "x", 1));
  while (atomic_load(&f->started) == 0) sleep_milliseconds(1);
  close(client);
  join(f);
  assert_int_equal(atomic_load(&f->gone), 1);
  while (itg_http_held(f->server) > 0) sleep_milliseconds(1);
}

static void streams(void **state) {
  fixture *f = *state;
  http_reply reply = http_call(f->port, "GET", "/events", NULL, "", 0);
  assert_int_equal(reply.status, 200);
  assert_string_equal(http_find_header(&reply, "content-type"), "text/event-stream");
  assert_string_equal(http_find_header(&reply, "transfer-encoding"), "chunked");
  char wanted[4096], *at = wanted;
  for (int i = 0; i < 100; i++) at += sprintf(at, "data: %d\n\n", i);
  assert_string_equal(reply.body, wanted);
  http_free(&reply);
  join(f);
  const int client = http_connect(f->port);
  assert_true(http_send_request(client, "GET", "/events", NULL, "", 0));
  char byte;
  assert_int_equal(recv(client, &byte, 1, 0), 1);
  close(client);
  join(f);
  assert_int_equal(atomic_load(&f->cancelled), 1);
}

// A reader that stands still holds the writer back, and is dropped after a while.
static void drops_readers_that_stand_still(void **state) {
  fixture *f = *state;
  const int client = http_connect(f->port);
  assert_true(http_send_request(client, "GET", "/much", NULL, "", 0));
  join(f);
  assert_int_equal(atomic_load(&f->cancelled), 1);
  close(client);
}

static void reads_headers_and_queries(void **state) {
  const fixture *f = *state;
  http_reply reply = http_call(f->port, "GET", "/query?b=1&a=x%20y", "Accept: text/html\r\n", "", 0);
  assert_string_equal(reply.body, "GET /query x y text/html");
  http_free(&reply);
}

static void drains(void **state) {
  fixture *f = *state;
  const int kept = http_connect(f->port), working = http_connect(f->port);
  http_reply reply;
  assert_true(http_send_request(kept, "GET", "/ping", NULL, "", 0));
  assert_true(http_read(kept, &reply));
  http_free(&reply);
  assert_true(http_send_request(working, "POST", "/late", NULL, "x", 1));
  while (atomic_load(&f->started) == 0) sleep_milliseconds(1);
  itg_http_drain(f->server);
  assert_int_equal(http_connect(f->port), -1);
  assert_true(http_send_request(kept, "GET", "/ping", NULL, "", 0));
  assert_true(http_read(kept, &reply));
  assert_int_equal(reply.status, 503);
  assert_true(reply.closes);
  http_free(&reply);
  assert_true(http_read(working, &reply)); // What was taken is finished.
  assert_int_equal(reply.status, 200);
  http_free(&reply);
  join(f);
  close(kept);
  close(working);
}

static void names_the_port_that_is_taken(void **state) {
  const fixture *f = *state;
  const itg_http_options options = {
      .host = "::", .port = f->port, .routes = routes, .route_count = 1, .context = the_fixture};
  itg_http_server *second = NULL;
  itg_diagnostic why = {0};
  assert_int_equal(itg_http_start(&options, &why, &second), ITG_ERROR_IO);
  assert_non_null(strstr(why.message, "another program has it"));
}

#define RUN(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
  const struct CMUnitTest tests[] = {
      RUN(answers_on_both_families),
      RUN(keeps_connections),
      RUN(refuses_by_code),
      RUN(shares_the_memory_for_bodies),
      RUN(answers_from_another_thread),
      RUN(notices_clients_that_leave),
      RUN(streams),
      RUN(drops_readers_that_stand_still),
      RUN(reads_headers_and_queries),
      RUN(drains),
      RUN(names_the_port_that_is_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
