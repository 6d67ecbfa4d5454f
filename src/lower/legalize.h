// From QUANTIZED to LEGAL: Converts inserted, every node becomes the integer dialect (graph/integer_ops.h).
#ifndef ITG_LOWER_LEGALIZE_H
#define ITG_LOWER_LEGALIZE_H

#include "graph/graph.h"
#include "npu/target.h"

// A new graph (the quantized one is left as it is): inputs and outputs keep names and order; every multiplier, shift, table
// and accumulator bound is computed here from doubles and stored, so running needs no float. Proves |acc| < 2^31 from the
// actual weights or marks the node wide. Refuses by node and rule what the arithmetic does not have.
// For an NPU (target not NULL) nothing is fused that its operations cannot do.
// Errors: UNSUPPORTED, QUANTIZATION, MEMORY.
ITG_MUST_USE itg_status itg_legalize(const itg_graph *quantized, const itg_target *target, itg_diagnostic *diagnostic,
                                     itg_graph **out);

#endif
