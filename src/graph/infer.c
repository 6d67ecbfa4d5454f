// Shape inference: shared checks, element-wise operations, reductions, and the choice of the rule. See infer.h.
#include "graph/infer.h"

#include <string.h>

#include "graph/infer_integer.h"
#include "graph/infer_rules.h"

enum { MAX_ELEMENTS_LOG2 = 40 };

itg_dtype itg_infer_dtype(const itg_tensor *tensor) {
  // u8 and u16 constants are operands of integer graphs and count as they are.
  const bool codes = tensor->dtype == ITG_DTYPE_U8 || tensor->dtype == ITG_DTYPE_U16;
  return tensor->data && tensor->encoding && !codes ? ITG_DTYPE_F32 : tensor->dtype;
}

itg_status itg_infer_expect(const itg_node *node, int index, int types, itg_diagnostic *diagnostic) {
  const itg_tensor *tensor = itg_node_input(node, index);
  if (!tensor) ITG_INFER_SHAPE("input %d is missing", index);
  size_t count;
  if (!itg_shape_count(&tensor->shape, &count))
    ITG_INFER_SHAPE("input %d (%s) has no valid shape", index, tensor->name);
  const itg_dtype dtype = itg_infer_dtype(tensor);
  if (!(types >> dtype & 1))
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "input %d (%s) must not be of type %s", index, tensor->name,
                   itg_dtype_name(dtype));
  return ITG_OK;
}

itg_status itg_infer_same_type(const itg_node *node, int index, itg_diagnostic *diagnostic) {
  const itg_tensor *first = node->inputs[0], *other = node->inputs[index];
  if (itg_infer_dtype(first) != itg_infer_dtype(other))
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "inputs %s and %s have different types (%s, %s)", first->name, other->name,
                   itg_dtype_name(itg_infer_dtype(first)), itg_dtype_name(itg_infer_dtype(other)));
  return ITG_OK;
}

itg_status itg_infer_set(const itg_node *node, int index, itg_dtype dtype, const itg_shape *shape,
                         itg_diagnostic *diagnostic) {
  itg_tensor *output = index < node->output_count ? node->outputs[index] : NULL;
  size_t count;
  if (!itg_shape_count(shape, &count) || count > (size_t)1 << MAX_ELEMENTS_LOG2)
    ITG_INFER_FAIL(ITG_ERROR_LIMIT, "output %d would have more than 2^%d elements", index, MAX_ELEMENTS_LOG2);
  if (!output) return ITG_OK;
  output->dtype = dtype;
  if (&output->shape != shape) output->shape = *shape;
  return ITG_OK;
}

itg_status itg_infer_vector(const itg_node *node, int index, int64_t count, itg_diagnostic *diagnostic) {
  const itg_tensor *tensor = node->inputs[index];
  if (tensor->shape.rank != 1 || tensor->shape.dims[0] != count) {
    char text[96];
    ITG_INFER_SHAPE("input %d (%s) must have %lld elements in one dimension, not %s", index, tensor->name,
                    (long long)count, itg_shape_print(&tensor->shape, text, sizeof text));
  }
  return ITG_OK;
}

itg_status itg_infer_axis(const itg_node *node, int32_t axis, itg_diagnostic *diagnostic) {
  if (axis < 0 || axis >= node->inputs[0]->shape.rank)
    ITG_INFER_SHAPE("axis %d is outside the %d dimensions of %s", (int)axis, (int)node->inputs[0]->shape.rank,
                    node->inputs[0]->name);
  return ITG_OK;
}

static int unary_types(const itg_node *node) {
  switch (node->op) {
  case ITG_OP_ABS:
  case ITG_OP_SIGN:
  case ITG_OP_CLIP: return ITG_TYPES_NUMBER;
  case ITG_OP_RELU:
  case ITG_OP_NEG: return ITG_TYPES_FLOAT | ITG_TYPES_SIGNED;
  case ITG_OP_SHRINK: return ITG_TYPES_NUMBER;
  case ITG_OP_NOT: return ITG_TYPES_BOOL;
  case ITG_OP_BITWISE_NOT: return ITG_TYPES_INTEGER;
  case ITG_OP_CAST:
  case ITG_OP_IDENTITY: return ITG_TYPES_ANY;
  default: return ITG_TYPES_FLOAT;
  }
}

static itg_status infer_unary(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_infer_expect(node, 0, unary_types(node), diagnostic));
  const itg_tensor *x = node->inputs[0];
  itg_dtype dtype = node->op == ITG_OP_IDENTITY ? x->dtype : itg_infer_dtype(x);
  if (node->op == ITG_OP_IS_NAN || node->op == ITG_OP_IS_INF) dtype = ITG_DTYPE_BOOL;
  if (node->op == ITG_OP_CAST) {
    const int32_t to = node->attributes.cast.to;
    if (!itg_dtype_is_valid(to) || !(ITG_TYPES_ANY >> to & 1))
      ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "cannot cast to type number %d", (int)to);
    dtype = (itg_dtype)to;
  }
  return itg_infer_set(node, 0, dtype, &x->shape, diagnostic);
}

static itg_status broadcast(const itg_node *node, const itg_shape *a, const itg_shape *b, itg_diagnostic *diagnostic,
                            itg_shape *out) {
  if (!itg_shape_broadcast(a, b, out)) {
    char left[96], right[96];
    ITG_INFER_SHAPE("shapes %s and %s do not broadcast", itg_shape_print(a, left, sizeof left),
                    itg_shape_print(b, right, sizeof right));
  }
  return ITG_OK;
}

static int binary_types(const itg_node *node) {
  switch (node->op) {
  case ITG_OP_AND:
  case ITG_OP_OR:
  case ITG_OP_XOR: return ITG_TYPES_BOOL;
  case ITG_OP_EQUAL: return ITG_TYPES_ANY;
  case ITG_OP_BIT_SHIFT: return ITG_TYPES_UNSIGNED;
  case ITG_OP_BITWISE_AND:
  case ITG_OP_BITWISE_OR:
  case ITG_OP_BITWISE_XOR: return ITG_TYPES_INTEGER;
  default: return ITG_TYPES_NUMBER;
  }
}

static itg_status infer_binary(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_infer_expect(node, 0, binary_types(node), diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, binary_types(node), diagnostic));
  if (node->op != ITG_OP_POW) ITG_TRY(itg_infer_same_type(node, 1, diagnostic));
  const itg_tensor *a = node->inputs[0], *b = node->inputs[1];
  itg_shape shape;
  ITG_TRY(broadcast(node, &a->shape, &b->shape, diagnostic, &shape));
  if (node->op == ITG_OP_PRELU && !itg_shape_equal(&shape, &a->shape))
    ITG_INFER_SHAPE("the slope %s is larger than x", b->name);
  itg_dtype dtype = itg_infer_dtype(a);
  // Min and Max also live in the integer dialect, where the codes themselves are compared.
  if ((node->op == ITG_OP_MIN || node->op == ITG_OP_MAX) && a->dtype == b->dtype) dtype = a->dtype;
  if (node->op >= ITG_OP_EQUAL && node->op <= ITG_OP_GREATER_OR_EQUAL) dtype = ITG_DTYPE_BOOL;
  return itg_infer_set(node, 0, dtype, &shape, diagnostic);
}

static itg_status infer_where(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_BOOL, diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_ANY, diagnostic));
  ITG_TRY(itg_infer_expect(node, 2, ITG_TYPES_ANY, diagnostic));
  const itg_tensor *a = node->inputs[1], *b = node->inputs[2];
  if (itg_infer_dtype(a) != itg_infer_dtype(b))
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "inputs %s and %s have different types", a->name, b->name);
  itg_shape values, shape;
  ITG_TRY(broadcast(node, &a->shape, &b->shape, diagnostic, &values));
  ITG_TRY(broadcast(node, &node->inputs[0]->shape, &values, diagnostic, &shape));
  return itg_infer_set(node, 0, itg_infer_dtype(a), &shape, diagnostic);
}

itg_status itg_infer_elementwise(const itg_node *node, itg_diagnostic *diagnostic) {
  if (node->op == ITG_OP_WHERE) return infer_where(node, diagnostic);
  if (itg_op_get_info((int)node->op)->flags & ITG_OP_UNARY) return infer_unary(node, diagnostic);
  return infer_binary(node, diagnostic);
}

static itg_status infer_top_k(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0] ? node->outputs[0] : node->outputs[1];
  const int32_t axis = node->attributes.axis.axis;
  if (!y) ITG_INFER_SHAPE("%s", "both outputs are missing");
  const itg_shape shape = y->shape; // The builder knows k.
  bool fits = shape.rank == x->shape.rank;
  for (int i = 0; fits && i < shape.rank; i++)
    fits = i == axis ? shape.dims[i] >= 0 && shape.dims[i] <= x->shape.dims[i] : shape.dims[i] == x->shape.dims[i];
  if (!fits) ITG_INFER_SHAPE("k does not fit %s along axis %d", x->name, (int)axis);
  ITG_TRY(itg_infer_set(node, 0, itg_infer_dtype(x), &shape, diagnostic));
  return itg_infer_set(node, 1, ITG_DTYPE_S64, &shape, diagnostic);
}

itg_status itg_infer_reduction(const itg_node *node, itg_diagnostic *diagnostic) {
  const bool any = node->op == ITG_OP_REDUCE_MAX || node->op == ITG_OP_REDUCE_MIN;
  ITG_TRY(itg_infer_expect(node, 0, any ? ITG_TYPES_ANY : ITG_TYPES_NUMBER, diagnostic));
  const itg_tensor *x = node->inputs[0];
  uint32_t axes = node->attributes.reduce.axes;
  bool keep = node->attributes.reduce.keep_dims != 0;
  itg_dtype dtype = itg_infer_dtype(x);
  if (!(itg_op_get_info((int)node->op)->flags & ITG_OP_REDUCES)) {
    const int32_t axis = node->attributes.axis.axis;
    ITG_TRY(itg_infer_axis(node, axis, diagnostic));
    if (node->op == ITG_OP_CUM_SUM) return itg_infer_set(node, 0, dtype, &x->shape, diagnostic);
    if (node->op == ITG_OP_TOP_K) return infer_top_k(node, diagnostic);
    if (x->shape.dims[axis] == 0) ITG_INFER_SHAPE("axis %d of %s is empty", (int)axis, x->name);
    axes = 1u << axis;
    keep = node->attributes.axis.flag & 1;
    dtype = ITG_DTYPE_S64;
  }
  if (x->shape.rank < 32 && axes >> x->shape.rank)
    ITG_INFER_SHAPE("an axis is outside the %d dimensions of %s", (int)x->shape.rank, x->name);
  itg_shape shape = {0};
  for (int i = 0; i < x->shape.rank; i++) {
    const bool reduced = axes >> i & 1;
    if (!reduced || keep) shape.dims[shape.rank++] = reduced ? 1 : x->shape.dims[i];
  }
  return itg_infer_set(node, 0, dtype, &shape, diagnostic);
}

static itg_infer_rule *find_rule(int op) {
  if (op < ITG_OP_REDUCE_SUM) return itg_infer_elementwise;
  if (op < ITG_OP_CONV) return itg_infer_reduction;
  switch (op) {
  case ITG_OP_FULLY_CONNECTED:
  case ITG_OP_MATMUL:
  case ITG_OP_GEMM:
  case ITG_OP_MATMUL_INTEGER: return itg_infer_matrix;
  case ITG_OP_CONV_INTEGER: return itg_infer_window;
  case ITG_OP_ROPE:
  case ITG_OP_ATTENTION: return itg_infer_attention;
  default: break;
  }
  if (op < ITG_OP_BATCH_NORM) return itg_infer_window;
  if (op < ITG_OP_RESHAPE || op >= ITG_OP_QUANTIZE_LINEAR) return itg_infer_normalisation;
  return itg_infer_movement;
}

itg_status itg_infer_node(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_op_info *info = itg_op_get_info((int)node->op);
  if (!info) ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "unknown operation number %d", (int)node->op);
  if (node->input_count < info->min_inputs || (info->max_inputs >= 0 && node->input_count > info->max_inputs))
    ITG_INFER_SHAPE("%d inputs are wrong", (int)node->input_count);
  if (node->output_count < 1 || node->output_count > info->outputs)
    ITG_INFER_SHAPE("%d outputs are wrong", (int)node->output_count);
  for (int i = 0; i < info->min_inputs; i++) {
    if (!node->inputs[i]) ITG_INFER_SHAPE("input %d is missing", i);
  }
  if (info->flags & ITG_OP_INTEGER) return itg_infer_integer_node(node, diagnostic);
  return find_rule((int)node->op)(node, diagnostic);
}
