// Models that are asked for and not there: fetched from the hub, one at a time, while other requests are served.
#ifndef ITG_SERVER_FETCH_H
#define ITG_SERVER_FETCH_H

#include <stdbool.h>

#include "base/status.h"

typedef struct itg_fetch itg_fetch; // Any thread.

// `cache` is borrowed.
ITG_MUST_USE itg_status itg_fetch_create(const char *cache, itg_diagnostic *diagnostic, itg_fetch **out);
void itg_fetch_destroy(itg_fetch *fetch); // Nobody may be fetching. NULL is allowed.
// Fetches a model. A name that failed is not tried again for a minute.
// Errors: TIMEOUT (one is being fetched already: ask again later), those of itg_hub_pull.
ITG_MUST_USE itg_status itg_fetch_model(itg_fetch *fetch, const char *name, itg_diagnostic *diagnostic);
// Ends what goes on and everything later with CANCELLED.
void itg_fetch_cancel(itg_fetch *fetch);

// Whether a service's folder holds a network.
bool itg_fetch_is_there(const char *folder);

#endif
