// Runs of a float twin (itg_quantize_with_twin) with changed tensors: how much reaches the outputs.
#ifndef ITG_COMPILE_TWIN_H
#define ITG_COMPILE_TWIN_H

#include "base/parallel.h"
#include "intaglio/compiler.h"
#include "interpret/interpret.h"

// One run; several may be under way, one a thread.
typedef struct itg_twin_lane {
  itg_interpreter_state *state;
  float **outputs; // Of the last run; NULL for outputs that are not float32.
} itg_twin_lane;

typedef struct itg_twin {
  itg_graph *graph;
  itg_arena arena;
  itg_interpreter *interpreter;
  itg_twin_lane *lanes; // As many as the pool has threads.
  size_t lane_count;
  itg_tensor_info *inputs; // [graph->input_count]
  void **values;           // Public values of the sample that was read last.
  void **own;              // The same in the graph's dtypes.
  float **reference;       // Outputs of the unchanged twin for that sample.
} itg_twin;

// Prepares `graph`, which must outlive the twin. Free with itg_twin_close, also after an error.
ITG_MUST_USE itg_status itg_twin_open(itg_graph *graph, itg_pool *pool, itg_diagnostic *diagnostic, itg_twin *out);
void itg_twin_close(itg_twin *twin);
// Reads a sample into values and own.
ITG_MUST_USE itg_status itg_twin_read(itg_twin *twin, const itg_samples *samples, size_t index,
                                      itg_diagnostic *diagnostic);
// Runs the twin on the sample, in the first lane, into twin->reference. The editor (may be NULL) only looks; nothing
// else runs meanwhile.
ITG_MUST_USE itg_status itg_twin_run_reference(itg_twin *twin, itg_interpreter_editor editor, void *context,
                                               itg_diagnostic *diagnostic);
// Squared error of `outputs` against the reference over its squares: the mean of all float outputs.
double itg_twin_loss(const itg_twin *twin, float *const *outputs);

#endif
