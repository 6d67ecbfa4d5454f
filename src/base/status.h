// Raising and passing on errors. See include/intaglio/status.h for the codes and when to choose them.
#ifndef ITG_BASE_STATUS_H
#define ITG_BASE_STATUS_H

#include "intaglio/status.h"

// Fills `diagnostic` (may be NULL) and returns `status`. Use through ITG_FAIL.
ITG_PRINTF(6, 7)
itg_status itg_fail(itg_diagnostic *diagnostic, itg_status status, const char *subject, const char *file, int line,
                    const char *format, ...);

// Says in which file an error was found, when its subject is empty or a place within a file ("byte 12", "line 3"). Returns
// `status`, so that a call that opened `path` can pass its result through; nothing happens for ITG_OK.
itg_status itg_in_file(itg_diagnostic *diagnostic, itg_status status, const char *path);

// Returns `status` from the enclosing function: ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "format", ...).
// `subject` is the node, tensor or file concerned, or NULL.
// Spelled so that compilers see that the function does not go on with ITG_OK.
#define ITG_FAIL(diagnostic, status, subject, ...)                                      \
  do {                                                                                  \
    (void)itg_fail((diagnostic), (status), (subject), __FILE__, __LINE__, __VA_ARGS__); \
    return (status);                                                                    \
  } while (0)

// Passes an error on to the caller.
#define ITG_TRY(expression)                              \
  do {                                                   \
    itg_status itg_try_status = (expression);            \
    if (itg_try_status != ITG_OK) return itg_try_status; \
  } while (0)

// Fails with ITG_ERROR_MEMORY when `pointer` is NULL.
#define ITG_TRY_MEMORY(pointer, diagnostic)                                          \
  do {                                                                               \
    if (!(pointer)) ITG_FAIL((diagnostic), ITG_ERROR_MEMORY, NULL, "out of memory"); \
  } while (0)

#endif
