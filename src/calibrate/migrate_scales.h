// Migration of scales and shifts from activations into the weights that read them.
#ifndef ITG_CALIBRATE_MIGRATE_SCALES_H
#define ITG_CALIBRATE_MIGRATE_SCALES_H

#include "calibrate/calibrate.h"

// What fully connected layers and convolutions read, x, becomes (x - shift_c) / scale_c with one scale and shift a
// channel, and their weights and biases take both back: exact in real arithmetic. Where a LayerNorm makes x for nobody
// else, its parameters take the scale and shift; elsewhere, and only when `insert` allows it, an AFFINE does: it reads x in
// 16 bits and stands where the conversion to operand_bits (8 or 16) would. `statistics` are those of the graph's first calibration
// pass (channel ranges and sums). *changed: tensors were added or rescaled, so that all statistics are out of date.
// Uses tensor->index. Errors: MEMORY. A graph may be left half rewritten by an error.
ITG_MUST_USE itg_status itg_migrate_scales(itg_graph *graph, const itg_statistics *statistics, int32_t operand_bits,
                                           bool insert, bool *changed, itg_diagnostic *diagnostic);

#endif
