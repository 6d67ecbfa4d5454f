// Where accuracy is lost: every step of an integer program against the float twin of its graph.
#ifndef ITG_COMPILE_LAYERS_H
#define ITG_COMPILE_LAYERS_H

#include "base/parallel.h"
#include "graph/graph.h"
#include "intaglio/compiler.h"
#include "report/report.h"

typedef struct itg_layers_options {
  itg_samples samples; // A few of them are used, spread evenly.
  itg_pool *pool;
  itg_progress_function progress; // May be NULL.
  void *progress_context;
} itg_layers_options;

typedef struct itg_layers_result {
  size_t samples; // That were used; 0: nothing was measured, and `reason` says why.
  double
      explained; // Sum of what the single steps bring to the outputs, over the loss of the whole program; NaN: unknown.
  char reason[160];
} itg_layers_result;

// Fills layers[i].loss for the steps of a session of `model` (as many as itg_judge found). `twin` comes from
// itg_quantize_with_twin of the graph that `model` holds; uses tensor->index of it. Deterministic for any thread count.
// Errors: those of the samples, CANCELLED, MEMORY, UNSUPPORTED (an operation the interpreter lacks).
ITG_MUST_USE itg_status itg_layers_measure(itg_graph *twin, const itg_model *model, const itg_layers_options *options,
                                           itg_diagnostic *diagnostic, itg_report_layer *layers, size_t layer_count,
                                           itg_layers_result *out);

#endif
