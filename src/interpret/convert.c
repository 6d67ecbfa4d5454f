// Conversions between dtypes, the CAST operation, and the small helpers that all executors share.
#include <math.h>
#include <string.h>

#include "interpret/executor.h"
#include "tensor/half.h"
#include "tensor/nibbles.h"

enum { CHUNK = 512 }; // Elements widened at a time on the stack.

// Every dtype that C can compute with: X(enumerator, C type, lowest, highest as double).
#define INTEGER_TYPES(X)                \
  X(S8, int8_t, INT8_MIN, INT8_MAX)     \
  X(S16, int16_t, INT16_MIN, INT16_MAX) \
  X(S32, int32_t, INT32_MIN, INT32_MAX) \
  X(S64, int64_t, INT64_MIN, INT64_MAX) \
  X(U8, uint8_t, 0, UINT8_MAX)          \
  X(U16, uint16_t, 0, UINT16_MAX) X(U32, uint32_t, 0, UINT32_MAX) X(U64, uint64_t, 0, UINT64_MAX)

#define SATURATE(enumerator, type, lowest, highest)                        \
  static inline type to_##type(double value) {                             \
    if (!(value > (double)(lowest))) return value != value ? 0 : (lowest); \
    return value < (double)(highest) ? (type)value : (highest);            \
  }
INTEGER_TYPES(SATURATE)
#undef SATURATE

static void narrow_f32(const float *from, itg_dtype to_dtype, void *to, size_t count) {
  uint16_t *y = to;
  if (to_dtype == ITG_DTYPE_F16) {
    for (size_t i = 0; i < count; i++) y[i] = itg_f32_to_f16(from[i]);
  } else {
    for (size_t i = 0; i < count; i++) y[i] = itg_f32_to_bf16(from[i]);
  }
}

static void widen_half(itg_dtype from_dtype, const void *from, float *to, size_t count) {
  const uint16_t *x = from;
  if (from_dtype == ITG_DTYPE_F16) {
    for (size_t i = 0; i < count; i++) to[i] = itg_f16_to_f32(x[i]);
  } else {
    for (size_t i = 0; i < count; i++) to[i] = itg_bf16_to_f32(x[i]);
  }
}

static bool is_half(itg_dtype dtype) { return dtype == ITG_DTYPE_F16 || dtype == ITG_DTYPE_BF16; }

#define FROM_FLOAT_TO(enumerator, type, lowest, highest)               \
  case ITG_DTYPE_##enumerator: {                                       \
    type *y = to;                                                      \
    for (size_t i = 0; i < count; i++) y[i] = to_##type((double)x[i]); \
    return;                                                            \
  }
#define FROM_INTEGER_TO(enumerator, type, lowest, highest) \
  case ITG_DTYPE_##enumerator: {                           \
    type *y = to;                                          \
    for (size_t i = 0; i < count; i++) y[i] = (type)x[i];  \
    return;                                                \
  }
#define TO_OTHERS                                           \
  case ITG_DTYPE_F32: {                                     \
    float *y = to;                                          \
    for (size_t i = 0; i < count; i++) y[i] = (float)x[i];  \
    return;                                                 \
  }                                                         \
  case ITG_DTYPE_F64: {                                     \
    double *y = to;                                         \
    for (size_t i = 0; i < count; i++) y[i] = (double)x[i]; \
    return;                                                 \
  }                                                         \
  case ITG_DTYPE_BOOL: {                                    \
    uint8_t *y = to;                                        \
    for (size_t i = 0; i < count; i++) y[i] = x[i] != 0;    \
    return;                                                 \
  }                                                         \
  default: return;

static void convert_f32(const float *x, itg_dtype to_dtype, void *to, size_t count) {
  switch (to_dtype) {
    INTEGER_TYPES(FROM_FLOAT_TO)
  case ITG_DTYPE_F16:
  case ITG_DTYPE_BF16:
    narrow_f32(x, to_dtype, to, count);
    return;
    TO_OTHERS
  }
}
static void convert_f64(const double *x, itg_dtype to_dtype, void *to, size_t count) {
  switch (to_dtype) {
    INTEGER_TYPES(FROM_FLOAT_TO)
    TO_OTHERS
  }
}
#define CONVERT_INTEGER(enumerator, type, lowest, highest)                                \
  static void convert_##type(const type *x, itg_dtype to_dtype, void *to, size_t count) { \
    switch (to_dtype) {                                                                   \
      INTEGER_TYPES(FROM_INTEGER_TO)                                                      \
      TO_OTHERS                                                                           \
    }                                                                                     \
  }
#define INTEGER_TYPES_OUTER(X) \
  X(S8, int8_t, , )            \
  X(S16, int16_t, , )          \
  X(S32, int32_t, , )          \
  X(S64, int64_t, , ) X(U8, uint8_t, , ) X(U16, uint16_t, , ) X(U32, uint32_t, , ) X(U64, uint64_t, , )
INTEGER_TYPES_OUTER(CONVERT_INTEGER)

static void unpack_s4(const uint8_t *from, int8_t *to, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = (int8_t)itg_nibble(from, (int64_t)i);
}

// One of the dtypes that convert_<type> reads.
static void convert_plain(itg_dtype from_dtype, const void *from, itg_dtype to_dtype, void *to, size_t count) {
  switch (from_dtype) {
  case ITG_DTYPE_F32: convert_f32(from, to_dtype, to, count); return;
  case ITG_DTYPE_F64: convert_f64(from, to_dtype, to, count); return;
  case ITG_DTYPE_S8: convert_int8_t(from, to_dtype, to, count); return;
  case ITG_DTYPE_S16: convert_int16_t(from, to_dtype, to, count); return;
  case ITG_DTYPE_S32: convert_int32_t(from, to_dtype, to, count); return;
  case ITG_DTYPE_S64: convert_int64_t(from, to_dtype, to, count); return;
  case ITG_DTYPE_BOOL:
  case ITG_DTYPE_U8: convert_uint8_t(from, to_dtype, to, count); return;
  case ITG_DTYPE_U16: convert_uint16_t(from, to_dtype, to, count); return;
  case ITG_DTYPE_U32: convert_uint32_t(from, to_dtype, to, count); return;
  case ITG_DTYPE_U64: convert_uint64_t(from, to_dtype, to, count); return;
  default: return;
  }
}

void itg_convert(itg_dtype from_dtype, const void *from, itg_dtype to_dtype, void *to, size_t count) {
  const size_t from_size = itg_dtype_size(from_dtype), to_size = itg_dtype_size(to_dtype);
  if (from_dtype == to_dtype) {
    if (count) memcpy(to, from, count * to_size);
    return;
  }
  if (is_half(from_dtype) && to_dtype == ITG_DTYPE_F32) {
    widen_half(from_dtype, from, to, count);
    return;
  }
  if (from_dtype == ITG_DTYPE_S4 && to_dtype == ITG_DTYPE_S8) {
    unpack_s4(from, to, count);
    return;
  }
  const bool narrows = is_half(to_dtype) && from_dtype != ITG_DTYPE_F32;
  if (!is_half(from_dtype) && from_dtype != ITG_DTYPE_S4 && !narrows) {
    convert_plain(from_dtype, from, to_dtype, to, count);
    return;
  }
  for (size_t done = 0; done < count; done += CHUNK) { // CHUNK is even: s4 chunks start on a byte.
    const size_t n = count - done < CHUNK ? count - done : CHUNK;
    float wide[CHUNK];
    int8_t bytes[CHUNK];
    const void *source = (const char *)from + (from_dtype == ITG_DTYPE_S4 ? done / 2 : done * from_size);
    itg_dtype dtype = from_dtype;
    if (is_half(from_dtype)) {
      widen_half(from_dtype, source, wide, n);
      source = wide;
      dtype = ITG_DTYPE_F32;
    } else if (from_dtype == ITG_DTYPE_S4) {
      unpack_s4(source, bytes, n);
      source = bytes;
      dtype = ITG_DTYPE_S8;
    }
    if (is_half(to_dtype) && dtype != ITG_DTYPE_F32) {
      convert_plain(dtype, source, ITG_DTYPE_F32, wide, n);
      source = wide;
      dtype = ITG_DTYPE_F32;
    }
    convert_plain(dtype, source, to_dtype, (char *)to + done * to_size, n);
  }
}

itg_status itg_prepare_cast(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  if (itg_dtype_size(call->outputs[0].dtype) == 0) return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  return ITG_OK;
}

itg_status itg_run_cast(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  itg_convert(call->inputs[0].dtype, call->inputs[0].data, call->outputs[0].dtype, call->outputs[0].data,
              call->outputs[0].count);
  return ITG_OK;
}

int64_t itg_operand_integer(const itg_operand *operand, size_t index) {
  switch (operand->dtype) {
  case ITG_DTYPE_S8: return ((const int8_t *)operand->data)[index];
  case ITG_DTYPE_S16: return ((const int16_t *)operand->data)[index];
  case ITG_DTYPE_S32: return ((const int32_t *)operand->data)[index];
  case ITG_DTYPE_S64: return ((const int64_t *)operand->data)[index];
  case ITG_DTYPE_BOOL:
  case ITG_DTYPE_U8: return ((const uint8_t *)operand->data)[index];
  case ITG_DTYPE_U16: return ((const uint16_t *)operand->data)[index];
  case ITG_DTYPE_U32: return ((const uint32_t *)operand->data)[index];
  case ITG_DTYPE_U64: return (int64_t)((const uint64_t *)operand->data)[index];
  default: return 0;
  }
}

itg_status itg_refuse_dtype(const itg_call *call, itg_dtype dtype, itg_diagnostic *diagnostic) {
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, call->node->name, "%s is not defined for %s", itg_op_name(call->node->op),
           itg_dtype_name(dtype));
}

itg_status itg_require_f32(const itg_call *call, itg_diagnostic *diagnostic) {
  for (int32_t i = 0; i < call->input_count; i++) {
    if (call->inputs[i].tensor && call->inputs[i].dtype != ITG_DTYPE_F32)
      return itg_refuse_dtype(call, call->inputs[i].dtype, diagnostic);
  }
  for (int32_t i = 0; i < call->output_count; i++) {
    if (call->outputs[i].tensor && call->outputs[i].dtype != ITG_DTYPE_F32)
      return itg_refuse_dtype(call, call->outputs[i].dtype, diagnostic);
  }
  return ITG_OK;
}
