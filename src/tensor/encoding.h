// How integer codes stand for real numbers: real = scale * (code - zero_point). docs/ARITHMETIC.md, section 1.
#ifndef ITG_TENSOR_ENCODING_H
#define ITG_TENSOR_ENCODING_H

#include "tensor/dtype.h"

// Immutable; lives in its graph's arena. Scales are values of float32 held as doubles, so that every target sees the same.
typedef struct itg_encoding {
  itg_dtype storage;          // u8 u16 s8 s16 s4 s32.
  int32_t axis;               // Channel axis; -1 for one scale a tensor.
  int64_t count;              // Number of scales: 1, or the size of the axis (times blocks).
  int64_t block;              // Elements a block along the reduction axis; 0 for none.
  const double *scales;       // [count], each > 0 and finite.
  const int32_t *zero_points; // [count]; NULL stands for all 0.
} itg_encoding;

// Lowest and highest code of a storage type (s8 activations use the full range; weights are limited by the quantizer).
int32_t itg_code_min(itg_dtype storage);
int32_t itg_code_max(itg_dtype storage);

// The range rule: widens [low, high] to hold 0, scale = max(high - low, 1e-4)/(2^bits - 1) rounded to float,
// zero_point = clamp(floor(-low/scale + 0.5)). `storage` is u8 or u16.
void itg_encoding_from_range(double low, double high, itg_dtype storage, double *scale, int32_t *zero_point);

// Float to code: clamp(z + floor(x*(1/s) + 0.5)); NaN gives z.
int32_t itg_encode(float value, double scale, int32_t zero_point, int32_t code_min, int32_t code_max);
static inline float itg_decode(int32_t code, double scale, int32_t zero_point) {
  return (float)((double)(code - zero_point) * scale);
}

bool itg_encoding_equal(const itg_encoding *a, const itg_encoding *b); // NULLs allowed

#endif
