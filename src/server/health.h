// Asks a running service whether it is well: for a container's health check.
#ifndef ITG_SERVER_HEALTH_H
#define ITG_SERVER_HEALTH_H

#include <stdint.h>

#include "base/status.h"

// GET /ping of the service that listens on `host` (NULL, "::", "[::]", "0.0.0.0": every address, so this machine's own is
// asked). Errors: IO (nothing listens there), TIMEOUT (no answer within `seconds`), FORMAT (an answer,
// but not the service's).
ITG_MUST_USE itg_status itg_health_check(const char *host, uint16_t port, int seconds, itg_diagnostic *diagnostic);

#endif
