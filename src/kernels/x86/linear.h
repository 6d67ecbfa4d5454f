// Fully connected layers of u16 rows with weights of 8 or 4 bits (template;
// included by linear_<isa>.c after its vector header): the layers of language
// models.
//
// Method: rows are centred once into scratch as s16 (code - 32768); weights
// stay s8 or s4 in memory, so that single-token decoding, which is bound by
// memory, reads no more than the model has, and are widened to s16 in
// registers, where many rows share the work. v_dot_words multiplies and adds
// pairs. One layout serves one row and many.
//
// A block is 32 output channels, or what is left of them in 2 or 1 vectors.
// Packed: parameters of its vectors (a wide block: then their 64-bit biases),
// then weights [step][vector][lane][2 taps]: s8, or s4 with two steps in one
// (low nibbles the even step, high ones the odd step). With block scales (LPBQ)
// the sums of each block of inputs are multiplied by a vector of scales that
// lies in front of the block's weights.
#ifndef ITG_KERNELS_X86_LINEAR_H
#define ITG_KERNELS_X86_LINEAR_H

#include "graph/graph.h"
#include "kernels/x86/rescale.h"

enum {
  LINEAR_HEADER = 64,
  LINEAR_COLUMNS = 32,     // Channels of a block.
  LINEAR_ROWS = 48,        // Rows of one unit.
  LINEAR_WIDE_STEPS = 126, // Steps whose sums fit 32 bits: 252 * 128 * 32768 < 2^31.
};

typedef enum { WEIGHTS_S8, WEIGHTS_S4, WEIGHTS_S4_SCALED } linear_storage;

typedef struct {
  size_t rows, k, n;
  size_t steps; // Pairs of taps, up to a whole number of chunks.
  size_t chunk; // Steps between two flushes of the accumulators: of a block
                // scale, or as many as 32 bits hold.
  linear_storage storage;
  bool wide;
} linear_shape;

static inline linear_shape linear_shape_of(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  linear_shape s = {.rows = (size_t)t->batch * (size_t)t->out_h * (size_t)t->out_w,
                    .k = (size_t)t->in_c,
                    .n = (size_t)t->out_c,
                    .storage = t->weight        ? WEIGHTS_S8
                               : t->block_scale ? WEIGHTS_S4_SCALED
                                                : WEIGHTS_S4,
                    .wide = t->wide != 0};
  s.steps = (s.k + 1) / 2;
  if (s.storage != WEIGHTS_S8) s.steps += s.steps & 1;
  s.chunk = s.storage == WEIGHTS_S4_SCALED ? (size_t)t->block / 2 : s.wide ? LINEAR_WIDE_STEPS : s.steps;
  return s;
}

static inline size_t linear_weight_bytes(const linear_shape *s) { // Of one vector.
  const size_t bytes = s->steps * 2 * LANES;
  if (s->storage == WEIGHTS_S8) return bytes;
  return bytes / 2 + (s->storage == WEIGHTS_S4_SCALED ? s->steps / s->chunk * LANES : 0);
}
static inline size_t linear_parameter_bytes(const linear_shape *s) {
  return PARAMETER_BYTES + (s->wide ? LANES * sizeof(int64_t) : 0);
}
static inline size_t linear_block_bytes(const linear_shape *s, size_t vectors) {
  return vectors * (linear_parameter_bytes(s) + linear_weight_bytes(s));
}

// The block scales must be whole pairs of steps, and a block's sum must fit 32
// bits also when it is multiplied.
static bool linear_supports(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  if (t->in_type != ITG_TASK_U16 || t->negative_multiplier) return false;
  if (t->out_type != ITG_TASK_U8 && t->out_type != ITG_TASK_U16) return false;
  return !t->block_scale || (t->block % 4 == 0 && t->in_c % t->block == 0 && t->block <= 256);
}

// Vectors of the block that starts with `rest` channels to go: 32 channels, so
// that narrow layers divide among threads.
static inline size_t linear_vectors(size_t rest) {
#if LANES_16
  return rest > LANES ? 2 : 1;
#else
  return block_vectors(rest);
#endif
}

static size_t linear_packed_size(const itg_task *task) {
  const linear_shape s = linear_shape_of(task);
  size_t bytes = LINEAR_HEADER;
  for (size_t c = 0; c < s.n;) {
    const size_t vectors = linear_vectors(s.n - c);
    bytes += linear_block_bytes(&s, vectors);
    c += vectors * LANES;
  }
  return bytes;
}

// What is left of the shifts after the pre-shift of a wide layer.
static inline int32_t linear_shift(const itg_conv_task *t, size_t o) {
  return t->multiplier[o] ? t->shift[o] - (t->wide ? t->pre_shift : 0) : 33;
}

static inline rescale_way linear_way_of(const itg_conv_task *t) {
  const bool words = t->out_type == ITG_TASK_U16;
  for (int32_t o = 0; o < t->out_c; o++) {
    const int32_t shift = linear_shift(t, (size_t)o);
    if (!(words ? fits_folded(t->multiplier[o], shift, t->out_zero) : fits_doubled(t->multiplier[o], shift)))
      return GENERAL;
  }
  return words ? FOLDED : DOUBLED;
}

// The raw code (s4 without its block scale) of a channel's input; 0 past the
// end.
static inline int32_t linear_code(const itg_conv_task *t, size_t o, size_t k) {
  if (k >= (size_t)t->in_c) return 0;
  const int64_t index = (int64_t)(o * (size_t)t->in_c + k);
  return t->weight ? t->weight[index] : itg_nibble(t->packed_weight, index);
}

static void linear_pack_lane(const itg_conv_task *t, const linear_shape *s, size_t o, size_t vectors, size_t v,
                             size_t lane, uint8_t *weights) {
  const size_t scale_bytes = s->storage == WEIGHTS_S4_SCALED ? vectors * LANES : 0;
  for (size_t k = 0; k < s->steps; k++) {
    uint8_t *chunk = weights + (scale_bytes ? (k / s->chunk + 1) * scale_bytes : 0);
    if (scale_bytes && k % s->chunk == 0)
      chunk[(k / 2 * vectors) * 2 * LANES + v * LANES + lane - scale_bytes] =
          t->block_scale[(o * s->k + 2 * k) / (size_t)t->block];
    for (size_t tap = 0; tap < 2; tap++) {
      const int32_t code = linear_code(t, o, 2 * k + tap);
      if (s->storage == WEIGHTS_S8) {
        chunk[(k * vectors + v) * 2 * LANES + 2 * lane + tap] = (uint8_t)(int8_t)code;
      } else {
        chunk[(k / 2 * vectors + v) * 2 * LANES + 2 * lane + tap] |= (uint8_t)((code & 15) << 4 * (k & 1));
      }
    }
  }
}

static void linear_pack(const itg_task *task, void *packed) {
  const itg_conv_task *t = &task->conv;
  const linear_shape s = linear_shape_of(task);
  const int64_t way = linear_way_of(t);
  __builtin_memset(packed, 0, linear_packed_size(task));
  __builtin_memcpy(packed, &way, sizeof way);
  uint8_t *block = (uint8_t *)packed + LINEAR_HEADER;
  for (size_t first = 0; first < s.n;) {
    const size_t vectors = linear_vectors(s.n - first);
    for (size_t v = 0; v < vectors; v++) {
      int32_t *parameters = (int32_t *)(void *)(block + v * PARAMETER_BYTES);
      for (size_t lane = 0; lane < LANES; lane++) {
        const size_t o = first + lane_channel(vectors, v, lane);
        const bool real = o < s.n;
        int64_t bias = 0;
        if (real) {
          int64_t sum = 0;
          for (size_t k = 0; k < s.k; k++) sum += itg_conv_weight(t, (int64_t)(o * s.k + k));
          bias = t->bias[o] - ((int64_t)t->in_zero - 32768) * sum;
          linear_pack_lane(t, &s, o, vectors, v, lane, block + vectors * linear_parameter_bytes(&s));
        }
        pack_side(parameters + PARAMETER_MULTIPLIER * LANES, lane, real ? t->multiplier[o] : 0,
                  real ? linear_shift(t, o) : 33, t->out_zero, (rescale_way)way);
        pack_side(parameters + PARAMETER_NEGATIVE * LANES, lane, 0, 33, t->out_zero, (rescale_way)way);
        parameters[PARAMETER_BIAS * LANES + lane] = (int32_t)(uint32_t)(uint64_t)bias;
        // Even lanes, then odd ones, as 64-bit products come.
        if (s.wide)
          __builtin_memcpy(block + vectors * PARAMETER_BYTES + v * LANES * 8 + (lane / 2 + lane % 2 * (LANES / 2)) * 8,
                           &bias, sizeof bias);
      }
    }
    block += linear_block_bytes(&s, vectors);
    first += vectors * LANES;
  }
}

static size_t linear_scratch_size(const itg_task *task) {
  const linear_shape s = linear_shape_of(task);
  return (s.rows < LINEAR_ROWS ? s.rows : LINEAR_ROWS) * s.steps * 4;
}

// ---- the register tile ----

typedef struct {
  const uint8_t *rows[8]; // Centred, in scratch.
  const uint8_t *block, *parameters;
  const linear_shape *shape;
  uint8_t *out;
  size_t out_stride, channels;
  int32_t pre_shift;
  ending end;
} linear_tile;

// The end of a wide tile: 64-bit sums, even and odd lanes apart -> what the
// multiplier acts on.
VECTOR_INLINE vector linear_narrow(vector even, vector odd, int32_t pre_shift) {
  const vector half = v_set64(((int64_t)1 << pre_shift) >> 1), count = v_set64(pre_shift);
  even = v_shift_right64_signed(v_add64(even, half), count);
  odd = v_shift_right64_signed(v_add64(odd, half), count);
  return v_merge_odd(even, odd);
}

// The rows' accumulators of steps [first, last). Few rows leave registers over:
// a second set of accumulators then takes every other step, so that no
// multiplication waits for the one before.
VECTOR_INLINE const uint8_t *linear_sum(const linear_tile *t, const int rows, const int vectors,
                                        const linear_storage storage, size_t first, size_t last, const uint8_t *weights,
                                        vector *acc) {
  const size_t step_bytes = (size_t)vectors * 2 * LANES;
  const bool twice = rows <= 2;
  vector other[8 * 4];
#pragma GCC unroll 32
  for (int i = 0; i < rows * vectors; i++) acc[i] = other[i] = v_zero();
  if (storage == WEIGHTS_S8) {
    size_t k = first;
    for (; twice && k + 1 < last; k += 2, weights += 2 * step_bytes) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        const vector a = v_widen_s8_s16(weights + v * 2 * LANES);
        const vector b = v_widen_s8_s16(weights + step_bytes + v * 2 * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
          const int i = r * vectors + v;
          acc[i] = v_dot_pairs(acc[i], v_broadcast32(t->rows[r] + 4 * k), a);
          other[i] = v_dot_pairs(other[i], v_broadcast32(t->rows[r] + 4 * k + 4), b);
        }
      }
    }
    for (; k < last; k++, weights += step_bytes) {
      vector x[8];
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) x[r] = v_broadcast32(t->rows[r] + 4 * k);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        const vector w = v_widen_s8_s16(weights + v * 2 * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) acc[r * vectors + v] = v_dot_pairs(acc[r * vectors + v], x[r], w);
      }
    }
  } else {
    for (size_t k = first; k < last; k += 2, weights += step_bytes) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        const vector both = v_widen_s8_s16(weights + v * 2 * LANES);
        const vector high = v_shift_right16(both, 4), low = v_shift_right16(v_shift_left16(both, 12), 12);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
          vector *second = twice ? &other[r * vectors + v] : &acc[r * vectors + v];
          acc[r * vectors + v] = v_dot_pairs(acc[r * vectors + v], v_broadcast32(t->rows[r] + 4 * k), low);
          *second = v_dot_pairs(*second, v_broadcast32(t->rows[r] + 4 * k + 4), high);
        }
      }
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < rows * vectors; i++) acc[i] = twice ? v_add32(acc[i], other[i]) : acc[i];
  return weights;
}

VECTOR_INLINE void linear_run_tile(const linear_tile *t, const int rows, const int vectors,
                                   const linear_storage storage, const bool wide) {
  vector acc[8 * 4], total[8 * 4], even[8 * 4], odd[8 * 4];
  const linear_shape *s = t->shape;
  const bool chunked = storage == WEIGHTS_S4_SCALED || wide;
  const uint8_t *weights = t->block;
#pragma GCC unroll 32
  for (int i = 0; i < rows * vectors; i++) acc[i] = total[i] = even[i] = odd[i] = v_zero();
  for (size_t first = 0; first < s->steps; first += s->chunk) {
    const size_t last = chunked && s->steps - first > s->chunk ? first + s->chunk : s->steps;
    const uint8_t *scales = weights;
    if (storage == WEIGHTS_S4_SCALED) weights += vectors * LANES;
    weights = linear_sum(t, rows, vectors, storage, first, last, weights, acc);
    if (!chunked) break;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      const vector scale = storage == WEIGHTS_S4_SCALED ? v_widen_u8(scales + v * LANES) : v_zero();
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const int i = r * vectors + v;
        if (storage == WEIGHTS_S4_SCALED) acc[i] = v_mullo32(acc[i], scale);
        if (wide) {
          even[i] = v_add64(even[i], v_even_signed(acc[i]));
          odd[i] = v_add64(odd[i], v_even_signed(v_odd(acc[i])));
        } else {
          total[i] = v_add32(total[i], acc[i]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    const uint8_t *bias = t->parameters + vectors * PARAMETER_BYTES + v * LANES * 8;
    const int32_t *p = (const int32_t *)(const void *)(t->parameters + v * PARAMETER_BYTES);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const int i = r * vectors + v;
      if (wide) {
        acc[i] =
            linear_narrow(v_add64(even[i], v_load(bias)), v_add64(odd[i], v_load(bias + VECTOR_BYTES)), t->pre_shift);
      } else {
        acc[i] = v_add32(chunked ? total[i] : acc[i], parameter(p, PARAMETER_BIAS));
      }
    }
    rescale_vector(acc + v, rows, vectors, p, &t->end);
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
    store_block(acc + r * vectors, vectors, &t->end, t->out + (size_t)r * t->out_stride, t->channels);
}

typedef void (*linear_function)(const linear_tile *);
#define LINEAR_TILES(rows, vectors)                                         \
  static void linear_s8_##rows##_##vectors(const linear_tile *t) {          \
    linear_run_tile(t, rows, vectors, WEIGHTS_S8, false);                   \
  }                                                                         \
  static void linear_s8_wide_##rows##_##vectors(const linear_tile *t) {     \
    linear_run_tile(t, rows, vectors, WEIGHTS_S8, true);                    \
  }                                                                         \
  static void linear_s4_##rows##_##vectors(const linear_tile *t) {          \
    linear_run_tile(t, rows, vectors, WEIGHTS_S4, false);                   \
  }                                                                         \
  static void linear_s4_wide_##rows##_##vectors(const linear_tile *t) {     \
    linear_run_tile(t, rows, vectors, WEIGHTS_S4, true);                    \
  }                                                                         \
  static void linear_scaled_##rows##_##vectors(const linear_tile *t) {      \
    linear_run_tile(t, rows, vectors, WEIGHTS_S4_SCALED, false);            \
  }                                                                         \
  static void linear_scaled_wide_##rows##_##vectors(const linear_tile *t) { \
    linear_run_tile(t, rows, vectors, WEIGHTS_S4_SCALED, true);             \
  }
#define LINEAR_ENTRY(rows, vectors)                                                                                \
  {                                                                                                                \
    linear_s8_##rows##_##vectors, linear_s8_wide_##rows##_##vectors, linear_s4_##rows##_##vectors,                 \
        linear_s4_wide_##rows##_##vectors, linear_scaled_##rows##_##vectors, linear_scaled_wide_##rows##_##vectors \
  }
#if LANES_16
LINEAR_TILES(1, 2)
LINEAR_TILES(2, 2)
LINEAR_TILES(3, 2)
LINEAR_TILES(4, 2)
LINEAR_TILES(5, 2)
LINEAR_TILES(6, 2)
LINEAR_TILES(7, 2)
LINEAR_TILES(8, 2)
LINEAR_TILES(1, 1)
LINEAR_TILES(2, 1)
LINEAR_TILES(3, 1)
LINEAR_TILES(4, 1)
LINEAR_TILES(5, 1)
LINEAR_TILES(6, 1)
LINEAR_TILES(7, 1)
LINEAR_TILES(8, 1)
enum { LINEAR_TILE_ROWS = 8 };
// By vectors (1, 2), rows - 1, storage and width.
static const linear_function linear_tiles[2][LINEAR_TILE_ROWS][6] = {
    {LINEAR_ENTRY(1, 1), LINEAR_ENTRY(2, 1), LINEAR_ENTRY(3, 1), LINEAR_ENTRY(4, 1), LINEAR_ENTRY(5, 1),
     LINEAR_ENTRY(6, 1), LINEAR_ENTRY(7, 1), LINEAR_ENTRY(8, 1)},
    {LINEAR_ENTRY(1, 2), LINEAR_ENTRY(2, 2), LINEAR_ENTRY(3, 2), LINEAR_ENTRY(4, 2), LINEAR_ENTRY(5, 2),
     LINEAR_ENTRY(6, 2), LINEAR_ENTRY(7, 2), LINEAR_ENTRY(8, 2)},
};
#else
LINEAR_TILES(1, 4)
LINEAR_TILES(2, 4)
LINEAR_TILES(3, 4)
LINEAR_TILES(1, 2)
LINEAR_TILES(2, 2)
LINEAR_TILES(3, 2)
LINEAR_TILES(1, 1)
LINEAR_TILES(2, 1)
LINEAR_TILES(3, 1)
enum { LINEAR_TILE_ROWS = 3 };
// By vectors (1, 2, 4), rows - 1, storage and width.
static const linear_function linear_tiles[3][LINEAR_TILE_ROWS][6] = {
    {LINEAR_ENTRY(1, 1), LINEAR_ENTRY(2, 1), LINEAR_ENTRY(3, 1)},
    {LINEAR_ENTRY(1, 2), LINEAR_ENTRY(2, 2), LINEAR_ENTRY(3, 2)},
    {LINEAR_ENTRY(1, 4), LINEAR_ENTRY(2, 4), LINEAR_ENTRY(3, 4)},
};
#endif
#undef LINEAR_TILES
#undef LINEAR_ENTRY

// ---- units: a block of rows times a run of channel blocks ----

static inline size_t linear_row_units(const linear_shape *s) { return (s->rows + LINEAR_ROWS - 1) / LINEAR_ROWS; }
static inline size_t linear_column_blocks(const linear_shape *s) {
  return (s->n + LINEAR_COLUMNS - 1) / LINEAR_COLUMNS;
}

static size_t linear_units(const itg_task *task) {
  const linear_shape s = linear_shape_of(task);
  return linear_row_units(&s) * linear_column_blocks(&s);
}

// Rows as s16 around 0, padded to whole steps with anything: the weights there
// are 0.
static void linear_centre(const linear_shape *s, const uint8_t *in, size_t rows, uint8_t *out) {
  const size_t bytes = s->k * 2, stride = s->steps * 4;
  const vector half = v_set16(-32768);
  for (size_t r = 0; r < rows; r++) {
    const uint8_t *from = in + r * bytes;
    uint8_t *to = out + r * stride;
    size_t i = 0;
    for (; i + VECTOR_BYTES <= bytes; i += VECTOR_BYTES) v_store(to + i, v_xor(v_load(from + i), half));
    for (; i < bytes; i += 2) {
      uint16_t code;
      __builtin_memcpy(&code, from + i, sizeof code);
      code ^= 0x8000;
      __builtin_memcpy(to + i, &code, sizeof code);
    }
    __builtin_memset(to + bytes, 0, stride - bytes);
  }
}

static void linear_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_conv_task *c = &task->conv;
  const linear_shape s = linear_shape_of(task);
  const size_t columns = linear_column_blocks(&s), row_units = linear_row_units(&s);
  const size_t out_size = c->out_type == ITG_TASK_U16 ? 2 : 1;
  const size_t full = linear_block_bytes(&s, LINEAR_COLUMNS / LANES), stride = s.steps * 4;
  int64_t way;
  __builtin_memcpy(&way, call->packed, sizeof way);
  linear_tile t = {
      .shape = &s, .out_stride = s.n * out_size, .pre_shift = c->pre_shift, .end = ending_of(c, (rescale_way)way)};
  size_t prepared = SIZE_MAX;
  for (size_t unit = begin; unit < end; unit++) { // Columns change fastest, so that rows are centred once.
    const size_t row_unit = unit / columns, column = unit % columns;
    const size_t first = row_unit * s.rows / row_units, count = (row_unit + 1) * s.rows / row_units - first;
    if (row_unit != prepared)
      linear_centre(&s, (const uint8_t *)call->inputs[0] + first * s.k * 2, count, call->scratch);
    prepared = row_unit;
    const size_t channel = column * LINEAR_COLUMNS, vectors = linear_vectors(s.n - channel);
    t.parameters = (const uint8_t *)call->packed + LINEAR_HEADER + column * full;
    t.block = t.parameters + vectors * linear_parameter_bytes(&s);
    t.channels = s.n - channel < vectors * LANES ? s.n - channel : vectors * LANES;
    const linear_function *functions = NULL;
    const size_t tiles = (count + LINEAR_TILE_ROWS - 1) / LINEAR_TILE_ROWS;
    for (size_t i = 0, r = 0; i < tiles; i++) {
      const size_t next = (i + 1) * count / tiles;
      for (size_t j = r; j < next; j++) t.rows[j - r] = (const uint8_t *)call->scratch + j * stride;
      t.out = (uint8_t *)call->outputs[0] + ((first + r) * s.n + channel) * out_size;
      functions = linear_tiles[vectors == 4 ? 2 : vectors - 1][next - r - 1];
      functions[2 * s.storage + s.wide](&t);
      r = next;
    }
  }
}

#define LINEAR_KERNEL(isa_name)                                                   \
  const itg_kernel itg_linear__##isa_name = {.name = "itg_linear__" #isa_name,    \
                                             .op = ITG_OP_Q_FULLY_CONNECTED,      \
                                             .isa = KERNEL_ISA,                   \
                                             .supports = linear_supports,         \
                                             .packed_size = linear_packed_size,   \
                                             .pack = linear_pack,                 \
                                             .scratch_size = linear_scratch_size, \
                                             .units = linear_units,               \
                                             .run = linear_run}

#endif
