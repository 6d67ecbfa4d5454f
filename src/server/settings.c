// See settings.h.
#include "server/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define PREFIX "MACHINE_LEARNING_"

// Containers pass unset variables on as empty ones.
static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

static itg_status read_integer(const char *name, long low, long high, itg_diagnostic *diagnostic, int *out) {
  const char *text = variable(name);
  if (!text) return ITG_OK;
  char *end;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end == text || *end || errno || value < low || value > high)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "%s must be a whole number from %ld to %ld, not \"%.40s\"", name,
             low, high, text);
  *out = (int)value;
  return ITG_OK;
}

// A list of names, separated by commas.
static itg_status read_preload(const char *name, itg_service_kind kind, itg_diagnostic *diagnostic, itg_settings *out) {
  const char *at = variable(name);
  while (at && *at) {
    at += strspn(at, ", ");
    const size_t length = strcspn(at, ", ");
    if (length == 0) break;
    if (length >= ITG_MODEL_NAME || out->preload_count == ITG_PRELOADS)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "%s: at most %d names of %d characters", name, ITG_PRELOADS,
               ITG_MODEL_NAME - 1);
    itg_preload *preload = &out->preloads[out->preload_count++];
    preload->kind = kind;
    snprintf(preload->model, ITG_MODEL_NAME, "%.*s", (int)length, at);
    at += length;
  }
  return ITG_OK;
}

static itg_status read_preloads(itg_diagnostic *diagnostic, itg_settings *out) {
  static const char *const names[ITG_SERVICE_KIND_COUNT] = {
      [ITG_SERVICE_FACE_DETECTION] = PREFIX "PRELOAD__FACIAL_RECOGNITION__DETECTION",
      [ITG_SERVICE_FACE_RECOGNITION] = PREFIX "PRELOAD__FACIAL_RECOGNITION__RECOGNITION",
      [ITG_SERVICE_CLIP_VISUAL] = PREFIX "PRELOAD__CLIP__VISUAL",
      [ITG_SERVICE_CLIP_TEXTUAL] = PREFIX "PRELOAD__CLIP__TEXTUAL",
      [ITG_SERVICE_OCR_DETECTION] = PREFIX "PRELOAD__OCR__DETECTION",
      [ITG_SERVICE_OCR_RECOGNITION] = PREFIX "PRELOAD__OCR__RECOGNITION",
  };
  for (itg_service_kind kind = 0; kind < ITG_SERVICE_KIND_COUNT; kind++)
    ITG_TRY(read_preload(names[kind], kind, diagnostic, out));
  return ITG_OK;
}

itg_status itg_settings_from_environment(itg_diagnostic *diagnostic, itg_settings *out) {
  *out = (itg_settings){.host = "[::]",
                        .port = 3003,
                        .models = "/cache",
                        .idle_seconds = 300,
                        .poll_seconds = 10,
                        .keep_alive_seconds = 2,
                        .log_level = ITG_LOG_INFO};
  if (variable("IMMICH_HOST")) out->host = variable("IMMICH_HOST");
  if (variable(PREFIX "CACHE_FOLDER")) out->models = variable(PREFIX "CACHE_FOLDER");
  out->organization = variable(PREFIX "MODEL_ORGANIZATION");
  const char *revision = variable(PREFIX "MODEL_REVISION");
  if (revision && strcmp(revision, "main") != 0) // Upstream's other revisions give the same numbers.
    itg_log(ITG_LOG_WARNING, "MACHINE_LEARNING_MODEL_REVISION=%.40s is not understood here: models of main are used",
            revision);
  ITG_TRY(read_integer("IMMICH_PORT", 0, 65535, diagnostic, &out->port));
  ITG_TRY(read_integer(PREFIX "MODEL_TTL", -1000000000, 1000000000, diagnostic, &out->idle_seconds));
  ITG_TRY(read_integer(PREFIX "MODEL_TTL_POLL_S", 1, 86400, diagnostic, &out->poll_seconds));
  ITG_TRY(read_integer(PREFIX "HTTP_KEEPALIVE_TIMEOUT_S", 1, 3600, diagnostic, &out->keep_alive_seconds));
  ITG_TRY(read_integer(PREFIX "REQUEST_THREADS", 0, 256, diagnostic, &out->workers));
  ITG_TRY(read_integer(PREFIX "MODEL_INTRA_OP_THREADS", 0, 256, diagnostic, &out->threads));
  const char *level = variable("IMMICH_LOG_LEVEL");
  if (level && !itg_log_parse_level(level, &out->log_level))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, "IMMICH_LOG_LEVEL",
             "IMMICH_LOG_LEVEL must be verbose, debug, log, warn, error or fatal, not \"%.40s\"", level);
  return read_preloads(diagnostic, out);
}
