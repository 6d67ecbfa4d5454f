// Errors to the user, exit codes, and what happens on Ctrl-C.
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/commands.h"

static int exit_code_of(itg_status status) {
  switch (status) {
  case ITG_OK: return CLI_OK;
  case ITG_ERROR_ARGUMENT: return CLI_USAGE;
  case ITG_ERROR_MEMORY: return CLI_MEMORY;
  case ITG_ERROR_IO: return CLI_IO;
  case ITG_ERROR_CANCELLED: return CLI_INTERRUPTED;
  case ITG_ERROR_FORMAT:
  case ITG_ERROR_VERSION:
  case ITG_ERROR_LIMIT: return CLI_FORMAT;
  case ITG_ERROR_UNSUPPORTED:
  case ITG_ERROR_SHAPE: return CLI_UNSUPPORTED;
  case ITG_ERROR_QUANTIZATION: return CLI_BELOW;
  case ITG_ERROR_DEVICE:
  case ITG_ERROR_TIMEOUT:
  case ITG_ERROR_EXECUTION: return CLI_DEVICE;
  case ITG_ERROR_INTERNAL: break;
  }
  return CLI_INTERNAL;
}

int cli_fail(const itg_diagnostic *diagnostic) {
  fprintf(stderr, "intaglio: ");
  if (diagnostic->status == ITG_ERROR_INTERNAL) // Ours to repair: say where.
    fprintf(stderr, "internal error at %s:%d: ", diagnostic->origin_file ? diagnostic->origin_file : "?",
            diagnostic->origin_line);
  fprintf(stderr, "%s", diagnostic->message[0] ? diagnostic->message : itg_status_name(diagnostic->status));
  if (diagnostic->subject[0]) fprintf(stderr, " (%s)", diagnostic->subject);
  fputc('\n', stderr);
  return exit_code_of(diagnostic->status);
}

int cli_usage_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "intaglio: ");
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return CLI_USAGE;
}

int cli_finish_output(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
  fprintf(stderr, "intaglio: cannot write standard output: %s\n", strerror(errno));
  return CLI_IO;
}

static void end_at_once(int number) {
  static const char message[] = "\nintaglio: interrupted; no unfinished file is left\n";
  itg_output_file_discard_all_from_signal();
  const ssize_t ignored = write(STDERR_FILENO, message, sizeof message - 1);
  (void)ignored; // Nobody can be told that nobody can be told.
  _exit(128 + number);
}

void cli_catch_interrupts(void) {
  struct sigaction action = {.sa_handler = end_at_once};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
  sigaction(SIGPIPE, &action, NULL); // Whoever read our output has gone: "intaglio compile .. | head".
}
