// Models that are asked for and not there: fetched from the hub, one at a time. A few requests wait for it, as Immich's own
// service lets them wait; the others are told to come again, so that there are always workers for what is there.
#ifndef ITG_SERVER_FETCH_H
#define ITG_SERVER_FETCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct itg_fetch itg_fetch; // Any thread.

// `options` are copied, their strings borrowed.
typedef struct itg_fetch_options {
  const char *cache;
  const char *organization; // Owner of the repositories; NULL: Immich's.
  size_t most_waiting;      // Calls that may wait for a download at the same time, the one that downloads not counted.
} itg_fetch_options;

ITG_MUST_USE itg_status itg_fetch_create(const itg_fetch_options *options, itg_diagnostic *diagnostic, itg_fetch **out);
void itg_fetch_destroy(itg_fetch *fetch); // Nobody may be fetching. NULL is allowed.
// Fetches a model, if `folder`, its service's, is still empty when its turn comes. A name that failed is not tried again for a
// minute. `gone` (may be NULL) is asked while waiting. Errors: TIMEOUT (one is being fetched and enough wait: ask again later),
// CANCELLED (gone said so), IO (the hub's model has nothing for this folder), those of itg_hub_pull.
ITG_MUST_USE itg_status itg_fetch_model(itg_fetch *fetch, const char *name, const char *folder,
                                        bool (*gone)(void *context), void *gone_context, itg_diagnostic *diagnostic);
// What is being fetched just now; false when nothing is.
typedef struct itg_fetch_report {
  char model[128], file[128];
  long long done, total; // Bytes of the file.
} itg_fetch_report;
bool itg_fetch_running(itg_fetch *fetch, itg_fetch_report *out);
// Ends what goes on and everything later with CANCELLED.
void itg_fetch_cancel(itg_fetch *fetch);

// Whether a service's folder holds a network.
bool itg_fetch_is_there(const char *folder);

#endif
