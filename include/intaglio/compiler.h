// Intaglio compiler: source model + samples -> .itg. Links libintaglio-compiler; a device that only runs models needs
// intaglio.h alone.
//
// Flow: itg_compiler_open (import, exact rewrites) -> itg_compiler_compile (calibrate, quantize, legalize, judge, write).
#ifndef INTAGLIO_COMPILER_H
#define INTAGLIO_COMPILER_H

#include <stdio.h>

#include "intaglio/intaglio.h"
#include "intaglio/pipelines.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- float networks: any source model, run by the interpreter (the oracle) ----

typedef struct itg_float_network itg_float_network; // Immutable after open, but one run at a time.

typedef struct itg_source_options {
  size_t struct_size;        // sizeof(itg_source_options)
  const char *const *shapes; // "input=1x3x640x640" each, for inputs with unknown dimensions. Without a name the shape
                             // is for every input of its rank that has one.
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
// A JSON object of the free texts that the source file holds beside the network (ONNX: metadata_props); NULL: none.
ITG_API const char *itg_float_network_metadata(const itg_float_network *network);
// The network as pipelines take it; it must outlive the result's users. Integer inputs take whole numbers as floats.
ITG_API itg_network itg_network_from_float(itg_float_network *network);
// inputs[i], outputs[i]: dense values, f32 for float tensors, otherwise the tensor's own dtype.
ITG_API ITG_MUST_USE itg_status itg_float_network_run(itg_float_network *network, const void *const *inputs,
                                                      void *const *outputs, itg_diagnostic *diagnostic);

// ---- compiling ----

typedef struct itg_compiler itg_compiler; // One thread at a time.

// Where samples come from. `read` fills inputs[i] (dense, as in itg_float_network_run) with sample `index` < count; it is
// called from one thread at a time, in order, more than once a sample.
typedef struct itg_samples {
  void *context;
  size_t count;
  itg_status (*read)(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic);
  // For reports, either may be NULL and may return NULL: a short name of a sample, and who or what it shows (equal text:
  // the same identity). The text must live as long as the call that uses the samples.
  const char *(*name)(void *context, size_t index);
  const char *(*group)(void *context, size_t index);
} itg_samples;

typedef struct itg_compile_options {
  size_t struct_size;    // sizeof(itg_compile_options)
  const char *precision; // "a8w8", "a16w8", "a16w4", "a8w8+s16" (default when NULL).
  // For "mixed": "cost=1.3" (at most this many times what a8w8 takes, the default) or "cosine=0.998" (as cheap as possible
  // with this mean cosine). Of each four calibration samples the last then selects and does not calibrate.
  const char *budget;
  const char *recipe_output; // Path: the recipe used, the found one too, is written there; NULL: nowhere.
  const char *recipe;        // Path of a recipe file, or NULL for the built-in recipe of the precision.
  itg_samples calibration;   // At least one sample.
  itg_samples judge;         // Held-out samples for the accuracy record; count 0: the calibration samples are used and
                             // the record says so.
  int thread_count;          // 0: one a processor.
  int allow_collapse;        // Write the file even when the result lost what the model could do.
  const char *const
      *targets;        // NPUs by name ("qcs6490", "sm8550"): the encodings follow their rules, and the file holds a
  size_t target_count; // context for each, made by the vendor's library. 0: our own kernels only.
  const char *qnn_directory; // Folder of the vendor's library; NULL: searched.
  int ablate;                // Also measure what each method bought; builds the program once for each.
  const char *preprocessing; // JSON stored in the file, or NULL.
  const char *dump_after;    // Name of a pass: the graph is printed to `dump` after it. "all": after each.
  FILE *dump;
  const char *report;             // Path of the HTML report to write, or NULL.
  itg_progress_function progress; // May be NULL.
  void *progress_context;
} itg_compile_options;
ITG_API void itg_compile_options_default(itg_compile_options *options);

// How near the integer network came to the float one on the judged samples; one output.
typedef struct itg_output_accuracy {
  const char *name;
  size_t samples;
  double cosine_mean, cosine_min;
  // After subtracting the float mean over the samples: shows collapse. NaN with fewer than 3 samples and for outputs that
  // hardly differ between samples in float.
  double centred_cosine_mean;
  // How much the float answers differ between samples: their deviation from their mean over their length. NaN with fewer
  // than 3 samples. Near 0 nothing can be said about what the network can tell apart.
  double float_variation;
  double spread_ratio;    // Standard deviation of pair cosines over that of float; 1 kept, 0 collapsed. NaN likewise.
  double sqnr_db;         // Signal over error of all samples together, in decibels; infinite without any error.
  double pair_agreement;  // Pearson correlation of the pair cosines, float against integer. NaN likewise.
  double pair_error_mean; // Mean absolute difference of the pair cosines. NaN with fewer than 2 samples.
  double pair_shift;      // Mean of the pair cosines, integer minus float: above 0, everything looks more alike.
  double norm_ratio;      // Mean length of the integer vectors over that of the float ones.
  // Share of a sample's nearest neighbours among the others (by cosine, as many as retrieval_neighbours says: 10, or half of
  // the others when there are fewer than 20) that are the same in float and integer. NaN with fewer than 4 samples.
  double retrieval_overlap;
  size_t retrieval_neighbours;
  double noise; // Squared error over the squared float values, these after centring where centred_cosine_mean exists.
  // Where samples have groups: lowest pair cosine within a group minus highest between groups; NaN where unknown.
  double float_margin, integer_margin;
  // Best share of correctly told pairs (same group or not) over all thresholds, both kinds weighing the same; NaN likewise.
  double float_verification, integer_verification;
} itg_output_accuracy;

// What one method that protects accuracy buys: the program built without it, on the judged samples.
typedef struct itg_ablation {
  const char *method; // First the program as it is; near the end "with .. weights", other weight methods instead of
                      // its own; the last one has none of the methods.
  const char *effect; // What the method does.
  double cosine_mean, cosine_min; // Of the worst output; NaN where there is no program without the method.
  double noise;                   // Of the outputs (itg_output_accuracy), their mean.
  double bought_db;    // Noise at the outputs without it over the noise with it, in decibels; 0: it changed nothing.
  const char *failure; // Why there is no program without it, or NULL.
} itg_ablation;

// A node that runs on the CPU although the network was prepared for an NPU, and why.
typedef struct itg_cpu_node {
  const char *name, *op, *reason;
  int is_behind;   // 0: before the context, 1: behind it.
  int is_follower; // 1: the NPU would take it, but not the node that the reason names.
} itg_cpu_node;

// What runs where on one NPU.
typedef struct itg_placement {
  const char *target;                // "qcs6490"
  size_t node_count, npu_node_count; // Nodes of the integer program, and those that the context holds.
  size_t operation_count;            // Operations of the vendor's graph.
  size_t context_bytes;
  double prepare_seconds;        // Of the vendor's compiler, with its start.
  size_t prepare_peak_bytes;     // Memory of its process.
  const itg_cpu_node *cpu_nodes; // node_count - npu_node_count entries.
  const char *build;             // Of the vendor's library.
} itg_placement;

// Memory of a result belongs to the object that made it (compiler) or to the caller (itg_comparison_free).
typedef struct itg_compile_result {
  size_t output_count;
  const itg_output_accuracy *outputs; // Lives as long as the compiler, or until its next compile.
  const char *json;                   // The whole report (docs/FORMATS.md, "report"); likewise.
  const itg_ablation *ablation;       // NULL unless it was asked for; likewise.
  size_t ablation_count;
  const char *loss_summary; // Where most of the loss arises, in a sentence; may be empty; likewise.
  double import_seconds, calibrate_seconds, quantize_seconds, judge_seconds, total_seconds;
  double float_milliseconds,
      integer_milliseconds; // A run of the interpreter and of a session, each on one thread: the best of a few.
  size_t source_bytes, file_bytes;
  size_t workspace_bytes, peak_memory_bytes; // Of a session; of the process so far.
  size_t node_count, step_count;
  size_t calibration_count, judge_count;
  int judged_on_calibration;       // 1: no held-out samples were given.
  int collapsed;                   // 1: only with allow_collapse.
  size_t placement_count;          // One a target.
  const itg_placement *placements; // Lives as long as `outputs`.
} itg_compile_result;

// Imports and canonicalises. Errors as itg_float_network_open.
ITG_API ITG_MUST_USE itg_status itg_compiler_open(const char *path, const itg_source_options *options,
                                                  itg_diagnostic *diagnostic, itg_compiler **out);
ITG_API void itg_compiler_close(itg_compiler *compiler);
ITG_API size_t itg_compiler_input_count(const itg_compiler *compiler);
ITG_API const itg_tensor_info *itg_compiler_input(const itg_compiler *compiler, size_t index);
// Compiles and writes `output` (whole or not at all). Errors: ARGUMENT, IO, UNSUPPORTED (node and rule),
// QUANTIZATION (collapse: the reason and the remedy), CANCELLED, MEMORY. `result` may be NULL; after a collapse it is
// filled too (accuracy and report), although nothing was written but the HTML report.
// A result counts as collapsed when, with 3 samples or more, an output's centred cosine is below 0.5 or its spread ratio
// below 0.7; with fewer samples, when its cosine is below 0.5.
ITG_API ITG_MUST_USE itg_status itg_compiler_compile(itg_compiler *compiler, const itg_compile_options *options,
                                                     const char *output, itg_diagnostic *diagnostic,
                                                     itg_compile_result *result);

// ---- language and vision-language models ----

// 1 for what itg_language_compile takes: a folder with a config.json (safetensors beside it) or a GGUF file.
ITG_API int itg_is_language_model(const char *path);

typedef struct itg_language_options {
  size_t struct_size;    // sizeof(itg_language_options)
  const char *precision; // "a16w8" (default when NULL) or "a16w4".
  const char *recipe; // Path of a recipe file; its rules come after the built-in ones of language models. May be NULL.
  const char *calibration; // A text file, or a .json list of conversations (docs/FORMATS.md). Needed.
  const char
      *judge; // Likewise, held out for the accuracy record; NULL: the calibration samples, and the record says so.
  int weight_block;   // "a16w4": LPBQ blocks of 16, 32 (default) or 64 weights; 0: one scale a channel.
  int cache_bits;     // Of keys and values: 8 (default) or 16.
  int context_length; // Positions that the compiled caches hold; 0: 2048, or what the model was trained for.
  int block_length;   // Rows of a run at most; 0: 128.
  int sample_length;  // Tokens of a window of text; 0: 512.
  int calibration_limit, judge_limit; // Windows (or conversations) used at most; 0: 16 and 64.
  int thread_count;                   // 0: one a processor.
  int allow_collapse;                 // Write the file even when the result lost what the model could do.
  itg_progress_function progress;     // May be NULL.
  void *progress_context;
} itg_language_options;
ITG_API void itg_language_options_default(itg_language_options *options);

// One graph of the file.
typedef struct itg_language_part {
  const char *role;      // "decoder", "embedding", "vision"
  size_t constant_bytes; // Of weights and tables, without those that another part has as well.
  double compile_seconds;
} itg_language_part;

// Token by token against the float model, on the judged samples. NaN where there is nothing to measure.
typedef struct itg_language_accuracy {
  size_t tokens;
  double float_perplexity, integer_perplexity, perplexity_ratio;
  double divergence_mean, divergence_999; // KL(float || integer), natural logarithm: mean, and the 99.9th percentile.
  double top1_agreement;
  size_t image_tokens;                        // Of the judged pictures.
  double image_cosine_mean, image_cosine_low; // Of the encoder's tokens: mean and the lowest hundredth.
} itg_language_accuracy;

typedef struct itg_language_result {
  itg_language_part parts[3];
  size_t part_count;
  itg_language_accuracy accuracy;
  size_t file_bytes, peak_memory_bytes;
  size_t calibration_count, judge_count, calibration_tokens;
  int judged_on_calibration, collapsed;
  double total_seconds, judge_seconds;
  char *json; // The report (docs/FORMATS.md, "report of a language model"); itg_language_result_free.
} itg_language_result;

// Compiles a checkpoint into one .itg whose graphs are the decoder, the token embedding and, where there is one, the vision
// encoder; config, tokenizer and chat template are stored beside them. One layer's weights are in memory at a time.
// Errors: those of reading (every unknown key, architecture or tensor is named), ARGUMENT, IO, QUANTIZATION (collapse: the
// perplexity is more than 1.5 times the float one), CANCELLED, MEMORY. `result` may be NULL.
ITG_API ITG_MUST_USE itg_status itg_language_compile(const char *model, const itg_language_options *options,
                                                     const char *output, itg_diagnostic *diagnostic,
                                                     itg_language_result *result);
ITG_API void itg_language_result_free(itg_language_result *result);

// ---- comparing ----

typedef struct itg_compare_options {
  size_t struct_size;        // sizeof(itg_compare_options)
  itg_source_options source; // For the float model.
  itg_samples samples;       // At least one.
  int thread_count;          // 0: one a processor.
  const char *cpu;           // As in itg_session_options, and the next three.
  const char *backend, *target, *qnn_directory;
  // Not 0: also measure what each method bought, by the recipe in the file. `calibration` are then samples like those that
  // calibrated it (at least one, not the ones that judge).
  int ablate;
  itg_samples calibration;
  const char *report;             // Path of the HTML report to write, or NULL.
  itg_progress_function progress; // May be NULL.
  void *progress_context;
} itg_compare_options;
ITG_API void itg_compare_options_default(itg_compare_options *options);

typedef struct itg_comparison {
  size_t output_count;
  itg_output_accuracy *outputs;
  char *json;                                      // As in itg_compile_result.
  double float_milliseconds, integer_milliseconds; // As in itg_compile_result.
  int collapsed;                                   // By the rule of itg_compiler_compile.
  const itg_ablation *ablation;                    // NULL unless it was asked for.
  size_t ablation_count;
  void *memory;
} itg_comparison;

// Runs the samples through a compiled file and through its float model (inputs and outputs are matched by order and must
// have the same shapes). The network must outlive the comparison: names borrow from it.
// Errors: ARGUMENT, SHAPE (the two do not belong together), IO, FORMAT, CANCELLED, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_compare(const char *compiled, const itg_float_network *network,
                                            const itg_compare_options *options, itg_diagnostic *diagnostic,
                                            itg_comparison *out);
ITG_API void itg_comparison_free(itg_comparison *comparison);

// ---- exporting: for ONNX Runtime and for the vendor's own tools ----

// The compiled network as ONNX (opset 21) with QuantizeLinear and DequantizeLinear around every operation: the same weights,
// biases, scales and zero points. Inputs and outputs keep the source's names and are float. What stands between the pairs is
// float, so results differ from a session's by its rounding. Errors: UNSUPPORTED (node and reason), LIMIT, IO, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_export_qdq(const itg_model *model, const char *path, itg_diagnostic *diagnostic);
// A context prepared for an NPU ("qcs6490"; NULL when the file holds one only), as the vendor's library reads it: bytes of one
// graph "intaglio" whose inputs and outputs are codes, named "<name>/codes". Errors: DEVICE (no such context), FORMAT, IO.
ITG_API ITG_MUST_USE itg_status itg_export_qnn_context(const itg_model *model, const char *target, const char *path,
                                                       itg_diagnostic *diagnostic);
// The same inside an ONNX model (one EPContext node between QuantizeLinear and DequantizeLinear), which ONNX Runtime's QNN
// provider runs. Errors: the same, LIMIT, MEMORY.
ITG_API ITG_MUST_USE itg_status itg_export_epcontext(const itg_model *model, const char *target, const char *path,
                                                     itg_diagnostic *diagnostic);

// ---- inspecting ----

// What `inspect` shows of a source model. Text or JSON is written to `stream`. Every unsupported node is listed with its
// reason; the status is then UNSUPPORTED, after the report was written.
ITG_API ITG_MUST_USE itg_status itg_inspect_source(const char *path, const itg_source_options *options, int json,
                                                   FILE *stream, itg_diagnostic *diagnostic);

// What would run where on an NPU.
typedef struct itg_placement_report {
  itg_placement placement; // context_bytes is 0: nothing is built.
  char *json;              // The same as JSON (docs/FORMATS.md, section "placement").
  void *memory;
} itg_placement_report;

// Shows every node to the validator of the vendor's library, in a child process. `path`: a compiled file, or a float model, which
// is quantized for the target with `precision` (NULL: a8w8+s16) and made-up samples, as far as it takes to know operations and
// shapes. Every reason is listed. Errors: ARGUMENT (unknown target), DEVICE (no library), those of compiling.
ITG_API ITG_MUST_USE itg_status itg_inspect_placement(const char *path, const itg_source_options *source,
                                                      const char *precision, const char *target,
                                                      const char *qnn_directory, itg_diagnostic *diagnostic,
                                                      itg_placement_report *out);
ITG_API void itg_placement_report_free(itg_placement_report *report);

#ifdef __cplusplus
}
#endif
#endif
