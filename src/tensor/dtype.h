// Element types and static shapes.
#ifndef ITG_TENSOR_DTYPE_H
#define ITG_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intaglio/intaglio.h" // itg_dtype, ITG_MAX_RANK, itg_shape

// Bytes an element takes; 0 for ITG_DTYPE_S4 (two a byte) and ITG_DTYPE_NONE.
size_t itg_dtype_size(itg_dtype dtype);
bool itg_dtype_is_float(itg_dtype dtype);
bool itg_dtype_is_valid(int dtype); // Accepts any integer; for values read from files.

// Number of elements; false on overflow or a negative dimension. A scalar has rank 0 and one element.
bool itg_shape_count(const itg_shape *shape, size_t *count);
// Bytes of a dense tensor (s4 rounds up to whole bytes); false on overflow.
bool itg_shape_bytes(const itg_shape *shape, itg_dtype dtype, size_t *bytes);
bool itg_shape_equal(const itg_shape *a, const itg_shape *b);
itg_shape itg_shape_of(int rank, const int64_t *dims); // rank <= ITG_MAX_RANK
// "1x3x112x112", "scalar" for rank 0; returns `text`.
const char *itg_shape_print(const itg_shape *shape, char *text, size_t size);
// Multidirectional (NumPy) broadcasting; false when the shapes do not fit.
bool itg_shape_broadcast(const itg_shape *a, const itg_shape *b, itg_shape *out);

#endif
