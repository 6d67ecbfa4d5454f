#include "tensor/encoding.h"

#include <math.h>
#include <string.h>

int32_t itg_code_min(itg_dtype storage) {
  switch (storage) {
  case ITG_DTYPE_S4: return -8;
  case ITG_DTYPE_S8: return -128;
  case ITG_DTYPE_S16: return -32768;
  case ITG_DTYPE_S32: return INT32_MIN;
  default: return 0;
  }
}

int32_t itg_code_max(itg_dtype storage) {
  switch (storage) {
  case ITG_DTYPE_S4: return 7;
  case ITG_DTYPE_S8: return 127;
  case ITG_DTYPE_S16: return 32767;
  case ITG_DTYPE_S32: return INT32_MAX;
  case ITG_DTYPE_U8: return 255;
  case ITG_DTYPE_U16: return 65535;
  case ITG_DTYPE_BOOL: return 1;
  default: return 0;
  }
}

void itg_encoding_from_range(double low, double high, itg_dtype storage, double *scale, int32_t *zero_point) {
  const int32_t top = itg_code_max(storage);
  low = fmin(low, 0.0);
  high = fmax(high, 0.0);
  const double s = (double)(float)(fmax(high - low, 1e-4) / top);
  const double z = floor(-low / s + 0.5);
  *scale = s;
  *zero_point = z < 0 ? 0 : z > top ? top : (int32_t)z;
}

int32_t itg_encode(float value, double scale, int32_t zero_point, int32_t code_min, int32_t code_max) {
  if (isnan(value)) return zero_point;
  const double code = zero_point + floor((double)value * (1.0 / scale) + 0.5);
  return code < code_min ? code_min : code > code_max ? code_max : (int32_t)code;
}

bool itg_encoding_equal(const itg_encoding *a, const itg_encoding *b) {
  if (a == b) return true;
  if (!a || !b || a->storage != b->storage || a->axis != b->axis || a->count != b->count || a->block != b->block)
    return false;
  if (memcmp(a->scales, b->scales, (size_t)a->count * sizeof a->scales[0]) != 0) return false;
  for (int64_t i = 0; i < a->count; i++) {
    if ((a->zero_points ? a->zero_points[i] : 0) != (b->zero_points ? b->zero_points[i] : 0)) return false;
  }
  return true;
}
