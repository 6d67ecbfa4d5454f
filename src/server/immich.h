// Immich's machine-learning service: its routes, its answers, and a status page.
#ifndef ITG_SERVER_IMMICH_H
#define ITG_SERVER_IMMICH_H

#include "intaglio/pipelines.h"
#include "server/entries.h"
#include "server/http.h"
#include "server/models.h"

typedef struct itg_immich_options {
  const char *host;
  uint16_t port;
  itg_http_limits http;
  itg_immich_version version;
  size_t worker_count;           // Requests that are worked on at the same time.
  size_t queue_capacity;         // Requests that wait; beyond: 503.
  itg_image_limits image_limits; // Zeroes: those of itg_image_decode.
  const char *npu;               // For the status page: what is known of the NPU.
} itg_immich_options;

typedef struct itg_immich itg_immich; // Any thread.

// Starts to answer. `models` is borrowed. Errors: those of itg_http_start, MEMORY.
ITG_MUST_USE itg_status itg_immich_start(const itg_immich_options *options, itg_models *models,
                                         itg_diagnostic *diagnostic, itg_immich **out);
uint16_t itg_immich_port(const itg_immich *immich);
// Refuses new requests, finishes those that were taken, ends. NULL is allowed.
void itg_immich_stop(itg_immich *immich);

#endif
