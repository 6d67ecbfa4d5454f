// Loops over broadcast operands: the dimensions that all operands walk alike are merged, so that inner loops are long.
#ifndef ITG_INTERPRET_BROADCAST_H
#define ITG_INTERPRET_BROADCAST_H

#include "graph/graph.h"

enum { ITG_BROADCAST_OPERANDS = 3 };
typedef struct itg_broadcast {
  int rank;                                              // >= 1
  int64_t dims[ITG_MAX_RANK];                            // Of the output, merged.
  int64_t strides[ITG_BROADCAST_OPERANDS][ITG_MAX_RANK]; // Elements; the innermost is 0 or 1.
  int operands;
} itg_broadcast;

// Each of `shapes` broadcasts to `output`.
void itg_broadcast_plan(const itg_shape *output, const itg_shape *const *shapes, int operands, itg_broadcast *out);

// Calls inner(context, offsets, output offset) for each run of dims[rank - 1] elements.
typedef void (*itg_broadcast_inner)(void *context, const int64_t *offsets, int64_t output_offset);
void itg_broadcast_walk(const itg_broadcast *broadcast, itg_broadcast_inner inner, void *context);

#endif
