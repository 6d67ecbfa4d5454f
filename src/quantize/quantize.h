// From CALIBRATED to QUANTIZED: every activation gets an encoding, constants become integers.
#ifndef ITG_QUANTIZE_QUANTIZE_H
#define ITG_QUANTIZE_QUANTIZE_H

#include "calibrate/calibrate.h"
#include "graph/graph.h"
#include "npu/target.h"
#include "quantize/recipe.h"

// Chooses encodings by the recipe (shared across views, pools, concat), quantizes weights (s8, symmetric, per output
// channel) and biases (s32, scale s_x*s_w). Activation tensors keep dtype F32 and carry `encoding`; weight constants are
// replaced by s8 ones with an axis encoding. Deterministic, byte for byte, for any thread count.
// For an NPU (target not NULL) operands and results of one operation get equal bits where its kernels ask for that.
// Errors: QUANTIZATION, UNSUPPORTED (names the node), MEMORY.
ITG_MUST_USE itg_status itg_quantize(itg_graph *graph, const itg_statistics *statistics, const itg_recipe *recipe,
                                     const itg_target *target, itg_pool *pool, itg_diagnostic *diagnostic);
// The same; *twin becomes a copy of the graph as it is before its constants are made integers: every activation has its encoding
// and the interpreter can still run it, so that float and integer values can be compared tensor by tensor. It borrows
// constants of `graph`, which must outlive it.
ITG_MUST_USE itg_status itg_quantize_with_twin(itg_graph *graph, const itg_statistics *statistics,
                                               const itg_recipe *recipe, const itg_target *target, itg_pool *pool,
                                               itg_diagnostic *diagnostic, itg_graph **twin);

#endif
