// Diagnostics: formatted once at the origin, passed up untouched.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

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
  case ITG_ERROR_INTERNAL: return "internal";
  }
  return "unknown";
}
