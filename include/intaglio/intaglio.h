// Intaglio runtime: open a compiled model (.itg), look at it, run it.
//
//   itg_model *model = NULL;
//   itg_session *session = NULL;
//   itg_diagnostic why;
//   if (itg_model_open("face.itg", &why, &model) != ITG_OK) { puts(why.message); return 1; }
//   if (itg_session_create(model, NULL, &why, &session) != ITG_OK) ...
//   itg_session_set_input(session, 0, pixels, pixel_count, &why);   // float, shape of itg_model_input(model, 0)
//   itg_session_run(session, &why);
//   itg_session_get_output(session, 0, embedding, 512, &why);
//   itg_session_destroy(session);
//   itg_model_close(model);
//
// A model is immutable after open: any number of threads may share it, each with a session of its own. Sessions on an NPU share the
// device: their runs wait for each other in the order they came. The first such session sets ADSP_LIBRARY_PATH for the process when
// it is not set and DSP files are found beside the vendor's library or in the usual folders.
// Running does no allocation, no floating point and no input or output; conversion from and to float happens in
// set_input and get_output.
#ifndef INTAGLIO_INTAGLIO_H
#define INTAGLIO_INTAGLIO_H

#include <stddef.h>
#include <stdint.h>

#include "intaglio/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ITG_VERSION "0.1.0"
enum { ITG_MAX_RANK = 8 };

// Element types. Numbers are part of the file format and never change.
typedef enum itg_dtype {
  ITG_DTYPE_NONE = 0,
  ITG_DTYPE_F32 = 1,
  ITG_DTYPE_F16 = 2,
  ITG_DTYPE_BF16 = 3,
  ITG_DTYPE_F64 = 4,
  ITG_DTYPE_S8 = 5,
  ITG_DTYPE_S16 = 6,
  ITG_DTYPE_S32 = 7,
  ITG_DTYPE_S64 = 8,
  ITG_DTYPE_U8 = 9,
  ITG_DTYPE_U16 = 10,
  ITG_DTYPE_U32 = 11,
  ITG_DTYPE_U64 = 12,
  ITG_DTYPE_BOOL = 13, // One byte, 0 or 1.
  ITG_DTYPE_S4 = 14,   // Packed constants only: two a byte, low nibble first.
  ITG_DTYPE_COUNT = 15,
} itg_dtype;

// "f32", "u8", ...; never NULL.
ITG_API const char *itg_dtype_name(itg_dtype dtype);

typedef struct itg_shape {
  int32_t rank; // 0 (scalar) .. ITG_MAX_RANK
  int64_t dims[ITG_MAX_RANK];
} itg_shape;

// A model input or output. Strings live as long as the model.
typedef struct itg_tensor_info {
  const char *name;
  itg_shape shape; // In the layout of the source model (ONNX images: [N,C,H,W]).
  itg_dtype dtype; // Of the integer codes inside: u8, u16, or s32/s64/bool for inputs that are not quantized.
  double scale;    // real = scale * (code - zero_point); 1 and 0 where there is no encoding.
  int32_t zero_point;
  size_t count; // Number of elements.
} itg_tensor_info;

typedef struct itg_model itg_model;     // Immutable after open; share freely between threads.
typedef struct itg_session itg_session; // One thread at a time.

// Maps and validates a .itg file. The file must not be changed while the model is open.
// Errors: IO, FORMAT (truncated, corrupted, contradictory), VERSION, LIMIT, UNSUPPORTED, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_model_open(const char *path, itg_diagnostic *diagnostic, itg_model **out);
// The same from memory, which is borrowed and must outlive the model; 64-byte alignment avoids a copy.
ITG_API ITG_MUST_USE itg_status itg_model_open_memory(const void *data, size_t size, itg_diagnostic *diagnostic,
                                                      itg_model **out);
// All sessions of the model must be destroyed before. NULL is allowed.
ITG_API void itg_model_close(itg_model *model);

// Another graph of the file by its role: language models have "decoder", "embedding" and sometimes "vision", the parts of one
// model. The first graph of a file is the model itself. NULL when there is none. Lives as long as the model; not to be closed.
ITG_API const itg_model *itg_model_part(const itg_model *model, const char *role);

ITG_API size_t itg_model_input_count(const itg_model *model);
ITG_API size_t itg_model_output_count(const itg_model *model);
// `index` below the count; NULL otherwise. The result lives as long as the model.
ITG_API const itg_tensor_info *itg_model_input(const itg_model *model, size_t index);
ITG_API const itg_tensor_info *itg_model_output(const itg_model *model, size_t index);
// A JSON section of the file by name: "provenance", "accuracy", "preprocessing", "source" (an object of the free
// texts of the source model). Not NUL-terminated; NULL when absent.
ITG_API const char *itg_model_metadata(const itg_model *model, const char *name, size_t *size);

// Contexts prepared for NPUs that the file holds, by target name ("qcs6490"); NULL past the end. Lives as long as the model.
ITG_API size_t itg_model_context_count(const itg_model *model);
ITG_API const char *itg_model_context_name(const itg_model *model, size_t index);

typedef struct itg_session_options {
  size_t struct_size;    // sizeof(itg_session_options); lets the struct grow.
  int thread_count;      // 0: one a processor (default); 1: run in the calling thread only.
  void *workspace;       // Caller-supplied memory, 64-byte aligned, or NULL to let the session allocate its own.
  size_t workspace_size; // At least itg_session_workspace_size.
  const char *cpu;       // Highest instruction set to use: "reference", "avx2", "avxvnni", "avx512vnni", "neon", ...;
                         // NULL: $INTAGLIO_CPU, or else the best there is.
  int profile;           // Nonzero: record the time of each step (itg_session_step_profile).
  const char
      *backend;       // "cpu" (default when NULL) or "qnn": the vendor's library, with the context that the file holds.
  const char *target; // "qnn": which of the file's contexts ("qcs6490"); NULL when it holds one only.
  const char *qnn_directory; // "qnn": folder of the vendor's library; NULL: searched.
  // "qnn": what the session asks of the NPU's clocks while it is open: "burst", "high", "balanced" (default when NULL),
  // "power-saver", "low-power", or "default" to ask nothing. Simulators have no clocks.
  const char *npu_performance;
} itg_session_options;

ITG_API void itg_session_options_default(itg_session_options *options);
// Bytes of workspace a session needs: activations and kernel scratch. Pure function of the model and options.
ITG_API ITG_MUST_USE itg_status itg_session_workspace_size(const itg_model *model, const itg_session_options *options,
                                                           itg_diagnostic *diagnostic, size_t *out);
// Plans and packs weights (shared by sessions with the same instruction set). Errors: MEMORY, ARGUMENT, UNSUPPORTED.
ITG_API ITG_MUST_USE itg_status itg_session_create(const itg_model *model, const itg_session_options *options,
                                                   itg_diagnostic *diagnostic, itg_session **out);
ITG_API void itg_session_destroy(itg_session *session); // NULL is allowed.

// Quantizes `count` floats (row-major, the input's shape) into the input. NaN becomes the zero point, values outside the
// range saturate. For an integer input the values are rounded. Errors: ARGUMENT.
ITG_API ITG_MUST_USE itg_status itg_session_set_input(itg_session *session, size_t index, const float *values,
                                                      size_t count, itg_diagnostic *diagnostic);
// Copies codes of the input's own dtype; `size` in bytes.
ITG_API ITG_MUST_USE itg_status itg_session_set_input_codes(itg_session *session, size_t index, const void *codes,
                                                            size_t size, itg_diagnostic *diagnostic);
// Runs all steps. Inputs keep their values. Errors: ARGUMENT when an input was never set; EXECUTION when an accelerator failed
// (its code and words are in the message): the model is fine, and a session on the CPU can answer instead.
ITG_API ITG_MUST_USE itg_status itg_session_run(itg_session *session, itg_diagnostic *diagnostic);
// Outputs stay valid until the next run.
ITG_API ITG_MUST_USE itg_status itg_session_get_output(const itg_session *session, size_t index, float *values,
                                                       size_t count, itg_diagnostic *diagnostic);
ITG_API ITG_MUST_USE itg_status itg_session_get_output_codes(const itg_session *session, size_t index, void *codes,
                                                             size_t size, itg_diagnostic *diagnostic);

// ---- sessions with memory: decoders of language models ----
//
// A model with caches runs over blocks of at most itg_session_block positions. What it computed for earlier positions stays in
// the session, which counts them; every run adds the rows of its block. Inputs of such a model have one row a position
// ([1,T,..], or [T,..] for rotary tables): setting them takes as many values as the current block has rows.

typedef enum itg_block_outputs {
  ITG_BLOCK_ALL_ROWS = 0, // Outputs have all rows of the block.
  ITG_BLOCK_LAST_ROW,     // Outputs have one row, the block's last, for which alone they are computed.
  ITG_BLOCK_NO_OUTPUTS,   // Nothing is computed that only outputs need.
} itg_block_outputs;

// Most positions of one run (128 in compiled decoders); 0 for a model without memory.
ITG_API size_t itg_session_block(const itg_session *session);
// Positions that fit the caches, and those that are in them. 0 for a model without memory.
ITG_API size_t itg_session_capacity(const itg_session *session);
ITG_API size_t itg_session_position(const itg_session *session);
// The next runs are over `rows` positions (1 .. itg_session_block; a new session starts with all). Inputs must be set again.
// Errors: ARGUMENT (no memory, rows out of range), LIMIT (the caches would overflow).
ITG_API ITG_MUST_USE itg_status itg_session_set_block(itg_session *session, size_t rows, itg_block_outputs outputs,
                                                      itg_diagnostic *diagnostic);
// Forgets everything from `position` on; 0 forgets all but what the file itself has put into the caches (a baked prefix): a new
// session begins behind that. Errors: ARGUMENT (no memory, or a position that was not reached).
ITG_API ITG_MUST_USE itg_status itg_session_rewind(itg_session *session, size_t position, itg_diagnostic *diagnostic);

// One step of the plan, for profiles and `inspect`.
typedef struct itg_step_info {
  const char *name;   // Of the graph node.
  const char *op;     // Operation kind.
  const char *kernel; // Name of the chosen kernel.
  int64_t multiply_accumulates;
  double microseconds; // Of the last run; 0 without `profile`.
} itg_step_info;
ITG_API size_t itg_session_step_count(const itg_session *session);
ITG_API ITG_MUST_USE itg_status itg_session_step(const itg_session *session, size_t index, itg_step_info *out);
// Where a run takes place, as the vendor's library itself reports it.
typedef struct itg_proof {
  const char *sentence; // In plain words; lives as long as the session, rewritten by each call.
  int on_device;        // 1 only when the library reported accelerator RPC time, which the simulator never does.
  size_t ops_on_npu, ops_total;
  uint64_t cycles, host_rpc_microseconds, accelerator_rpc_microseconds, accelerator_microseconds;
} itg_proof;
// Runs once more, profiled. On the CPU: zeros and a sentence that says so. Errors: ARGUMENT when an input was never set,
// those of itg_session_run.
ITG_API ITG_MUST_USE itg_status itg_session_proof(itg_session *session, itg_diagnostic *diagnostic, itg_proof *out);
// 1 when this machine has an instruction set ("avx2", "avxvnni", "avx512vnni", ..) that kernels are written for, else 0.
ITG_API int itg_cpu_has(const char *name);
// Name of the highest instruction set in use, e.g. "avx512vnni".
ITG_API const char *itg_session_cpu(const itg_session *session);

// A survey of what this machine has and lacks for running on an NPU: chip, firmware, driver, device nodes, the files of both
// sides, the vendor's library. Nothing on it identifies the machine or its user but the names of folders.
typedef enum itg_finding_state {
  ITG_FINDING_OK = 0,
  ITG_FINDING_NOTE = 1,    // Worth knowing; nothing fails for it.
  ITG_FINDING_MISSING = 2, // An NPU cannot be used, or not compiled for, until next_step is done.
} itg_finding_state;
typedef struct itg_finding {
  const char *topic; // "FastRPC node"
  itg_finding_state state;
  const char *fact;      // What was found.
  const char *next_step; // What to do about it; NULL when nothing.
} itg_finding;
typedef struct itg_survey itg_survey; // Immutable; share freely.

// root: NULL for this machine, or the folder of a recorded tree (copies of files below /sys, /proc, /dev, /usr, /vendor; then
// no library is opened and the environment is ignored). qnn_directory: folder of the vendor's library, NULL to search. The
// library is opened in a child process. Errors: IO (root is no folder), ARGUMENT, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_survey_create(const char *root, const char *qnn_directory,
                                                  itg_diagnostic *diagnostic, itg_survey **out);
ITG_API void itg_survey_destroy(itg_survey *survey); // NULL is allowed.
ITG_API size_t itg_survey_count(const itg_survey *survey);
// `index` below the count; NULL otherwise. Lives as long as the survey, as do the two texts below.
ITG_API const itg_finding *itg_survey_finding(const itg_survey *survey, size_t index);
ITG_API const char *itg_survey_target(const itg_survey *survey); // "qcs6490"; NULL when the chip is none that is known.
ITG_API const char *itg_survey_verdict(const itg_survey *survey); // One or two sentences.

#ifdef __cplusplus
}
#endif
#endif
