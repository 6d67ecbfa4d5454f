// Which function lowers which LEGAL node, and what they share. Layouts: QNN is NHWC like ours; its weights put the output
// channel last.
#include "lower/qnn/lower.h"

itg_status itg_qnn_refuse(const itg_qnn_builder *b, const itg_node *node, const char *rule) {
  ITG_FAIL(b->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s on %s: %s", itg_op_name((int)node->op),
           b->target ? b->target->name : "the NPU", rule);
}

itg_status itg_qnn_simple(itg_qnn_builder *b, const itg_node *node, const char *type, int32_t input_count,
                          itg_qnn_parameters *parameters) {
  itg_qnn_tensor inputs[2], output;
  for (int32_t i = 0; i < input_count; i++) ITG_TRY(itg_qnn_activation(b, node->inputs[i], &inputs[i]));
  ITG_TRY(itg_qnn_activation(b, node->outputs[0], &output));
  return itg_qnn_add(b, node, type, parameters, inputs, (uint32_t)input_count, &output);
}

itg_status itg_qnn_set_window(itg_qnn_builder *b, itg_qnn_parameters *p, const itg_window *w, const char *kernel) {
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

itg_status itg_qnn_helper_in(itg_qnn_builder *b, const itg_tensor *y, itg_dtype storage, itg_qnn_tensor *out) {
  itg_qnn_tensor own;
  ITG_TRY(itg_qnn_activation(b, y, &own)); // For its dimensions.
  double scale = itg_qnn_scale(y);
  int32_t zero = itg_qnn_zero(y);
  if (storage == ITG_DTYPE_U16 && y->dtype == ITG_DTYPE_U8) {
    scale /= 257;
    zero *= 257;
  } else if (storage == ITG_DTYPE_U8 && y->dtype == ITG_DTYPE_U16) {
    const double low = -zero * scale, high = (65535 - zero) * scale;
    itg_encoding_from_range(low, high, ITG_DTYPE_U8, &scale, &zero);
  }
  return itg_qnn_helper(b, y, itg_qnn_type_of(storage), scale, zero, own.v1.rank, own.v1.dims, out);
}

bool itg_qnn_clamps(const itg_tensor *y, int32_t low, int32_t high) {
  // The end of a 16-bit range may lie one code from the bound that made it.
  const int32_t slack = y->dtype == ITG_DTYPE_U16 ? 1 : 0;
  return low > itg_code_min(y->dtype) + slack || high < itg_code_max(y->dtype) - slack;
}

itg_status itg_qnn_unclamped(itg_qnn_builder *b, const itg_tensor *y, itg_dtype storage, int32_t low, int32_t high,
                             itg_qnn_tensor *out) {
  if (storage != ITG_DTYPE_U16) return itg_qnn_helper_in(b, y, storage, out);
  itg_qnn_tensor own;
  double scale;
  int32_t zero;
  ITG_TRY(itg_qnn_activation(b, y, &own)); // For its dimensions.
  itg_encoding_from_range((double)itg_decode(low, itg_qnn_scale(y), itg_qnn_zero(y)),
                          (double)itg_decode(high, itg_qnn_scale(y), itg_qnn_zero(y)), storage, &scale, &zero);
  return itg_qnn_helper(b, y, ITG_QNN_TYPE_U16, scale, zero, own.v1.rank, own.v1.dims, out);
}

itg_status itg_qnn_add_clamp(itg_qnn_builder *b, const itg_node *node, const itg_tensor *y, int32_t low, int32_t high,
                             itg_qnn_tensor *from, itg_qnn_tensor *output) {
  if (from->v1.data_type == ITG_QNN_TYPE_U16) {
    // The range of `from` has cut already, which takes a bound on each side of 0.
    if (low > itg_qnn_zero(y) || high < itg_qnn_zero(y)) return itg_qnn_refuse(b, node, "bounds that leave out 0");
    return itg_qnn_add(b, node, "Convert", NULL, from, 1, output);
  }
  itg_qnn_parameters p = {0};
  itg_qnn_set_f32(&p, "min_value", itg_decode(low, itg_qnn_scale(y), itg_qnn_zero(y)));
  itg_qnn_set_f32(&p, "max_value", itg_decode(high, itg_qnn_scale(y), itg_qnn_zero(y)));
  return itg_qnn_add(b, node, "ReluMinMax", &p, from, 1, output);
}

itg_status itg_qnn_vector(itg_qnn_builder *b, itg_dtype dtype, uint32_t count, const double *values,
                          itg_qnn_tensor *out) {
  double low = 0, high = 0, scale;
  int32_t zero;
  const size_t size = itg_dtype_size(dtype);
  void *codes = itg_arena_array(&b->scratch, count, size);
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

static itg_status lower(itg_qnn_builder *b, const itg_node *node) {
  switch (node->op) {
  case ITG_OP_Q_CONV:
  case ITG_OP_Q_CONV_TRANSPOSE: return itg_qnn_convolution(b, node);
  case ITG_OP_Q_FULLY_CONNECTED: return itg_qnn_fully_connected(b, node);
  case ITG_OP_Q_MATMUL: return itg_qnn_matmul(b, node);
  case ITG_OP_Q_ADD:
    return itg_qnn_simple(b, node, node->attributes.q_add.b < 0 ? "ElementWiseSubtract" : "ElementWiseAdd", 2, NULL);
  case ITG_OP_Q_MUL: return itg_qnn_multiply(b, node);
  case ITG_OP_Q_DIV: return itg_qnn_simple(b, node, "ElementWiseDivide", 2, NULL);
  case ITG_OP_Q_PRELU: return itg_qnn_prelu(b, node);
  case ITG_OP_Q_CONVERT: return itg_qnn_convert(b, node);
  case ITG_OP_Q_AFFINE: return itg_qnn_affine(b, node);
  case ITG_OP_Q_TABLE: return itg_qnn_table(b, node);
  case ITG_OP_MAX_POOL:
  case ITG_OP_Q_AVERAGE_POOL: return itg_qnn_pool(b, node);
  case ITG_OP_Q_REDUCE_SUM: return itg_qnn_reduce(b, node);
  case ITG_OP_Q_SOFTMAX: return itg_qnn_softmax(b, node);
  case ITG_OP_Q_NORM: return itg_qnn_norm(b, node);
  case ITG_OP_Q_RESIZE: return itg_qnn_resize(b, node);
  case ITG_OP_TRANSPOSE: return itg_qnn_transpose(b, node);
  case ITG_OP_CONCAT: return itg_qnn_concat(b, node);
  case ITG_OP_SLICE: return itg_qnn_slice(b, node);
  case ITG_OP_PAD: return itg_qnn_pad(b, node);
  case ITG_OP_EXPAND:
  case ITG_OP_TILE: return itg_qnn_expand(b, node);
  case ITG_OP_GATHER: return itg_qnn_gather(b, node);
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH: return itg_qnn_block(b, node);
  case ITG_OP_IDENTITY:
  case ITG_OP_RESHAPE: return itg_qnn_simple(b, node, "Reshape", 1, NULL);
  case ITG_OP_MIN: return itg_qnn_simple(b, node, "ElementWiseMinimum", 2, NULL);
  case ITG_OP_MAX: return itg_qnn_simple(b, node, "ElementWiseMaximum", 2, NULL);
  case ITG_OP_Q_EMBEDDING: return itg_qnn_refuse(b, node, "rows of a table are gathered on the host");
  default: return itg_qnn_refuse(b, node, "the NPU has no kernel for it");
  }
}

itg_status itg_qnn_lower_node(itg_qnn_builder *b, const itg_node *node) {
  const itg_status status = lower(b, node);
  itg_arena_free(&b->scratch);
  return status;
}
