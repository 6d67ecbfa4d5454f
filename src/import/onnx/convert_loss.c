// Loss functions that exported evaluation graphs end with: log-likelihood of the target classes, weighted and averaged. They
// become gathers, products and sums. See converters.h.
#include "import/onnx/converters.h"

// Weights of the targets: the class weights, and 0 where the target is to be ignored; NULL when all are 1. Ignored targets
// are replaced by class 0, which is always a valid index.
static itg_status weigh_targets(itg_onnx_importer *importer, itg_dtype dtype, itg_tensor **target,
                                itg_tensor **weights) {
  itg_tensor *classes, *ignored, *mask;
  int64_t index;
  *weights = NULL;
  ITG_TRY(itg_onnx_input(importer, 2, &classes));
  const bool ignores = itg_onnx_attribute_find(importer, "ignore_index") != NULL;
  ITG_TRY(itg_onnx_get_int(importer, "ignore_index", 0, &index));
  if (ignores) {
    itg_tensor *choice[3];
    ITG_TRY(itg_onnx_filled(importer, "ignored", (*target)->dtype, (double)index, NULL, &ignored));
    ITG_TRY(itg_onnx_binary(importer, "is_ignored", ITG_OP_EQUAL, *target, ignored, &choice[0]));
    ITG_TRY(itg_onnx_filled(importer, "class", (*target)->dtype, 0, NULL, &choice[1]));
    choice[2] = *target;
    ITG_TRY(itg_onnx_emit(importer, "target", ITG_OP_WHERE, NULL, NULL, 3, choice, target));
    ITG_TRY(itg_onnx_unary(importer, "is_valid", ITG_OP_NOT, NULL, choice[0], &mask));
    ITG_TRY(itg_onnx_cast(importer, "mask", mask, dtype, weights));
  }
  if (!classes) return ITG_OK;
  itg_tensor *inputs[] = {classes, *target}, *gathered;
  const itg_attributes attributes = {.axis = {0, 0}};
  ITG_TRY(itg_onnx_emit(importer, "weights", ITG_OP_GATHER, &attributes, NULL, 2, inputs, &gathered));
  if (*weights) ITG_TRY(itg_onnx_binary(importer, "weights", ITG_OP_MUL, gathered, *weights, &gathered));
  *weights = gathered;
  return ITG_OK;
}

static itg_status reduce(itg_onnx_importer *importer, itg_tensor *loss, itg_tensor *weights) {
  const itg_span reduction = itg_onnx_get_string(importer, "reduction");
  const itg_attributes all = {.reduce = {(1u << loss->shape.rank) - 1, 0}};
  itg_tensor *y = loss, *total;
  const bool mean = reduction.size == 0 || itg_span_equals(reduction, "mean");
  if (mean && !weights) {
    ITG_TRY(itg_onnx_unary(importer, NULL, ITG_OP_REDUCE_MEAN, &all, loss, &y));
  } else if (mean) {
    ITG_TRY(itg_onnx_unary(importer, "sum", ITG_OP_REDUCE_SUM, &all, loss, &y));
    ITG_TRY(itg_onnx_unary(importer, "total", ITG_OP_REDUCE_SUM, &all, weights, &total));
    ITG_TRY(itg_onnx_binary(importer, NULL, ITG_OP_DIV, y, total, &y));
  } else if (itg_span_equals(reduction, "sum")) {
    ITG_TRY(itg_onnx_unary(importer, NULL, ITG_OP_REDUCE_SUM, &all, loss, &y));
  } else if (!itg_span_equals(reduction, "none")) {
    ITG_ONNX_REFUSE(importer, "%s", "unknown reduction");
  }
  return itg_onnx_bind(importer, 0, y);
}

// `x` [N,C,d..] holds log-probabilities.
static itg_status negative_log_likelihood(itg_onnx_importer *importer, itg_tensor *x) {
  itg_tensor *target, *weights, *loss;
  ITG_TRY(itg_onnx_required(importer, 1, &target));
  if (x->shape.rank < 2 || target->shape.rank != x->shape.rank - 1)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s",
                  "the target must have the shape of the scores without their classes");
  if (target->dtype != ITG_DTYPE_S32 && target->dtype != ITG_DTYPE_S64)
    ITG_ONNX_REFUSE(importer, "targets of type %s", itg_dtype_name(target->dtype));
  const itg_shape shape = target->shape;
  ITG_TRY(weigh_targets(importer, x->dtype, &target, &weights));
  itg_shape column = {.rank = x->shape.rank, .dims = {shape.dims[0], 1}};
  for (int i = 1; i < shape.rank; i++) column.dims[i + 1] = shape.dims[i];
  itg_tensor *inputs[] = {x, NULL};
  const itg_attributes attributes = {.axis = {1, 0}};
  ITG_TRY(itg_onnx_reshape(importer, "column", target, &column, &inputs[1]));
  ITG_TRY(itg_onnx_emit(importer, "picked", ITG_OP_GATHER_ELEMENTS, &attributes, NULL, 2, inputs, &loss));
  ITG_TRY(itg_onnx_reshape(importer, "picked", loss, &shape, &loss));
  ITG_TRY(itg_onnx_unary(importer, "loss", ITG_OP_NEG, NULL, loss, &loss));
  if (weights) ITG_TRY(itg_onnx_binary(importer, "weighted", ITG_OP_MUL, loss, weights, &loss));
  return reduce(importer, loss, weights);
}

itg_status itg_onnx_convert_log_likelihood(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  return negative_log_likelihood(importer, x);
}

itg_status itg_onnx_convert_cross_entropy(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *logarithm;
  const itg_attributes attributes = {.axis = {1, 0}};
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_has_output(importer, 1)
              ? itg_onnx_emit_output(importer, 1, ITG_OP_LOG_SOFTMAX, &attributes, NULL, x, &logarithm)
              : itg_onnx_unary(importer, "log_softmax", ITG_OP_LOG_SOFTMAX, &attributes, x, &logarithm));
  ITG_TRY(itg_onnx_bind(importer, 1, logarithm));
  return negative_log_likelihood(importer, logarithm);
}
