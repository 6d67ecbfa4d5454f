// Element-wise operations on the NPU.
#include "kernels/htp/rule.h"
#include "lower/qnn/lower.h"

itg_status itg_qnn_prelu(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *multiplier = node->inputs[1];
  const uint32_t count = (uint32_t)multiplier->shape.dims[0];
  double *slopes = itg_arena_array(&b->scratch, count, sizeof slopes[0]);
  ITG_TRY_MEMORY(slopes, b->diagnostic);
  const double positive = itg_qnn_factor(node->attributes.requantize.multiplier, node->attributes.requantize.shift);
  for (uint32_t i = 0; i < count; i++)
    slopes[i] =
        itg_qnn_factor(((const int32_t *)multiplier->data)[i], ((const int32_t *)node->inputs[2]->data)[i]) / positive;
  itg_qnn_tensor inputs[2], output;
  ITG_TRY(itg_qnn_activation(b, node->inputs[0], &inputs[0]));
  ITG_TRY(itg_qnn_vector(b, node->inputs[0]->dtype, count, slopes, &inputs[1]));
  ITG_TRY(itg_qnn_activation(b, node->outputs[0], &output));
  return itg_qnn_add(b, node, "Prelu", NULL, inputs, 2, &output);
}

itg_status itg_qnn_convert(itg_qnn_builder *b, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const bool clamps = itg_qnn_clamps(y, a->low, a->high);
  if (!clamps) return itg_qnn_simple(b, node, "Convert", 1, NULL);
  itg_qnn_tensor input, output;
  ITG_TRY(itg_qnn_activation(b, x, &input));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  if (x->dtype != y->dtype || y->dtype == ITG_DTYPE_U16) {
    itg_qnn_tensor converted;
    ITG_TRY(itg_qnn_unclamped(b, y, y->dtype, a->low, a->high, &converted));
    ITG_TRY(itg_qnn_add(b, node, "Convert", NULL, &input, 1, &converted));
    input = converted;
  }
  return itg_qnn_add_clamp(b, node, y, a->low, a->high, &input, &output);
}

// The vendor's compiler crashes on 16-bit kernels of one tap with more than 256 channels (seen in QAIRT 2.51, all targets);
// a second tap of zeros, over the padding's side, avoids that.
static uint32_t affine_taps(itg_dtype storage, uint32_t channels) {
  return storage == ITG_DTYPE_U16 && channels > ITG_HTP_ONE_TAP_CHANNELS ? 2 : 1;
}

// Gains and shifts of the channels as a depth-wise 1x1 kernel with its bias.
static itg_status affine_constants(itg_qnn_builder *b, const itg_node *node, itg_dtype storage, double scale_y,
                                   int32_t zero_y, uint32_t channels, itg_qnn_tensor inputs[3]) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0], *scale = node->inputs[1];
  int8_t *weights = itg_arena_allocate(&b->scratch, 2 * (size_t)channels);
  int32_t *bias = itg_arena_array(&b->scratch, channels, sizeof bias[0]);
  double *weight_scales = itg_arena_array(&b->scratch, channels, sizeof(double));
  double *bias_scales = itg_arena_array(&b->scratch, channels, sizeof(double));
  ITG_TRY_MEMORY(weights && bias && weight_scales && bias_scales, b->diagnostic);
  const double scale_x = itg_qnn_scale(x);
  const bool is_v73 = b->target && b->target->arch >= 73, is_wide = storage == ITG_DTYPE_U16;
  const uint32_t taps = affine_taps(storage, channels), kernel_dims[4] = {1, taps, 1, channels};
  for (uint32_t c = 0; c < channels; c++) {
    const uint32_t at = scale->shape.dims[0] == 1 ? 0 : c;
    const int32_t shift = ((const int32_t *)node->inputs[3]->data)[at];
    const double gain = itg_qnn_factor(((const int32_t *)scale->data)[at], shift) * itg_qnn_scale(y) / scale_x;
    const double offset = ldexp((double)((const int64_t *)node->inputs[2]->data)[at], -shift) * itg_qnn_scale(y);
    const itg_htp_gain fitted = itg_htp_fit_gain(is_v73, is_wide, taps == 1, gain, offset, scale_x, scale_y, zero_y);
    weights[c] = fitted.weight;
    weight_scales[c] = fitted.scale;
    bias_scales[c] = weight_scales[c] * scale_x;
    bias[c] = fitted.bias;
    // Kernels of one tap are multiplied element by element, and rounded.
    if (taps > 1) bias[c] = itg_htp_bias(is_v73, is_wide, scale_x, weight_scales[c], scale_y, bias[c]);
  }
  ITG_TRY(itg_qnn_constant(b, ITG_QNN_TYPE_S8, 4, kernel_dims, weights, (size_t)taps * channels, 3, channels,
                           weight_scales, 0, &inputs[1]));
  return itg_qnn_constant(b, ITG_QNN_TYPE_S32, 1, &channels, bias, channels * sizeof bias[0], 0, channels, bias_scales,
                          0, &inputs[2]);
}

// The depth-wise convolution of the affine, on images; other ranks are seen as one row of pixels.
static itg_status add_depthwise(itg_qnn_builder *b, const itg_node *node, uint32_t channels, itg_qnn_tensor inputs[3],
                                itg_qnn_tensor *output) {
  const itg_tensor *x = node->inputs[0];
  itg_qnn_parameters p = {0};
  const int32_t taps = (int32_t)affine_taps(x->dtype, channels);
  const itg_window unit = {
      .rank = 2, .kernel = {1, taps}, .stride = {1, 1}, .dilation = {1, 1}, .pad_end = {0, taps - 1}};
  ITG_TRY(itg_qnn_set_window(b, &p, &unit, NULL));
  ITG_TRY(itg_qnn_set_array(b, &p, "dilation", ITG_QNN_TYPE_U32_INTEGER, 2, 0, (uint32_t[]){1, 1}));
  if (x->shape.rank == 4) return itg_qnn_add(b, node, "DepthWiseConv2d", &p, inputs, 3, output);
  size_t count;
  if (!itg_shape_count(&x->shape, &count)) return itg_qnn_refuse(b, node, "the input is too large");
  const uint32_t flat[4] = {1, 1, (uint32_t)(count / channels), channels};
  itg_qnn_tensor flat_in, flat_out;
  const itg_qnn_scale_offset *to = &output->v1.quantization.scale_offset;
  ITG_TRY(itg_qnn_helper(b, x, itg_qnn_type_of(x->dtype), itg_qnn_scale(x), itg_qnn_zero(x), 4, flat, &flat_in));
  ITG_TRY(itg_qnn_helper(b, x, output->v1.data_type, (double)to->scale, -to->offset, 4, flat, &flat_out));
  ITG_TRY(itg_qnn_add(b, node, "Reshape", NULL, &inputs[0], 1, &flat_in));
  inputs[0] = flat_in;
  ITG_TRY(itg_qnn_add(b, node, "DepthWiseConv2d", &p, inputs, 3, &flat_out));
  return itg_qnn_add(b, node, "Reshape", NULL, &flat_out, 1, output);
}

// A per-channel gain and shift is a depth-wise 1x1 convolution: any gain is a weight times its channel's scale.
itg_status itg_qnn_affine(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const bool clamps = itg_qnn_clamps(y, a->low, a->high);
  const uint32_t channels = x->shape.rank ? (uint32_t)x->shape.dims[x->shape.rank - 1] : 1;
  itg_qnn_tensor inputs[3], output, sum, *target = &output;
  ITG_TRY(itg_qnn_activation(b, x, &inputs[0]));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  if (x->dtype != y->dtype || clamps) {
    ITG_TRY(itg_qnn_unclamped(b, y, x->dtype, a->low, a->high, &sum));
    target = &sum;
  }
  const itg_qnn_scale_offset encoding = target->v1.quantization.scale_offset;
  ITG_TRY(affine_constants(b, node, x->dtype, (double)encoding.scale, -encoding.offset, channels, inputs));
  ITG_TRY(add_depthwise(b, node, channels, inputs, target));
  if (target == &output) return ITG_OK;
  if (!clamps || x->dtype == ITG_DTYPE_U16) return itg_qnn_add(b, node, "Convert", NULL, &sum, 1, &output);
  if (y->dtype == ITG_DTYPE_U8) return itg_qnn_add_clamp(b, node, y, a->low, a->high, &sum, &output);
  return itg_qnn_refuse(b, node, "8-bit input, and a 16-bit output that is clamped");
}

// The product's factor must be that of the scales: the NPU takes it from them.
itg_status itg_qnn_multiply(itg_qnn_builder *b, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const double factor = itg_qnn_factor(a->multiplier, a->shift) * itg_qnn_scale(node->outputs[0]) /
                        (itg_qnn_scale(node->inputs[0]) * itg_qnn_scale(node->inputs[1]));
  if (fabs(factor - 1) > 1e-4) return itg_qnn_refuse(b, node, "the product has a factor of its own");
  return itg_qnn_simple(b, node, "ElementWiseMultiply", 2, NULL);
}

static const char *function_name(const itg_q_table_attributes *a) {
  switch (a->function) {
  case ITG_OP_SIGMOID: return "Sigmoid";
  case ITG_OP_TANH: return "Tanh";
  case ITG_OP_GELU: return "Gelu";
  case ITG_OP_EXP: return "ElementWiseExp";
  case ITG_OP_SQRT: return "ElementWiseSquareRoot";
  case ITG_OP_LOG: return "ElementWiseLog";
  case ITG_OP_SIN: return "ElementWiseSin";
  case ITG_OP_COS: return "ElementWiseCos";
  default: return NULL;
  }
}

// The NPU insists on the encodings of these two.
static bool has_fixed_encoding(int32_t function, itg_dtype storage, double *scale, int32_t *zero) {
  if (function != ITG_OP_SIGMOID && function != ITG_OP_TANH) return false;
  const int bits = storage == ITG_DTYPE_U16 ? 16 : 8;
  const bool is_signed = function == ITG_OP_TANH;
  *scale = ldexp(1, is_signed ? 1 - bits : -bits);
  *zero = is_signed ? 1 << (bits - 1) : 0;
  return true;
}

itg_status itg_qnn_table(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const int32_t function = node->attributes.q_table.function;
  const char *name = function_name(&node->attributes.q_table);
  if (!name) return itg_qnn_refuse(b, node, "this function has no kernel there");
  double scale = itg_qnn_scale(y);
  int32_t zero = itg_qnn_zero(y);
  const bool is_fixed = has_fixed_encoding(function, x->dtype, &scale, &zero);
  if (x->dtype == y->dtype && scale == itg_qnn_scale(y) && zero == itg_qnn_zero(y))
    return itg_qnn_simple(b, node, name, 1, NULL);
  itg_qnn_tensor input, output, result;
  ITG_TRY(itg_qnn_activation(b, x, &input));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  if (is_fixed)
    ITG_TRY(itg_qnn_helper(b, y, itg_qnn_type_of(x->dtype), scale, zero, output.v1.rank, output.v1.dims, &result));
  else
    ITG_TRY(itg_qnn_helper_in(b, y, x->dtype, &result));
  ITG_TRY(itg_qnn_add(b, node, name, NULL, &input, 1, &result));
  return itg_qnn_add(b, node, "Convert", NULL, &result, 1, &output);
}
