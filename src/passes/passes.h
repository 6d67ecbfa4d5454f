// Exact rewrites from IMPORTED to CANONICAL. One file a pass; pipeline.c is the readable list.
#ifndef ITG_PASSES_PASSES_H
#define ITG_PASSES_PASSES_H

#include "graph/graph.h"

// One rewrite: leaves the graph equal in real arithmetic and verifiable. Sets *changed when it did something.
typedef itg_status (*itg_pass_function)(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);

typedef struct itg_pass {
  const char *name; // For --dump-after.
  itg_pass_function run;
} itg_pass;

// The list in order, and its length.
const itg_pass *itg_pass_list(size_t *count);

// Called after each pass that changed the graph.
typedef void (*itg_pass_observer)(void *context, const char *pass, const itg_graph *graph);

// Runs the list (with the fixed points inside it), verifying after each pass; leaves stage CANONICAL:
// constants folded, BatchNorm behind a convolution folded, remaining ones AFFINE, convolutions and pools NHWC with spatial
// rank 2 (1-D gets a unit dimension), MatMul/Gemm with constant right sides FULLY_CONNECTED, activations fused, LayerNorm,
// RMSNorm, GELU, SiLU, HardSwish, pixel shuffle recognised, reshapes and transposes cleaned up.
ITG_MUST_USE itg_status itg_passes_run(itg_graph *graph, itg_pass_observer observer, void *context,
                                       itg_diagnostic *diagnostic);

#endif
