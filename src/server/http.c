// HTTP over libmicrohttpd (its manual: "Suspending connections"): connections whose request is being worked on are
// suspended, so one thread serves all sockets and never waits for a computation.
#include "server/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/http_listen.h"

enum {
  FIRST_BODY_BYTES = 16 << 10,
  STREAM_HIGH_WATER = 256 << 10,
  STREAM_BLOCK = 16 << 10,
  LINGER_FACTOR = 4, // Of a body that is too large, this many times the limit is read, so that the client sees the 413.
};

struct itg_http_server {
  itg_http_options options;
  struct MHD_Daemon *daemon;
  uint16_t port;
  atomic_bool draining;
  atomic_size_t held; // Two for each request that a handler got: one is the handler's, one the exchange's.
  atomic_size_t body_bytes;
  MHD_socket quiesced; // The listening socket after draining began.
};

typedef enum answer_state { NOT_ANSWERED = 0, ANSWERED, STREAMING } answer_state;

struct itg_http_request {
  itg_http_server *server;
  struct MHD_Connection *connection;
  const itg_http_route *route; // NULL: `refusal` says why.
  const char *method;
  char *path;
  struct timespec start;
  atomic_int references; // The library's and the handler's.
  int refusal;           // Status of an answer that needs no handler; 0: none.
  const char *allow;     // With 405.
  bool dispatched;       // The handler has been called.
  size_t received;       // Bytes of the body, kept or not.
  uint8_t *body;
  size_t body_size, body_capacity;

  // What follows is shared by the handler's thread and the input/output thread.
  pthread_mutex_t lock;
  pthread_cond_t drained; // The stream's buffer went below the high-water mark, or the exchange ended.
  answer_state answer;
  int status;
  const char *content_type;
  char *answer_body; // The whole answer, or the stream's bytes that wait.
  size_t answer_size, answer_capacity;
  bool suspended, ended, completed;
};

// ---- life of a request ----

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static void drop_body(itg_http_request *request) {
  atomic_fetch_sub(&request->server->body_bytes, request->body_capacity);
  free(request->body);
  request->body = NULL;
  request->body_size = request->body_capacity = 0;
}

static void release(itg_http_request *request) {
  if (atomic_fetch_sub(&request->references, 1) != 1) return;
  drop_body(request);
  pthread_mutex_destroy(&request->lock);
  pthread_cond_destroy(&request->drained);
  free(request->answer_body);
  free(request->path);
  free(request);
}

static const itg_http_route *find_route(const itg_http_server *server, const char *method, const char *path,
                                        const char **other_method) {
  for (size_t i = 0; i < server->options.route_count; i++) {
    const itg_http_route *route = &server->options.routes[i];
    if (strcmp(route->path, path) != 0) continue;
    if (strcmp(route->method, method) == 0) return route;
    *other_method = route->method;
  }
  return NULL;
}

static itg_http_request *create_request(itg_http_server *server, struct MHD_Connection *connection, const char *method,
                                        const char *path) {
  itg_http_request *request = calloc(1, sizeof *request);
  if (!request) return NULL;
  request->path = strdup(path);
  if (!request->path) {
    free(request);
    return NULL;
  }
  pthread_mutex_init(&request->lock, NULL);
  pthread_cond_init(&request->drained, NULL);
  atomic_init(&request->references, 1);
  request->server = server;
  request->connection = connection;
  request->route = find_route(server, method, path, &request->allow);
  request->method = method;
  clock_gettime(CLOCK_MONOTONIC, &request->start);
  if (!request->route) request->refusal = request->allow ? 405 : 404;
  if (atomic_load(&server->draining)) request->refusal = 503;
  return request;
}

// ---- the body ----

static void refuse(itg_http_request *request, int status) {
  request->refusal = status;
  drop_body(request);
}

// Doubles the room for the body within the limits of the request and of all requests together.
static bool grow_body(itg_http_request *request, size_t needed) {
  itg_http_server *server = request->server;
  size_t capacity = request->body_capacity ? request->body_capacity : FIRST_BODY_BYTES;
  while (capacity < needed) capacity *= 2;
  if (capacity > server->options.limits.max_body) capacity = server->options.limits.max_body;
  const size_t more = capacity - request->body_capacity;
  if (atomic_fetch_add(&server->body_bytes, more) + more > server->options.limits.max_body_total) {
    atomic_fetch_sub(&server->body_bytes, more);
    return false;
  }
  uint8_t *grown = realloc(request->body, capacity);
  if (!grown) {
    atomic_fetch_sub(&server->body_bytes, more);
    return false;
  }
  request->body = grown;
  request->body_capacity = capacity;
  return true;
}

// False when the connection is to be closed.
static bool take_body(itg_http_request *request, const char *data, size_t size) {
  const size_t limit = request->server->options.limits.max_body;
  request->received += size;
  if (request->received > limit) {
    if (!request->refusal) refuse(request, 413);
    return request->received / LINGER_FACTOR <= limit;
  }
  if (request->refusal) return true;
  const size_t needed = request->body_size + size;
  if (needed > request->body_capacity && !grow_body(request, needed)) {
    refuse(request, 503);
    return true;
  }
  memcpy(request->body + request->body_size, data, size);
  request->body_size = needed;
  return true;
}

// ---- answers, on the input/output thread ----

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
  if (MHD_add_response_header(response, name, value) != MHD_YES) return; // Without memory the answer goes without it.
}

static enum MHD_Result queue_response(itg_http_request *request, struct MHD_Response *response, int status) {
  const itg_http_server *server = request->server;
  if (request->content_type) add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, request->content_type);
  if (status == 503 || status == 429) add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
  if (status == 405 && request->allow) add_header(response, MHD_HTTP_HEADER_ALLOW, request->allow);
  if (atomic_load(&server->draining)) {
    add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  } else { // Lets the client give the connection up before the server does.
    char keep_alive[32];
    snprintf(keep_alive, sizeof keep_alive, "timeout=%u", server->options.limits.idle_seconds);
    add_header(response, "Keep-Alive", keep_alive);
  }
  const enum MHD_Result result = MHD_queue_response(request->connection, (unsigned)status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result queue_refusal(itg_http_request *request) {
  static const struct {
    int status;
    const char *body;
  } refusals[] = {{404, "{\"detail\":\"Not Found\"}"},
                  {405, "{\"detail\":\"Method Not Allowed\"}"},
                  {413, "{\"detail\":\"The request is larger than this server allows\"}"},
                  {503, "{\"detail\":\"The server is busy or about to stop\"}"}};
  size_t which = 0;
  while (refusals[which].status != request->refusal) which++;
  request->status = request->refusal;
  request->content_type = "application/json";
  struct MHD_Response *response = MHD_create_response_from_buffer(
      strlen(refusals[which].body), (void *)(uintptr_t)refusals[which].body, MHD_RESPMEM_PERSISTENT);
  return response ? queue_response(request, response, request->refusal) : MHD_NO;
}

static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t room) {
  (void)position;
  itg_http_request *request = context;
  pthread_mutex_lock(&request->lock);
  ssize_t result = MHD_CONTENT_READER_END_OF_STREAM;
  if (request->answer_size > 0) {
    const size_t size = request->answer_size < room ? request->answer_size : room;
    memcpy(buffer, request->answer_body, size);
    request->answer_size -= size;
    memmove(request->answer_body, request->answer_body + size, request->answer_size);
    pthread_cond_signal(&request->drained);
    result = (ssize_t)size;
  } else if (!request->ended) {
    request->suspended = true; // The next write wakes it.
    MHD_suspend_connection(request->connection);
    result = 0;
  }
  pthread_mutex_unlock(&request->lock);
  return result;
}

static void end_response(void *context) { release(context); }

static enum MHD_Result queue_answer(itg_http_request *request) {
  struct MHD_Response *response;
  if (request->answer == STREAMING) {
    atomic_fetch_add(&request->references, 1);
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, request, end_response);
    if (!response) release(request);
  } else {
    MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              request->server->options.limits.idle_seconds);
    response = MHD_create_response_from_buffer_with_free_callback(request->answer_size, request->answer_body, free);
    if (response) request->answer_body = NULL;
  }
  return response ? queue_response(request, response, request->status) : MHD_NO;
}

// ---- requests, on the input/output thread ----

static enum MHD_Result dispatch(itg_http_request *request) {
  if (request->refusal) return queue_refusal(request);
  if (!request->dispatched) {
    request->dispatched = true;
    atomic_fetch_add(&request->references, 1);
    atomic_fetch_add(&request->server->held, 2);
    request->route->handle(request->server->options.context, request);
  }
  pthread_mutex_lock(&request->lock);
  const bool answered = request->answer != NOT_ANSWERED;
  if (!answered) {
    request->suspended = true;
    MHD_suspend_connection(request->connection);
  }
  pthread_mutex_unlock(&request->lock);
  return answered ? queue_answer(request) : MHD_YES;
}

static enum MHD_Result take_request(void *context, struct MHD_Connection *connection, const char *path,
                                    const char *method, const char *version, const char *data, size_t *size,
                                    void **state) {
  (void)version;
  itg_http_server *server = context;
  itg_http_request *request = *state;
  if (!request) { // The headers are complete.
    request = create_request(server, connection, method, path);
    *state = request;
    if (!request) return MHD_NO;
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, server->options.limits.stall_seconds);
    return MHD_YES;
  }
  if (*size == 0) return dispatch(request);
  const bool going_on = take_body(request, data, *size);
  *size = 0;
  return going_on ? MHD_YES : MHD_NO;
}

static void complete_request(void *context, struct MHD_Connection *connection, void **state,
                             enum MHD_RequestTerminationCode code) {
  (void)connection;
  itg_http_server *server = context;
  itg_http_request *request = *state;
  if (!request) return;
  *state = NULL;
  pthread_mutex_lock(&request->lock);
  request->completed = true;
  const int status = code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? request->status : 0;
  pthread_cond_signal(&request->drained);
  pthread_mutex_unlock(&request->lock);
  if (server->options.observe) {
    const itg_http_exchange exchange = {request->method, request->path, status, seconds_since(&request->start),
                                        request->received};
    server->options.observe(server->options.context, &exchange);
  }
  const bool was_held = request->dispatched;
  release(request);
  if (was_held) atomic_fetch_sub(&server->held, 1);
}

// ---- the server ----

static void set_defaults(itg_http_limits *limits) {
  if (!limits->max_body) limits->max_body = (size_t)256 << 20;
  if (!limits->max_body_total) limits->max_body_total = (size_t)1 << 30;
  if (!limits->max_connections) limits->max_connections = 256;
  if (!limits->idle_seconds) limits->idle_seconds = 2;
  if (!limits->stall_seconds) limits->stall_seconds = 10;
}

itg_status itg_http_start(const itg_http_options *options, itg_diagnostic *diagnostic, itg_http_server **out) {
  itg_http_server *server = calloc(1, sizeof *server);
  ITG_TRY_MEMORY(server, diagnostic);
  server->options = *options;
  set_defaults(&server->options.limits);
  int listener = -1;
  const itg_status status = itg_http_listen(options->host, options->port, diagnostic, &listener, &server->port);
  if (status != ITG_OK) {
    free(server);
    return status;
  }
  server->quiesced = MHD_INVALID_SOCKET;
  const itg_http_limits *limits = &server->options.limits;
  server->daemon =
      MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, take_request, server,
                       MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, limits->max_connections,
                       MHD_OPTION_CONNECTION_TIMEOUT, limits->stall_seconds, MHD_OPTION_NOTIFY_COMPLETED,
                       complete_request, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)64 << 10, MHD_OPTION_END);
  if (!server->daemon) {
    close(listener);
    free(server);
    ITG_FAIL(diagnostic, ITG_ERROR_IO, NULL, "the HTTP server could not be started (threads or descriptors used up?)");
  }
  *out = server;
  return ITG_OK;
}

uint16_t itg_http_port(const itg_http_server *server) { return server->port; }

void itg_http_drain(itg_http_server *server) {
  if (atomic_exchange(&server->draining, true)) return;
  server->quiesced = MHD_quiesce_daemon(server->daemon);
  // No more connections; closed only when the daemon's thread, which may be about to accept one, has ended.
  if (server->quiesced != MHD_INVALID_SOCKET) shutdown(server->quiesced, SHUT_RDWR);
}

size_t itg_http_held(const itg_http_server *server) { return (atomic_load(&server->held) + 1) / 2; }

void itg_http_stop(itg_http_server *server) {
  if (!server) return;
  itg_http_drain(server);
  MHD_stop_daemon(server->daemon);
  if (server->quiesced != MHD_INVALID_SOCKET) close(server->quiesced);
  free(server);
}

// ---- what handlers see ----

const char *itg_http_method(const itg_http_request *request) { return request->method; }
const char *itg_http_path(const itg_http_request *request) { return request->path; }
itg_span itg_http_body(const itg_http_request *request) { return (itg_span){request->body, request->body_size}; }

const char *itg_http_header(itg_http_request *request, const char *name) {
  return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *itg_http_query(itg_http_request *request, const char *name) {
  return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

bool itg_http_client_gone(itg_http_request *request) {
  pthread_mutex_lock(&request->lock);
  bool gone = request->completed;
  if (!gone) { // The socket stays open as long as the exchange is not completed, which takes the lock.
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char byte;
    gone = info && recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }
  pthread_mutex_unlock(&request->lock);
  return gone;
}

// With the lock held.
static void wake(itg_http_request *request) {
  if (!request->suspended) return;
  request->suspended = false;
  MHD_resume_connection(request->connection);
}

// The handler's side of the request ends.
static void finish(itg_http_request *request) {
  itg_http_server *server = request->server;
  pthread_mutex_unlock(&request->lock);
  release(request);
  atomic_fetch_sub(&server->held, 1); // Last: the server may end at once.
}

void itg_http_respond(itg_http_request *request, int status, const char *content_type, char *body, size_t size) {
  pthread_mutex_lock(&request->lock);
  request->answer = ANSWERED;
  request->status = status;
  request->content_type = content_type;
  request->answer_body = body;
  request->answer_size = size;
  wake(request);
  finish(request);
}

void itg_http_respond_text(itg_http_request *request, int status, const char *content_type, const char *text) {
  char *copy = strdup(text);
  itg_http_respond(request, copy ? status : 500, content_type, copy, copy ? strlen(text) : 0);
}

void itg_http_respond_detail(itg_http_request *request, int status, const char *text) {
  static const char start[] = "{\"detail\":\"", end[] = "\"}";
  char *body = malloc(sizeof start + sizeof end + 6 * strlen(text));
  if (!body) {
    itg_http_respond(request, 500, "application/json", NULL, 0);
    return;
  }
  size_t size = sizeof start - 1;
  memcpy(body, start, size);
  for (const char *c = text; *c; c++) {
    if (*c == '"' || *c == '\\') body[size++] = '\\';
    if ((unsigned char)*c < 0x20)
      size += (size_t)sprintf(body + size, "\\u%04x", (unsigned)*c);
    else
      body[size++] = *c;
  }
  memcpy(body + size, end, sizeof end - 1);
  itg_http_respond(request, status, "application/json", body, size + sizeof end - 1);
}

void itg_http_stream_begin(itg_http_request *request, int status, const char *content_type) {
  pthread_mutex_lock(&request->lock);
  request->answer = STREAMING;
  request->status = status;
  request->content_type = content_type;
  wake(request);
  pthread_mutex_unlock(&request->lock);
}

static bool grow_stream(itg_http_request *request, size_t needed) {
  if (needed <= request->answer_capacity) return true;
  char *grown = realloc(request->answer_body, needed);
  if (!grown) return false;
  request->answer_body = grown;
  request->answer_capacity = needed;
  return true;
}

itg_status itg_http_stream_write(itg_http_request *request, const void *data, size_t size, itg_diagnostic *diagnostic) {
  const bool gone = itg_http_client_gone(request);
  pthread_mutex_lock(&request->lock);
  while (!gone && !request->completed && request->answer_size > STREAM_HIGH_WATER)
    pthread_cond_wait(&request->drained, &request->lock);
  const bool left = gone || request->completed;
  const bool room = !left && grow_stream(request, request->answer_size + size);
  if (room) {
    memcpy(request->answer_body + request->answer_size, data, size);
    request->answer_size += size;
    wake(request);
  }
  pthread_mutex_unlock(&request->lock);
  if (left) ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, NULL, "the client closed the connection");
  ITG_TRY_MEMORY(room, diagnostic);
  return ITG_OK;
}

void itg_http_stream_end(itg_http_request *request) {
  pthread_mutex_lock(&request->lock);
  request->ended = true;
  wake(request);
  finish(request);
}
