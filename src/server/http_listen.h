// A listening socket for the HTTP server.
#ifndef ITG_SERVER_HTTP_LISTEN_H
#define ITG_SERVER_HTTP_LISTEN_H

#include <stdint.h>

#include "base/status.h"

// Listens on `host` (NULL, "::" and "[::]": every address, IPv6 and IPv4 through one socket; where there is no IPv6,
// IPv4 alone) and `port` (0: one that is free). Writes the socket and the port it got.
// Errors: IO (no such host, address in use, no permission; the message says which).
ITG_MUST_USE itg_status itg_http_listen(const char *host, uint16_t port, itg_diagnostic *diagnostic, int *listener,
                                        uint16_t *got_port);

#endif
