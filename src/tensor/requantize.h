// The one definition of requantization (docs/ARITHMETIC.md, section 2). All integer; >> is floor division.
//
// Freestanding (only <stdint.h>): kernels for every instruction set include it and are tested against it.
#ifndef ITG_TENSOR_REQUANTIZE_H
#define ITG_TENSOR_REQUANTIZE_H

#include <stdint.h>

static inline int64_t itg_clamp_i64(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// RQ(acc; M, s, z, lo, hi) = clamp(z + ((acc*M + 2^(s-1)) >> s), lo, hi): one rounding, half up.
// |acc| < 2^31, |M| < 2^31, s in [1, 62], lo <= hi.
static inline int32_t itg_requantize(int64_t acc, int32_t multiplier, int32_t shift, int32_t zero_point, int32_t low,
                                     int32_t high) {
  const int64_t rounded = (acc * multiplier + ((int64_t)1 << (shift - 1))) >> shift;
  return (int32_t)itg_clamp_i64(zero_point + rounded, low, high);
}

// RQ64 of a 64-bit accumulator: RQ((acc + 2^(h-1)) >> h; M, s-h). `pre_shift` h in [0, 31]; s-h in [1, 62].
static inline int32_t itg_requantize64(int64_t acc, int32_t multiplier, int32_t shift, int32_t pre_shift,
                                       int32_t zero_point, int32_t low, int32_t high) {
  if (pre_shift) acc = (acc + ((int64_t)1 << (pre_shift - 1))) >> pre_shift;
  return itg_requantize(acc, multiplier, shift - pre_shift, zero_point, low, high);
}

#endif
