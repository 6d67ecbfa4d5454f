// See convert.h.
#include "run/convert.h"

#include <math.h>

#include "tensor/encoding.h"

// floor(x*r + 0.5) clamped to [low, high], which are whole: clamping first changes nothing, because the floor of a number is
// below a whole number exactly when the number is. The clamped value fits 32 bits, so truncation and a correction give the
// floor without a call. NaN fails every comparison and becomes 0.
static inline int32_t round_clamped(float value, double reciprocal, double low, double high) {
  double x = (double)value * reciprocal + 0.5;
  x = x >= low ? x : value == value ? low : 0;
  x = x > high ? high : x;
  const int32_t truncated = (int32_t)x;
  return truncated - ((double)truncated > x);
}

static void encode_u8(const float *values, size_t count, double scale, int32_t zero, uint8_t *codes) {
  const double reciprocal = 1.0 / scale, low = -zero, high = 255 - zero;
  for (size_t i = 0; i < count; i++) codes[i] = (uint8_t)(zero + round_clamped(values[i], reciprocal, low, high));
}

static void encode_u16(const float *values, size_t count, double scale, int32_t zero, uint16_t *codes) {
  const double reciprocal = 1.0 / scale, low = -zero, high = 65535 - zero;
  for (size_t i = 0; i < count; i++) codes[i] = (uint16_t)(zero + round_clamped(values[i], reciprocal, low, high));
}

// 2^63 is no int64_t, and neither is any float above it.
static int64_t round_to_integer(float value, int64_t low, int64_t high) {
  const double x = floor((double)value + 0.5);
  if (isnan(x)) return 0;
  return x <= (double)low ? low : x >= (double)high ? high : (int64_t)x;
}

void itg_encode_array(const float *values, size_t count, itg_dtype dtype, double scale, int32_t zero_point,
                      void *codes) {
  switch (dtype) {
  case ITG_DTYPE_U8: encode_u8(values, count, scale, zero_point, codes); break;
  case ITG_DTYPE_U16: encode_u16(values, count, scale, zero_point, codes); break;
  case ITG_DTYPE_S32:
    for (size_t i = 0; i < count; i++)
      ((int32_t *)codes)[i] = (int32_t)round_to_integer(values[i], INT32_MIN, INT32_MAX);
    break;
  case ITG_DTYPE_S64:
    for (size_t i = 0; i < count; i++) ((int64_t *)codes)[i] = round_to_integer(values[i], INT64_MIN, INT64_MAX);
    break;
  default: // bool
    for (size_t i = 0; i < count; i++) ((uint8_t *)codes)[i] = round_to_integer(values[i], INT32_MIN, INT32_MAX) != 0;
    break;
  }
}

void itg_decode_array(const void *codes, size_t count, itg_dtype dtype, double scale, int32_t zero_point,
                      float *values) {
  switch (dtype) {
  case ITG_DTYPE_U8:
    for (size_t i = 0; i < count; i++) values[i] = itg_decode(((const uint8_t *)codes)[i], scale, zero_point);
    break;
  case ITG_DTYPE_U16:
    for (size_t i = 0; i < count; i++) values[i] = itg_decode(((const uint16_t *)codes)[i], scale, zero_point);
    break;
  case ITG_DTYPE_S32:
    for (size_t i = 0; i < count; i++) values[i] = (float)((const int32_t *)codes)[i];
    break;
  case ITG_DTYPE_S64:
    for (size_t i = 0; i < count; i++) values[i] = (float)((const int64_t *)codes)[i];
    break;
  default: // bool
    for (size_t i = 0; i < count; i++) values[i] = ((const uint8_t *)codes)[i] != 0;
    break;
  }
}
