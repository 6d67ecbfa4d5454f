// HTTP/1.1 over libmicrohttpd: one thread does all input and output, handlers answer at once or later from any thread.
//
// A handler is called on the input/output thread when a request's body is complete. It must not block: it either answers
// in place, or keeps the request, hands it to a worker and lets the worker answer. Every request gets exactly one answer:
// itg_http_respond*, or itg_http_stream_begin .. itg_http_stream_end. After that the request must not be touched.
#ifndef ITG_SERVER_HTTP_H
#define ITG_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"

typedef struct itg_http_server itg_http_server; // Any thread.
typedef struct itg_http_request
    itg_http_request; // One thread at a time: the handler's, then that of whom it gave it to.

typedef void (*itg_http_handler)(void *context, itg_http_request *request);

typedef struct itg_http_route {
  const char *method, *path; // Exact: "POST", "/predict".
  itg_http_handler handle;
} itg_http_route;

typedef struct itg_http_limits {
  size_t max_body;          // Bytes of one request's body; beyond: 413.
  size_t max_body_total;    // Bytes of all bodies that are held at once; beyond: 503 with Retry-After.
  unsigned max_connections; // More wait until one ends.
  unsigned idle_seconds;    // A connection that has got its answer is closed after this without another request.
  unsigned
      stall_seconds; // Headers or a body that do not come, or a reader of a stream that does not read: dropped after this.
} itg_http_limits;

// One finished exchange, for logs and metrics. Called on the input/output thread.
typedef struct itg_http_exchange {
  const char *method, *path;
  int status;       // 0: the client left before an answer.
  double seconds;   // From the end of the headers to the end of the answer.
  size_t body_size; // Of the request.
} itg_http_exchange;

typedef struct itg_http_options {
  const char *host;             // Address or name; "[::]" or "::" is all of IPv6 and IPv4; "[..]" brackets are allowed.
  uint16_t port;                // 0: one that is free (itg_http_port).
  const itg_http_route *routes; // Borrowed, as is `context`.
  size_t route_count;
  void *context;          // For handlers and `observe`.
  itg_http_limits limits; // Zeroes are replaced by defaults: 256 MiB, 1 GiB, 256, 2 s, 10 s.
  void (*observe)(void *context, const itg_http_exchange *exchange); // May be NULL.
} itg_http_options;

// Starts to listen and to answer. Errors: IO (address in use, no such host, no permission: which), MEMORY.
ITG_MUST_USE itg_status itg_http_start(const itg_http_options *options, itg_diagnostic *diagnostic,
                                       itg_http_server **out);
uint16_t itg_http_port(const itg_http_server *server);
// Stops listening; requests that still come over open connections are answered with 503. Those that were taken go on.
void itg_http_drain(itg_http_server *server);
// Requests that handlers got and whose answers are not yet sent.
size_t itg_http_held(const itg_http_server *server);
// Ends and frees. Every request must have been answered (itg_http_held is 0); NULL is allowed.
void itg_http_stop(itg_http_server *server);

// ---- a request ----

const char *itg_http_method(const itg_http_request *request);
const char *itg_http_path(const itg_http_request *request); // Without the query.
itg_span itg_http_body(const itg_http_request *request);    // Lives until the answer.
// Value of a header in any case of its name, or of a query argument, decoded; NULL when absent. Lives until the answer.
const char *itg_http_header(itg_http_request *request, const char *name);
const char *itg_http_query(itg_http_request *request, const char *name);
// True once the client has closed its side: nobody waits for the answer any more. A system call; cheap enough to ask
// between the steps of a long computation. The request must be answered nevertheless.
bool itg_http_client_gone(itg_http_request *request);

// ---- answers ----

// `body` was malloc'ed and is taken over. `content_type` is a static string.
void itg_http_respond(itg_http_request *request, int status, const char *content_type, char *body, size_t size);
// The same with a copy of NUL-terminated text; without memory for it, an empty answer with status 500.
void itg_http_respond_text(itg_http_request *request, int status, const char *content_type, const char *text);
// {"detail": "<text>"}, the shape of errors in FastAPI and so in Immich's service. With 503 and 429 also Retry-After.
void itg_http_respond_detail(itg_http_request *request, int status, const char *text);

// A streamed answer in chunks (server-sent events: "text/event-stream"). Writing blocks while more than 256 KiB wait for
// a slow client. Errors: CANCELLED (the client left: stop computing, then call end), MEMORY.
void itg_http_stream_begin(itg_http_request *request, int status, const char *content_type);
ITG_MUST_USE itg_status itg_http_stream_write(itg_http_request *request, const void *data, size_t size,
                                              itg_diagnostic *diagnostic);
void itg_http_stream_end(itg_http_request *request);

#endif
