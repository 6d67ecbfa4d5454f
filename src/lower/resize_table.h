// Index and weight tables of Resize (docs/ARITHMETIC.md 3).
#ifndef ITG_LOWER_RESIZE_TABLE_H
#define ITG_LOWER_RESIZE_TABLE_H

#include "graph/attributes.h"

enum { ITG_RESIZE_WEIGHT_ONE = 2048 };

// For each of the `out` positions of dimension d: index[2*i] and index[2*i+1] in 0..in-1, weight[i] in 0..2048 of the second.
// Coordinates after the ONNX operator's definition; modes nearest and linear.
void itg_resize_table(const itg_resize_attributes *resize, int32_t d, int64_t in, int64_t out, int32_t *index,
                      int32_t *weight);

#endif
