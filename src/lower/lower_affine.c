// Per-channel affines, and activations that are pieces of straight lines (docs/ARITHMETIC.md 3).
#include <math.h>
#include <stdlib.h>

#include "lower/emit.h"
#include "tensor/multiplier.h"

itg_status itg_affine_integers(const itg_legalizer *l, const itg_node *node, double gain, double offset, double scale_x,
                               double scale_y, int32_t *multiplier, int64_t *addend, int32_t *shift) {
  const double factor = gain * scale_x / scale_y, constant = offset / scale_y;
  int32_t m, s;
  ITG_TRY(itg_emit_factor(l, node, factor, &m, &s));
  // |B| + 2^47 + 2^(s-1) < 2^63; doubles near 2^63 are exact to 2^11, far less than the room of 2^62 left here.
  while (s >= 1 && fabs(ldexp(constant, s)) + 0x1p47 + ldexp(1, s - 1) >= 0x1p62 + 0x1p61) s--;
  if (s < 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the offset %g is too large for the output's scale %g",
             offset, scale_y);
  *multiplier = m == 0 ? 0 : (int32_t)llround(ldexp(factor, s));
  if (*multiplier == INT32_MIN || llabs(llround(ldexp(factor, s))) > INT32_MAX) {
    s--;
    *multiplier = (int32_t)llround(ldexp(factor, s));
  }
  *addend = llround(ldexp(constant, s));
  *shift = s;
  return ITG_OK;
}

itg_status itg_emit_affine(itg_legalizer *l, const itg_node *node, itg_tensor *x, itg_tensor *y, int64_t count,
                           const double *gains, const double *offsets, int32_t low, int32_t high) {
  int32_t *multiplier = itg_arena_array(&l->scratch, (size_t)count, sizeof multiplier[0]);
  int32_t *shift = itg_arena_array(&l->scratch, (size_t)count, sizeof shift[0]);
  int64_t *addend = itg_arena_array(&l->scratch, (size_t)count, sizeof addend[0]);
  ITG_TRY_MEMORY(multiplier && shift && addend, l->diagnostic);
  for (int64_t c = 0; c < count; c++)
    ITG_TRY(itg_affine_integers(l, node, gains[c], offsets[c], itg_scale_of(x), itg_scale_of(y), &multiplier[c],
                                &addend[c], &shift[c]));
  itg_tensor *inputs[] = {x, itg_emit_s32(l, "scale", count, multiplier), itg_emit_s64(l, "offset", count, addend),
                          itg_emit_s32(l, "shift", count, shift)};
  for (int i = 0; i < 4; i++) ITG_TRY_MEMORY(inputs[i], l->diagnostic);
  itg_node *result = itg_emit_node(l, ITG_OP_Q_AFFINE, node->name, inputs, 4, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  // Only low and high count for an affine; the rest is kept within its rules.
  result->attributes.requantize = (itg_requantize_attributes){.shift = 1, .low = low, .high = high};
  return ITG_OK;
}

itg_status itg_lower_affine(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  const double *gains, *offsets;
  size_t count, offset_count;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(itg_read_constant(l, node, node->inputs[1], &gains, &count));
  ITG_TRY(itg_read_constant(l, node, node->inputs[2], &offsets, &offset_count));
  const int64_t channels = x->shape.rank ? x->shape.dims[x->shape.rank - 1] : 1;
  if (count != offset_count || (int64_t)count != channels)
    ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, node->name, "the affine needs one gain and offset a channel");
  return itg_emit_affine(l, node, x, y, channels, gains, offsets, itg_code_min(y->dtype), itg_code_max(y->dtype));
}

// Relu and Clip: a Convert that clamps.
itg_status itg_lower_clip(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  itg_node *result = itg_emit_node(l, ITG_OP_Q_CONVERT, node->name, &x, 1, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  itg_requantize_attributes *attributes = &result->attributes.requantize;
  ITG_TRY(
      itg_emit_requantize(l, node, itg_scale_of(x) / itg_scale_of(y), (uint64_t)itg_largest_code(x), y, attributes));
  const bool relu = node->op == ITG_OP_RELU;
  attributes->low = itg_clip_code(y, relu ? 0 : node->attributes.scalar.alpha);
  attributes->high = itg_clip_code(y, relu ? INFINITY : node->attributes.scalar.beta);
  if (attributes->high < attributes->low) attributes->low = attributes->high; // ONNX: the maximum wins.
  return ITG_OK;
}

// LeakyRelu, PRelu, Abs: another factor for negative values.
itg_status itg_lower_slope(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  const double *slopes;
  double slope = node->op == ITG_OP_ABS ? -1 : node->attributes.scalar.alpha;
  int64_t count = 1;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  if (node->op == ITG_OP_PRELU) {
    bool is_channel;
    ITG_TRY(itg_read_channel_constant(l, node, node->inputs[1], &x->shape, &is_channel, &slopes, &count));
    if (!is_channel)
      ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
               "PRelu is only available with one slope, or one a channel of the last dimension");
  } else {
    slopes = &slope;
  }
  int32_t *multiplier = itg_arena_array(&l->scratch, (size_t)count, sizeof multiplier[0]);
  int32_t *shift = itg_arena_array(&l->scratch, (size_t)count, sizeof shift[0]);
  ITG_TRY_MEMORY(multiplier && shift, l->diagnostic);
  const double factor = itg_scale_of(x) / itg_scale_of(y);
  for (int64_t c = 0; c < count; c++) ITG_TRY(itg_emit_factor(l, node, factor * slopes[c], &multiplier[c], &shift[c]));
  itg_tensor *inputs[] = {x, itg_emit_s32(l, "negative_multiplier", count, multiplier),
                          itg_emit_s32(l, "negative_shift", count, shift)};
  ITG_TRY_MEMORY(inputs[1] && inputs[2], l->diagnostic);
  itg_node *result = itg_emit_node(l, ITG_OP_Q_PRELU, node->name, inputs, 3, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  return itg_emit_requantize(l, node, factor, (uint64_t)itg_largest_code(x), y, &result->attributes.requantize);
}

// HardSigmoid: affine with a clamp. HardSwish: x times HardSigmoid(x; 1/6, 1/2). Neg: affine with gain -1.
itg_status itg_lower_hard(itg_legalizer *l, const itg_node *node) {
  static const double zero = 0, minus_one = -1;
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  if (node->op == ITG_OP_NEG)
    return itg_emit_affine(l, node, x, y, 1, &minus_one, &zero, itg_code_min(y->dtype), itg_code_max(y->dtype));
  if (node->op == ITG_OP_HARD_SIGMOID) {
    const itg_scalar_attributes *scalar = &node->attributes.scalar;
    return itg_emit_affine(l, node, x, y, 1, &scalar->alpha, &scalar->beta, itg_clip_code(y, 0), itg_clip_code(y, 1));
  }
  static const double sixth = 1.0 / 6, half = 0.5;
  const double scale = (double)(1.0f / (x->dtype == ITG_DTYPE_U8 ? 255 : 65535));
  const int32_t zero_point = 0;
  const itg_encoding *encoding = itg_encoding_create(l->graph, x->dtype, -1, 1, &scale, &zero_point);
  ITG_TRY_MEMORY(encoding, l->diagnostic);
  itg_tensor *gate = itg_emit_temporary(l, node->name, &x->shape, encoding);
  ITG_TRY_MEMORY(gate, l->diagnostic);
  ITG_TRY(itg_emit_affine(l, node, x, gate, 1, &sixth, &half, 0, itg_code_max(x->dtype)));
  return itg_emit_mul(l, node, x, gate, y, 1);
}
