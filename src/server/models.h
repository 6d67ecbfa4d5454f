// The models that are loaded: opened on first use, one request at a time, closed when idle.
#ifndef ITG_SERVER_MODELS_H
#define ITG_SERVER_MODELS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/entries.h"
#include "server/fetch.h"
#include "server/networks.h"
#include "server/statistics.h"

typedef struct itg_model_alias {
  const char *name, *stands_for; // Requests for `name` are served by the model `stands_for`.
} itg_model_alias;

typedef struct itg_models_options {
  const char *folder;          // Of models, in the layout of docs/FORMATS.md ("Model folders").
  itg_network_options network; // Where networks run.
  int idle_seconds;            // A model that nobody asked for this long is closed; 0 or less: never.
  int poll_seconds;            // How often that is looked at.
  const itg_model_alias *aliases;
  size_t alias_count;
  bool download; // Fetch a model that is not there from the hub that Immich's models are on (intaglio/hub.h).
  const char *organization; // Of the hub's repositories; NULL: Immich's.
  size_t download_waiters;  // Requests that may wait for a download beside the one that caused it; others get TIMEOUT.
  // Compiles float models when they are first used. NULL: never.
  struct itg_compile_service *compiling;
} itg_models_options;

typedef struct itg_models itg_models; // Any thread.

// `options` are copied; what they point to is borrowed.
ITG_MUST_USE itg_status itg_models_create(const itg_models_options *options, itg_diagnostic *diagnostic,
                                          itg_models **out);
// Ends downloads; whoever waits for one gets an error. For a stop that does not wait for them.
void itg_models_cancel(itg_models *models);
// No lease may be out. NULL is allowed.
void itg_models_destroy(itg_models *models);

// The right to use a loaded model; others wait for it in the order they came.
typedef struct itg_model_lease {
  itg_service *service;
  struct itg_model_entry *entry;
  double start;
} itg_model_lease;

// Waits for its turn and loads the model when it is not there. `gone` (may be NULL) is asked while waiting.
// Errors: CANCELLED (gone said so), IO (no such model; the message says where it was looked for), TIMEOUT (a model is being
// fetched from the hub), those of opening.
ITG_MUST_USE itg_status itg_models_take(itg_models *models, itg_service_kind kind, const char *name,
                                        bool (*gone)(void *context), void *gone_context, itg_diagnostic *diagnostic,
                                        itg_model_lease *out);
// `failed`: the call on the service failed, for the statistics.
void itg_models_give_back(itg_models *models, itg_model_lease *lease, bool failed);

// Loads a model in the background and keeps it loaded. Failures are logged.
void itg_models_preload(itg_models *models, itg_service_kind kind, const char *name);

// ---- for the status page ----

typedef enum itg_model_state { ITG_MODEL_ABSENT = 0, ITG_MODEL_LOADED, ITG_MODEL_FAILED } itg_model_state;

typedef struct itg_model_status {
  itg_service_kind kind;
  char name[ITG_MODEL_NAME];
  itg_model_state state;
  bool preloaded, compiling;
  char problem[ITG_NETWORK_TEXT]; // Why loading failed, or what became of compiling; may be empty.
  itg_network_report networks[ITG_NETWORKS];
  size_t network_count, waiting;
  unsigned long long runs, failures, loads;
  double load_seconds; // Of the last load.
  double idle_seconds;
  double p50, p90, p99; // Seconds of a run.
} itg_model_status;

// Copies what is known of model `index` (0, 1, ..); false past the end.
bool itg_models_status(itg_models *models, size_t index, itg_model_status *out);

// What is being fetched from the hub just now; false when nothing is.
bool itg_models_fetching(itg_models *models, itg_fetch_report *out);

// The folder's name of a model: what follows the last "/", with ":" and "\" as "_" and without dots (Immich's rule).
// False when nothing is left, or it does not fit.
bool itg_model_folder_name(const char *name, char out[ITG_MODEL_NAME]);

#endif
