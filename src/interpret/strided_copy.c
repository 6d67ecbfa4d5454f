// Strided copies; see strided_copy.h.
#include "interpret/strided_copy.h"

#include <string.h>

#include "base/checked.h"

enum { TILE = 16 }; // Both sides of a transposed tile stay in the first-level cache.

void itg_view_simplify(itg_view *view) {
  int rank = 0;
  for (int i = 0; i < view->rank; i++) {
    const int64_t dim = view->dims[i], stride = view->strides[i];
    if (dim == 1) continue;
    if (rank > 0 && view->strides[rank - 1] == stride * dim) {
      view->dims[rank - 1] *= dim;
      view->strides[rank - 1] = stride;
    } else {
      view->dims[rank] = dim;
      view->strides[rank] = stride;
      rank++;
    }
  }
  if (rank == 0) {
    view->dims[0] = 1;
    view->strides[0] = 1;
    rank = 1;
  }
  view->rank = rank;
}

#define RUN(type)                                                                                            \
  static void run_##type(const type *x, int64_t stride, type *y, int64_t count) {                            \
    if (stride == 0) {                                                                                       \
      const type value = x[0];                                                                               \
      for (int64_t i = 0; i < count; i++) y[i] = value;                                                      \
    } else {                                                                                                 \
      for (int64_t i = 0; i < count; i++) y[i] = x[i * stride];                                              \
    }                                                                                                        \
  }                                                                                                          \
  static void transpose_##type(const type *x, int64_t rows, int64_t columns, int64_t column_stride, type *y, \
                               int64_t row_pitch) {                                                          \
    for (int64_t r0 = 0; r0 < rows; r0 += TILE) {                                                            \
      const int64_t r1 = itg_min_i64(rows, r0 + TILE);                                                       \
      for (int64_t c0 = 0; c0 < columns; c0 += TILE) {                                                       \
        const int64_t c1 = itg_min_i64(columns, c0 + TILE);                                                  \
        for (int64_t r = r0; r < r1; r++) {                                                                  \
          for (int64_t c = c0; c < c1; c++) y[r * row_pitch + c] = x[c * column_stride + r];                 \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
  }
RUN(uint8_t)
RUN(uint16_t)
RUN(uint32_t)
RUN(uint64_t)

static void copy_run(size_t size, const char *x, int64_t stride, char *y, int64_t count) {
  if (stride == 1) {
    memcpy(y, x, (size_t)count * size);
    return;
  }
  switch (size) {
  case 1: run_uint8_t((const void *)x, stride, (void *)y, count); break;
  case 2: run_uint16_t((const void *)x, stride, (void *)y, count); break;
  case 4: run_uint32_t((const void *)x, stride, (void *)y, count); break;
  default: run_uint64_t((const void *)x, stride, (void *)y, count); break;
  }
}

static void copy_transposed(size_t size, const char *x, int64_t rows, int64_t columns, int64_t column_stride, char *y,
                            int64_t row_pitch) {
  switch (size) {
  case 1: transpose_uint8_t((const void *)x, rows, columns, column_stride, (void *)y, row_pitch); break;
  case 2: transpose_uint16_t((const void *)x, rows, columns, column_stride, (void *)y, row_pitch); break;
  case 4: transpose_uint32_t((const void *)x, rows, columns, column_stride, (void *)y, row_pitch); break;
  default: transpose_uint64_t((const void *)x, rows, columns, column_stride, (void *)y, row_pitch); break;
  }
}

void itg_view_copy(const itg_view *view, size_t size, const void *source, void *destination) {
  int64_t pitch[ITG_VIEW_MAX_RANK], index[ITG_VIEW_MAX_RANK] = {0}, running = 1;
  for (int i = view->rank - 1; i >= 0; i--) {
    pitch[i] = running;
    running *= view->dims[i];
  }
  if (running == 0) return;
  const int inner = view->rank - 1;
  // When the innermost run is strided and another dimension is contiguous in the source, both are walked in tiles.
  int row = -1;
  if (view->strides[inner] != 1 && view->strides[inner] != 0) {
    for (int i = 0; i < inner; i++) {
      if (view->strides[i] == 1) row = i;
    }
  }
  const char *x = (const char *)source + view->offset * (int64_t)size;
  char *y = destination;
  for (;;) {
    if (row >= 0)
      copy_transposed(size, x, view->dims[row], view->dims[inner], view->strides[inner], y, pitch[row]);
    else
      copy_run(size, x, view->strides[inner], y, view->dims[inner]);
    int d = inner - 1;
    for (; d >= 0; d--) {
      if (d == row) continue;
      x += view->strides[d] * (int64_t)size;
      y += pitch[d] * (int64_t)size;
      if (++index[d] < view->dims[d]) break;
      x -= view->strides[d] * view->dims[d] * (int64_t)size;
      y -= pitch[d] * view->dims[d] * (int64_t)size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}
