// Folding a per-channel gain and offset into the operation that writes the channels.
#ifndef ITG_PASSES_CHANNEL_AFFINE_H
#define ITG_PASSES_CHANNEL_AFFINE_H

#include "graph/graph.h"

// The dimension of the output that holds the output channels of CONV, CONV_TRANSPOSE (either layout) or FULLY_CONNECTED.
int32_t itg_output_channel_axis(const itg_node *node);
// Whether itg_fold_channel_affine applies: such a node with constant f32 or f64 weights, constant or absent bias and no fused
// activation.
bool itg_accepts_channel_affine(const itg_node *node);
// Makes the node compute gain[o]*y[o] + offset[o] instead of y[o], by changing weights and bias (products in double).
// gain and offset: one number an output channel; NULL stands for 1 and 0. Weights are copied once in a pass (rewrite.h, own
// constants: the pass must have called itg_forget_own_constants).
ITG_MUST_USE itg_status itg_fold_channel_affine(itg_graph *graph, itg_node *node, const double *gain,
                                                const double *offset, itg_diagnostic *diagnostic);

#endif
