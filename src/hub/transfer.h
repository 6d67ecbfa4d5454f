// HTTP through libcurl: answers into memory, files onto the disk with resumption.
#ifndef ITG_HUB_TRANSFER_H
#define ITG_HUB_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct itg_transfer itg_transfer; // One thread at a time; keeps its connections.

// `token` may be NULL: sent to the host of each URL asked for, not to those that it redirects to.
ITG_MUST_USE itg_status itg_transfer_create(const char *token, int retries, itg_diagnostic *diagnostic,
                                            itg_transfer **out);
void itg_transfer_destroy(itg_transfer *transfer); // NULL is allowed.

// The body of an answer of at most `limit` bytes; malloc'ed, NUL-terminated. Errors: IO (subject: the URL's path), LIMIT,
// MEMORY.
ITG_MUST_USE itg_status itg_transfer_get(itg_transfer *transfer, const char *url, size_t limit,
                                         itg_diagnostic *diagnostic, char **body, size_t *size);
// Brings the file `path` to exactly `size` bytes of the URL's body, going on behind what is there. `stage` names it for
// `progress` (may be NULL). Errors: IO, FORMAT (a body of another size), CANCELLED, MEMORY.
ITG_MUST_USE itg_status itg_transfer_file(itg_transfer *transfer, const char *url, const char *path, int64_t size,
                                          const char *stage, itg_progress_function progress, void *progress_context,
                                          itg_diagnostic *diagnostic);

#endif
