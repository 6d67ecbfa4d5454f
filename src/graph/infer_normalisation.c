// Shape inference of normalisations, soft maxima and the quantize and dequantize operations. See infer.h.
#include <math.h>
#include <string.h>

#include "graph/infer_rules.h"

static itg_status expect_vectors(const itg_node *node, int first, int64_t count, itg_diagnostic *diagnostic) {
  for (int i = first; i < node->input_count; i++) {
    if (!node->inputs[i]) continue;
    ITG_TRY(itg_infer_expect(node, i, ITG_TYPES_FLOAT, diagnostic));
    ITG_TRY(itg_infer_vector(node, i, count, diagnostic));
  }
  return ITG_OK;
}

// Per-channel parameters (input 1 and later) along the channel axis.
static itg_status infer_per_channel(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_norm_attributes *norm = &node->attributes.norm;
  const itg_tensor *x = node->inputs[0];
  ITG_TRY(itg_infer_axis(node, norm->axis, diagnostic));
  const int64_t channels = x->shape.dims[norm->axis];
  if (node->op == ITG_OP_GROUP_NORM && (norm->groups < 1 || channels % norm->groups != 0))
    ITG_INFER_SHAPE("%lld channels do not divide into %d groups", (long long)channels, (int)norm->groups);
  if (node->op != ITG_OP_BATCH_NORM && x->shape.rank < 3) ITG_INFER_SHAPE("%s needs spatial dimensions", x->name);
  ITG_TRY(expect_vectors(node, 1, channels, diagnostic));
  return itg_infer_set(node, 0, itg_infer_dtype(x), &x->shape, diagnostic);
}

// Scale and bias have the shape of the normalised dimensions, axis .. last.
static itg_status infer_layer(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  const int32_t axis = node->attributes.norm.axis;
  ITG_TRY(itg_infer_axis(node, axis, diagnostic));
  const itg_shape normalised = itg_shape_of(x->shape.rank - axis, x->shape.dims + axis);
  for (int i = 1; i < node->input_count; i++) {
    if (!node->inputs[i]) continue;
    ITG_TRY(itg_infer_expect(node, i, ITG_TYPES_FLOAT, diagnostic));
    if (!itg_shape_equal(&node->inputs[i]->shape, &normalised))
      ITG_INFER_SHAPE("%s must have the shape of the normalised dimensions of %s", node->inputs[i]->name, x->name);
  }
  return itg_infer_set(node, 0, itg_infer_dtype(x), &x->shape, diagnostic);
}

static itg_status infer_affine(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  const bool add = node->op == ITG_OP_ADD_AFFINE;
  if (x->shape.rank < 1) ITG_INFER_SHAPE("%s has no channels", x->name);
  if (add) {
    ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_FLOAT, diagnostic));
    ITG_TRY(itg_infer_same_type(node, 1, diagnostic));
    if (!itg_shape_equal(&x->shape, &node->inputs[1]->shape))
      ITG_INFER_SHAPE("%s", "both terms must have the same shape");
  }
  ITG_TRY(expect_vectors(node, add ? 2 : 1, x->shape.dims[x->shape.rank - 1], diagnostic));
  ITG_TRY(itg_infer_set(node, 0, itg_infer_dtype(x), &x->shape, diagnostic));
  return add ? itg_infer_set(node, 1, itg_infer_dtype(x), &x->shape, diagnostic) : ITG_OK;
}

static itg_status infer_along_axis(const itg_node *node, int32_t axis, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_infer_axis(node, axis, diagnostic));
  if (node->op == ITG_OP_LP_NORM && node->attributes.norm.groups != 1 && node->attributes.norm.groups != 2)
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "p = %d; only 1 and 2 are supported", (int)node->attributes.norm.groups);
  if (node->op == ITG_OP_LRN && node->attributes.norm.groups < 1)
    ITG_INFER_SHAPE("size %d is out of range", (int)node->attributes.norm.groups);
  return itg_infer_set(node, 0, itg_infer_dtype(node->inputs[0]), &node->inputs[0]->shape, diagnostic);
}

// One parameter a tensor, or one for each index of the axis.
static itg_status check_parameters(const itg_node *node, int index, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0], *parameter = node->inputs[index];
  const int32_t axis = node->attributes.axis.axis;
  size_t count;
  if (axis >= 0) {
    ITG_TRY(itg_infer_axis(node, axis, diagnostic));
    return itg_infer_vector(node, index, x->shape.dims[axis], diagnostic);
  }
  if (!itg_shape_count(&parameter->shape, &count) || count != 1)
    ITG_INFER_SHAPE("%s must have one element", parameter->name);
  return ITG_OK;
}

static itg_status infer_quantization(const itg_node *node, itg_diagnostic *diagnostic) {
  const bool quantize = node->op == ITG_OP_QUANTIZE_LINEAR;
  const int codes = 1 << ITG_DTYPE_U8 | 1 << ITG_DTYPE_S8 | 1 << ITG_DTYPE_U16 | 1 << ITG_DTYPE_S16;
  const int s32 = 1 << ITG_DTYPE_S32;
  ITG_TRY(itg_infer_expect(node, 0, quantize ? ITG_TYPES_FLOAT | s32 : codes | s32, diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_FLOAT, diagnostic));
  ITG_TRY(check_parameters(node, 1, diagnostic));
  const itg_tensor *x = node->inputs[0], *zero = itg_node_input(node, 2);
  if (zero) {
    ITG_TRY(itg_infer_expect(node, 2, quantize ? codes : codes | s32, diagnostic));
    ITG_TRY(check_parameters(node, 2, diagnostic));
    if (!quantize && zero->dtype != x->dtype) ITG_INFER_SHAPE("the zero point %s has another type than x", zero->name);
  }
  const itg_dtype dtype = !quantize ? node->inputs[1]->dtype : zero ? zero->dtype : ITG_DTYPE_U8;
  return itg_infer_set(node, 0, dtype, &x->shape, diagnostic);
}

static itg_status infer_dynamic_quantize(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_shape scalar = {0};
  ITG_TRY(itg_infer_expect(node, 0, 1 << ITG_DTYPE_F32, diagnostic));
  ITG_TRY(itg_infer_set(node, 0, ITG_DTYPE_U8, &node->inputs[0]->shape, diagnostic));
  ITG_TRY(itg_infer_set(node, 1, ITG_DTYPE_F32, &scalar, diagnostic));
  return itg_infer_set(node, 2, ITG_DTYPE_U8, &scalar, diagnostic);
}

itg_status itg_infer_normalisation(const itg_node *node, itg_diagnostic *diagnostic) {
  switch (node->op) {
  case ITG_OP_QUANTIZE_LINEAR:
  case ITG_OP_DEQUANTIZE_LINEAR: return infer_quantization(node, diagnostic);
  case ITG_OP_DYNAMIC_QUANTIZE: return infer_dynamic_quantize(node, diagnostic);
  default: break;
  }
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_FLOAT, diagnostic));
  switch (node->op) {
  case ITG_OP_BATCH_NORM:
  case ITG_OP_INSTANCE_NORM:
  case ITG_OP_GROUP_NORM: return infer_per_channel(node, diagnostic);
  case ITG_OP_AFFINE:
  case ITG_OP_ADD_AFFINE: return infer_affine(node, diagnostic);
  case ITG_OP_LAYER_NORM:
  case ITG_OP_RMS_NORM: return infer_layer(node, diagnostic);
  case ITG_OP_LP_NORM:
  case ITG_OP_LRN: return infer_along_axis(node, node->attributes.norm.axis, diagnostic);
  default: return infer_along_axis(node, node->attributes.axis.axis, diagnostic);
  }
}
