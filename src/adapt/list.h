// The rewrites of adapt/, one a file.
#ifndef ITG_ADAPT_LIST_H
#define ITG_ADAPT_LIST_H

#include "graph/graph.h"

// QUANTIZE_LINEAR followed by DEQUANTIZE_LINEAR becomes the encoding of its tensor.
ITG_MUST_USE itg_status itg_adapt_absorb_quantization(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// INSTANCE_NORM and GROUP_NORM become LAYER_NORM between movement, and AFFINE.
ITG_MUST_USE itg_status itg_adapt_decompose_norms(itg_graph *graph, itg_diagnostic *diagnostic);
// ADD followed by one AFFINE becomes ADD_AFFINE.
ITG_MUST_USE itg_status itg_adapt_add_affine(itg_graph *graph, itg_diagnostic *diagnostic);
// PRELU and LEAKY activations of convolutions and fully connected layers become nodes behind them.
ITG_MUST_USE itg_status itg_adapt_split_slopes(itg_graph *graph, itg_diagnostic *diagnostic);
// SILU and QUICK_GELU become SIGMOID and MUL.
ITG_MUST_USE itg_status itg_adapt_split_gates(itg_graph *graph, itg_diagnostic *diagnostic);

#endif
