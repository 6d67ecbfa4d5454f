// Add, mul, div, min, max, per-channel affine, convert, PReLU (docs/ARITHMETIC.md 3).
#include "graph/attributes.h"
#include "graph/op.h"
#include "kernels/reference/access.h"

// Work is cut into chunks of elements (or rows) so that threads get comparable parts.
enum { CHUNK = 4096 };

static size_t chunks(int64_t count) { return ((size_t)count + CHUNK - 1) / CHUNK; }

static size_t binary_units(const itg_task *task) { return chunks(itg_binary_count(&task->binary)); }

static int64_t add_codes(const itg_binary_task *t, int64_t a, int64_t b) {
  return (t->a * a + t->b * b + ((int64_t)1 << (t->shift - 1))) >> t->shift;
}

// floor((2*n*M + d*2^s) / (2*d*2^s)). |n| <= 2^16, |M| < 2^31, d <= 2^16, s <= 46: the terms stay below 2^63.
static int64_t divide_codes(const itg_binary_task *t, int64_t a, int64_t b) {
  const int64_t n = t->divisor_sign * a;
  int64_t d = b < 0 ? -b : b;
  if (d < 1) d = 1;
  const int64_t numerator = 2 * n * t->multiplier + d * ((int64_t)1 << t->shift);
  const int64_t denominator = 2 * d * ((int64_t)1 << t->shift);
  const int64_t quotient = numerator / denominator;
  return quotient - (numerator % denominator < 0);
}

static void binary(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_binary_task *t = &task->binary;
  const int64_t count = itg_binary_count(t);
  const int64_t last = (int64_t)end * CHUNK < count ? (int64_t)end * CHUNK : count;
  for (int64_t i = (int64_t)begin * CHUNK; i < last; i++) {
    int64_t ia, ib;
    itg_binary_positions(t, i, &ia, &ib);
    const int32_t qa = itg_load(call->inputs[0], ia, t->a_type), qb = itg_load(call->inputs[1], ib, t->b_type);
    const int64_t a = qa - t->a_zero, b = qb - t->b_zero;
    int32_t code;
    switch (task->op) {
    case ITG_OP_Q_ADD: code = (int32_t)itg_clamp_i64(t->out_zero + add_codes(t, a, b), t->low, t->high); break;
    case ITG_OP_Q_MUL:
      code = itg_requantize64(a * b, t->multiplier, t->shift, t->pre_shift, t->out_zero, t->low, t->high);
      break;
    case ITG_OP_Q_DIV: code = (int32_t)itg_clamp_i64(t->out_zero + divide_codes(t, a, b), t->low, t->high); break;
    case ITG_OP_MIN: code = qa < qb ? qa : qb; break;
    default: code = qa > qb ? qa : qb; break;
    }
    itg_store(call->outputs[0], i, t->out_type, code);
  }
}

static int32_t affine_code(int64_t centred, int64_t scale, int64_t offset, int32_t shift, int32_t zero, int32_t low,
                           int32_t high) {
  return (int32_t)itg_clamp_i64(zero + ((centred * scale + offset + ((int64_t)1 << (shift - 1))) >> shift), low, high);
}

static size_t add_affine_units(const itg_task *task) { return (size_t)task->add_affine.rows; }

static void add_affine(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_add_affine_task *t = &task->add_affine;
  for (size_t row = begin; row < end; row++) {
    for (int64_t c = 0; c < t->channels; c++) {
      const int64_t i = (int64_t)row * t->channels + c;
      const int64_t a = itg_load(call->inputs[0], i, t->a_type) - t->a_zero;
      const int64_t b = itg_load(call->inputs[1], i, t->b_type) - t->b_zero;
      const int64_t sum = (t->a * a + t->b * b + ((int64_t)1 << (t->shift - 1))) >> t->shift;
      const int32_t code = (int32_t)itg_clamp_i64(t->out_zero + sum, t->low, t->high);
      itg_store(call->outputs[0], i, t->out_type, code);
      // The affine reads the stored code, so the fused step equals the two separate ones.
      const int32_t second = affine_code(code - t->out_zero, t->scale[c], t->offset[c], t->scale_shift[c], t->out2_zero,
                                         t->low2, t->high2);
      itg_store(call->outputs[1], i, t->out2_type, second);
    }
  }
}

static size_t affine_units(const itg_task *task) { return (size_t)task->affine.rows; }

static void affine(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_affine_task *t = &task->affine;
  for (size_t row = begin; row < end; row++) {
    for (int64_t c = 0; c < t->channels; c++) {
      const int64_t i = (int64_t)row * t->channels + c, p = t->per_channel ? c : 0;
      const int64_t x = itg_load(call->inputs[0], i, t->in_type) - t->in_zero;
      itg_store(call->outputs[0], i, t->out_type,
                affine_code(x, t->scale[p], t->offset[p], t->scale_shift[p], t->out_zero, t->low, t->high));
    }
  }
}

static size_t convert_units(const itg_task *task) { return (size_t)task->convert.rows; }

static void convert(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_convert_task *t = &task->convert;
  for (size_t row = begin; row < end; row++) {
    for (int64_t c = 0; c < t->channels; c++) {
      const int64_t i = (int64_t)row * t->channels + c, p = t->per_channel ? c : 0;
      const int32_t x = itg_load(call->inputs[0], i, t->in_type) - t->in_zero;
      const int negative = t->negative_multiplier && x < 0;
      itg_store(call->outputs[0], i, t->out_type,
                itg_requantize(x, negative ? t->negative_multiplier[p] : t->multiplier,
                               negative ? t->negative_shift[p] : t->shift, t->out_zero, t->low, t->high));
    }
  }
}

#define BINARY(symbol, operation) \
  const itg_kernel symbol = {.name = #symbol, .op = operation, .units = binary_units, .run = binary}
BINARY(itg_add__reference, ITG_OP_Q_ADD);
BINARY(itg_mul__reference, ITG_OP_Q_MUL);
BINARY(itg_div__reference, ITG_OP_Q_DIV);
BINARY(itg_min__reference, ITG_OP_MIN);
BINARY(itg_max__reference, ITG_OP_MAX);
const itg_kernel itg_add_affine__reference = {
    .name = "itg_add_affine__reference", .op = ITG_OP_Q_ADD_AFFINE, .units = add_affine_units, .run = add_affine};
const itg_kernel itg_affine__reference = {
    .name = "itg_affine__reference", .op = ITG_OP_Q_AFFINE, .units = affine_units, .run = affine};
const itg_kernel itg_convert__reference = {
    .name = "itg_convert__reference", .op = ITG_OP_Q_CONVERT, .units = convert_units, .run = convert};
const itg_kernel itg_prelu__reference = {
    .name = "itg_prelu__reference", .op = ITG_OP_Q_PRELU, .units = convert_units, .run = convert};
