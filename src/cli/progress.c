// See progress.h.
#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 30 };
static const double TERMINAL_PERIOD = 0.1, LOG_PERIOD = 15; // Seconds between two updates.

double cli_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cli_progress_end(cli_progress *progress) {
  if (!progress->open) return;
  progress->open = false;
  if (progress->quiet) return;
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
  fprintf(stderr, "%s: ", progress->stage);
  if (progress->total > 0) fprintf(stderr, "%lld in ", progress->total);
  fprintf(stderr, "%.2f s\n", cli_now() - progress->start);
}

static void draw(cli_progress *progress, long long done) {
  const double now = cli_now();
  const bool terminal = isatty(STDERR_FILENO);
  if (now - progress->shown < (terminal ? TERMINAL_PERIOD : LOG_PERIOD)) return;
  progress->shown = now;
  if (!terminal) {
    fprintf(stderr, "%s: %lld of %lld\n", progress->stage, done, progress->total);
    return;
  }
  if (progress->total <= 0) {
    fprintf(stderr, "\r\033[K%s ...", progress->stage);
    return;
  }
  char bar[BAR + 1];
  const int filled = (int)(BAR * done / progress->total);
  memset(bar, '.', BAR);
  memset(bar, '#', (size_t)(filled > BAR ? BAR : filled));
  bar[BAR] = '\0';
  fprintf(stderr, "\r\033[K%s [%s] %lld/%lld", progress->stage, bar, done, progress->total);
}

int cli_progress_update(void *context, const char *stage, long long done, long long total) {
  cli_progress *progress = context;
  if (progress->quiet) return 0;
  if (!progress->open || strcmp(progress->stage, stage) != 0) {
    cli_progress_end(progress);
    snprintf(progress->stage, sizeof progress->stage, "%s", stage);
    progress->open = true;
    progress->start = cli_now();
    // A log gets its first intermediate line only when a stage is slow.
    progress->shown = isatty(STDERR_FILENO) ? 0 : progress->start;
  }
  progress->total = total;
  if (total > 0 && done >= total)
    cli_progress_end(progress);
  else
    draw(progress, done);
  return 0;
}

void cli_note(cli_progress *progress, const char *format, ...) {
  cli_progress_end(progress);
  if (progress->quiet) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}
