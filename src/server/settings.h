// Settings of the Immich service: defaults, then the environment (the names of Immich's own container), then options.
#ifndef ITG_SERVER_SETTINGS_H
#define ITG_SERVER_SETTINGS_H

#include "server/entries.h"
#include "server/log.h"

enum { ITG_PRELOADS = 32 };

typedef struct itg_preload {
  itg_service_kind kind;
  char model[ITG_MODEL_NAME];
} itg_preload;

typedef struct itg_settings {
  const char *host;                   // IMMICH_HOST, "[::]".
  int port;                           // IMMICH_PORT, 3003.
  const char *models;                 // MACHINE_LEARNING_CACHE_FOLDER, "/cache".
  const char *organization;           // ..MODEL_ORGANIZATION, of repositories on the hub; NULL: Immich's.
  int idle_seconds;                   // ..MODEL_TTL, 300.
  int poll_seconds;                   // ..MODEL_TTL_POLL_S, 10.
  int keep_alive_seconds;             // ..HTTP_KEEPALIVE_TIMEOUT_S, 2.
  int workers;                        // ..REQUEST_THREADS; 0: one a processor, at least 4.
  int threads;                        // ..MODEL_INTRA_OP_THREADS; 0: one a processor, at most 4.
  itg_log_level log_level;            // IMMICH_LOG_LEVEL, info.
  itg_preload preloads[ITG_PRELOADS]; // ..PRELOAD__CLIP__TEXTUAL and so on.
  size_t preload_count;
} itg_settings;

// Reads the environment. Strings are borrowed from it. Errors: ARGUMENT (the variable, and what it may be).
ITG_MUST_USE itg_status itg_settings_from_environment(itg_diagnostic *diagnostic, itg_settings *out);

#endif
