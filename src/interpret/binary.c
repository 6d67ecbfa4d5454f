// Element-wise operations of two inputs with broadcasting, and WHERE.
#include <math.h>
#include <string.h>

#include "interpret/broadcast.h"
#include "interpret/executor.h"

// Strides are 0 (one value for the whole run) or 1. `flag` is attributes.axis.flag of MOD and BIT_SHIFT.
typedef void (*binary_function)(const void *a, int64_t a_stride, const void *b, int64_t b_stride, void *y,
                                int64_t count, int flag);
typedef struct binary_kernel {
  binary_function function;
} binary_kernel;
typedef struct binary_plan {
  itg_broadcast broadcast;
  const binary_kernel *kernel;
  itg_dtype compute; // Of both operands; differs from the output's only where POW mixes types.
  bool converts;
} binary_plan;

// Three loops, so that each vectorises: two vectors, vector and value, value and vector.
#define BINARY(qualifier, name, in_type, out_type, expression)                                                         \
  qualifier static void name(const void *a_data, int64_t a_stride, const void *b_data, int64_t b_stride, void *y_data, \
                             int64_t n, int flag) {                                                                    \
    const in_type *pa = a_data, *pb = b_data;                                                                          \
    out_type *y = y_data;                                                                                              \
    (void)flag;                                                                                                        \
    if (a_stride && b_stride) {                                                                                        \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        const in_type a = pa[i], b = pb[i];                                                                            \
        y[i] = (out_type)(expression);                                                                                 \
      }                                                                                                                \
    } else if (a_stride) {                                                                                             \
      const in_type b = pb[0];                                                                                         \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        const in_type a = pa[i];                                                                                       \
        y[i] = (out_type)(expression);                                                                                 \
      }                                                                                                                \
    } else {                                                                                                           \
      const in_type a = pa[0];                                                                                         \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        const in_type b = pb[b_stride ? i : 0];                                                                        \
        y[i] = (out_type)(expression);                                                                                 \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static const binary_kernel name##_kernel = {name};
#define NOTHING

// ---- floats ----
#define FLOAT_BINARY(name, expression) \
  BINARY(ITG_VECTORISED, name##_f32, float, float, expression) BINARY(NOTHING, name##_f64, double, double, expression)
#define POWER(suffix) (b == 2 ? a * a : (b == 1 ? a : (b == 3 ? a * a * a : (b == -1 ? 1 / a : pow##suffix(a, b)))))
#define MODULO(fmod_function) (flag ? fmod_function(a, b) : floored_##fmod_function(a, b))
static inline float floored_fmodf(float a, float b) {
  const float rest = fmodf(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline double floored_fmod(double a, double b) {
  const double rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
FLOAT_BINARY(add, a + b)
FLOAT_BINARY(subtract, a - b)
FLOAT_BINARY(multiply, a *b)
FLOAT_BINARY(divide, a / b)
FLOAT_BINARY(minimum, a < b || a != a ? a : b)
FLOAT_BINARY(maximum, a > b || a != a ? a : b)
FLOAT_BINARY(prelu, a < 0 ? a * b : a)
BINARY(NOTHING, power_f32, float, float, POWER(f))
BINARY(NOTHING, power_f64, double, double, POWER())
BINARY(NOTHING, modulo_f32, float, float, MODULO(fmodf))
BINARY(NOTHING, modulo_f64, double, double, MODULO(fmod))

// ---- comparisons of every dtype ----
#define COMPARISONS(name, type)                                \
  BINARY(NOTHING, equal_##name, type, uint8_t, a == b)         \
  BINARY(NOTHING, less_##name, type, uint8_t, a < b)           \
  BINARY(NOTHING, less_or_equal_##name, type, uint8_t, a <= b) \
  BINARY(NOTHING, greater_##name, type, uint8_t, a > b)        \
  BINARY(NOTHING, greater_or_equal_##name, type, uint8_t, a >= b)
COMPARISONS(f32, float)
COMPARISONS(f64, double)

// ---- integers: results wrap; division by zero gives 0 ----
static inline uint64_t power_unsigned(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}
static inline int64_t power_signed(int64_t base, int64_t exponent) {
  if (exponent >= 0) return (int64_t)power_unsigned((uint64_t)base, (uint64_t)exponent);
  return base == 1 ? 1 : (base == -1 ? (exponent % 2 ? -1 : 1) : 0);
}
static inline int64_t divide_signed(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static inline int64_t modulo_signed(int64_t a, int64_t b, int flag) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return !flag && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
#define SHIFTED(type) \
  ((uint64_t)b >= sizeof(type) * 8 ? 0 : (flag ? (uint64_t)a << (uint64_t)b : (uint64_t)a >> (uint64_t)b))
// Arithmetic in uint64_t and truncation give the wrapped result of every width.
#define INTEGER_COMMON(name, type)                                        \
  BINARY(NOTHING, add_##name, type, type, (uint64_t)a + (uint64_t)b)      \
  BINARY(NOTHING, subtract_##name, type, type, (uint64_t)a - (uint64_t)b) \
  BINARY(NOTHING, multiply_##name, type, type, (uint64_t)a *(uint64_t)b)  \
  BINARY(NOTHING, minimum_##name, type, type, a < b ? a : b)              \
  BINARY(NOTHING, maximum_##name, type, type, a > b ? a : b)              \
  BINARY(NOTHING, bitwise_and_##name, type, type, a &b)                   \
  BINARY(NOTHING, bitwise_or_##name, type, type, a | b)                   \
  BINARY(NOTHING, bitwise_xor_##name, type, type, a ^ b)                  \
  COMPARISONS(name, type)
#define SIGNED_BINARY(name, type)                                       \
  INTEGER_COMMON(name, type)                                            \
  BINARY(NOTHING, divide_##name, type, type, divide_signed(a, b))       \
  BINARY(NOTHING, modulo_##name, type, type, modulo_signed(a, b, flag)) \
  BINARY(NOTHING, power_##name, type, type, power_signed(a, b))         \
  BINARY(NOTHING, prelu_##name, type, type, a < 0 ? (uint64_t)a * (uint64_t)b : (uint64_t)a)
#define UNSIGNED_BINARY(name, type)                               \
  INTEGER_COMMON(name, type)                                      \
  BINARY(NOTHING, divide_##name, type, type, b ? a / b : 0)       \
  BINARY(NOTHING, modulo_##name, type, type, b ? a % b : 0)       \
  BINARY(NOTHING, power_##name, type, type, power_unsigned(a, b)) \
  BINARY(NOTHING, shift_##name, type, type, SHIFTED(type))
SIGNED_BINARY(s8, int8_t)
SIGNED_BINARY(s16, int16_t)
SIGNED_BINARY(s32, int32_t)
SIGNED_BINARY(s64, int64_t)
UNSIGNED_BINARY(u8, uint8_t)
UNSIGNED_BINARY(u16, uint16_t)
UNSIGNED_BINARY(u32, uint32_t)
UNSIGNED_BINARY(u64, uint64_t)
BINARY(NOTHING, and_bool, uint8_t, uint8_t, a &&b)
BINARY(NOTHING, or_bool, uint8_t, uint8_t, a || b)
BINARY(NOTHING, xor_bool, uint8_t, uint8_t, !a != !b)

typedef struct binary_row {
  itg_op op;
  const binary_kernel *by_dtype[ITG_DTYPE_COUNT];
} binary_row;
#define FLOATS(name) [ITG_DTYPE_F32] = &name##_f32_kernel, [ITG_DTYPE_F64] = &name##_f64_kernel
#define SIGNEDS(name)                                                                                             \
  [ITG_DTYPE_S8] = &name##_s8_kernel, [ITG_DTYPE_S16] = &name##_s16_kernel, [ITG_DTYPE_S32] = &name##_s32_kernel, \
  [ITG_DTYPE_S64] = &name##_s64_kernel
#define UNSIGNEDS(name)                                                                                           \
  [ITG_DTYPE_U8] = &name##_u8_kernel, [ITG_DTYPE_U16] = &name##_u16_kernel, [ITG_DTYPE_U32] = &name##_u32_kernel, \
  [ITG_DTYPE_U64] = &name##_u64_kernel
#define NUMBERS(name) FLOATS(name), SIGNEDS(name), UNSIGNEDS(name)
#define COMPARED(name) NUMBERS(name), [ITG_DTYPE_BOOL] = &name##_u8_kernel
static const binary_row rows[] = {
    {ITG_OP_ADD, {NUMBERS(add)}},
    {ITG_OP_SUB, {NUMBERS(subtract)}},
    {ITG_OP_MUL, {NUMBERS(multiply)}},
    {ITG_OP_DIV, {NUMBERS(divide)}},
    {ITG_OP_POW, {NUMBERS(power)}},
    {ITG_OP_MIN, {NUMBERS(minimum)}},
    {ITG_OP_MAX, {NUMBERS(maximum)}},
    {ITG_OP_MOD, {NUMBERS(modulo)}},
    {ITG_OP_PRELU, {FLOATS(prelu), SIGNEDS(prelu)}},
    {ITG_OP_AND, {[ITG_DTYPE_BOOL] = &and_bool_kernel}},
    {ITG_OP_OR, {[ITG_DTYPE_BOOL] = &or_bool_kernel}},
    {ITG_OP_XOR, {[ITG_DTYPE_BOOL] = &xor_bool_kernel}},
    {ITG_OP_EQUAL, {COMPARED(equal)}},
    {ITG_OP_LESS, {COMPARED(less)}},
    {ITG_OP_LESS_OR_EQUAL, {COMPARED(less_or_equal)}},
    {ITG_OP_GREATER, {COMPARED(greater)}},
    {ITG_OP_GREATER_OR_EQUAL, {COMPARED(greater_or_equal)}},
    {ITG_OP_BIT_SHIFT, {UNSIGNEDS(shift)}},
    {ITG_OP_BITWISE_AND, {SIGNEDS(bitwise_and), UNSIGNEDS(bitwise_and)}},
    {ITG_OP_BITWISE_OR, {SIGNEDS(bitwise_or), UNSIGNEDS(bitwise_or)}},
    {ITG_OP_BITWISE_XOR, {SIGNEDS(bitwise_xor), UNSIGNEDS(bitwise_xor)}},
};

itg_status itg_prepare_binary(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_operand *a = &call->inputs[0], *b = &call->inputs[1];
  binary_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  plan->compute = a->dtype;
  plan->converts = a->dtype != b->dtype;
  if (plan->converts) { // POW alone may mix types: both are computed in f64.
    if (call->node->op != ITG_OP_POW) return itg_refuse_dtype(call, b->dtype, diagnostic);
    plan->compute = ITG_DTYPE_F64;
    preparation->scratch = (a->count + b->count + call->outputs[0].count) * sizeof(double);
  }
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].op == call->node->op) plan->kernel = rows[i].by_dtype[plan->compute];
  }
  if (!plan->kernel) return itg_refuse_dtype(call, plan->compute, diagnostic);
  itg_broadcast_plan(&call->outputs[0].tensor->shape, (const itg_shape *[]){&a->tensor->shape, &b->tensor->shape}, 2,
                     &plan->broadcast);
  preparation->prepared = plan;
  return ITG_OK;
}

typedef struct binary_context {
  const binary_plan *plan;
  const char *a, *b;
  char *y;
  size_t in_size, out_size;
  int flag;
} binary_context;

static void binary_inner(void *context, const int64_t *offsets, int64_t output_offset) {
  const binary_context *c = context;
  const itg_broadcast *broadcast = &c->plan->broadcast;
  const int inner = broadcast->rank - 1;
  c->plan->kernel->function(c->a + (size_t)offsets[0] * c->in_size, broadcast->strides[0][inner],
                            c->b + (size_t)offsets[1] * c->in_size, broadcast->strides[1][inner],
                            c->y + (size_t)output_offset * c->out_size, broadcast->dims[inner], c->flag);
}

itg_status itg_run_binary(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const binary_plan *plan = call->prepared;
  const itg_operand *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
  binary_context context = {plan, a->data, b->data, y->data, itg_dtype_size(plan->compute), itg_dtype_size(y->dtype),
                            0};
  if (itg_op_get_info(call->node->op)->attribute_size) context.flag = call->node->attributes.axis.flag;
  if (plan->converts) {
    double *wide_a = call->scratch, *wide_b = wide_a + a->count, *wide_y = wide_b + b->count;
    itg_convert(a->dtype, a->data, ITG_DTYPE_F64, wide_a, a->count);
    itg_convert(b->dtype, b->data, ITG_DTYPE_F64, wide_b, b->count);
    context.a = (const char *)wide_a;
    context.b = (const char *)wide_b;
    context.y = (char *)wide_y;
    context.out_size = sizeof(double);
    itg_broadcast_walk(&plan->broadcast, binary_inner, &context);
    itg_convert(ITG_DTYPE_F64, wide_y, y->dtype, y->data, y->count);
    return ITG_OK;
  }
  itg_broadcast_walk(&plan->broadcast, binary_inner, &context);
  return ITG_OK;
}

itg_status itg_prepare_where(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_operand *inputs = call->inputs;
  if (inputs[0].dtype != ITG_DTYPE_BOOL) return itg_refuse_dtype(call, inputs[0].dtype, diagnostic);
  if (inputs[1].dtype != inputs[2].dtype) return itg_refuse_dtype(call, inputs[2].dtype, diagnostic);
  itg_broadcast *broadcast = itg_arena_allocate(preparation->arena, sizeof *broadcast);
  ITG_TRY_MEMORY(broadcast, diagnostic);
  itg_broadcast_plan(
      &call->outputs[0].tensor->shape,
      (const itg_shape *[]){&inputs[0].tensor->shape, &inputs[1].tensor->shape, &inputs[2].tensor->shape}, 3,
      broadcast);
  preparation->prepared = broadcast;
  return ITG_OK;
}

#define WHERE_CASE(size, type)                                                                                  \
  case size: {                                                                                                  \
    const type *a = (const type *)call->inputs[1].data + offsets[1];                                            \
    const type *b = (const type *)call->inputs[2].data + offsets[2];                                            \
    type *y = (type *)call->outputs[0].data + output_offset;                                                    \
    for (int64_t i = 0; i < n; i++) y[i] = condition[i * condition_stride] ? a[i * a_stride] : b[i * b_stride]; \
    break;                                                                                                      \
  }
static void where_inner(void *context, const int64_t *offsets, int64_t output_offset) {
  const itg_call *call = context;
  const itg_broadcast *broadcast = call->prepared;
  const int inner = broadcast->rank - 1;
  const int64_t condition_stride = broadcast->strides[0][inner], a_stride = broadcast->strides[1][inner],
                b_stride = broadcast->strides[2][inner], n = broadcast->dims[inner];
  const uint8_t *condition = (const uint8_t *)call->inputs[0].data + offsets[0];
  switch (itg_dtype_size(call->outputs[0].dtype)) {
    WHERE_CASE(1, uint8_t)
    WHERE_CASE(2, uint16_t)
    WHERE_CASE(4, uint32_t)
    WHERE_CASE(8, uint64_t)
  default: break;
  }
}

itg_status itg_run_where(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  itg_broadcast_walk(call->prepared, where_inner, (void *)call);
  return ITG_OK;
}
