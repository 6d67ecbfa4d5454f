// Convolution, transposed convolution, fully connected and MatMul on the NPU.
#include "kernels/htp/rule.h"
#include "lower/qnn/lower.h"
#include "tensor/nibbles.h"

static itg_status add_bias(itg_qnn_builder *b, const itg_node *node, uint32_t outputs, itg_qnn_tensor *out) {
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1];
  double *scales = itg_arena_array(&b->scratch, outputs, sizeof scales[0]);
  int32_t *bias = itg_arena_array(&b->scratch, outputs, sizeof bias[0]);
  ITG_TRY_MEMORY(scales && bias, b->diagnostic);
  const bool is_v73 = b->target && b->target->arch >= 73;
  for (uint32_t o = 0; o < outputs; o++) {
    // Groups of a transposed convolution share the scales of their rows.
    const double weight_scale = weight->encoding->scales[o % (uint32_t)weight->encoding->count];
    scales[o] = itg_qnn_scale(x) * weight_scale;
    bias[o] = itg_htp_bias(is_v73, x->dtype == ITG_DTYPE_U16, itg_qnn_scale(x), weight_scale,
                           itg_qnn_scale(node->outputs[0]), ((const int32_t *)node->inputs[2]->data)[o]);
  }
  return itg_qnn_constant(b, ITG_QNN_TYPE_S32, 1, &outputs, bias, outputs * sizeof bias[0], 0, outputs, scales, 0, out);
}

// The weights as s8: 4-bit codes, times the scale of their block where there is one, are small 8-bit ones to the vendor too,
// with the same result.
static itg_status weight_codes(itg_qnn_builder *b, const itg_node *node, const int8_t **out) {
  const itg_tensor *weight = node->inputs[ITG_Q_CONV_WEIGHT], *blocks = itg_node_input(node, ITG_Q_CONV_BLOCK_SCALE);
  *out = weight->data;
  if (weight->dtype != ITG_DTYPE_S4) return ITG_OK;
  size_t count;
  if (!itg_shape_count(&weight->shape, &count)) return itg_qnn_refuse(b, node, "the weights are too large");
  int8_t *codes = itg_arena_allocate(&b->scratch, count);
  ITG_TRY_MEMORY(codes, b->diagnostic);
  itg_nibbles_unpack(weight->data, blocks ? blocks->data : NULL,
                     blocks ? weight->shape.dims[1] / blocks->shape.dims[1] : 1, 0, (int64_t)count, codes);
  *out = codes;
  return ITG_OK;
}

// [O,KH,KW,I] -> [KH,KW,I,O]; a depth-wise kernel becomes [KH,KW,1,O], a transposed one [KH,KW,I,O/group].
static itg_status add_kernel(itg_qnn_builder *b, const itg_node *node, itg_qnn_tensor *out) {
  const itg_tensor *weight = node->inputs[ITG_Q_CONV_WEIGHT];
  const int64_t o = weight->shape.dims[0], h = weight->shape.dims[1], w = weight->shape.dims[2],
                c = weight->shape.dims[3];
  const size_t bytes = (size_t)(o * h * w * c);
  const int8_t *codes;
  ITG_TRY(weight_codes(b, node, &codes));
  if (!b->is_survey) {
    int8_t *moved = itg_arena_allocate(&b->scratch, bytes);
    ITG_TRY_MEMORY(moved, b->diagnostic);
    for (int64_t i = 0; i < o; i++) {
      for (int64_t k = 0; k < h * w * c; k++) moved[k * o + i] = codes[i * h * w * c + k];
    }
    codes = moved;
  }
  const uint32_t dims[4] = {(uint32_t)h, (uint32_t)w, (uint32_t)c, (uint32_t)o};
  return itg_qnn_constant(b, ITG_QNN_TYPE_S8, 4, dims, codes, bytes, 3, weight->encoding->count,
                          weight->encoding->scales, 0, out);
}

// Adds a matrix operation; a clamp inside the code range becomes a node behind it.
static itg_status add_clamped(itg_qnn_builder *b, const itg_node *node, const char *type, itg_qnn_parameters *p,
                              itg_qnn_tensor *inputs, itg_qnn_tensor *output) {
  const itg_q_conv_attributes *a = &node->attributes.q_conv;
  const itg_tensor *y = node->outputs[0];
  if (!itg_qnn_clamps(y, a->low, a->high)) return itg_qnn_add(b, node, type, p, inputs, 3, output);
  itg_qnn_tensor sum;
  // FullyConnected writes rows, whatever the rank of y.
  ITG_TRY(itg_qnn_unclamped(b, y, y->dtype, a->low, a->high, &sum));
  if (sum.v1.rank != output->v1.rank) {
    const itg_qnn_scale_offset range = sum.v1.quantization.scale_offset;
    ITG_TRY(itg_qnn_helper(b, y, output->v1.data_type, (double)range.scale, -range.offset, output->v1.rank,
                           output->v1.dims, &sum));
  }
  ITG_TRY(itg_qnn_add(b, node, type, p, inputs, 3, &sum));
  return itg_qnn_add_clamp(b, node, y, a->low, a->high, &sum, output);
}

itg_status itg_qnn_convolution(itg_qnn_builder *b, const itg_node *node) {
  const itg_q_conv_attributes *a = &node->attributes.q_conv;
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1], *y = node->outputs[0];
  const bool transposed = node->op == ITG_OP_Q_CONV_TRANSPOSE;
  if (itg_node_input(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER))
    return itg_qnn_refuse(b, node, "a fused PReLU must be a node of its own");
  if (x->dtype != y->dtype) return itg_qnn_refuse(b, node, "input and output must both be u8 or both be u16");
  const bool depthwise =
      !transposed && a->group > 1 && a->group == x->shape.dims[3] && a->group == weight->shape.dims[0];
  itg_qnn_tensor inputs[3], output;
  ITG_TRY(itg_qnn_activation(b, x, &inputs[0]));
  ITG_TRY(add_kernel(b, node, &inputs[1]));
  ITG_TRY(add_bias(b, node, (uint32_t)y->shape.dims[3], &inputs[2]));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_window(b, &p, &a->window, NULL));
  if (transposed) {
    const uint32_t padding[2] = {(uint32_t)a->output_padding[0], (uint32_t)a->output_padding[1]};
    ITG_TRY(itg_qnn_set_array(b, &p, "output_padding", ITG_QNN_TYPE_U32_INTEGER, 2, 0, padding));
    if (a->window.dilation[0] != 1 || a->window.dilation[1] != 1)
      return itg_qnn_refuse(b, node, "transposed convolutions cannot be dilated");
  } else {
    const uint32_t dilation[2] = {(uint32_t)a->window.dilation[0], (uint32_t)a->window.dilation[1]};
    ITG_TRY(itg_qnn_set_array(b, &p, "dilation", ITG_QNN_TYPE_U32_INTEGER, 2, 0, dilation));
  }
  if (!depthwise) itg_qnn_set_u32(&p, "group", (uint32_t)a->group);
  const char *type = transposed ? "TransposeConv2d" : depthwise ? "DepthWiseConv2d" : "Conv2d";
  return add_clamped(b, node, type, &p, inputs, &output);
}

itg_status itg_qnn_fully_connected(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1], *y = node->outputs[0];
  if (itg_node_input(node, ITG_Q_CONV_NEGATIVE_MULTIPLIER))
    return itg_qnn_refuse(b, node, "a fused PReLU must be a node of its own");
  if (x->dtype != y->dtype) return itg_qnn_refuse(b, node, "input and output must both be u8 or both be u16");
  const uint32_t outputs = (uint32_t)weight->shape.dims[0], inner = (uint32_t)weight->shape.dims[1];
  size_t count;
  if (!itg_shape_count(&x->shape, &count)) return itg_qnn_refuse(b, node, "the input is too large");
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
  ITG_TRY(itg_qnn_helper(b, x, itg_qnn_type_of(x->dtype), itg_qnn_scale(x), itg_qnn_zero(x), 2,
                         (uint32_t[]){rows, inner}, &flat_in));
  ITG_TRY(itg_qnn_helper(b, y, itg_qnn_type_of(y->dtype), itg_qnn_scale(y), itg_qnn_zero(y), 2,
                         (uint32_t[]){rows, outputs}, &flat_out));
  ITG_TRY(itg_qnn_add(b, node, "Reshape", NULL, &reshaped, 1, &flat_in));
  inputs[0] = flat_in;
  ITG_TRY(add_clamped(b, node, "FullyConnected", NULL, inputs, &flat_out));
  return itg_qnn_add(b, node, "Reshape", NULL, &flat_out, 1, &output);
}

itg_status itg_qnn_matmul(itg_qnn_builder *b, const itg_node *node) {
  if (node->inputs[1]->dtype == ITG_DTYPE_U16 && !(b->target && b->target->has_16x16))
    return itg_qnn_refuse(b, node, "the second operand must be 8-bit");
  itg_qnn_parameters p = {0};
  itg_qnn_set_bool(&p, "transpose_in0", false);
  itg_qnn_set_bool(&p, "transpose_in1", node->attributes.requantize.transpose_b != 0);
  return itg_qnn_simple(b, node, "MatMul", 2, &p);
}
