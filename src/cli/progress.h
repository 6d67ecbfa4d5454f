// Progress of long work: a bar on a terminal, plain lines in a log, nothing with --quiet. Goes to standard error.
#ifndef ITG_CLI_PROGRESS_H
#define ITG_CLI_PROGRESS_H

#include <stdbool.h>

// Starts as zeroes with `quiet` set. One thread at a time.
typedef struct cli_progress {
  bool quiet;
  bool open; // A stage has begun and its last line is still to come.
  char stage[48];
  long long total;
  double start, shown; // Monotonic seconds.
} cli_progress;

// An itg_progress_function; `context` is a cli_progress. Never cancels: an interrupt ends the process at once.
int cli_progress_update(void *context, const char *stage, long long done, long long total);
// Ends the open stage, before other output.
void cli_progress_end(cli_progress *progress);
// A line for the user beside the result; nothing with --quiet.
void cli_note(cli_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
double cli_now(void);

#endif
