// Status codes and diagnostics shared by all public headers.
//
// Every fallible function returns itg_status; ignoring it is a compile-time warning. Numbers never change. A caller may
// pass an itg_diagnostic to learn what was wrong, where, and what to try; NULL is always accepted.
#ifndef INTAGLIO_STATUS_H
#define INTAGLIO_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ITG_MUST_USE __attribute__((warn_unused_result))
#define ITG_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define ITG_MUST_USE
#define ITG_PRINTF(format_index, first_argument)
#endif
#if defined(ITG_BUILDING) && defined(__GNUC__)
#define ITG_API __attribute__((visibility("default")))
#else
#define ITG_API
#endif

typedef enum itg_status {
  ITG_OK = 0,
  ITG_ERROR_ARGUMENT = 1,      // The caller broke a documented precondition (bad index, NULL, unknown option).
  ITG_ERROR_MEMORY = 2,        // An allocation failed; nothing was changed.
  ITG_ERROR_IO = 3,            // The operating system refused: missing file, full disk, no permission.
  ITG_ERROR_CANCELLED = 4,     // The caller's progress callback or a signal asked to stop.
  ITG_ERROR_FORMAT = 10,       // Bytes that are not what they claim to be: truncated, corrupted, contradictory.
  ITG_ERROR_VERSION = 11,      // A format or library version this build does not read.
  ITG_ERROR_LIMIT = 12,        // Valid, but larger than a stated limit.
  ITG_ERROR_UNSUPPORTED = 20,  // Valid, but an operation or combination that Intaglio (or the target) lacks.
  ITG_ERROR_SHAPE = 21,        // Shapes that do not fit each other, or a dimension that is still unknown.
  ITG_ERROR_QUANTIZATION = 22, // Encodings break a rule, a bound could not be proven, or the result collapsed.
  ITG_ERROR_DEVICE = 30,       // The accelerator or its library failed.
  ITG_ERROR_TIMEOUT = 31,      // A time limit was reached.
  ITG_ERROR_EXECUTION = 32,    // The accelerator failed during a run. The model is fine: a CPU session can compute it.
  ITG_ERROR_INTERNAL = 99,     // A bug of ours.
} itg_status;

// Why a call failed. Plain data, owned by the caller, one thread at a time. Valid only after a call that failed.
typedef struct itg_diagnostic {
  itg_status status;
  char message[384];       // What was wrong and what to try; NUL-terminated, no trailing newline.
  char subject[160];       // Node, tensor or file name, or "byte 1234"; may be empty.
  const char *origin_file; // Source position that raised it (static string).
  int origin_line;
} itg_diagnostic;

// Short English name of a status ("format", "unsupported", ...). Never NULL.
ITG_API const char *itg_status_name(itg_status status);

// Progress of long work. `done` runs from 0 to `total` (0 when the total is unknown). Return nonzero to cancel:
// the running call then fails with ITG_ERROR_CANCELLED. Called from the thread that made the call.
typedef int (*itg_progress_function)(void *context, const char *stage, long long done, long long total);

#ifdef __cplusplus
}
#endif
#endif
