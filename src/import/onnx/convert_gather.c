// Operations that move elements by indices. See converters.h.
#include <stdlib.h>

#include "import/onnx/converters.h"

// Indices of any integer type (OneHot also takes floats) become s32 or s64.
static itg_status read_indices(itg_onnx_importer *importer, size_t index, itg_tensor **out) {
  ITG_TRY(itg_onnx_required(importer, index, out));
  if ((*out)->dtype == ITG_DTYPE_S32 || (*out)->dtype == ITG_DTYPE_S64) return ITG_OK;
  return itg_onnx_cast(importer, "indices", *out, ITG_DTYPE_S64, out);
}

itg_status itg_onnx_convert_gather(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[2], *y;
  int64_t axis;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(read_indices(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_get_int(importer, "axis", 0, &axis));
  ITG_TRY(itg_onnx_axis(importer, axis, inputs[0]->shape.rank, &attributes.axis.axis));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_gather_nd(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[2], *y;
  int64_t batch;
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(read_indices(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_get_int(importer, "batch_dims", 0, &batch));
  if (batch < 0 || batch > ITG_MAX_RANK)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "batch_dims = %lld", (long long)batch);
  const itg_attributes attributes = {.axis = {0, (int32_t)batch}};
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}

static itg_status read_reduction(const itg_onnx_importer *importer, int32_t *flag) {
  static const char *const names[] = {"none", "add", "mul", "max", "min"};
  const itg_span text = itg_onnx_get_string(importer, "reduction");
  *flag = 0;
  if (text.size == 0) return ITG_OK;
  for (*flag = 0; *flag < 5; ++*flag) {
    if (itg_span_equals(text, names[*flag])) return ITG_OK;
  }
  ITG_ONNX_REFUSE(importer, "%s", "unknown reduction");
}

itg_status itg_onnx_convert_scatter(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  int64_t axis;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(read_indices(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_required(importer, 2, &inputs[2]));
  ITG_TRY(itg_onnx_get_int(importer, "axis", 0, &axis));
  ITG_TRY(itg_onnx_axis(importer, axis, inputs[0]->shape.rank, &attributes.axis.axis));
  ITG_TRY(read_reduction(importer, &attributes.axis.flag));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 3, inputs, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_scatter_nd(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(read_indices(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_required(importer, 2, &inputs[2]));
  ITG_TRY(read_reduction(importer, &attributes.axis.flag));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 3, inputs, &y));
  return itg_onnx_finish(importer, y);
}

// Compress keeps the slices whose condition is true: a Gather, once the condition is known.
itg_status itg_onnx_convert_compress(itg_onnx_importer *importer, int op) {
  (void)op;
  enum { MAX_CONDITION = 1 << 20 };
  itg_tensor *inputs[2], *condition, *y;
  itg_attributes attributes = {0};
  size_t count, kept = 0;
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &condition));
  if (itg_onnx_attribute_find(importer, "axis")) {
    int64_t axis;
    ITG_TRY(itg_onnx_get_int(importer, "axis", 0, &axis));
    ITG_TRY(itg_onnx_axis(importer, axis, inputs[0]->shape.rank, &attributes.axis.axis));
  } else {
    itg_shape flat = {.rank = 1};
    ITG_TRY(itg_onnx_product(importer, &inputs[0]->shape, 0, inputs[0]->shape.rank, &flat.dims[0]));
    ITG_TRY(itg_onnx_reshape(importer, "flat", inputs[0], &flat, &inputs[0]));
  }
  if (!itg_shape_count(&condition->shape, &count) || count > MAX_CONDITION)
    ITG_ONNX_REFUSE(importer, "%s", "the condition is too large");
  const int64_t length = inputs[0]->shape.dims[attributes.axis.axis];
  int64_t *values = malloc((count + 1) * sizeof *values);
  ITG_TRY_MEMORY(values, importer->diagnostic);
  itg_status status = itg_onnx_constant_ints(importer, condition, "the condition", values, count, &count);
  for (size_t i = 0; status == ITG_OK && i < count && (int64_t)i < length; i++) {
    if (values[i]) values[kept++] = (int64_t)i;
  }
  if (status == ITG_OK) status = itg_onnx_ints(importer, "indices", values, kept, &inputs[1]);
  free(values);
  ITG_TRY(status);
  ITG_TRY(itg_onnx_emit(importer, NULL, ITG_OP_GATHER, &attributes, NULL, 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_one_hot(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[2], *given, *y;
  int64_t axis;
  double depth = 0;
  size_t count;
  itg_attributes attributes = {0};
  ITG_TRY(read_indices(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &given));
  ITG_TRY(itg_onnx_required(importer, 2, &inputs[1]));
  ITG_TRY(itg_onnx_constant_doubles(importer, given, "depth", &depth, 1, &count));
  ITG_TRY(itg_onnx_get_int(importer, "axis", -1, &axis));
  const int32_t rank = inputs[0]->shape.rank + 1;
  if (rank > ITG_MAX_RANK)
    ITG_ONNX_REFUSE(importer, "%d dimensions; at most %d are supported", (int)rank, ITG_MAX_RANK);
  ITG_TRY(itg_onnx_axis(importer, axis, rank, &attributes.axis.axis));
  if (!(depth >= 1 && depth <= 1 << 30)) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "depth %g is out of range", depth);
  itg_shape shape = {.rank = rank};
  for (int i = 0, from = 0; i < rank; i++)
    shape.dims[i] = i == attributes.axis.axis ? (int64_t)depth : inputs[0]->shape.dims[from++];
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, &shape, 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}
