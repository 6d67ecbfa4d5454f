// Widened codes and sums of two of them, for the element-wise templates. Included after a vector header.
#ifndef ITG_KERNELS_X86_SUMS_H
#define ITG_KERNELS_X86_SUMS_H

#include "kernels/x86/rescale.h"

enum { CHUNK = 4096 }; // Codes of a unit, about.

static inline bool codes_only(int32_t type) { return type == ITG_TASK_U8 || type == ITG_TASK_U16; }
static inline int64_t type_limit(int32_t type) { return type == ITG_TASK_U16 ? 65535 : 255; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t magnitude(int64_t a) { return a < 0 ? -a : a; }
// The largest |code - zero|.
static inline int64_t reach_of(int32_t type, int32_t zero) { return larger(zero, type_limit(type) - zero); }

VECTOR_INLINE vector load_codes(const void *data, int64_t i, int32_t type) {
  return type == ITG_TASK_U16 ? v_widen_u16((const uint16_t *)data + i) : v_widen_u8((const uint8_t *)data + i);
}
// Clamps and writes `count` (at most LANES) codes.
VECTOR_INLINE void store_codes(void *data, int64_t i, int32_t type, vector a, vector low, vector high, int64_t count) {
  a = v_min32(v_max32(a, low), high);
  if (type == ITG_TASK_U16) {
    v_store_lanes_u16((uint16_t *)data + i, a, (size_t)count);
  } else {
    v_store_lanes_u8((uint8_t *)data + i, a, (size_t)count);
  }
}

static inline int64_t chunks_of(int64_t count) { return (count + CHUNK - 1) / CHUNK; }

// Rows of a unit where parameters go by channel.
static inline int64_t rows_per_unit(int64_t channels) { return channels >= CHUNK ? 1 : CHUNK / channels; }

// ---- add: (A*(a - za) + B*(b - zb) + 2^(s-1)) >> s ----
// narrow: every term fits s32. pairs: A and B split at 15 bits, both operands u16, the sum within +-2^46, s >= 15, so that
// floor(sum / 2^15) fits s32. wide: 64-bit lanes; the result fits s32 because the sum is below 2^48 and s >= 17.
typedef enum { ADD_NARROW, ADD_PAIRS, ADD_WIDE, ADD_NONE } add_way;

static inline add_way add_way_of(int32_t a_type, int32_t b_type, int32_t a_zero, int32_t b_zero, int64_t a, int64_t b,
                                 int32_t shift) {
  if (!codes_only(a_type) || !codes_only(b_type) || shift < 1 || shift > 48) return ADD_NONE;
  if (magnitude(a) >= (1 << 30) || magnitude(b) >= (1 << 30)) return ADD_NONE;
  const int64_t most =
      magnitude(a) * reach_of(a_type, a_zero) + magnitude(b) * reach_of(b_type, b_zero) + ((int64_t)1 << (shift - 1));
  if (shift <= 31 && most <= INT32_MAX) return ADD_NARROW;
  if (a_type == ITG_TASK_U16 && b_type == ITG_TASK_U16 && shift >= 15 && shift <= 46 && most < ((int64_t)1 << 46))
    return ADD_PAIRS;
  return shift >= 17 && most < ((int64_t)1 << 48) ? ADD_WIDE : ADD_NONE;
}

// The constants of a sum, ready for the loop.
typedef struct {
  add_way way;
  int32_t shift;
  vector a, b, a_zero, b_zero, round;            // narrow, wide
  vector high_pair, low_pair, high_add, low_add; // pairs
  vector constant, offset;                       // wide: 2^(s-1), 2^50; offset: 2^(50-s)
} sum_plan;

VECTOR_INLINE sum_plan plan_sum(add_way way, int64_t a, int64_t b, int32_t a_zero, int32_t b_zero, int32_t shift) {
  sum_plan p = {.way = way, .shift = shift};
  p.a = v_set32((int32_t)a);
  p.b = v_set32((int32_t)b);
  p.a_zero = v_set32(a_zero);
  p.b_zero = v_set32(b_zero);
  const int64_t round = (int64_t)1 << (shift - 1);
  p.round = v_set32((int32_t)(way == ADD_NARROW ? round : 0));
  // Operands are centred at 32768 for the signed 16-bit products.
  const int64_t total = a * (32768 - a_zero) + b * (32768 - b_zero) + round;
  p.high_pair = v_set32((int32_t)(((uint32_t)(b >> 15) << 16) | ((uint32_t)(a >> 15) & 0xFFFF)));
  p.low_pair = v_set32((int32_t)(((uint32_t)(b & 32767) << 16) | (uint32_t)(a & 32767)));
  p.high_add = v_set32((int32_t)(uint32_t)(uint64_t)(total >> 15));
  p.low_add = v_set32((int32_t)(total & 32767));
  p.constant = v_set64(round + ((int64_t)1 << 50));
  p.offset = v_set64(((int64_t)1 << 50) >> shift);
  return p;
}

// Half of a pairs sum: interleaved centred operands -> floor(sum / 2^shift).
VECTOR_INLINE vector sum_pairs(const sum_plan *p, vector ab) {
  const vector low = v_shift_right32_same(v_add32(v_multiply_pairs(ab, p->low_pair), p->low_add), 15);
  const vector high = v_add32(v_add32(v_multiply_pairs(ab, p->high_pair), p->high_add), low);
  return v_shift_right32_same(high, p->shift - 15);
}

// LANES sums in memory order from widened codes.
VECTOR_INLINE vector sum_lanes(const sum_plan *p, vector a, vector b) {
  a = v_sub32(a, p->a_zero);
  b = v_sub32(b, p->b_zero);
  if (p->way == ADD_NARROW) {
    const vector sum = v_add32(v_add32(v_mullo32(a, p->a), v_mullo32(b, p->b)), p->round);
    return v_shift_right32_same(sum, p->shift);
  }
  // The sum plus 2^50 is positive, so that a logical shift floors.
  vector even = v_add64(v_add64(v_multiply64(a, p->a), v_multiply64(b, p->b)), p->constant);
  vector odd = v_add64(v_add64(v_multiply64(v_odd(a), p->a), v_multiply64(v_odd(b), p->b)), p->constant);
  even = v_sub64(v_shift_right64_same(even, p->shift), p->offset);
  odd = v_sub64(v_shift_right64_same(odd, p->shift), p->offset);
  return v_merge_odd(even, odd);
}

#endif
