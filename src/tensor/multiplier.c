#include "tensor/multiplier.h"

#include <math.h>

bool itg_multiplier_from_double(double factor, int32_t *multiplier, int32_t *shift) {
  if (!isfinite(factor)) return false;
  if (fabs(factor) < 0x1p-32) {
    *multiplier = 0;
    *shift = 62;
    return true;
  }
  int exponent;
  const double mantissa = frexp(factor, &exponent); // |mantissa| in [0.5, 1)
  int64_t m = llround(mantissa * 0x1p31);
  if (m == (int64_t)1 << 31 || m == -((int64_t)1 << 31)) {
    m /= 2;
    exponent++;
  }
  const int s = 31 - exponent;
  if (s < 1) return false;
  *multiplier = (int32_t)m;
  *shift = s > 62 ? 62 : s; // 2^-32 <= |factor| gives s <= 62.
  return true;
}

int32_t itg_pre_shift_for_bound(uint64_t bound) {
  int32_t h = 0;
  while (((bound >> h) + (h ? (bound >> (h - 1) & 1) : 0)) >= (uint64_t)1 << 31) h++;
  return h;
}
