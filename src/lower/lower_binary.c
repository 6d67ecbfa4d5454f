// Add, Sub, Mul, Div of two activations (docs/ARITHMETIC.md 3).
#include <math.h>
#include <string.h>

#include "lower/emit.h"
#include "tensor/multiplier.h"

static bool is_float_constant(const itg_tensor *tensor) {
  return itg_tensor_is_constant(tensor) && tensor->dtype == ITG_DTYPE_F32;
}

static int32_t bits_of(const itg_tensor *tensor) { return tensor->dtype == ITG_DTYPE_U16 ? 16 : 8; }

// An input whose scale is less than 1/256 of the other's takes a coarser one, so that both multipliers keep their
// precision.
static itg_status limit_ratio(itg_legalizer *l, itg_tensor **tensor, double other_scale) {
  const double scale = itg_scale_of(*tensor);
  if (other_scale <= 256 * scale) return ITG_OK;
  const double coarser = (double)(float)(other_scale / 256);
  const int32_t zero = (int32_t)floor(itg_zero_of(*tensor) * scale / coarser + 0.5);
  const itg_encoding *encoding = itg_encoding_create(l->graph, (*tensor)->dtype, -1, 1, &coarser, &zero);
  ITG_TRY_MEMORY(encoding, l->diagnostic);
  return itg_emit_convert(l, *tensor, encoding, tensor);
}

// Largest shift for which both multipliers keep below the limit: 2^21 when everything is u8 (sums fit 32 bits), else 2^30.
static itg_status choose_add(const itg_legalizer *l, const itg_node *node, const itg_tensor *a, const itg_tensor *b,
                             const itg_tensor *y, double sign, itg_q_add_attributes *attributes) {
  const bool wide = bits_of(a) == 16 || bits_of(b) == 16 || bits_of(y) == 16;
  const double limit = wide ? 0x1p30 : 0x1p21;
  const double factor_a = itg_scale_of(a) / itg_scale_of(y), factor_b = itg_scale_of(b) / itg_scale_of(y);
  int shift = wide ? 62 : 31;
  while (shift >= 1 && (ldexp(factor_a, shift) + 0.5 >= limit || ldexp(factor_b, shift) + 0.5 >= limit)) shift--;
  if (shift < 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "the sum's scale is too small for its operands'; was the calibration data all zero?");
  attributes->a = (int32_t)llround(ldexp(factor_a, shift));
  attributes->b = (int32_t)llround(ldexp(factor_b, shift) * sign);
  attributes->shift = shift;
  attributes->low = itg_code_min(y->dtype);
  attributes->high = itg_code_max(y->dtype);
  return ITG_OK;
}

static itg_status add_operands(itg_legalizer *l, const itg_node *node, const itg_tensor *y, itg_tensor **a,
                               itg_tensor **b) {
  ITG_TRY(itg_emit_operand(l, node, 0, bits_of(y), a));
  ITG_TRY(itg_emit_operand(l, node, 1, bits_of(y), b));
  const double scale_a = itg_scale_of(*a), scale_b = itg_scale_of(*b);
  ITG_TRY(limit_ratio(l, a, scale_b));
  return limit_ratio(l, b, scale_a);
}

// x + constant (or constant - x) as a per-channel affine; *done says whether the constant has that form.
static itg_status add_constant(itg_legalizer *l, const itg_node *node, itg_tensor *y, bool *done) {
  *done = false;
  const int32_t constant = is_float_constant(node->inputs[1]) ? 1 : is_float_constant(node->inputs[0]) ? 0 : -1;
  if (constant < 0 || node->inputs[0] == node->inputs[1]) return ITG_OK;
  const itg_tensor *x = node->inputs[1 - constant];
  if (!itg_shape_equal(&x->shape, &node->outputs[0]->shape)) return ITG_OK;
  const double *values;
  int64_t count;
  ITG_TRY(itg_read_channel_constant(l, node, node->inputs[constant], &y->shape, done, &values, &count));
  if (!*done) return ITG_OK;
  double *gains = itg_arena_array(&l->scratch, (size_t)count, sizeof gains[0]);
  double *offsets = itg_arena_array(&l->scratch, (size_t)count, sizeof offsets[0]);
  ITG_TRY_MEMORY(gains && offsets, l->diagnostic);
  const bool subtract = node->op == ITG_OP_SUB;
  for (int64_t c = 0; c < count; c++) {
    gains[c] = subtract && constant == 0 ? -1 : 1;
    offsets[c] = subtract && constant == 1 ? -values[c] : values[c];
  }
  itg_tensor *input;
  ITG_TRY(itg_emit_activation(l, node, 1 - constant, &input));
  return itg_emit_affine(l, node, input, y, count, gains, offsets, itg_code_min(y->dtype), itg_code_max(y->dtype));
}

// The one reader that takes the sum in another encoding, if there is exactly one such Convert.
static const itg_node *convert_behind(const itg_tensor *sum) {
  const itg_node *found = NULL;
  for (int32_t u = 0; u < sum->user_count; u++) {
    const itg_node *user = sum->users[u];
    if (user->op != ITG_OP_IDENTITY || itg_encoding_equal(user->outputs[0]->encoding, sum->encoding)) continue;
    if (found) return NULL;
    found = user;
  }
  return found;
}

typedef struct second_output {
  itg_tensor *tensor;
  const double *gains, *offsets; // Each `count` values: 1 or one a channel.
  int64_t count;
} second_output;

static itg_status emit_add_affine(itg_legalizer *l, const itg_node *node, itg_tensor *a, itg_tensor *b, itg_tensor *y,
                                  const second_output *second) {
  const int64_t channels = y->shape.rank ? y->shape.dims[y->shape.rank - 1] : 1;
  int32_t *multiplier = itg_arena_array(&l->scratch, (size_t)channels, sizeof multiplier[0]);
  int32_t *shift = itg_arena_array(&l->scratch, (size_t)channels, sizeof shift[0]);
  int64_t *addend = itg_arena_array(&l->scratch, (size_t)channels, sizeof addend[0]);
  ITG_TRY_MEMORY(multiplier && shift && addend, l->diagnostic);
  for (int64_t c = 0; c < channels; c++) {
    const int64_t i = second->count == 1 ? 0 : c;
    ITG_TRY(itg_affine_integers(l, node, second->gains[i], second->offsets[i], itg_scale_of(y),
                                itg_scale_of(second->tensor), &multiplier[c], &addend[c], &shift[c]));
  }
  itg_tensor *inputs[] = {a, b, itg_emit_s32(l, "scale", channels, multiplier),
                          itg_emit_s64(l, "offset", channels, addend), itg_emit_s32(l, "shift", channels, shift)};
  itg_tensor *outputs[] = {y, second->tensor};
  for (int i = 0; i < 5; i++) ITG_TRY_MEMORY(inputs[i], l->diagnostic);
  itg_node *result = itg_graph_insert_node(l->graph, NULL, ITG_OP_Q_ADD_AFFINE, node->name, inputs, 5, outputs, 2);
  ITG_TRY_MEMORY(result, l->diagnostic);
  itg_q_add_attributes *attributes = &result->attributes.q_add;
  ITG_TRY(choose_add(l, node, a, b, y, node->op == ITG_OP_SUB ? -1 : 1, attributes));
  attributes->low2 = itg_code_min(second->tensor->dtype);
  attributes->high2 = itg_code_max(second->tensor->dtype);
  return ITG_OK;
}

itg_status itg_lower_add(itg_legalizer *l, const itg_node *node) {
  itg_tensor *a, *b, *y;
  bool done;
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(add_constant(l, node, y, &done));
  if (done) return ITG_OK;
  ITG_TRY(add_operands(l, node, y, &a, &b));
  // A Convert behind the sum (16-bit stream to the next convolution's 8 bits) is the affine x*1 + 0: one step less.
  const itg_node *convert = convert_behind(node->outputs[0]);
  const bool same = itg_shape_equal(&a->shape, &b->shape) && itg_shape_equal(&a->shape, &y->shape);
  if (convert && same && !l->target) {
    static const double one = 1, zero = 0;
    second_output second = {.gains = &one, .offsets = &zero, .count = 1};
    ITG_TRY(itg_emit_output(l, convert, 0, &second.tensor));
    const char *name = convert->outputs[0]->name;
    ITG_TRY_MEMORY(itg_map_set(&l->done, name, strlen(name), (void *)convert), l->diagnostic);
    return emit_add_affine(l, node, a, b, y, &second);
  }
  itg_tensor *inputs[] = {a, b};
  itg_node *result = itg_emit_node(l, ITG_OP_Q_ADD, node->name, inputs, 2, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  return choose_add(l, node, a, b, y, node->op == ITG_OP_SUB ? -1 : 1, &result->attributes.q_add);
}

itg_status itg_lower_add_affine(itg_legalizer *l, const itg_node *node) {
  itg_tensor *a, *b, *y;
  second_output second;
  size_t gains, offsets;
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(itg_emit_output(l, node, 1, &second.tensor));
  ITG_TRY(add_operands(l, node, y, &a, &b));
  ITG_TRY(itg_read_constant(l, node, node->inputs[2], &second.gains, &gains));
  ITG_TRY(itg_read_constant(l, node, node->inputs[3], &second.offsets, &offsets));
  const int64_t channels = y->shape.rank ? y->shape.dims[y->shape.rank - 1] : 1;
  if (gains != offsets || (int64_t)gains != channels)
    ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, node->name, "the affine needs one gain and offset a channel");
  second.count = channels;
  if (itg_shape_equal(&a->shape, &b->shape)) return emit_add_affine(l, node, a, b, y, &second);
  itg_tensor *inputs[] = {a, b};
  itg_node *sum = itg_emit_node(l, ITG_OP_Q_ADD, node->name, inputs, 2, y);
  ITG_TRY_MEMORY(sum, l->diagnostic);
  ITG_TRY(choose_add(l, node, a, b, y, 1, &sum->attributes.q_add));
  return itg_emit_affine(l, node, y, second.tensor, channels, second.gains, second.offsets,
                         itg_code_min(second.tensor->dtype), itg_code_max(second.tensor->dtype));
}

itg_status itg_emit_mul(itg_legalizer *l, const itg_node *node, itg_tensor *a, itg_tensor *b, itg_tensor *y,
                        double factor) {
  itg_tensor *inputs[] = {a, b};
  itg_node *result = itg_emit_node(l, ITG_OP_Q_MUL, node->name, inputs, 2, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  const uint64_t bound = (uint64_t)itg_largest_code(a) * (uint64_t)itg_largest_code(b);
  return itg_emit_requantize(l, node, factor * itg_scale_of(a) * itg_scale_of(b) / itg_scale_of(y), bound, y,
                             &result->attributes.requantize);
}

itg_status itg_lower_mul(itg_legalizer *l, const itg_node *node) {
  itg_tensor *a, *b, *y;
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  const int32_t constant = is_float_constant(node->inputs[1]) ? 1 : is_float_constant(node->inputs[0]) ? 0 : -1;
  if (constant >= 0 && itg_shape_equal(&node->inputs[1 - constant]->shape, &node->outputs[0]->shape)) {
    bool is_channel;
    const double *gains;
    int64_t count;
    ITG_TRY(itg_read_channel_constant(l, node, node->inputs[constant], &y->shape, &is_channel, &gains, &count));
    if (is_channel) {
      double *offsets = itg_arena_array(&l->scratch, (size_t)count, sizeof offsets[0]);
      ITG_TRY_MEMORY(offsets, l->diagnostic);
      ITG_TRY(itg_emit_activation(l, node, 1 - constant, &a));
      return itg_emit_affine(l, node, a, y, count, gains, offsets, itg_code_min(y->dtype), itg_code_max(y->dtype));
    }
  }
  ITG_TRY(itg_emit_operand(l, node, 0, bits_of(y), &a));
  ITG_TRY(itg_emit_operand(l, node, 1, bits_of(y), &b));
  return itg_emit_mul(l, node, a, b, y, 1);
}

// x / constant: the reciprocals are gains.
static itg_status divide_by_constant(itg_legalizer *l, const itg_node *node, itg_tensor *y) {
  itg_tensor *x;
  bool is_channel;
  const double *values;
  int64_t count;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_read_channel_constant(l, node, node->inputs[1], &y->shape, &is_channel, &values, &count));
  if (!is_channel || !itg_shape_equal(&x->shape, &y->shape))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "division by a constant is only available with one value, or one a channel");
  double *gains = itg_arena_array(&l->scratch, (size_t)count, sizeof gains[0]);
  double *offsets = itg_arena_array(&l->scratch, (size_t)count, sizeof offsets[0]);
  ITG_TRY_MEMORY(gains && offsets, l->diagnostic);
  for (int64_t c = 0; c < count; c++) {
    if (values[c] == 0) ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "division by the constant 0");
    gains[c] = 1 / values[c];
  }
  return itg_emit_affine(l, node, x, y, count, gains, offsets, itg_code_min(y->dtype), itg_code_max(y->dtype));
}

itg_status itg_lower_div(itg_legalizer *l, const itg_node *node) {
  itg_tensor *a, *b, *y;
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  if (is_float_constant(node->inputs[1])) return divide_by_constant(l, node, y);
  ITG_TRY(itg_emit_activation(l, node, 1, &b));
  if (is_float_constant(node->inputs[0]) && itg_shape_equal(&b->shape, &y->shape)) {
    bool is_channel;
    const double *values;
    int64_t count;
    ITG_TRY(itg_read_channel_constant(l, node, node->inputs[0], &y->shape, &is_channel, &values, &count));
    if (is_channel && count == 1) return itg_emit_table(l, node, ITG_OP_DIV, values[0], 0, b, y);
  }
  ITG_TRY(itg_emit_operand(l, node, 0, bits_of(y), &a));
  const int32_t zero = itg_zero_of(b), top = itg_code_max(b->dtype);
  if (zero != 0 && zero != top)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "the divisor changes its sign over the calibration data; integer division needs a fixed sign");
  const double factor = itg_scale_of(a) / (itg_scale_of(b) * itg_scale_of(y));
  int32_t multiplier, shift;
  ITG_TRY(itg_emit_factor(l, node, factor, &multiplier, &shift));
  if (shift > 46) { // The divisor times 2^shift must stay below 2^62.
    shift = 46;
    multiplier = (int32_t)llround(ldexp(factor, shift));
  }
  itg_tensor *inputs[] = {a, b};
  itg_node *result = itg_emit_node(l, ITG_OP_Q_DIV, node->name, inputs, 2, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes.q_div = (itg_q_div_attributes){.multiplier = multiplier,
                                                    .shift = shift,
                                                    .divisor_sign = zero == 0 ? 1 : -1,
                                                    .low = itg_code_min(y->dtype),
                                                    .high = itg_code_max(y->dtype)};
  return ITG_OK;
}
