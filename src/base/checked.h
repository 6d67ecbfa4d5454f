// Checked arithmetic for sizes that come from files or callers. Each returns false on overflow and leaves *result alone.
#ifndef ITG_BASE_CHECKED_H
#define ITG_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool itg_checked_add(size_t a, size_t b, size_t *result) {
  size_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return false;
  *result = sum;
  return true;
}
static inline bool itg_checked_multiply(size_t a, size_t b, size_t *result) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product)) return false;
  *result = product;
  return true;
}
static inline bool itg_checked_multiply_i64(int64_t a, int64_t b, int64_t *result) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return false;
  *result = product;
  return true;
}
static inline bool itg_checked_add_i64(int64_t a, int64_t b, int64_t *result) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return false;
  *result = sum;
  return true;
}
// Rounds up to a power of two; the caller knows that it fits.
static inline size_t itg_align_up(size_t value, size_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }
static inline int64_t itg_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t itg_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
