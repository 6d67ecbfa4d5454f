// Intaglio compiler: source model + samples -> .itg. Links libintaglio-compiler; a device that only runs models needs
// intaglio.h alone.
//
// Flow: itg_compiler_open (import, exact rewrites) -> itg_compiler_compile (calibrate, quantize, legalize, judge, write).
#ifndef INTAGLIO_COMPILER_H
#define INTAGLIO_COMPILER_H

#include <stdio.h>

#include "intaglio/intaglio.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- float networks: any source model, run by the interpreter (the oracle) ----

typedef struct itg_float_network itg_float_network; // Immutable after open, but one run at a time.

typedef struct itg_source_options {
  size_t struct_size;        // sizeof(itg_source_options)
  const char *const *shapes; // "input=1x3x640x640" each, for inputs with unknown dimensions.
  size_t shape_count;
} itg_source_options;

// Opens an ONNX model. `options` may be NULL. Unknown batch dimensions become 1.
// Errors: IO, FORMAT, UNSUPPORTED (names node, op and reason), SHAPE, LIMIT, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_float_network_open(const char *path, const itg_source_options *options,
                                                       itg_diagnostic *diagnostic, itg_float_network **out);
ITG_API void itg_float_network_close(itg_float_network *network);
ITG_API size_t itg_float_network_input_count(const itg_float_network *network);
ITG_API size_t itg_float_network_output_count(const itg_float_network *network);
ITG_API const itg_tensor_info *itg_float_network_input(const itg_float_network *network, size_t index);
ITG_API const itg_tensor_info *itg_float_network_output(const itg_float_network *network, size_t index);
// inputs[i], outputs[i]: dense values, f32 for float tensors, otherwise the tensor's own dtype.
ITG_API ITG_MUST_USE itg_status itg_float_network_run(itg_float_network *network, const void *const *inputs,
                                                      void *const *outputs, itg_diagnostic *diagnostic);

// ---- compiling ----

typedef struct itg_compiler itg_compiler; // One thread at a time.

// Where samples come from. `read` fills inputs[i] (dense, as in itg_float_network_run) with sample `index` < count.
typedef struct itg_samples {
  void *context;
  size_t count;
  itg_status (*read)(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic);
} itg_samples;

typedef struct itg_compile_options {
  size_t struct_size;        // sizeof(itg_compile_options)
  const char *precision;     // "a8w8", "a16w8", "a8w8+s16" (default when NULL).
  const char *recipe;        // Path of a recipe file, or NULL for the built-in recipe of the precision.
  itg_samples calibration;   // At least one sample.
  itg_samples judge;         // Held-out samples for the accuracy record; count 0: the calibration samples are used and
                             // the record says so.
  int thread_count;          // 0: one a processor.
  int allow_collapse;        // Write the file even when the result lost what the model could do.
  const char *preprocessing; // JSON stored in the file, or NULL.
  const char *dump_after;    // Name of a pass: the graph is printed to `dump` after it. "all": after each.
  FILE *dump;
  itg_progress_function progress; // May be NULL.
  void *progress_context;
} itg_compile_options;
ITG_API void itg_compile_options_default(itg_compile_options *options);

// How near the integer network came to the float one on the judged samples; one output.
typedef struct itg_output_accuracy {
  const char *name;
  size_t samples;
  double cosine_mean, cosine_min;
  double centred_cosine_mean; // After subtracting the float mean: shows collapse. NaN with fewer than 3 samples.
  double spread_ratio; // Standard deviation of pair cosines over that of float; 1 kept, 0 collapsed. NaN likewise.
  double sqnr_db;
} itg_output_accuracy;

typedef struct itg_compile_result {
  size_t output_count;
  const itg_output_accuracy *outputs; // Lives as long as the compiler.
  double import_seconds, calibrate_seconds, quantize_seconds, judge_seconds;
  size_t source_bytes, file_bytes;
  size_t node_count, step_count;
} itg_compile_result;

// Imports and canonicalises. Errors as itg_float_network_open.
ITG_API ITG_MUST_USE itg_status itg_compiler_open(const char *path, const itg_source_options *options,
                                                  itg_diagnostic *diagnostic, itg_compiler **out);
ITG_API void itg_compiler_close(itg_compiler *compiler);
ITG_API size_t itg_compiler_input_count(const itg_compiler *compiler);
ITG_API const itg_tensor_info *itg_compiler_input(const itg_compiler *compiler, size_t index);
// Compiles and writes `output` (whole or not at all). Errors: ARGUMENT, IO, UNSUPPORTED (node and rule),
// QUANTIZATION (collapse: the reason and the remedy), CANCELLED, MEMORY. `result` may be NULL.
ITG_API ITG_MUST_USE itg_status itg_compiler_compile(itg_compiler *compiler, const itg_compile_options *options,
                                                     const char *output, itg_diagnostic *diagnostic,
                                                     itg_compile_result *result);

// ---- inspecting ----

// What `inspect` shows of a source model. Text or JSON is written to `stream`. Every unsupported node is listed with its
// reason; the status is then UNSUPPORTED, after the report was written.
ITG_API ITG_MUST_USE itg_status itg_inspect_source(const char *path, const itg_source_options *options, int json,
                                                   FILE *stream, itg_diagnostic *diagnostic);

#ifdef __cplusplus
}
#endif
#endif
