// Quantize and dequantize operations, and the quantized operators, which become float ones between them. See converters.h.
#include "import/onnx/converters.h"

static bool is_single(const itg_tensor *tensor) {
  size_t count;
  return itg_shape_count(&tensor->shape, &count) && count == 1;
}

// Emits Q or DQ. `axis` counts when the scale has more than one element. The zero point may be NULL.
static itg_status emit(itg_onnx_importer *importer, const char *part, itg_op op, itg_tensor *x, itg_tensor *scale,
                       itg_tensor *zero, int32_t axis, itg_tensor **out) {
  itg_tensor *inputs[] = {x, scale, zero};
  const itg_attributes attributes = {.axis = {is_single(scale) ? -1 : axis, 0}};
  if (zero && is_single(zero) && !is_single(scale)) // One zero point for all channels.
    ITG_TRY(itg_onnx_emit(importer, "zero_point", ITG_OP_EXPAND, NULL, &scale->shape, 1, &zero, &inputs[2]));
  return itg_onnx_emit(importer, part, op, &attributes, NULL, zero ? 3 : 2, inputs, out);
}

itg_status itg_onnx_convert_quantize(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *scale, *zero, *y;
  int64_t given, block, type;
  int32_t axis = 0;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_required(importer, 1, &scale));
  ITG_TRY(itg_onnx_input(importer, 2, &zero));
  ITG_TRY(itg_onnx_get_int(importer, "axis", 1, &given));
  ITG_TRY(itg_onnx_get_int(importer, "block_size", 0, &block));
  ITG_TRY(itg_onnx_get_int(importer, "output_dtype", 0, &type));
  if (block != 0) ITG_ONNX_REFUSE(importer, "%s", "block-wise scales are not supported");
  if (!is_single(scale)) ITG_TRY(itg_onnx_axis(importer, given, x->shape.rank, &axis));
  if (op == ITG_OP_QUANTIZE_LINEAR && !zero && type != 0) {
    const itg_dtype dtype = itg_onnx_dtype((uint64_t)type);
    if (dtype == ITG_DTYPE_NONE)
      ITG_ONNX_REFUSE(importer, "type %s is not supported", itg_onnx_dtype_name((uint64_t)type));
    ITG_TRY(itg_onnx_filled(importer, "zero_point", dtype, 0, &scale->shape, &zero));
  }
  ITG_TRY(emit(importer, NULL, (itg_op)op, x, scale, zero, axis, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_dynamic_quantize(itg_onnx_importer *importer, int op) {
  itg_tensor *x;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  return itg_onnx_emit_all(importer, (itg_op)op, NULL, NULL, 1, &x, 3);
}

// Inputs 3*i .. 3*i + 2 are a tensor, its scale and its zero point; the last pair belongs to the output.
static itg_status dequantize(itg_onnx_importer *importer, const char *part, size_t first, int32_t axis,
                             itg_tensor **out) {
  itg_tensor *x, *scale, *zero;
  ITG_TRY(itg_onnx_required(importer, first, &x));
  ITG_TRY(itg_onnx_required(importer, first + 1, &scale));
  ITG_TRY(itg_onnx_required(importer, first + 2, &zero));
  return emit(importer, part, ITG_OP_DEQUANTIZE_LINEAR, x, scale, zero, axis < 0 ? axis + x->shape.rank : axis, out);
}

static itg_status quantize(itg_onnx_importer *importer, itg_tensor *x) {
  itg_tensor *scale, *zero, *y;
  ITG_TRY(itg_onnx_required(importer, 6, &scale));
  ITG_TRY(itg_onnx_required(importer, 7, &zero));
  ITG_TRY(emit(importer, NULL, ITG_OP_QUANTIZE_LINEAR, x, scale, zero, x->shape.rank - 1, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_q_linear_conv(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *inputs[3], *bias, *x_scale, *w_scale, *scale, *y;
  itg_attributes attributes = {0};
  ITG_TRY(dequantize(importer, "x", 0, 1, &inputs[0]));
  ITG_TRY(dequantize(importer, "weight", 3, 0, &inputs[1]));
  ITG_TRY(itg_onnx_input(importer, 8, &bias));
  if (bias) { // Its scale is the product of the others.
    ITG_TRY(itg_onnx_required(importer, 1, &x_scale));
    ITG_TRY(itg_onnx_required(importer, 4, &w_scale));
    ITG_TRY(itg_onnx_binary(importer, "bias_scale", ITG_OP_MUL, x_scale, w_scale, &scale));
    ITG_TRY(emit(importer, "bias", ITG_OP_DEQUANTIZE_LINEAR, bias, scale, NULL, 0, &inputs[2]));
  }
  ITG_TRY(itg_onnx_read_conv(importer, inputs[0], inputs[1], &attributes.conv));
  ITG_TRY(itg_onnx_emit(importer, "real", ITG_OP_CONV, &attributes, NULL, bias ? 3 : 2, inputs, &y));
  return quantize(importer, y);
}

itg_status itg_onnx_convert_q_linear_matmul(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *inputs[2], *y;
  ITG_TRY(dequantize(importer, "a", 0, -2, &inputs[0]));
  ITG_TRY(dequantize(importer, "b", 3, -1, &inputs[1]));
  ITG_TRY(itg_onnx_matmul(importer, "real", ITG_OP_MATMUL, 2, inputs, &y));
  return quantize(importer, y);
}
