// Between floats and codes: itg_encode and itg_decode (tensor/encoding.h) over arrays, in loops that compilers vectorise.
#ifndef ITG_RUN_CONVERT_H
#define ITG_RUN_CONVERT_H

#include <stddef.h>

#include "tensor/dtype.h"

// codes[i] = itg_encode(values[i], ...) for u8 and u16. For s32 and s64 the values are rounded half up and saturate, NaN gives
// 0; for bool every value that does not round to 0 is 1. `dtype` is one of these.
void itg_encode_array(const float *values, size_t count, itg_dtype dtype, double scale, int32_t zero_point,
                      void *codes);
// values[i] = itg_decode(codes[i], ...); types other than u8 and u16 become the nearest float.
void itg_decode_array(const void *codes, size_t count, itg_dtype dtype, double scale, int32_t zero_point,
                      float *values);

#endif
