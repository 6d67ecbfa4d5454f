// Values as the public interface passes them: f32 for floats of any width, otherwise the tensor's own dtype.
#include <string.h>

#include "compile/float_network.h"
#include "tensor/half.h"

itg_dtype itg_public_dtype(itg_dtype dtype) { return itg_dtype_is_float(dtype) ? ITG_DTYPE_F32 : dtype; }

bool itg_public_bytes(const itg_tensor_info *info, size_t *bytes) {
  return itg_shape_bytes(&info->shape, itg_public_dtype(info->dtype), bytes);
}

void itg_from_public(itg_dtype dtype, const void *values, void *own, size_t count) {
  const float *floats = values;
  switch (dtype) {
  case ITG_DTYPE_F64:
    for (size_t i = 0; i < count; i++) ((double *)own)[i] = floats[i];
    break;
  case ITG_DTYPE_F16:
    for (size_t i = 0; i < count; i++) ((uint16_t *)own)[i] = itg_f32_to_f16(floats[i]);
    break;
  case ITG_DTYPE_BF16:
    for (size_t i = 0; i < count; i++) ((uint16_t *)own)[i] = itg_f32_to_bf16(floats[i]);
    break;
  default:
    if (count) memcpy(own, values, count * itg_dtype_size(dtype));
  }
}

void itg_to_public(itg_dtype dtype, const void *own, void *values, size_t count) {
  float *floats = values;
  switch (dtype) {
  case ITG_DTYPE_F64:
    for (size_t i = 0; i < count; i++) floats[i] = (float)((const double *)own)[i];
    break;
  case ITG_DTYPE_F16:
    for (size_t i = 0; i < count; i++) floats[i] = itg_f16_to_f32(((const uint16_t *)own)[i]);
    break;
  case ITG_DTYPE_BF16:
    for (size_t i = 0; i < count; i++) floats[i] = itg_bf16_to_f32(((const uint16_t *)own)[i]);
    break;
  default:
    if (count) memcpy(values, own, count * itg_dtype_size(dtype));
  }
}

#define ITG_COPY_AS_FLOAT(type) \
  for (size_t i = 0; i < count; i++) out[i] = (float)((const type *)values)[i]

void itg_public_to_float(itg_dtype dtype, const void *values, float *out, size_t count) {
  switch (dtype) {
  case ITG_DTYPE_S8: ITG_COPY_AS_FLOAT(int8_t); break;
  case ITG_DTYPE_S16: ITG_COPY_AS_FLOAT(int16_t); break;
  case ITG_DTYPE_S32: ITG_COPY_AS_FLOAT(int32_t); break;
  case ITG_DTYPE_S64: ITG_COPY_AS_FLOAT(int64_t); break;
  case ITG_DTYPE_U8:
  case ITG_DTYPE_BOOL: ITG_COPY_AS_FLOAT(uint8_t); break;
  case ITG_DTYPE_U16: ITG_COPY_AS_FLOAT(uint16_t); break;
  case ITG_DTYPE_U32: ITG_COPY_AS_FLOAT(uint32_t); break;
  case ITG_DTYPE_U64: ITG_COPY_AS_FLOAT(uint64_t); break;
  default:
    if (count) memcpy(out, values, count * sizeof *out);
  }
}
