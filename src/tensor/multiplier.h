// From a real factor to the integers of docs/ARITHMETIC.md section 2; compile time only.
#ifndef ITG_TENSOR_MULTIPLIER_H
#define ITG_TENSOR_MULTIPLIER_H

#include <stdbool.h>
#include <stdint.h>

// factor ~ multiplier * 2^-shift with |multiplier| in [2^30, 2^31) and shift in [1, 62]; a factor below 2^-32 in
// magnitude gives multiplier 0, shift 62. False when the factor is not finite or too large (shift would be < 1).
bool itg_multiplier_from_double(double factor, int32_t *multiplier, int32_t *shift);
// The smallest h >= 0 with (bound + 2^(h-1)) >> h < 2^31, for accumulators with |acc| <= bound.
int32_t itg_pre_shift_for_bound(uint64_t bound);

#endif
