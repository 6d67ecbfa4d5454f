// The register tile of the matrix products: rows of codes times a packed block of channels (template; included by gemm.h and
// matmul.h).
//
// A packed block is the parameters of its vectors, then weights [step][vector][lane][tap]: four u8 x s8 a lane and step
// (v_dot_bytes), or two (u16 - 32768) x s16 (v_dot_words). Rows are read in whole steps: what lies behind a row's end, less than
// ITG_KERNEL_SLACK, meets zero weights.
#ifndef ITG_KERNELS_X86_TILE_H
#define ITG_KERNELS_X86_TILE_H

#include "kernels/x86/rescale.h"

enum { WIDE_STEPS = 126 }; // 126 pairs of s16 x s9 fit 32 bits.

// RQ64 of 64-bit accumulators; `step` 1: an entry a channel, 0: one for all.
typedef struct {
  const int32_t *multiplier, *shift, *negative_multiplier, *negative_shift;
  size_t step;
  int32_t pre_shift;
} wide_rescale;

static inline size_t steps_of(size_t k, bool words) { return words ? (k + 1) / 2 : (k + 3) / 4; }
static inline size_t step_bytes_of(bool words) { return words ? VECTOR_BYTES : DOT_BYTES; }
static inline size_t block_bytes(size_t vectors, size_t k, bool words) {
  return vectors * (PARAMETER_BYTES + steps_of(k, words) * step_bytes_of(words));
}

// One register tile: `rows` pixels of one block of channels.
typedef struct {
  const uint8_t *rows[8];
  size_t steps;
  const uint8_t *block; // Packed parameters and weights.
  uint8_t *out;
  size_t out_stride; // Bytes between pixels.
  size_t channels;
  bool words; // u16 rows
  ending end;
  const wide_rescale *wide; // NULL: 32-bit accumulators.
} tile;

VECTOR_INLINE void run_tile(const tile *t, const int rows, const int vectors, const bool words) {
  vector acc[8 * 4];
  const uint8_t *weights = t->block + vectors * PARAMETER_BYTES;
  const int step_bytes = words ? VECTOR_BYTES : DOT_BYTES;
  const uint8_t *in[8];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) in[r] = t->rows[r];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    const vector bias = v_load(t->block + v * PARAMETER_BYTES + PARAMETER_BIAS * LANES * 4);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) acc[r * vectors + v] = bias;
  }
  const vector half = v_set16(-32768);
  for (size_t k = 0; k < t->steps; k++) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const vector x = v_broadcast32(in[r] + 4 * k);
      if (words) {
        const vector centred = v_xor(x, half);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
          acc[r * vectors + v] = v_dot_words(acc[r * vectors + v], centred, weights + v * step_bytes);
      } else {
        const bytes4 prepared = v_prepare_bytes(x);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
          acc[r * vectors + v] = v_dot_bytes(acc[r * vectors + v], prepared, weights + v * step_bytes);
      }
    }
    weights += vectors * step_bytes;
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++)
    rescale_vector(acc + v, rows, vectors, (const int32_t *)(const void *)(t->block + v * PARAMETER_BYTES), &t->end);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
    store_block(acc + r * vectors, vectors, &t->end, t->out + (size_t)r * t->out_stride, t->channels);
}

typedef void (*tile_function)(const tile *);
#define TILE(rows, vectors)                                                                       \
  static void tile_bytes_##rows##_##vectors(const tile *t) { run_tile(t, rows, vectors, false); } \
  static void tile_words_##rows##_##vectors(const tile *t) { run_tile(t, rows, vectors, true); }
#define ENTRY(rows, vectors) \
  { tile_bytes_##rows##_##vectors, tile_words_##rows##_##vectors }
TILE(1, 4)
TILE(2, 4)
TILE(3, 4)
TILE(1, 2)
TILE(2, 2)
TILE(3, 2)
TILE(4, 2)
TILE(5, 2)
TILE(1, 1)
TILE(2, 1)
TILE(3, 1)
TILE(4, 1)
TILE(5, 1)
TILE(6, 1)
TILE(7, 1)
TILE(8, 1)
#if LANES_16
TILE(4, 4)
TILE(5, 4)
TILE(6, 4)
TILE(6, 2)
TILE(7, 2)
TILE(8, 2)
#endif

// By vectors (1, 2, 4), rows - 1, words.
static const tile_function tiles[3][8][2] = {
    {ENTRY(1, 1), ENTRY(2, 1), ENTRY(3, 1), ENTRY(4, 1), ENTRY(5, 1), ENTRY(6, 1), ENTRY(7, 1), ENTRY(8, 1)},
#if LANES_16
    {ENTRY(1, 2), ENTRY(2, 2), ENTRY(3, 2), ENTRY(4, 2), ENTRY(5, 2), ENTRY(6, 2), ENTRY(7, 2), ENTRY(8, 2)},
    {ENTRY(1, 4), ENTRY(2, 4), ENTRY(3, 4), ENTRY(4, 4), ENTRY(5, 4), ENTRY(6, 4)},
#else
    {ENTRY(1, 2), ENTRY(2, 2), ENTRY(3, 2), ENTRY(4, 2), ENTRY(5, 2)},
    {ENTRY(1, 4), ENTRY(2, 4), ENTRY(3, 4)},
#endif
};
#undef TILE
#undef ENTRY
static const size_t tile_rows[3] = {TILE_ROWS_1, TILE_ROWS_2, TILE_ROWS_4};

// 64-bit accumulators: partial sums that fit 32 bits, added in 64; one pixel at a time. In a wide block the first bytes of
// a vector's parameters are its 64-bit biases.
static void run_wide(const tile *t, size_t vectors, size_t first_channel) {
  const wide_rescale *w = t->wide;
  const size_t step_bytes = t->words ? VECTOR_BYTES : DOT_BYTES;
  const vector half = v_set16(-32768);
  for (size_t v = 0; v < vectors; v++) {
    int64_t sums[LANES];
    __builtin_memcpy(sums, t->block + v * PARAMETER_BYTES, sizeof sums);
    const uint8_t *weights = t->block + vectors * PARAMETER_BYTES + v * step_bytes;
    for (size_t k = 0; k < t->steps;) {
      const size_t last = t->steps - k < WIDE_STEPS ? t->steps : k + WIDE_STEPS;
      vector acc = v_zero();
      for (; k < last; k++, weights += vectors * step_bytes) {
        const vector x = v_broadcast32(t->rows[0] + 4 * k);
        acc = t->words ? v_dot_words(acc, v_xor(x, half), weights) : v_dot_bytes(acc, v_prepare_bytes(x), weights);
      }
      int32_t part[LANES];
      v_store(part, acc);
      for (size_t lane = 0; lane < LANES; lane++) sums[lane] += part[lane];
    }
    for (size_t lane = 0; lane < LANES; lane++) {
      const size_t channel = lane_channel(vectors, v, lane);
      if (channel >= t->channels) continue;
      const size_t o = (first_channel + channel) * w->step;
      const bool negative = w->negative_multiplier && sums[lane] < 0;
      const int32_t code = itg_requantize64(sums[lane], negative ? w->negative_multiplier[o] : w->multiplier[o],
                                            negative ? w->negative_shift[o] : w->shift[o], w->pre_shift, t->end.zero,
                                            t->end.low, t->end.high);
      if (t->end.words) {
        ((uint16_t *)(void *)t->out)[channel] = (uint16_t)code;
      } else {
        t->out[channel] = (uint8_t)code;
      }
    }
  }
}

// `count` rows in tiles of nearly equal height; `out` is the first row's first channel of the block.
static void run_rows(tile *t, size_t vectors, size_t first_channel, const uint8_t *const *rows, uint8_t *out,
                     size_t count) {
  if (t->wide) {
    for (size_t r = 0; r < count; r++) {
      t->rows[0] = rows[r];
      t->out = out + r * t->out_stride;
      run_wide(t, vectors, first_channel);
    }
    return;
  }
  const size_t index = vectors == 4 ? 2 : vectors - 1;
  const size_t parts = (count + tile_rows[index] - 1) / tile_rows[index];
  for (size_t i = 0, r = 0; i < parts; i++) {
    const size_t next = (i + 1) * count / parts;
    for (size_t j = r; j < next; j++) t->rows[j - r] = rows[j];
    t->out = out + r * t->out_stride;
    tiles[index][next - r - 1][t->words](t);
    r = next;
  }
}

#endif
