// One part of a language model (a layer, a head) through the whole compiler, with the activations of all samples going in as
// floats and coming out as floats: so a model is compiled with one layer's weights in memory.
#ifndef ITG_COMPILE_LANGUAGE_SEGMENT_H
#define ITG_COMPILE_LANGUAGE_SEGMENT_H

#include "base/parallel.h"
#include "graph/graph.h"
#include "npu/target.h"
#include "quantize/recipe.h"
#include "text/language_config.h"

// What one sample is at one point of the model: [rows, width] floats (pixels: one row).
typedef struct itg_activations {
  float *values; // malloc'ed
  int64_t rows;
  size_t width;
} itg_activations;

// The samples on their way. The first `calibrating` of them set ranges; all come out at the other end.
typedef struct itg_stream {
  itg_activations *samples;
  size_t count, calibrating;
} itg_stream;
void itg_stream_free(itg_stream *stream);
// Most rows of a sample; 0 for none.
int64_t itg_stream_longest(const itg_stream *stream);

typedef struct itg_segment_options {
  const itg_language_config *config;
  const itg_recipe *recipe;
  const itg_target *target; // NULL: our own kernels.
  itg_pool *pool;
  int64_t rows, context; // Of the compiled graph; rows 0: those it was built for.
  bool keep_outputs;     // The stream moves on. Else it stays where it is.
  const char *stage;     // For the progress.
  itg_progress_function progress;
  void *progress_context;
} itg_segment_options;

// `graph` (stage IMPORTED, consumed whatever happens) takes a sample's values as input 0; its rows are at least those of the
// longest sample. Tables start at position 0, states have no past. The LEGAL result is appended to `artifact`; *output is its
// output there. Errors: those of calibrating, quantizing and legalizing.
ITG_MUST_USE itg_status itg_segment_compile(itg_graph *graph, const itg_segment_options *options, itg_stream *stream,
                                            itg_graph *artifact, itg_diagnostic *diagnostic, itg_tensor **output);

// A float graph as it was built, run on sequences; used where nothing is compiled.
typedef struct itg_float_segment itg_float_segment;
// `graph` is borrowed. Errors: those of the interpreter.
ITG_MUST_USE itg_status itg_float_segment_create(const itg_graph *graph, const itg_language_config *config,
                                                 itg_pool *pool, itg_diagnostic *diagnostic, itg_float_segment **out);
void itg_float_segment_destroy(itg_float_segment *segment);
// Replaces the values of samples [first, end) by the graph's output.
ITG_MUST_USE itg_status itg_float_segment_run(itg_float_segment *segment, itg_activations *samples, size_t first,
                                              size_t end, itg_diagnostic *diagnostic);

#endif
