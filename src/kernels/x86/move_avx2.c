// Strided copies: transposes, slices, expansions (AVX2). No arithmetic; the work is in the order of the loops.
//
// Dimensions that continue each other are joined first. Rows whose elements are neighbours are copied whole; three planes are
// interleaved (pictures to channels-last); a transposed inner pair goes tile by tile.
#include <immintrin.h>

#include "graph/graph.h"
#include "kernels/task.h"

enum { MAX_DIMS = 2 * ITG_TASK_MAX_RANK, UNIT_ELEMENTS = 8192, TILE_EDGE = 16 };

typedef struct {
  int32_t rank; // At least 2.
  int64_t dims[MAX_DIMS + 2], stride[MAX_DIMS + 2];
  int64_t rows; // The product of all but the last.
} joined;

static joined join_dims(const itg_copy_task *t) {
  joined j = {0};
  for (int32_t d = 0; d < t->rank; d++) {
    if (t->dims[d] == 1) continue;
    if (j.rank > 0 && j.stride[j.rank - 1] == t->dims[d] * t->stride[d]) {
      j.dims[j.rank - 1] *= t->dims[d];
      j.stride[j.rank - 1] = t->stride[d];
      continue;
    }
    j.dims[j.rank] = t->dims[d];
    j.stride[j.rank++] = t->stride[d];
  }
  if (j.rank == 0) {
    j.dims[0] = 1;
    j.stride[0] = 1;
    j.rank = 1;
  }
  if (j.rank == 1) {
    // One long run is cut where it divides, so that threads can share it.
    int64_t inner = j.dims[0];
    while (inner > UNIT_ELEMENTS && inner % 2 == 0) inner /= 2;
    j.dims[1] = inner;
    j.stride[1] = j.stride[0];
    j.dims[0] /= inner;
    j.stride[0] *= inner;
    j.rank = 2;
  }
  j.rows = 1;
  for (int32_t d = 0; d < j.rank - 1; d++) j.rows *= j.dims[d];
  return j;
}

static int64_t rows_each(const joined *j) {
  const int64_t inner = j->dims[j->rank - 1];
  return inner >= UNIT_ELEMENTS || inner < 1 ? 1 : UNIT_ELEMENTS / inner;
}

static size_t copy_units(const itg_task *task) {
  const joined j = join_dims(&task->copy);
  const int64_t each = rows_each(&j);
  return (size_t)((j.rows + each - 1) / each);
}

static int64_t row_offset(const joined *j, int64_t row) {
  int64_t offset = 0;
  for (int32_t d = j->rank - 2; d >= 0; d--) {
    offset += row % j->dims[d] * j->stride[d];
    row /= j->dims[d];
  }
  return offset;
}

// out[c + 3*x] = in[x + c*plane] for x < count.
static void interleave3(uint8_t *out, const uint8_t *in, int64_t plane, int64_t count) {
  const __m128i from_r[3] = {_mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),
                             _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
                             _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1)};
  const __m128i from_g[3] = {_mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1),
                             _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10),
                             _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1)};
  const __m128i from_b[3] = {_mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1),
                             _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1),
                             _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)};
  int64_t x = 0;
  for (; x + 16 <= count; x += 16) {
    const __m128i r = _mm_loadu_si128((const __m128i *)(const void *)(in + x));
    const __m128i g = _mm_loadu_si128((const __m128i *)(const void *)(in + plane + x));
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(in + 2 * plane + x));
    for (int i = 0; i < 3; i++) {
      const __m128i mixed = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, from_r[i]), _mm_shuffle_epi8(g, from_g[i])),
                                         _mm_shuffle_epi8(b, from_b[i]));
      _mm_storeu_si128((__m128i *)(void *)(out + 3 * x + 16 * i), mixed);
    }
  }
  for (; x < count; x++) {
    for (int64_t c = 0; c < 3; c++) out[3 * x + c] = in[x + c * plane];
  }
}

// `rows` output rows of `inner` elements whose source steps are `row_step` and `step`, in tiles.
#define COPY_BLOCK(type)                                                                                   \
  static void copy_block_##type(void *to, const void *from, int64_t rows, int64_t inner, int64_t row_step, \
                                int64_t step) {                                                            \
    type *out = to;                                                                                        \
    const type *in = from;                                                                                 \
    for (int64_t c0 = 0; c0 < inner; c0 += TILE_EDGE) {                                                    \
      const int64_t c1 = c0 + TILE_EDGE < inner ? c0 + TILE_EDGE : inner;                                  \
      for (int64_t r = 0; r < rows; r++) {                                                                 \
        for (int64_t c = c0; c < c1; c++) out[r * inner + c] = in[r * row_step + c * step];                \
      }                                                                                                    \
    }                                                                                                      \
  }
COPY_BLOCK(uint8_t)
COPY_BLOCK(uint16_t)
COPY_BLOCK(uint32_t)
COPY_BLOCK(uint64_t)
#undef COPY_BLOCK

static void copy_block(uint8_t *out, const uint8_t *in, int32_t size, int64_t rows, int64_t inner, int64_t row_step,
                       int64_t step) {
  if (step == 1) {
    for (int64_t r = 0; r < rows; r++)
      __builtin_memcpy(out + r * inner * size, in + r * row_step * size, (size_t)(inner * size));
  } else if (size == 1 && inner == 3 && row_step == 1) {
    interleave3(out, in, step, rows);
  } else if (size == 1) {
    copy_block_uint8_t(out, in, rows, inner, row_step, step);
  } else if (size == 2) {
    copy_block_uint16_t(out, in, rows, inner, row_step, step);
  } else if (size == 4) {
    copy_block_uint32_t(out, in, rows, inner, row_step, step);
  } else {
    copy_block_uint64_t(out, in, rows, inner, row_step, step);
  }
}

// The buffers are as aligned as their elements.
static bool copy_supports(const itg_task *task) {
  const int32_t size = task->copy.element_size;
  return size == 1 || size == 2 || size == 4 || size == 8;
}

static void copy_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_copy_task *t = &task->copy;
  const joined j = join_dims(t);
  const int64_t each = rows_each(&j), inner = j.dims[j.rank - 1], near = j.dims[j.rank - 2];
  int64_t row = (int64_t)begin * each, last = (int64_t)end * each;
  if (last > j.rows) last = j.rows;
  const uint8_t *in = (const uint8_t *)call->inputs[0] + t->offset * t->element_size;
  while (row < last) {
    // Rows up to the end of the second innermost dimension are one block.
    const int64_t rest = near - row % near, count = last - row < rest ? last - row : rest;
    copy_block((uint8_t *)call->outputs[0] + row * inner * t->element_size, in + row_offset(&j, row) * t->element_size,
               t->element_size, count, inner, j.stride[j.rank - 2], j.stride[j.rank - 1]);
    row += count;
  }
}

#define COPY_KERNEL(symbol, operation)                  \
  const itg_kernel symbol = {.name = #symbol,           \
                             .op = operation,           \
                             .isa = ITG_ISA_AVX2,       \
                             .supports = copy_supports, \
                             .units = copy_units,       \
                             .run = copy_run}
COPY_KERNEL(itg_identity__avx2, ITG_OP_IDENTITY);
COPY_KERNEL(itg_reshape__avx2, ITG_OP_RESHAPE);
COPY_KERNEL(itg_transpose__avx2, ITG_OP_TRANSPOSE);
COPY_KERNEL(itg_slice__avx2, ITG_OP_SLICE);
COPY_KERNEL(itg_expand__avx2, ITG_OP_EXPAND);
COPY_KERNEL(itg_tile__avx2, ITG_OP_TILE);
COPY_KERNEL(itg_depth_to_space__avx2, ITG_OP_DEPTH_TO_SPACE);
COPY_KERNEL(itg_space_to_depth__avx2, ITG_OP_SPACE_TO_DEPTH);
