// Reading and writing codes of any type, finding operands that are broadcast; for the reference kernels only, which value clarity over speed.
#ifndef ITG_KERNELS_REFERENCE_ACCESS_H
#define ITG_KERNELS_REFERENCE_ACCESS_H

#include "kernels/task.h"
#include "tensor/requantize.h"

static inline int32_t itg_load(const void *data, int64_t index, int32_t type) {
  switch (type) {
  case ITG_TASK_U8:
  case ITG_TASK_BOOL: return ((const uint8_t *)data)[index];
  case ITG_TASK_S8: return ((const int8_t *)data)[index];
  case ITG_TASK_U16: return ((const uint16_t *)data)[index];
  default: return ((const int32_t *)data)[index];
  }
}

static inline void itg_store(void *data, int64_t index, int32_t type, int32_t code) {
  switch (type) {
  case ITG_TASK_U8:
  case ITG_TASK_S8:
  case ITG_TASK_BOOL: ((uint8_t *)data)[index] = (uint8_t)code; break;
  case ITG_TASK_U16: ((uint16_t *)data)[index] = (uint16_t)code; break;
  default: ((int32_t *)data)[index] = code; break;
  }
}

static inline int64_t itg_binary_count(const itg_binary_task *t) {
  int64_t count = 1;
  for (int32_t i = 0; i < t->rank; i++) count *= t->dims[i];
  return count;
}

// Where both operands of result `index` stand.
static inline void itg_binary_positions(const itg_binary_task *t, int64_t index, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    const int64_t position = index % t->dims[d];
    index /= t->dims[d];
    *a += position * t->a_stride[d];
    *b += position * t->b_stride[d];
  }
}

// Floor division of a 128-bit sum by a power of two is never needed: every expression of docs/ARITHMETIC.md fits 64 bits
// by the rules the compiler checks.

#endif
