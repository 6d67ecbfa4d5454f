// Reductions, ArgMax and ArgMin, cumulative sums, TopK. See converters.h.
#include "import/onnx/converters.h"

itg_status itg_onnx_convert_reduce(itg_onnx_importer *importer, int op) {
  int64_t axes[ITG_MAX_RANK], keep, no_op;
  size_t count;
  bool present;
  itg_tensor *x, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "keepdims", 1, &keep));
  ITG_TRY(itg_onnx_get_int(importer, "noop_with_empty_axes", 0, &no_op));
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "axes", 1, axes, ITG_MAX_RANK, &count, &present));
  if (count == 0 && no_op) return itg_onnx_finish(importer, x);
  itg_attributes attributes = {.reduce = {0, keep != 0}};
  for (size_t i = 0; i < count; i++) {
    int32_t axis;
    ITG_TRY(itg_onnx_axis(importer, axes[i], x->shape.rank, &axis));
    attributes.reduce.axes |= 1u << axis;
  }
  if (count == 0) attributes.reduce.axes = (1u << x->shape.rank) - 1;
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_arg(itg_onnx_importer *importer, int op) {
  int64_t axis, keep, last;
  itg_attributes attributes = {0};
  itg_tensor *x, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "axis", 0, &axis));
  ITG_TRY(itg_onnx_get_int(importer, "keepdims", 1, &keep));
  ITG_TRY(itg_onnx_get_int(importer, "select_last_index", 0, &last));
  ITG_TRY(itg_onnx_axis(importer, axis, x->shape.rank, &attributes.axis.axis));
  attributes.axis.flag = (keep ? 1 : 0) | (last ? 2 : 0);
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_cum_sum(itg_onnx_importer *importer, int op) {
  int64_t axis = 0, exclusive, reverse;
  size_t count;
  itg_attributes attributes = {0};
  itg_tensor *x, *along, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_required(importer, 1, &along));
  ITG_TRY(itg_onnx_constant_ints(importer, along, "axis", &axis, 1, &count));
  ITG_TRY(itg_onnx_get_int(importer, "exclusive", 0, &exclusive));
  ITG_TRY(itg_onnx_get_int(importer, "reverse", 0, &reverse));
  ITG_TRY(itg_onnx_axis(importer, axis, x->shape.rank, &attributes.axis.axis));
  attributes.axis.flag = (exclusive ? 1 : 0) | (reverse ? 2 : 0);
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_top_k(itg_onnx_importer *importer, int op) {
  int64_t axis, largest, sorted, k = 0;
  itg_attributes attributes = {0};
  itg_tensor *x;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "axis", -1, &axis));
  ITG_TRY(itg_onnx_get_int(importer, "largest", 1, &largest));
  ITG_TRY(itg_onnx_get_int(importer, "sorted", 1, &sorted));
  if (importer->opset < 10) {
    ITG_TRY(itg_onnx_get_int(importer, "k", 0, &k));
  } else {
    itg_tensor *given;
    size_t count;
    ITG_TRY(itg_onnx_required(importer, 1, &given));
    ITG_TRY(itg_onnx_constant_ints(importer, given, "k", &k, 1, &count));
  }
  ITG_TRY(itg_onnx_axis(importer, axis, x->shape.rank, &attributes.axis.axis));
  attributes.axis.flag = (largest ? 1 : 0) | (sorted ? 2 : 0);
  itg_shape shape = x->shape;
  shape.dims[attributes.axis.axis] = k;
  return itg_onnx_emit_all(importer, (itg_op)op, &attributes, &shape, 1, &x, 2);
}
