// Diagnostics: formatted once at the origin, passed up untouched.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

// Which request failed says little; how much the process held by then says whether the machine is too small.
static void say_memory(itg_diagnostic *diagnostic) {
  struct rusage usage;
  const size_t length = strlen(diagnostic->message);
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    snprintf(diagnostic->message + length, sizeof diagnostic->message - length,
             "; this process has held up to %ld MiB (memory limits: ulimit -v, containers)", usage.ru_maxrss >> 10);
}

itg_status itg_fail(itg_diagnostic *diagnostic, itg_status status, const char *subject, const char *file, int line,
                    const char *format, ...) {
  if (!diagnostic) return status;
  diagnostic->status = status;
  diagnostic->origin_file = file;
  diagnostic->origin_line = line;
  snprintf(diagnostic->subject, sizeof diagnostic->subject, "%s", subject ? subject : "");
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(diagnostic->message, sizeof diagnostic->message, format, arguments);
  va_end(arguments);
  if (status == ITG_ERROR_MEMORY) say_memory(diagnostic);
  return status;
}

itg_status itg_in_file(itg_diagnostic *diagnostic, itg_status status, const char *path) {
  if (status == ITG_OK || !diagnostic || status == ITG_ERROR_MEMORY || status == ITG_ERROR_CANCELLED) return status;
  char *subject = diagnostic->subject;
  if (*subject && strncmp(subject, "byte ", 5) != 0 && strncmp(subject, "line ", 5) != 0) return status;
  char place[64];
  snprintf(place, sizeof place, "%s%.60s", *subject ? ", " : "", subject);
  const size_t room = sizeof diagnostic->subject - strlen(place) - 1, length = strlen(path);
  snprintf(subject, sizeof diagnostic->subject, "%s%s", path + (length > room ? length - room : 0),
           place); // The end tells more.
  return status;
}

const char *itg_status_name(itg_status status) {
  switch (status) {
  case ITG_OK: return "ok";
  case ITG_ERROR_ARGUMENT: return "argument";
  case ITG_ERROR_MEMORY: return "memory";
  case ITG_ERROR_IO: return "i/o";
  case ITG_ERROR_CANCELLED: return "cancelled";
  case ITG_ERROR_FORMAT: return "format";
  case ITG_ERROR_VERSION: return "version";
  case ITG_ERROR_LIMIT: return "limit";
  case ITG_ERROR_UNSUPPORTED: return "unsupported";
  case ITG_ERROR_SHAPE: return "shape";
  case ITG_ERROR_QUANTIZATION: return "quantization";
  case ITG_ERROR_DEVICE: return "device";
  case ITG_ERROR_TIMEOUT: return "timeout";
  case ITG_ERROR_EXECUTION: return "execution";
  case ITG_ERROR_INTERNAL: return "internal";
  }
  return "unknown";
}
