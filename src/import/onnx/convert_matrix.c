// Matrix products. See converters.h.
#include "import/onnx/converters.h"

// Vectors are products of rank 2 with a dimension of 1 that is dropped afterwards.
itg_status itg_onnx_matmul(itg_onnx_importer *importer, const char *part, itg_op op, int32_t count,
                           itg_tensor *const *inputs, itg_tensor **out) {
  itg_tensor *operands[4] = {0}, *y;
  const itg_shape *a = &inputs[0]->shape, *b = &inputs[1]->shape;
  for (int32_t i = 0; i < count; i++) operands[i] = inputs[i];
  const bool row = a->rank == 1, column = b->rank == 1;
  if (row) ITG_TRY(itg_onnx_reshape(importer, "row", inputs[0], &(itg_shape){2, {1, a->dims[0]}}, &operands[0]));
  if (column) ITG_TRY(itg_onnx_reshape(importer, "column", inputs[1], &(itg_shape){2, {b->dims[0], 1}}, &operands[1]));
  ITG_TRY(itg_onnx_emit(importer, row || column ? "product" : part, op, NULL, NULL, count, operands, &y));
  if (row || column) {
    itg_shape shape = y->shape;
    if (row) shape.dims[shape.rank - 2] = shape.dims[shape.rank - 1];
    shape.rank -= row + column;
    ITG_TRY(itg_onnx_reshape(importer, part, y, &shape, &y));
  }
  *out = y;
  return ITG_OK;
}

itg_status itg_onnx_convert_matmul(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[4], *y;
  const int32_t count = op == ITG_OP_MATMUL_INTEGER ? 4 : 2;
  for (int32_t i = 0; i < count; i++)
    ITG_TRY(i < 2 ? itg_onnx_required(importer, (size_t)i, &inputs[i])
                  : itg_onnx_input(importer, (size_t)i, &inputs[i]));
  ITG_TRY(itg_onnx_matmul(importer, NULL, (itg_op)op, count, inputs, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_gemm(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  int64_t transpose_a, transpose_b;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_input(importer, 2, &inputs[2]));
  ITG_TRY(itg_onnx_get_float(importer, "alpha", 1, &attributes.gemm.alpha));
  ITG_TRY(itg_onnx_get_float(importer, "beta", 1, &attributes.gemm.beta));
  ITG_TRY(itg_onnx_get_int(importer, "transA", 0, &transpose_a));
  ITG_TRY(itg_onnx_get_int(importer, "transB", 0, &transpose_b));
  attributes.gemm.transpose_a = transpose_a != 0;
  attributes.gemm.transpose_b = transpose_b != 0;
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, inputs[2] ? 3 : 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}
