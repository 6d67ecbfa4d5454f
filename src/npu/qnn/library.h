// The vendor's QNN library: found, opened with dlopen, checked, closed. Never linked, never shipped.
#ifndef ITG_NPU_QNN_LIBRARY_H
#define ITG_NPU_QNN_LIBRARY_H

#include "npu/qnn/qnn_abi.h"
#include "npu/target.h"

enum { ITG_QNN_MIN_CORE_MINOR = 22 }; // Core API 2.22, QAIRT 2.29.

// One open library with a backend and a device. One thread at a time.
typedef struct itg_qnn_library {
  char path[512];  // Of the file that was opened.
  char build[128]; // "v2.51.0.260929181845"
  itg_qnn_version core;
  const itg_qnn_functions *functions; // Owned by the vendor's library.
  itg_qnn_handle log, backend, device;
  void *handle;
} itg_qnn_library;

// Folders in which a library is looked for, in order: `directory` alone when it is given; else $INTAGLIO_QNN_DIR,
// $QNN_SDK_ROOT/lib/<platform>, installed onnxruntime_qnn Python packages (of $VIRTUAL_ENV, the user and the system), and the
// loader's own path (""). Fills at most `capacity` strings of 512 bytes; returns how many.
size_t itg_qnn_search_path(const char *directory, char (*folders)[512], size_t capacity);

// Finds and loads `file` alone: sets path and handle, which stays loaded. Errors: DEVICE (lists where it was looked for), MEMORY.
ITG_MUST_USE itg_status itg_qnn_shared_object_open(const char *directory, const char *file, itg_diagnostic *diagnostic,
                                                   itg_qnn_library *library);
// Opens `file` ("libQnnHtp.so", "libQnnSaver.so") and creates log, backend and, for `target` (may be NULL), a device set to
// that SoC (on x86-64; on a board the hardware decides). Sets ADSP_LIBRARY_PATH (dsp_path.h). Errors: DEVICE (not found: lists where it was looked for; no entry
// point; the vendor's own words), VERSION (core API too old or of another major).
ITG_MUST_USE itg_status itg_qnn_library_open(const char *directory, const char *file, const itg_target *target,
                                             itg_diagnostic *diagnostic, itg_qnn_library *out);
// Frees device, backend and log. The shared object stays loaded: some versions hang when unloaded.
void itg_qnn_library_close(itg_qnn_library *library);

// What a library is wanted for, and so which functions it must have.
typedef enum itg_qnn_purpose {
  ITG_QNN_TO_OPEN = 1,
  ITG_QNN_TO_RUN = 2,
  ITG_QNN_TO_PROFILE = 4,
  ITG_QNN_TO_PREPARE = 8,
} itg_qnn_purpose;
// DEVICE, with the function's name, when one is missing. What opening needs was checked by itg_qnn_library_open.
ITG_MUST_USE itg_status itg_qnn_library_require(const itg_qnn_library *library, itg_qnn_purpose purpose,
                                                itg_diagnostic *diagnostic);

// The newest error lines that the vendor's library logged since the last call, joined by " | " (empty when there are none).
// With size 0 they are only forgotten.
// The vendor's callback has no context pointer, so the lines of all libraries of the process come here; thread-safe.
void itg_qnn_take_log(char *text, size_t size);

// Raises ITG_ERROR_DEVICE with the vendor's code, its name and words, and the next step, when `error` is not 0.
ITG_MUST_USE itg_status itg_qnn_check(itg_qnn_error error, const char *call, const char *subject,
                                      itg_diagnostic *diagnostic);
// The same with ITG_ERROR_EXECUTION, for calls that run a loaded graph.
ITG_MUST_USE itg_status itg_qnn_check_run(itg_qnn_error error, const char *call, const char *subject,
                                          itg_diagnostic *diagnostic);

#endif
