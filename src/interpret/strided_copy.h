// Copies a strided view of one dense tensor into another dense tensor: the engine of all rearrangements.
#ifndef ITG_INTERPRET_STRIDED_COPY_H
#define ITG_INTERPRET_STRIDED_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "graph/graph.h"

enum { ITG_VIEW_MAX_RANK = 2 * ITG_MAX_RANK }; // Tiling doubles the dimensions.
typedef struct itg_view {
  int rank;
  int64_t dims[ITG_VIEW_MAX_RANK];    // In the order of the destination.
  int64_t strides[ITG_VIEW_MAX_RANK]; // Of the source, in elements; may be 0 or negative.
  int64_t offset;                     // Of the first element in the source.
} itg_view;

// Drops dimensions of 1 and merges neighbours; keeps the meaning.
void itg_view_simplify(itg_view *view);
// `size` is the element's: 1, 2, 4 or 8.
void itg_view_copy(const itg_view *view, size_t size, const void *source, void *destination);

#endif
