// One LEGAL node -> QNN operations. Layouts: QNN is NHWC like ours; its weights put the output channel last.
#include <math.h>
#include <string.h>

#include "graph/integer_ops.h"
#include "lower/qnn/builder.h"
#include "tensor/nibbles.h"

static double scale_of(const itg_tensor *tensor) { return tensor->encoding->scales[0]; }
static int32_t zero_of(const itg_tensor *tensor) {
  return tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0;
}
// The real factor that multiplier and shift stand for.
static double factor_of(int32_t multiplier, int32_t shift) { return ldexp(multiplier, -shift); }

static itg_status refuse(itg_qnn_builder *b, const itg_node *node, const char *rule) {
  ITG_FAIL(b->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s on %s: %s", itg_op_name((int)node->op),
           b->target ? b->target->name : "the NPU", rule);
}

static itg_status inputs_and_output(itg_qnn_builder *b, const itg_node *node, int32_t count, itg_qnn_tensor *inputs,
                                    itg_qnn_tensor *output) {
  for (int32_t i = 0; i < count; i++) ITG_TRY(itg_qnn_activation(b, node->inputs[i], &inputs[i]));
  return itg_qnn_activation(b, node->outputs[0], output);
}

static itg_status simple(itg_qnn_builder *b, const itg_node *node, const char *type, int32_t input_count,
                         itg_qnn_parameters *parameters) {
  itg_qnn_tensor inputs[2], output;
  ITG_TRY(inputs_and_output(b, node, input_count, inputs, &output));
  return itg_qnn_add(b, node, type, parameters, inputs, (uint32_t)input_count, &output);
}

// ---- convolutions ----

static itg_status add_bias(itg_qnn_builder *b, const itg_node *node, uint32_t outputs, itg_qnn_tensor *out) {
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1];
  double *scales = itg_arena_array(&b->arena, outputs, sizeof scales[0]);
  ITG_TRY_MEMORY(scales, b->diagnostic);
  for (uint32_t o = 0; o < outputs; o++)
    scales[o] = scale_of(x) * weight->encoding->scales[weight->encoding->count == 1 ? 0 : o];
  return itg_qnn_constant(b, ITG_QNN_TYPE_S32, 1, &outputs, node->inputs[2]->data, outputs * sizeof(int32_t), 0,
                          outputs, scales, 0, out);
}

static itg_status set_window(itg_qnn_builder *b, itg_qnn_parameters *p, const itg_window *w, const char *kernel) {
  const uint32_t stride[2] = {(uint32_t)w->stride[0], (uint32_t)w->stride[1]};
  const uint32_t pads[4] = {(uint32_t)w->pad_begin[0], (uint32_t)w->pad_end[0], (uint32_t)w->pad_begin[1],
                            (uint32_t)w->pad_end[1]};
  if (kernel) {
    const uint32_t size[2] = {(uint32_t)w->kernel[0], (uint32_t)w->kernel[1]};
    ITG_TRY(itg_qnn_set_array(b, p, kernel, ITG_QNN_TYPE_U32_INTEGER, 2, 0, size));
  }
  ITG_TRY(itg_qnn_set_array(b, p, "stride", ITG_QNN_TYPE_U32_INTEGER, 2, 0, stride));
  return itg_qnn_set_array(b, p, "pad_amount", ITG_QNN_TYPE_U32_INTEGER, 2, 2, pads);
}

// The weights as s8: 4-bit codes, times the scale of their block where there is one, are small 8-bit ones to the vendor too,
// with the same result.
static itg_status weight_codes(itg_qnn_builder *b, const itg_node *node, const int8_t **out) {
  const itg_tensor *weight = node->inputs[ITG_Q_CONV_WEIGHT], *blocks = itg_node_input(node, ITG_Q_CONV_BLOCK_SCALE);
  *out = weight->data;
  if (weight->dtype != ITG_DTYPE_S4) return ITG_OK;
  size_t count;
  if (!itg_shape_count(&weight->shape, &count)) return refuse(b, node, "the weights are too large");
  int8_t *codes = itg_arena_allocate(&b->arena, count);
  ITG_TRY_MEMORY(codes, b->diagnostic);
  itg_nibbles_unpack(weight->data, blocks ? blocks->data : NULL,
                     blocks ? weight->shape.dims[1] / blocks->shape.dims[1] : 1, 0, (int64_t)count, codes);
  *out = codes;
  return ITG_OK;
}

// [O,KH,KW,I] -> [KH,KW,I,O]; a depth-wise kernel becomes [KH,KW,1,O].
static itg_status add_kernel(itg_qnn_builder *b, const itg_node *node, itg_qnn_tensor *out) {
  const itg_tensor *weight = node->inputs[ITG_Q_CONV_WEIGHT];
  const int64_t o = weight->shape.dims[0], h = weight->shape.dims[1], w = weight->shape.dims[2],
                c = weight->shape.dims[3];
  const size_t bytes = (size_t)(o * h * w * c);
  int8_t *moved = itg_arena_allocate(&b->arena, bytes);
  ITG_TRY_MEMORY(moved, b->diagnostic);
  const int8_t *codes;
  ITG_TRY(weight_codes(b, node, &codes));
  for (int64_t i = 0; i < o; i++) {
    for (int64_t k = 0; k < h * w * c; k++) moved[k * o + i] = codes[i * h * w * c + k];
  }
  const uint32_t dims[4] = {(uint32_t)h, (uint32_t)w, (uint32_t)c, (uint32_t)o};
  return itg_qnn_constant(b, ITG_QNN_TYPE_S8, 4, dims, moved, bytes, 3, weight->encoding->count,
                          weight->encoding->scales, 0, out);
}

// Adds a matrix operation; a clamp inside the code range becomes a node behind it.
static itg_status add_clamped(itg_qnn_builder *b, const itg_node *node, const char *type, itg_qnn_parameters *p,
                              itg_qnn_tensor *inputs, itg_qnn_tensor *output) {
  const itg_q_conv_attributes *a = &node->attributes.q_conv;
  const itg_tensor *y = node->outputs[0];
  if (a->low <= itg_code_min(y->dtype) && a->high >= itg_code_max(y->dtype))
    return itg_qnn_add(b, node, type, p, inputs, 3, output);
  itg_qnn_tensor sum;
  ITG_TRY(itg_qnn_helper(b, y, output->v1.data_type, scale_of(y), zero_of(y), output->v1.rank, output->v1.dims, &sum));
  ITG_TRY(itg_qnn_add(b, node, type, p, inputs, 3, &sum));
  itg_qnn_parameters clamp = {0};
  itg_qnn_set_f32(&clamp, "min_value", itg_decode(a->low, scale_of(y), zero_of(y)));
  itg_qnn_set_f32(&clamp, "max_value", itg_decode(a->high, scale_of(y), zero_of(y)));
  return itg_qnn_add(b, node, "ReluMinMax", &clamp, &sum, 1, output);
}

static itg_status convolution(itg_qnn_builder *b, const itg_node *node) {
  const itg_q_conv_attributes *a = &node->attributes.q_conv;
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1], *y = node->outputs[0];
  if (itg_node_input(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER))
    return refuse(b, node, "a fused PReLU must be a node of its own");
  if (x->dtype != y->dtype) return refuse(b, node, "input and output must both be u8 or both be u16");
  const bool depthwise = a->group > 1 && a->group == x->shape.dims[3];
  if (a->group > 1 && (!depthwise || weight->shape.dims[0] != a->group))
    return refuse(b, node, "grouped convolutions other than depth-wise are not lowered");
  itg_qnn_tensor inputs[3], output;
  ITG_TRY(itg_qnn_activation(b, x, &inputs[0]));
  ITG_TRY(add_kernel(b, node, &inputs[1]));
  ITG_TRY(add_bias(b, node, (uint32_t)weight->shape.dims[0], &inputs[2]));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  itg_qnn_parameters p = {0};
  ITG_TRY(set_window(b, &p, &a->window, NULL));
  const uint32_t dilation[2] = {(uint32_t)a->window.dilation[0], (uint32_t)a->window.dilation[1]};
  ITG_TRY(itg_qnn_set_array(b, &p, "dilation", ITG_QNN_TYPE_U32_INTEGER, 2, 0, dilation));
  if (!depthwise) itg_qnn_set_u32(&p, "group", 1);
  return add_clamped(b, node, depthwise ? "DepthWiseConv2d" : "Conv2d", &p, inputs, &output);
}

static itg_status fully_connected(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1], *y = node->outputs[0];
  if (itg_node_input(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER))
    return refuse(b, node, "a fused PReLU must be a node of its own");
  if (x->dtype != y->dtype) return refuse(b, node, "input and output must both be u8 or both be u16");
  const uint32_t outputs = (uint32_t)weight->shape.dims[0], inner = (uint32_t)weight->shape.dims[1];
  size_t count;
  if (!itg_shape_count(&x->shape, &count)) return refuse(b, node, "the input is too large");
  const uint32_t rows = (uint32_t)(count / inner);
  itg_qnn_tensor inputs[3], output;
  ITG_TRY(itg_qnn_activation(b, x, &inputs[0]));
  const uint32_t dims[2] = {outputs, inner};
  const int8_t *codes;
  ITG_TRY(weight_codes(b, node, &codes));
  ITG_TRY(itg_qnn_constant(b, ITG_QNN_TYPE_S8, 2, dims, codes, (size_t)outputs * inner, 0, weight->encoding->count,
                           weight->encoding->scales, 0, &inputs[1]));
  ITG_TRY(add_bias(b, node, outputs, &inputs[2]));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  if (x->shape.rank == 2 && y->shape.rank == 2) return add_clamped(b, node, "FullyConnected", NULL, inputs, &output);
  // The vendor's operation is a matrix product of [rows, K]; views around it give other ranks.
  itg_qnn_tensor flat_in, flat_out, reshaped = inputs[0];
  ITG_TRY(
      itg_qnn_helper(b, x, itg_qnn_type_of(x->dtype), scale_of(x), zero_of(x), 2, (uint32_t[]){rows, inner}, &flat_in));
  ITG_TRY(itg_qnn_helper(b, y, itg_qnn_type_of(y->dtype), scale_of(y), zero_of(y), 2, (uint32_t[]){rows, outputs},
                         &flat_out));
  ITG_TRY(itg_qnn_add(b, node, "Reshape", NULL, &reshaped, 1, &flat_in));
  inputs[0] = flat_in;
  ITG_TRY(add_clamped(b, node, "FullyConnected", NULL, inputs, &flat_out));
  return itg_qnn_add(b, node, "Reshape", NULL, &flat_out, 1, &output);
}

static itg_status matmul(itg_qnn_builder *b, const itg_node *node) {
  if (node->inputs[1]->dtype == ITG_DTYPE_U16 && !(b->target && b->target->has_16x16))
    return refuse(b, node, "the second operand must be 8-bit");
  itg_qnn_parameters p = {0};
  itg_qnn_set_bool(&p, "transpose_in0", false);
  itg_qnn_set_bool(&p, "transpose_in1", node->attributes.requantize.transpose_b != 0);
  return simple(b, node, "MatMul", 2, &p);
}

// ---- element-wise ----

// Codes of real values over their own range, u8 or u16.
static itg_status add_vector(itg_qnn_builder *b, itg_dtype dtype, uint32_t count, const double *values,
                             itg_qnn_tensor *out) {
  double low = 0, high = 0, scale;
  int32_t zero;
  const size_t size = itg_dtype_size(dtype);
  void *codes = itg_arena_array(&b->arena, count, size);
  ITG_TRY_MEMORY(codes, b->diagnostic);
  for (uint32_t i = 0; i < count; i++) {
    low = fmin(low, values[i]);
    high = fmax(high, values[i]);
  }
  itg_encoding_from_range(low, high, dtype, &scale, &zero);
  for (uint32_t i = 0; i < count; i++) {
    const int32_t code = itg_encode((float)values[i], scale, zero, 0, itg_code_max(dtype));
    if (dtype == ITG_DTYPE_U8)
      ((uint8_t *)codes)[i] = (uint8_t)code;
    else
      ((uint16_t *)codes)[i] = (uint16_t)code;
  }
  return itg_qnn_constant(b, itg_qnn_type_of(dtype), 1, &count, codes, count * size, 0, 1, &scale, zero, out);
}

static itg_status prelu(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *multiplier = node->inputs[1];
  const uint32_t count = (uint32_t)multiplier->shape.dims[0];
  double *slopes = itg_arena_array(&b->arena, count, sizeof slopes[0]);
  ITG_TRY_MEMORY(slopes, b->diagnostic);
  const double positive = factor_of(node->attributes.requantize.multiplier, node->attributes.requantize.shift);
  for (uint32_t i = 0; i < count; i++)
    slopes[i] =
        factor_of(((const int32_t *)multiplier->data)[i], ((const int32_t *)node->inputs[2]->data)[i]) / positive;
  itg_qnn_tensor inputs[2], output;
  ITG_TRY(itg_qnn_activation(b, node->inputs[0], &inputs[0]));
  ITG_TRY(add_vector(b, node->inputs[0]->dtype, count, slopes, &inputs[1]));
  ITG_TRY(itg_qnn_activation(b, node->outputs[0], &output));
  return itg_qnn_add(b, node, "Prelu", NULL, inputs, 2, &output);
}

static itg_status convert(itg_qnn_builder *b, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  if (a->low <= itg_code_min(y->dtype) && a->high >= itg_code_max(y->dtype)) return simple(b, node, "Convert", 1, NULL);
  if (x->dtype != y->dtype) return refuse(b, node, "a clamp cannot change the number of bits");
  itg_qnn_parameters p = {0};
  itg_qnn_set_f32(&p, "min_value", itg_decode(a->low, scale_of(y), zero_of(y)));
  itg_qnn_set_f32(&p, "max_value", itg_decode(a->high, scale_of(y), zero_of(y)));
  return simple(b, node, "ReluMinMax", 1, &p);
}

// A per-channel gain and shift is a depth-wise 1x1 convolution: weight 127 with one scale a channel holds any gain exactly.
static itg_status affine(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0], *scale = node->inputs[1];
  if (x->dtype != y->dtype) return refuse(b, node, "input and output must both be u8 or both be u16");
  const uint32_t channels = (uint32_t)x->shape.dims[x->shape.rank - 1];
  size_t count;
  if (x->shape.rank > 4 || !itg_shape_count(&x->shape, &count)) return refuse(b, node, "more than four dimensions");
  int8_t *weights = itg_arena_allocate(&b->arena, channels);
  int32_t *bias = itg_arena_array(&b->arena, channels, sizeof bias[0]);
  double *weight_scales = itg_arena_array(&b->arena, channels, sizeof(double));
  double *bias_scales = itg_arena_array(&b->arena, channels, sizeof(double));
  ITG_TRY_MEMORY(weights && bias && weight_scales && bias_scales, b->diagnostic);
  for (uint32_t c = 0; c < channels; c++) {
    const uint32_t at = scale->shape.dims[0] == 1 ? 0 : c;
    const int32_t shift = ((const int32_t *)node->inputs[3]->data)[at];
    const double gain = factor_of(((const int32_t *)scale->data)[at], shift) * scale_of(y) / scale_of(x);
    const double offset = ldexp((double)((const int64_t *)node->inputs[2]->data)[at], -shift) * scale_of(y);
    // Channels with next to no gain take a larger scale: their shift must fit 2^30 units of it, and the NPU adds the zero
    // point in those units (as for convolutions, quantize/weights.c).
    const double least = ldexp(fmax(zero_of(y), 1), y->dtype == ITG_DTYPE_U16 ? -37 : -29) * scale_of(y) / scale_of(x);
    weight_scales[c] = fmax(fabs(gain) / 127, fmax(ldexp(fabs(offset) / scale_of(x), -30), least));
    weights[c] = (int8_t)floor(gain / weight_scales[c] + 0.5);
    bias_scales[c] = weight_scales[c] * scale_of(x);
    const double code = floor(offset / bias_scales[c] + 0.5);
    bias[c] = (int32_t)code;
  }
  const uint32_t kernel_dims[4] = {1, 1, 1, channels};
  itg_qnn_tensor inputs[3], output;
  ITG_TRY(itg_qnn_activation(b, x, &inputs[0]));
  ITG_TRY(itg_qnn_constant(b, ITG_QNN_TYPE_S8, 4, kernel_dims, weights, channels, 3, channels, weight_scales, 0,
                           &inputs[1]));
  ITG_TRY(itg_qnn_constant(b, ITG_QNN_TYPE_S32, 1, &channels, bias, channels * sizeof bias[0], 0, channels, bias_scales,
                           0, &inputs[2]));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  itg_qnn_parameters p = {0};
  const itg_window unit = {.rank = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
  ITG_TRY(set_window(b, &p, &unit, NULL));
  ITG_TRY(itg_qnn_set_array(b, &p, "dilation", ITG_QNN_TYPE_U32_INTEGER, 2, 0, (uint32_t[]){1, 1}));
  if (x->shape.rank == 4) return itg_qnn_add(b, node, "DepthWiseConv2d", &p, inputs, 3, &output);
  const uint32_t flat[4] = {1, 1, (uint32_t)(count / channels), channels};
  itg_qnn_tensor flat_in, flat_out;
  ITG_TRY(itg_qnn_helper(b, x, itg_qnn_type_of(x->dtype), scale_of(x), zero_of(x), 4, flat, &flat_in));
  ITG_TRY(itg_qnn_helper(b, y, itg_qnn_type_of(y->dtype), scale_of(y), zero_of(y), 4, flat, &flat_out));
  ITG_TRY(itg_qnn_add(b, node, "Reshape", NULL, &inputs[0], 1, &flat_in));
  inputs[0] = flat_in;
  ITG_TRY(itg_qnn_add(b, node, "DepthWiseConv2d", &p, inputs, 3, &flat_out));
  return itg_qnn_add(b, node, "Reshape", NULL, &flat_out, 1, &output);
}

static itg_status table(itg_qnn_builder *b, const itg_node *node) {
  switch (node->attributes.q_table.function) {
  case ITG_OP_SIGMOID: return simple(b, node, "Sigmoid", 1, NULL);
  case ITG_OP_TANH: return simple(b, node, "Tanh", 1, NULL);
  case ITG_OP_GELU: return simple(b, node, "Gelu", 1, NULL);
  case ITG_OP_EXP: return simple(b, node, "ElementWiseExp", 1, NULL);
  case ITG_OP_SQRT: return simple(b, node, "ElementWiseSquareRoot", 1, NULL);
  default: return refuse(b, node, "this function has no kernel there");
  }
}

// ---- pools, sums, norms ----

static itg_status pool(itg_qnn_builder *b, const itg_node *node) {
  const bool is_max = node->op == ITG_OP_MAX_POOL;
  const itg_pool_attributes *a = is_max ? &node->attributes.pool : &node->attributes.q_pool.pool;
  if (a->window.dilation[0] != 1 || a->window.dilation[1] != 1)
    return refuse(b, node, "dilated pools are not available");
  itg_qnn_parameters p = {0};
  ITG_TRY(set_window(b, &p, &a->window, "filter_size"));
  itg_qnn_set_u32(&p, "rounding_mode", 0);
  if (!is_max) itg_qnn_set_bool(&p, "count_pad_for_edges", a->count_include_pad != 0);
  return simple(b, node, is_max ? "PoolMax2d" : "PoolAvg2d", 1, &p);
}

static itg_status reduce(itg_qnn_builder *b, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0];
  uint32_t axes[ITG_MAX_RANK], count = 0;
  double elements = 1;
  for (int32_t i = 0; i < x->shape.rank; i++) {
    if (!(a->axes >> i & 1)) continue;
    axes[count++] = (uint32_t)i;
    elements *= (double)x->shape.dims[i];
  }
  // Sum and mean differ in the factor only: whichever the multiplier stands for.
  const double factor = factor_of(a->multiplier, a->shift) * scale_of(node->outputs[0]) / scale_of(x);
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "axes", ITG_QNN_TYPE_U32_INTEGER, count, 0, axes));
  itg_qnn_set_bool(&p, "keep_dims", true);
  if (fabs(factor - 1) < 1e-3) return simple(b, node, "ReduceSum", 1, &p);
  if (fabs(factor * elements - 1) < 1e-3) return simple(b, node, "ReduceMean", 1, &p);
  return refuse(b, node, "neither a sum nor a mean");
}

static itg_status softmax(itg_qnn_builder *b, const itg_node *node) {
  if (node->input_count > 1 && node->inputs[1]) return refuse(b, node, "a mask must be part of the scores");
  if (node->outputs[0]->dtype != node->inputs[0]->dtype)
    return refuse(b, node, "input and output must have equal bits");
  itg_qnn_parameters p = {0};
  itg_qnn_set_u32(&p, "axis", (uint32_t)node->inputs[0]->shape.rank - 1);
  itg_qnn_set_f32(&p, "beta", 1);
  return simple(b, node, "Softmax", 1, &p);
}

// ---- movement ----

static itg_status transpose(itg_qnn_builder *b, const itg_node *node) {
  uint32_t permutation[ITG_MAX_RANK];
  const uint32_t rank = (uint32_t)node->inputs[0]->shape.rank;
  for (uint32_t i = 0; i < rank; i++) permutation[i] = (uint32_t)node->attributes.permutation.permutation[i];
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "perm", ITG_QNN_TYPE_U32_INTEGER, rank, 0, permutation));
  return simple(b, node, "Transpose", 1, &p);
}

static itg_status concat(itg_qnn_builder *b, const itg_node *node) {
  itg_qnn_tensor *inputs = itg_arena_array(&b->arena, (size_t)node->input_count, sizeof inputs[0]);
  itg_qnn_tensor output;
  ITG_TRY_MEMORY(inputs, b->diagnostic);
  ITG_TRY(inputs_and_output(b, node, node->input_count, inputs, &output));
  itg_qnn_parameters p = {0};
  itg_qnn_set_u32(&p, "axis", (uint32_t)node->attributes.axis.axis);
  return itg_qnn_add(b, node, "Concat", &p, inputs, (uint32_t)node->input_count, &output);
}

static itg_status slice(itg_qnn_builder *b, const itg_node *node) {
  uint32_t ranges[3 * ITG_MAX_RANK];
  const uint32_t rank = (uint32_t)node->inputs[0]->shape.rank;
  for (uint32_t i = 0; i < rank; i++) {
    const int64_t start = node->attributes.slice.start[i], step = node->attributes.slice.step[i];
    if (step < 1) return refuse(b, node, "negative steps are not lowered");
    ranges[3 * i] = (uint32_t)start;
    ranges[3 * i + 1] = (uint32_t)(start + (node->outputs[0]->shape.dims[i] - 1) * step + 1);
    ranges[3 * i + 2] = (uint32_t)step;
  }
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "ranges", ITG_QNN_TYPE_S32_INTEGER, rank, 3, ranges));
  return simple(b, node, "StridedSlice", 1, &p);
}

itg_status itg_qnn_lower_node(itg_qnn_builder *b, const itg_node *node) {
  switch (node->op) {
  case ITG_OP_Q_CONV: return convolution(b, node);
  case ITG_OP_Q_FULLY_CONNECTED: return fully_connected(b, node);
  case ITG_OP_Q_MATMUL: return matmul(b, node);
  case ITG_OP_Q_ADD:
    return simple(b, node, node->attributes.q_add.b < 0 ? "ElementWiseSubtract" : "ElementWiseAdd", 2, NULL);
  case ITG_OP_Q_MUL: return simple(b, node, "ElementWiseMultiply", 2, NULL);
  case ITG_OP_Q_DIV: return simple(b, node, "ElementWiseDivide", 2, NULL);
  case ITG_OP_Q_PRELU: return prelu(b, node);
  case ITG_OP_Q_CONVERT: return convert(b, node);
  case ITG_OP_Q_AFFINE: return affine(b, node);
  case ITG_OP_Q_TABLE: return table(b, node);
  case ITG_OP_MAX_POOL:
  case ITG_OP_Q_AVERAGE_POOL: return pool(b, node);
  case ITG_OP_Q_REDUCE_SUM: return reduce(b, node);
  case ITG_OP_Q_SOFTMAX: return softmax(b, node);
  case ITG_OP_TRANSPOSE: return transpose(b, node);
  case ITG_OP_CONCAT: return concat(b, node);
  case ITG_OP_SLICE: return slice(b, node);
  case ITG_OP_RESHAPE: return simple(b, node, "Reshape", 1, NULL);
  case ITG_OP_MIN: return simple(b, node, "ElementWiseMinimum", 2, NULL);
  case ITG_OP_MAX: return simple(b, node, "ElementWiseMaximum", 2, NULL);
  default: return refuse(b, node, "not lowered to the NPU");
  }
}
