// Work in a child process, for code that is not ours and may crash, hang or take all memory: its end by a signal, by the time
// limit or by the memory limit becomes an error here, and nothing it prints reaches our streams.
#ifndef ITG_BASE_CHILD_H
#define ITG_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "base/status.h"

typedef struct itg_child_limits {
  int seconds;         // Then the child is killed.
  size_t memory_bytes; // Of address space beyond what it inherits; 0: no limit.
  // Called right before the fork, and after it in this process; NULL: nothing. For locks that the child must not find held.
  void (*before_fork)(void), (*after_fork)(void);
} itg_child_limits;

// Runs in the child, which has a copy of everything. Writes its result to `file` (itg_write_descriptor) and says whether that
// succeeded. Must not return to code that expects other threads: they don't exist here.
typedef bool (*itg_child_work)(void *context, int file);

// What the child wrote; mapped. Empty when it ended without a result.
typedef struct itg_child_result {
  itg_span bytes;
} itg_child_result;

// Forks, runs work(context), waits. `name` starts the messages ("the vendor's QNN compiler"), `remedy` ends the one about a
// crash. Errors: IO, MEMORY (no process to be had), TIMEOUT, DEVICE (crashed, with the signal; ended without a result).
ITG_MUST_USE itg_status itg_child_run(const char *name, const char *remedy, itg_child_work work, void *context,
                                      const itg_child_limits *limits, itg_diagnostic *diagnostic,
                                      itg_child_result *out);
void itg_child_result_free(itg_child_result *result);

// Writes all of it, also when interrupted.
bool itg_write_descriptor(int file, const void *data, size_t size);

#endif
