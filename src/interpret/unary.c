// Element-wise operations of one input. f32 uses the vectorised functions of vector_math.h where they matter, else libm;
// f64 uses libm; integers where ONNX allows them.
#include <math.h>
#include <string.h>

#include "interpret/executor.h"
#include "interpret/vector_math.h"

typedef void (*unary_function)(const void *x, void *y, size_t count, const itg_scalar_attributes *scalar);
typedef struct unary_kernel { // A struct, so that prepared data can point to it.
  unary_function function;
} unary_kernel;

// y = expression over `v`, with the attributes alpha and beta in the type of the elements.
#define UNARY(qualifier, name, in_type, out_type, expression)                                                       \
  qualifier static void name(const void *x_data, void *y_data, size_t count, const itg_scalar_attributes *scalar) { \
    const in_type *x = x_data;                                                                                      \
    out_type *y = y_data;                                                                                           \
    const in_type alpha = (in_type)scalar->alpha, beta = (in_type)scalar->beta;                                     \
    (void)alpha;                                                                                                    \
    (void)beta;                                                                                                     \
    for (size_t i = 0; i < count; i++) {                                                                            \
      const in_type v = x[i];                                                                                       \
      y[i] = (out_type)(expression);                                                                                \
    }                                                                                                               \
  }                                                                                                                 \
  static const unary_kernel name##_kernel = {name};
#define NOTHING

// The same formula in f32 (vectorised) and f64.
#define FLOAT_UNARY(name, f32_expression, f64_expression)         \
  UNARY(ITG_VECTORISED, name##_f32, float, float, f32_expression) \
  UNARY(NOTHING, name##_f64, double, double, f64_expression)
#define LIBM_UNARY(name, function)                         \
  UNARY(NOTHING, name##_f32, float, float, function##f(v)) \
  UNARY(NOTHING, name##_f64, double, double, function(v))

static const double selu_alpha = 1.67326319217681884765625, selu_gamma = 1.05070102214813232421875;

FLOAT_UNARY(absolute, fabsf(v), fabs(v))
FLOAT_UNARY(negate, -v, -v)
LIBM_UNARY(ceiling, ceil)
LIBM_UNARY(floor, floor)
LIBM_UNARY(nearest, rint) // Half to even: the default rounding mode.
FLOAT_UNARY(sign, v > 0 ? 1.0f : (v < 0 ? -1.0f : v), v > 0 ? 1.0 : (v < 0 ? -1.0 : v))
FLOAT_UNARY(square_root, __builtin_sqrtf(v), sqrt(v))
FLOAT_UNARY(exponential, itg_expf(v), exp(v))
FLOAT_UNARY(logarithm, itg_logf(v), log(v))
FLOAT_UNARY(error_function, itg_erff(v), erf(v))
LIBM_UNARY(sine, sin)
LIBM_UNARY(cosine, cos)
LIBM_UNARY(tangent, tan)
LIBM_UNARY(arc_sine, asin)
LIBM_UNARY(arc_cosine, acos)
LIBM_UNARY(arc_tangent, atan)
LIBM_UNARY(hyperbolic_sine, sinh)
LIBM_UNARY(hyperbolic_cosine, cosh)
LIBM_UNARY(area_sine, asinh)
LIBM_UNARY(area_cosine, acosh)
LIBM_UNARY(area_tangent, atanh)
FLOAT_UNARY(reciprocal, 1.0f / v, 1.0 / v)
FLOAT_UNARY(rectify, v < 0 ? 0.0f : v, v < 0 ? 0.0 : v)
FLOAT_UNARY(leaky, v < 0 ? alpha * v : v, v < 0 ? alpha * v : v)
FLOAT_UNARY(elu, v < 0 ? alpha * (itg_expf(v) - 1.0f) : v, v < 0 ? alpha * expm1(v) : v)
FLOAT_UNARY(selu, v > 0 ? (float)selu_gamma * v : (float)(selu_gamma * selu_alpha) * (itg_expf(v) - 1.0f),
            v > 0 ? selu_gamma * v : selu_gamma * selu_alpha * expm1(v))
FLOAT_UNARY(celu, v > 0 ? v : alpha * (itg_expf(v / alpha) - 1.0f), v > 0 ? v : alpha * expm1(v / alpha))
FLOAT_UNARY(thresholded, v > alpha ? v : 0.0f, v > alpha ? v : 0.0)
FLOAT_UNARY(sigmoid, itg_sigmoidf(v), 1.0 / (1.0 + exp(-v)))
FLOAT_UNARY(hyperbolic_tangent, itg_tanhf(v), tanh(v))
UNARY(NOTHING, softplus_f32, float, float, fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v))))
UNARY(NOTHING, softplus_f64, double, double, fmax(v, 0.0) + log1p(exp(-fabs(v))))
FLOAT_UNARY(softsign, v / (1.0f + fabsf(v)), v / (1.0 + fabs(v)))
#define BOUNDED(value, low, high) ((value) < (low) ? (low) : ((value) > (high) ? (high) : (value)))
FLOAT_UNARY(hard_sigmoid, BOUNDED(alpha *v + beta, 0.0f, 1.0f), BOUNDED(alpha *v + beta, 0.0, 1.0))
FLOAT_UNARY(hard_swish, v *BOUNDED(v *(1.0f / 6.0f) + 0.5f, 0.0f, 1.0f), v *BOUNDED(v / 6.0 + 0.5, 0.0, 1.0))
FLOAT_UNARY(gelu, itg_geluf(v), 0.5 * v * (1.0 + erf(v * 0.70710678118654752440)))
FLOAT_UNARY(gelu_tanh, itg_gelu_tanhf(v), 0.5 * v * (1.0 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v))))
FLOAT_UNARY(quick_gelu, v *itg_sigmoidf(alpha *v), v / (1.0 + exp(-alpha * v)))
FLOAT_UNARY(silu, v *itg_sigmoidf(v), v / (1.0 + exp(-v)))
FLOAT_UNARY(mish, itg_mishf(v), v *tanh(fmax(v, 0.0) + log1p(exp(-fabs(v)))))
FLOAT_UNARY(clip, BOUNDED(v, alpha, beta), BOUNDED(v, alpha, beta))
FLOAT_UNARY(shrink, v < -alpha ? v + beta : (v > alpha ? v - beta : 0.0f),
            v < -alpha ? v + beta : (v > alpha ? v - beta : 0.0))
UNARY(ITG_VECTORISED, is_nan_f32, float, uint8_t, v != v)
UNARY(NOTHING, is_nan_f64, double, uint8_t, v != v)
UNARY(NOTHING, not_bool, uint8_t, uint8_t, !v)

// IS_INF: attributes.axis.flag bit 0 detects +inf, bit 1 -inf; it arrives as alpha and beta.
#define FINDS_INFINITY ((v == INFINITY && alpha != 0) || (v == -INFINITY && beta != 0))
UNARY(NOTHING, is_inf_f32, float, uint8_t, FINDS_INFINITY)
UNARY(NOTHING, is_inf_f64, double, uint8_t, FINDS_INFINITY)

// CLIP of integers: the bounds may be infinite or outside of the type, so they are compared as doubles. 64-bit values above
// 2^53 compare by their rounded value, which only matters within rounding of a bound.
#define CLIPPED(type) \
  ((double)v < scalar->alpha ? (type)scalar->alpha : ((double)v > scalar->beta ? (type)scalar->beta : v))
#define SIGNED_UNARY(name, type, unsigned_type)                                         \
  UNARY(NOTHING, absolute_##name, type, type, v < 0 ? (type)(0 - (unsigned_type)v) : v) \
  UNARY(NOTHING, negate_##name, type, type, (type)(0 - (unsigned_type)v))               \
  UNARY(NOTHING, sign_##name, type, type, (v > 0) - (v < 0))                            \
  UNARY(NOTHING, rectify_##name, type, type, v < 0 ? 0 : v)
#define INTEGER_UNARY(name, type)                        \
  UNARY(NOTHING, clip_##name, type, type, CLIPPED(type)) \
  UNARY(NOTHING, bitwise_not_##name, type, type, ~v)
#define UNSIGNED_UNARY(name, type) UNARY(NOTHING, sign_##name, type, type, v != 0)
SIGNED_UNARY(s8, int8_t, uint8_t)
SIGNED_UNARY(s16, int16_t, uint16_t)
SIGNED_UNARY(s32, int32_t, uint32_t)
SIGNED_UNARY(s64, int64_t, uint64_t)
INTEGER_UNARY(s8, int8_t)
INTEGER_UNARY(s16, int16_t)
INTEGER_UNARY(s32, int32_t)
INTEGER_UNARY(s64, int64_t)
INTEGER_UNARY(u8, uint8_t)
INTEGER_UNARY(u16, uint16_t)
INTEGER_UNARY(u32, uint32_t)
INTEGER_UNARY(u64, uint64_t)
UNSIGNED_UNARY(u8, uint8_t)
UNSIGNED_UNARY(u16, uint16_t)
UNSIGNED_UNARY(u32, uint32_t)
UNSIGNED_UNARY(u64, uint64_t)

typedef struct unary_row {
  itg_op op;
  const unary_kernel *by_dtype[ITG_DTYPE_COUNT];
} unary_row;

#define FLOATS(name) [ITG_DTYPE_F32] = &name##_f32_kernel, [ITG_DTYPE_F64] = &name##_f64_kernel
#define SIGNEDS(name)                                                                                             \
  [ITG_DTYPE_S8] = &name##_s8_kernel, [ITG_DTYPE_S16] = &name##_s16_kernel, [ITG_DTYPE_S32] = &name##_s32_kernel, \
  [ITG_DTYPE_S64] = &name##_s64_kernel
#define UNSIGNEDS(name)                                                                                           \
  [ITG_DTYPE_U8] = &name##_u8_kernel, [ITG_DTYPE_U16] = &name##_u16_kernel, [ITG_DTYPE_U32] = &name##_u32_kernel, \
  [ITG_DTYPE_U64] = &name##_u64_kernel
static const unary_row rows[] = {
    {ITG_OP_ABS, {FLOATS(absolute), SIGNEDS(absolute)}},
    {ITG_OP_NEG, {FLOATS(negate), SIGNEDS(negate)}},
    {ITG_OP_CEIL, {FLOATS(ceiling)}},
    {ITG_OP_FLOOR, {FLOATS(floor)}},
    {ITG_OP_ROUND, {FLOATS(nearest)}},
    {ITG_OP_SIGN, {FLOATS(sign), SIGNEDS(sign), UNSIGNEDS(sign)}},
    {ITG_OP_SQRT, {FLOATS(square_root)}},
    {ITG_OP_EXP, {FLOATS(exponential)}},
    {ITG_OP_LOG, {FLOATS(logarithm)}},
    {ITG_OP_ERF, {FLOATS(error_function)}},
    {ITG_OP_SIN, {FLOATS(sine)}},
    {ITG_OP_COS, {FLOATS(cosine)}},
    {ITG_OP_TAN, {FLOATS(tangent)}},
    {ITG_OP_ASIN, {FLOATS(arc_sine)}},
    {ITG_OP_ACOS, {FLOATS(arc_cosine)}},
    {ITG_OP_ATAN, {FLOATS(arc_tangent)}},
    {ITG_OP_SINH, {FLOATS(hyperbolic_sine)}},
    {ITG_OP_COSH, {FLOATS(hyperbolic_cosine)}},
    {ITG_OP_ASINH, {FLOATS(area_sine)}},
    {ITG_OP_ACOSH, {FLOATS(area_cosine)}},
    {ITG_OP_ATANH, {FLOATS(area_tangent)}},
    {ITG_OP_RECIPROCAL, {FLOATS(reciprocal)}},
    {ITG_OP_RELU, {FLOATS(rectify), SIGNEDS(rectify)}},
    {ITG_OP_LEAKY_RELU, {FLOATS(leaky)}},
    {ITG_OP_ELU, {FLOATS(elu)}},
    {ITG_OP_SELU, {FLOATS(selu)}},
    {ITG_OP_CELU, {FLOATS(celu)}},
    {ITG_OP_THRESHOLDED_RELU, {FLOATS(thresholded)}},
    {ITG_OP_SIGMOID, {FLOATS(sigmoid)}},
    {ITG_OP_TANH, {FLOATS(hyperbolic_tangent)}},
    {ITG_OP_SOFTPLUS, {FLOATS(softplus)}},
    {ITG_OP_SOFTSIGN, {FLOATS(softsign)}},
    {ITG_OP_HARD_SIGMOID, {FLOATS(hard_sigmoid)}},
    {ITG_OP_HARD_SWISH, {FLOATS(hard_swish)}},
    {ITG_OP_GELU, {FLOATS(gelu)}},
    {ITG_OP_QUICK_GELU, {FLOATS(quick_gelu)}},
    {ITG_OP_SILU, {FLOATS(silu)}},
    {ITG_OP_MISH, {FLOATS(mish)}},
    {ITG_OP_CLIP, {FLOATS(clip), SIGNEDS(clip), UNSIGNEDS(clip)}},
    {ITG_OP_NOT, {[ITG_DTYPE_BOOL] = &not_bool_kernel}},
    {ITG_OP_IS_NAN, {FLOATS(is_nan)}},
    {ITG_OP_IS_INF, {FLOATS(is_inf)}},
    {ITG_OP_BITWISE_NOT, {SIGNEDS(bitwise_not), UNSIGNEDS(bitwise_not)}},
    {ITG_OP_SHRINK, {FLOATS(shrink)}},
};
static const unary_row gelu_tanh_row = {ITG_OP_GELU, {FLOATS(gelu_tanh)}};

itg_status itg_prepare_unary(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_dtype dtype = call->inputs[0].dtype;
  const unary_row *row = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].op == call->node->op) row = &rows[i];
  }
  if (row && row->op == ITG_OP_GELU && call->node->attributes.scalar.alpha != 0) row = &gelu_tanh_row;
  preparation->prepared = row ? row->by_dtype[dtype] : NULL;
  if (!preparation->prepared) return itg_refuse_dtype(call, dtype, diagnostic);
  return ITG_OK;
}

itg_status itg_run_unary(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const unary_kernel *kernel = call->prepared;
  itg_scalar_attributes scalar = {0, 0};
  if (call->node->op == ITG_OP_IS_INF) {
    scalar.alpha = call->node->attributes.axis.flag & 1;
    scalar.beta = call->node->attributes.axis.flag & 2;
  } else if (itg_op_get_info(call->node->op)->attribute_size) {
    scalar = call->node->attributes.scalar;
  }
  kernel->function(call->inputs[0].data, call->outputs[0].data, call->outputs[0].count, &scalar);
  return ITG_OK;
}
