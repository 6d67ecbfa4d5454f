// From CANONICAL to ADAPTED: the float graph that the target can hold. Rewrites are exact in real arithmetic.
#ifndef ITG_ADAPT_ADAPT_H
#define ITG_ADAPT_ADAPT_H

#include "graph/graph.h"
#include "npu/target.h"

// Adapts to our own integer kernels (target NULL): an Add whose sum goes through a per-channel Affine (the BatchNorm that
// reads a residual stream) becomes AddAffine with both results. Adapts to an NPU: slopes (PRelu, LeakyRelu) fused into
// convolutions become nodes of their own, SiLU and QuickGELU a Sigmoid and a Mul, and sums keep one output. Verifies; leaves stage ADAPTED.
// For both, InstanceNorm and GroupNorm become LayerNorm and Affine.
// Quantize-dequantize pairs of models that were quantized elsewhere become encodings first (the one rewrite that takes
// roundings away: the integer program puts them back).
// Errors: MEMORY, those of itg_graph_verify.
ITG_MUST_USE itg_status itg_adapt_run(itg_graph *graph, const itg_target *target, itg_diagnostic *diagnostic);

#endif
