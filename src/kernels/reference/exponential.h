// The exponential of softmax and attention (docs/ARITHMETIC.md 4).
#ifndef ITG_KERNELS_REFERENCE_EXPONENTIAL_H
#define ITG_KERNELS_REFERENCE_EXPONENTIAL_H

#include <stdint.h>

#include "tensor/exp2_table.h"

// e in Q24 of 2^-(distance): distance w is Q16 in log2 units; 0 from 25 on.
static inline uint32_t itg_exponential(uint64_t w) {
  const uint64_t n = w >> 16;
  if (n >= 25) return 0;
  const uint32_t f = (uint32_t)(w & 65535), o = f & 255, i = f >> 8;
  const uint32_t step = itg_exp2_table[i] - itg_exp2_table[i + 1];
  const uint64_t value = itg_exp2_table[i] - (((uint64_t)step * o + 128) >> 8);
  return (uint32_t)((value + ((uint64_t)1 << (n + 6))) >> (n + 7));
}

#endif
