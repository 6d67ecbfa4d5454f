// The end of a convolution, shared by the templates: bias, requantization, clamp, store (docs/ARITHMETIC.md 2).
// Included after vector_512.h or vector_256.h.
//
// A block is 4, 2 or 1 vectors of accumulators: 4*LANES, 2*LANES or LANES output channels of one pixel.
#ifndef ITG_KERNELS_X86_RESCALE_H
#define ITG_KERNELS_X86_RESCALE_H

#include "kernels/task.h"
#include "tensor/requantize.h"

// Parameters of the LANES channels of one vector, in lane order: int32_t [PARAMETER_COUNT][LANES].
// Three ways, the same bits:
//   folded:  (mulhi(acc, MULTIPLIER) + ROUND) >> SHIFT, the zero point inside ROUND; every shift is 33 or more.
//   doubled: mulhi(acc, MULTIPLIER) >> SHIFT is twice the result before rounding; packing to u8 finishes it in 16-bit lanes:
//            (doubled + 2*zero + 1) >> 1. Every shift is 33 or more.
//   general: acc is limited to +-LIMIT and shifted by LEFT first, and the zero point is added last.
enum {
  PARAMETER_BIAS,
  PARAMETER_MULTIPLIER,
  PARAMETER_SHIFT,
  PARAMETER_ROUND,
  PARAMETER_LEFT,
  PARAMETER_LIMIT,
  PARAMETER_NEGATIVE, // The second set, for negative accumulators: MULTIPLIER .. LIMIT again.
  PARAMETER_COUNT = PARAMETER_NEGATIVE + 5,
  PARAMETER_BYTES = PARAMETER_COUNT * LANES * 4,
};

// The channel, inside its block, of lane `lane` of vector `v` of `vectors`.
static inline size_t lane_channel(size_t vectors, size_t v, size_t lane) {
  return vectors == 1 ? lane : 4 * vectors * (lane / 4) + 4 * v + lane % 4;
}

// The number of vectors of the block that starts with `rest` channels to go.
static inline size_t block_vectors(size_t rest) { return rest > 2 * LANES ? 4 : rest > LANES ? 2 : 1; }

typedef enum { GENERAL, FOLDED, DOUBLED } rescale_way;

static inline bool fits_folded(int32_t multiplier, int32_t shift, int32_t zero) {
  if (multiplier == 0) return true;
  return shift >= 33 && (((int64_t)2 * zero + 1) << (shift - 33)) < ((int64_t)1 << 30);
}

static inline bool fits_doubled(int32_t multiplier, int32_t shift) { return multiplier == 0 || shift >= 33; }

// The way of a convolution: doubled for u8 outputs, folded for u16, where every channel allows it.
static inline rescale_way rescale_way_of(const itg_conv_task *t) {
  const bool words = t->out_type == ITG_TASK_U16;
  for (int32_t o = 0; o < t->out_c; o++) {
    for (int side = 0; side < (t->negative_multiplier ? 2 : 1); side++) {
      const int32_t multiplier = side ? t->negative_multiplier[o] : t->multiplier[o];
      const int32_t shift = side ? t->negative_shift[o] : t->shift[o];
      if (!(words ? fits_folded(multiplier, shift, t->out_zero) : fits_doubled(multiplier, shift))) return GENERAL;
    }
  }
  return words ? FOLDED : DOUBLED;
}

// Writes MULTIPLIER .. LIMIT of one lane at `first`. Below shift 33 the accumulator is limited to the values that do not
// already saturate; a shift of 1 or 2 saturates everything but 0 and so equals a shift of 3.
static inline void pack_side(int32_t *first, size_t lane, int32_t multiplier, int32_t shift, int32_t zero,
                             rescale_way way) {
  if (multiplier == 0) shift = 33;
  if (shift < 3) shift = 3;
  const int32_t left = shift < 33 ? 33 - shift : 0;
  const int32_t right = shift < 33 ? 33 : shift;
  first[0 * LANES + lane] = multiplier;
  first[1 * LANES + lane] = way == DOUBLED ? right - 33 : right - 32;
  first[2 * LANES + lane] = (int32_t)((way == FOLDED ? 2 * (int64_t)zero + 1 : 1) << (right - 33));
  first[3 * LANES + lane] = left;
  first[4 * LANES + lane] = left ? (int32_t)(((int64_t)1 << (shift - 2)) - 1) : INT32_MAX;
}

// One lane's parameters; channel `o` of the task, or padding when o >= out_c. `bias` already holds -zero*sum(w).
static inline void pack_parameters(int32_t *parameters, size_t lane, const itg_conv_task *t, size_t o, int64_t bias,
                                   rescale_way way) {
  const bool real = o < (size_t)t->out_c;
  parameters[PARAMETER_BIAS * LANES + lane] = (int32_t)(uint32_t)(uint64_t)(real ? bias : 0);
  pack_side(parameters + PARAMETER_MULTIPLIER * LANES, lane, real ? t->multiplier[o] : 0, real ? t->shift[o] : 33,
            t->out_zero, way);
  const bool negative = real && t->negative_multiplier;
  pack_side(parameters + PARAMETER_NEGATIVE * LANES, lane, negative ? t->negative_multiplier[o] : 0,
            negative ? t->negative_shift[o] : 33, t->out_zero, way);
}

typedef struct {
  int32_t zero, low, high;
  rescale_way way;
  bool two_sided, words; // words: u16 output
} ending;

VECTOR_INLINE ending ending_of(const itg_conv_task *t, rescale_way way) {
  return (ending){.zero = t->out_zero,
                  .low = t->low,
                  .high = t->high,
                  .way = way,
                  .two_sided = t->negative_multiplier != NULL,
                  .words = t->out_type == ITG_TASK_U16};
}

VECTOR_INLINE vector parameter(const int32_t *parameters, int index) { return v_load(parameters + index * LANES); }

enum { MOST_ROWS = 8 };

// Any shifts. Out of line: its indices are not constants, which would keep the callers' accumulators in memory.
static __attribute__((noinline, unused)) void rescale_general(vector *acc, int rows, const int32_t *p,
                                                              int32_t zero_code, bool two_sided) {
  const vector multiplier = parameter(p, PARAMETER_MULTIPLIER), multiplier_n = parameter(p, PARAMETER_NEGATIVE);
  const vector shift = parameter(p, PARAMETER_SHIFT), shift_n = parameter(p, PARAMETER_NEGATIVE + 1);
  const vector round = parameter(p, PARAMETER_ROUND), round_n = parameter(p, PARAMETER_NEGATIVE + 2);
  const vector left = parameter(p, PARAMETER_LEFT), left_n = parameter(p, PARAMETER_NEGATIVE + 3);
  const vector limit = parameter(p, PARAMETER_LIMIT), limit_n = parameter(p, PARAMETER_NEGATIVE + 4);
  const vector zero = v_set32(zero_code);
  for (int r = 0; r < rows; r++) {
    vector a = acc[r];
    const selector s = v_negative(two_sided ? a : v_zero());
    const vector bound = v_select(s, limit, limit_n);
    a = v_max32(v_min32(a, bound), v_sub32(v_zero(), bound));
    a = v_shift_left32(a, v_select(s, left, left_n));
    const vector m = v_select(s, multiplier, multiplier_n), high = v_multiply_high(a, m, v_odd(m));
    a = v_shift_right32(v_add32(high, v_select(s, round, round_n)), v_select(s, shift, shift_n));
    acc[r] = v_add32(a, zero);
  }
}

// The rows' accumulators of one vector of channels -> codes (doubled: see above) that are not clamped yet.
VECTOR_INLINE void rescale_vector(vector *acc, const int rows, const int stride, const int32_t *p, const ending *e) {
  if (e->way == GENERAL) {
    vector copy[MOST_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) copy[r] = acc[r * stride];
    rescale_general(copy, rows, p, e->zero, e->two_sided);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) acc[r * stride] = copy[r];
    return;
  }
  const vector multiplier = parameter(p, PARAMETER_MULTIPLIER), shift = parameter(p, PARAMETER_SHIFT);
  const vector round = parameter(p, PARAMETER_ROUND);
  const bool doubled = e->way == DOUBLED;
  if (!e->two_sided) {
    const vector odd = v_odd(multiplier);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const vector high = v_multiply_high(acc[r * stride], multiplier, odd);
      acc[r * stride] = v_shift_right32(doubled ? high : v_add32(high, round), shift);
    }
    return;
  }
  const vector multiplier_n = parameter(p, PARAMETER_NEGATIVE), shift_n = parameter(p, PARAMETER_NEGATIVE + 1);
  const vector round_n = parameter(p, PARAMETER_NEGATIVE + 2);
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
    const vector a = acc[r * stride];
    const selector s = v_negative(a);
    const vector m = v_select(s, multiplier, multiplier_n), high = v_multiply_high(a, m, v_odd(m));
    const vector rounded = doubled ? high : v_add32(high, v_select(s, round, round_n));
    acc[r * stride] = v_shift_right32(rounded, v_select(s, shift, shift_n));
  }
}

// Doubled codes, s16 with saturation -> codes.
VECTOR_INLINE vector finish_doubled(vector a, const ending *e) {
  return v_shift_right16_1(v_add_saturated16(a, v_set16(2 * e->zero + 1)));
}

// Clamps and writes the first `channels` codes of a block of one pixel.
VECTOR_INLINE void store_block(const vector *a, const int vectors, const ending *e, void *out, size_t channels) {
  uint8_t *bytes = out;
  const bool doubled = e->way == DOUBLED;
  if (vectors == 4 && !e->words) {
    vector first = v_pack_s16(a[0], a[1]), second = v_pack_s16(a[2], a[3]);
    if (doubled) {
      first = finish_doubled(first, e);
      second = finish_doubled(second, e);
    }
    const vector code = v_pack_u8(first, second);
    v_store_bytes(out, v_min_u8(v_max_u8(code, v_set8(e->low)), v_set8(e->high)), channels);
    return;
  }
  if (vectors == 1) {
    vector code = a[0];
    if (doubled) code = v_shift_right32_same(v_add32(code, v_set32(2 * e->zero + 1)), 1);
    code = v_min32(v_max32(code, v_set32(e->low)), v_set32(e->high));
    if (e->words) {
      v_store_lanes_u16(out, code, channels);
    } else {
      v_store_lanes_u8(out, code, channels);
    }
    return;
  }
  if (vectors == 2 && !e->words) {
    vector code = v_pack_s16(a[0], a[1]);
    if (doubled) code = finish_doubled(code, e);
    v_store_words_u8(out, v_min_s16(v_max_s16(code, v_set16(e->low)), v_set16(e->high)), channels);
    return;
  }
  const vector low = v_set16(e->low), high = v_set16(e->high);
  vector first = v_pack_u16(a[0], a[1]), second = v_zero();
  if (vectors == 4) {
    second = v_pack_u16(a[2], a[3]);
    v_order_u16(&first, &second);
    second = v_min_u16(v_max_u16(second, low), high);
  }
  first = v_min_u16(v_max_u16(first, low), high);
  v_store_bytes(bytes, first, 2 * channels);
  if (vectors == 4 && channels > 2 * LANES) v_store_bytes(bytes + VECTOR_BYTES, second, 2 * channels - VECTOR_BYTES);
}

#endif
