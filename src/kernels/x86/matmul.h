// Matrix product of two activations (template; included by matmul_<isa>.c).
//
// b is packed into scratch once a unit, as gemm.h packs weights: s8 codes for u8 rows, b - zero for u16 rows. A unit is one
// matrix, or a part of its rows where there are few matrices. acc = sum(a*b) - zero_a*sum(b).
#ifndef ITG_KERNELS_X86_MATMUL_H
#define ITG_KERNELS_X86_MATMUL_H

#include "graph/graph.h"
#include "kernels/x86/tile.h"

enum { MATMUL_HEADER = 64, MANY_MATRICES = 8, PART_ROWS = 64, MATMUL_ROWS = 24 };

typedef struct {
  size_t k, n, steps, step_bytes, parts;
  bool words;
} matmul_shape;

static inline matmul_shape matmul_shape_of(const itg_matmul_task *t) {
  matmul_shape s = {.k = (size_t)t->k, .n = (size_t)t->n, .words = t->a_type == ITG_TASK_U16, .parts = 1};
  s.steps = s.words ? (s.k + 1) / 2 : (s.k + 3) / 4;
  s.step_bytes = s.words ? VECTOR_BYTES : DOT_BYTES;
  if (t->batch < MANY_MATRICES) s.parts = ((size_t)t->m + PART_ROWS - 1) / PART_ROWS;
  if (s.parts < 1) s.parts = 1;
  return s;
}

// u8 rows need symmetric columns: s8, or u8 around 128.
static bool matmul_supports(const itg_task *task) {
  const itg_matmul_task *t = &task->matmul;
  const bool out = t->out_type == ITG_TASK_U8 || t->out_type == ITG_TASK_U16;
  if (!out || (t->b_type != ITG_TASK_U8 && t->b_type != ITG_TASK_S8)) return false;
  if (t->a_type == ITG_TASK_U16) return true;
  return t->a_type == ITG_TASK_U8 && t->b_zero == (t->b_type == ITG_TASK_U8 ? 128 : 0);
}

// Packed: header, then the parameters of a vector without bias.
static size_t matmul_packed_size(const itg_task *task) {
  (void)task;
  return MATMUL_HEADER + PARAMETER_BYTES;
}

static void matmul_pack(const itg_task *task, void *packed) {
  const itg_matmul_task *t = &task->matmul;
  const int64_t fast = fits_folded(t->multiplier, t->shift, t->out_zero);
  __builtin_memset(packed, 0, MATMUL_HEADER + PARAMETER_BYTES);
  __builtin_memcpy(packed, &fast, sizeof fast);
  int32_t *p = (int32_t *)(void *)((uint8_t *)packed + MATMUL_HEADER);
  for (size_t lane = 0; lane < LANES; lane++) {
    pack_side(p + PARAMETER_MULTIPLIER * LANES, lane, t->multiplier, t->shift, t->out_zero, fast ? FOLDED : GENERAL);
    pack_side(p + PARAMETER_NEGATIVE * LANES, lane, 0, 33, t->out_zero, fast ? FOLDED : GENERAL);
  }
}

static size_t matmul_scratch_size(const itg_task *task) {
  const matmul_shape s = matmul_shape_of(&task->matmul);
  const size_t vectors = (s.n + LANES - 1) / LANES + 3; // The last block may be wider than what is left.
  return vectors * (PARAMETER_BYTES + s.steps * s.step_bytes);
}

static size_t matmul_units(const itg_task *task) {
  return (size_t)task->matmul.batch * matmul_shape_of(&task->matmul).parts;
}

// One block of columns [first, first + count) of b.
static void pack_columns(const itg_matmul_task *t, const matmul_shape *s, const uint8_t *b, const void *parameters,
                         size_t first, size_t count, size_t vectors, uint8_t *block) {
  uint8_t *weights = block + vectors * PARAMETER_BYTES;
  const size_t taps = s->words ? 2 : 4;
  const size_t column = t->transpose_b ? s->k : 1, row = t->transpose_b ? 1 : s->n;
  // s8 codes: u8 around 128 becomes s8 by its top bit. b - zero needs nine bits, which only the 16-bit products have.
  const int32_t flip = t->b_type == ITG_TASK_U8 && !s->words ? 128 : 0;
  for (size_t v = 0; v < vectors; v++) {
    for (size_t lane = 0; lane < LANES; lane++) {
      const size_t channel = lane_channel(vectors, v, lane);
      const uint8_t *from = b + (first + channel) * column;
      for (size_t k = 0; k < s->steps; k++) {
        uint8_t *step = weights + (k * vectors + v) * s->step_bytes;
        for (size_t tap = 0; tap < taps; tap++) {
          const size_t i = k * taps + tap;
          int32_t code = 0;
          if (channel < count && i < s->k) {
            const uint8_t byte = from[i * row];
            code = t->b_type == ITG_TASK_S8 ? (int8_t)byte : byte;
            code -= s->words ? t->b_zero : flip;
          }
          if (s->words) {
            ((int16_t *)(void *)step)[2 * lane + tap] = (int16_t)code;
          } else {
            pack_tap(step, lane, tap, (int8_t)code);
          }
        }
      }
    }
  }
  // The columns' sums come from the packed codes.
  const int32_t zero = s->words ? t->a_zero - 32768 : t->a_zero;
  const vector ones = s->words ? v_set16(1) : v_set8(1);
  for (size_t v = 0; v < vectors; v++) {
    vector sum = v_zero();
    for (size_t k = 0; k < s->steps; k++) {
      const uint8_t *step = weights + (k * vectors + v) * s->step_bytes;
      sum = s->words ? v_dot_words(sum, ones, step) : v_dot_bytes(sum, v_prepare_bytes(ones), step);
    }
    uint8_t *out = block + v * PARAMETER_BYTES;
    __builtin_memcpy(out, parameters, PARAMETER_BYTES);
    if (t->wide) {
      int32_t sums[LANES];
      v_store(sums, sum);
      for (size_t lane = 0; lane < LANES; lane++) {
        const int64_t bias = -(int64_t)zero * sums[lane];
        __builtin_memcpy(out + lane * sizeof bias, &bias, sizeof bias);
      }
    } else {
      v_store(out, v_mullo32(sum, v_set32(-zero))); // Modulo 2^32; the accumulator fits.
    }
  }
}

static void matmul_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_matmul_task *t = &task->matmul;
  const matmul_shape s = matmul_shape_of(t);
  const size_t a_size = s.words ? 2 : 1, out_size = t->out_type == ITG_TASK_U16 ? 2 : 1;
  const wide_rescale wide = {.multiplier = &t->multiplier, .shift = &t->shift, .pre_shift = t->pre_shift};
  int64_t fast;
  __builtin_memcpy(&fast, call->packed, sizeof fast);
  tile tile_of = {.steps = s.steps,
                  .out_stride = s.n * out_size,
                  .words = s.words,
                  .end = {.zero = t->out_zero,
                          .low = t->low,
                          .high = t->high,
                          .way = fast ? FOLDED : GENERAL,
                          .words = out_size == 2},
                  .wide = t->wide ? &wide : NULL};
  size_t ready = SIZE_MAX; // The matrix that scratch holds.
  for (size_t unit = begin; unit < end; unit++) {
    const size_t batch = unit / s.parts, part = unit % s.parts;
    const size_t first = part * (size_t)t->m / s.parts, last = (part + 1) * (size_t)t->m / s.parts;
    uint8_t *block = call->scratch;
    for (size_t channel = 0; channel < s.n;) {
      const size_t vectors = block_vectors(s.n - channel), width = vectors * LANES;
      tile_of.channels = s.n - channel < width ? s.n - channel : width;
      tile_of.block = block;
      if (batch != ready)
        pack_columns(t, &s, (const uint8_t *)call->inputs[1] + t->b_offset[batch],
                     (const uint8_t *)call->packed + MATMUL_HEADER, channel, tile_of.channels, vectors, block);
      const uint8_t *a = (const uint8_t *)call->inputs[0] + (size_t)t->a_offset[batch] * a_size;
      uint8_t *out = (uint8_t *)call->outputs[0] + (batch * (size_t)t->m * s.n + channel) * out_size;
      for (size_t row = first; row < last; row += MATMUL_ROWS) {
        const uint8_t *rows[MATMUL_ROWS];
        const size_t count = last - row < MATMUL_ROWS ? last - row : MATMUL_ROWS;
        for (size_t r = 0; r < count; r++) rows[r] = a + (row + r) * s.k * a_size;
        run_rows(&tile_of, vectors, channel, rows, out + row * s.n * out_size, count);
      }
      block += vectors * (PARAMETER_BYTES + s.steps * s.step_bytes);
      channel += width;
    }
    ready = batch;
  }
}

#define MATMUL_KERNEL(isa_name)                                                   \
  const itg_kernel itg_matmul__##isa_name = {.name = "itg_matmul__" #isa_name,    \
                                             .op = ITG_OP_Q_MATMUL,               \
                                             .isa = KERNEL_ISA,                   \
                                             .supports = matmul_supports,         \
                                             .packed_size = matmul_packed_size,   \
                                             .pack = matmul_pack,                 \
                                             .scratch_size = matmul_scratch_size, \
                                             .units = matmul_units,               \
                                             .run = matmul_run}

#endif
