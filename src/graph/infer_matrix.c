// Shape inference of matrix products. See infer.h.
#include "graph/infer_rules.h"

static itg_status infer_fully_connected(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_FLOAT, diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_FLOAT, diagnostic));
  ITG_TRY(itg_infer_same_type(node, 1, diagnostic));
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1];
  if (weight->shape.rank != 2 || x->shape.rank < 1 || x->shape.dims[x->shape.rank - 1] != weight->shape.dims[1])
    ITG_INFER_SHAPE("the weight %s must be [O,K] with K the last dimension of %s", weight->name, x->name);
  for (int i = 2; i < node->input_count && i < 4; i++) {
    if (!node->inputs[i]) continue;
    ITG_TRY(itg_infer_expect(node, i, ITG_TYPES_FLOAT, diagnostic));
    ITG_TRY(itg_infer_vector(node, i, weight->shape.dims[0], diagnostic));
  }
  const itg_tensor *block_scale = itg_node_input(node, 4);
  if (block_scale) {
    ITG_TRY(itg_infer_expect(node, 4, 1 << ITG_DTYPE_U8, diagnostic));
    const itg_shape *blocks = &block_scale->shape;
    if (blocks->rank != 2 || blocks->dims[0] != weight->shape.dims[0] || blocks->dims[1] < 1 ||
        weight->shape.dims[1] % blocks->dims[1] != 0)
      ITG_INFER_SHAPE("the block scales %s do not divide the rows of %s", block_scale->name, weight->name);
  }
  itg_shape shape = x->shape;
  shape.dims[shape.rank - 1] = weight->shape.dims[0];
  return itg_infer_set(node, 0, itg_infer_dtype(x), &shape, diagnostic);
}

static itg_status infer_gemm(const itg_node *node, itg_diagnostic *diagnostic) {
  for (int i = 0; i < node->input_count; i++) {
    if (i == 2 && !node->inputs[i]) continue;
    ITG_TRY(itg_infer_expect(node, i, ITG_TYPES_NUMBER, diagnostic));
    ITG_TRY(itg_infer_same_type(node, i, diagnostic));
  }
  const itg_gemm_attributes *gemm = &node->attributes.gemm;
  const itg_shape *a = &node->inputs[0]->shape, *b = &node->inputs[1]->shape;
  if (a->rank != 2 || b->rank != 2) ITG_INFER_SHAPE("%s", "both factors must have 2 dimensions");
  const int ta = gemm->transpose_a != 0, tb = gemm->transpose_b != 0;
  if (a->dims[!ta] != b->dims[tb])
    ITG_INFER_SHAPE("the inner dimensions differ (%lld, %lld)", (long long)a->dims[!ta], (long long)b->dims[tb]);
  itg_shape shape = {2, {a->dims[ta], b->dims[!tb]}}, sum;
  const itg_tensor *c = itg_node_input(node, 2);
  if (c && (!itg_shape_broadcast(&shape, &c->shape, &sum) || !itg_shape_equal(&sum, &shape)))
    ITG_INFER_SHAPE("%s does not broadcast to the product", c->name);
  return itg_infer_set(node, 0, itg_infer_dtype(node->inputs[0]), &shape, diagnostic);
}

// a [..,M,K] times b [..,K,N], leading dimensions broadcast; the last two swapped where the flags say so.
static itg_status product_shape(const itg_node *node, bool ta, bool tb, itg_diagnostic *diagnostic, itg_shape *out) {
  const itg_shape *a = &node->inputs[0]->shape, *b = &node->inputs[1]->shape;
  if (a->rank < 2 || b->rank < 2) ITG_INFER_SHAPE("%s", "both factors need at least 2 dimensions");
  const int64_t m = a->dims[a->rank - 2 + ta], k = a->dims[a->rank - 1 - ta];
  const int64_t k2 = b->dims[b->rank - 2 + tb], n = b->dims[b->rank - 1 - tb];
  if (k != k2) ITG_INFER_SHAPE("the inner dimensions differ (%lld, %lld)", (long long)k, (long long)k2);
  itg_shape left = *a, right = *b;
  left.dims[left.rank - 2] = right.dims[right.rank - 2] = m;
  left.dims[left.rank - 1] = right.dims[right.rank - 1] = n;
  if (!itg_shape_broadcast(&left, &right, out)) ITG_INFER_SHAPE("%s", "the leading dimensions do not broadcast");
  return ITG_OK;
}

static itg_status infer_matmul(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_NUMBER, diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_NUMBER, diagnostic));
  ITG_TRY(itg_infer_same_type(node, 1, diagnostic));
  const itg_gemm_attributes *gemm = &node->attributes.gemm;
  itg_shape shape;
  ITG_TRY(product_shape(node, gemm->transpose_a != 0, gemm->transpose_b != 0, diagnostic, &shape));
  return itg_infer_set(node, 0, itg_infer_dtype(node->inputs[0]), &shape, diagnostic);
}

static itg_status infer_matmul_integer(const itg_node *node, itg_diagnostic *diagnostic) {
  const int bytes = 1 << ITG_DTYPE_U8 | 1 << ITG_DTYPE_S8;
  itg_shape shape;
  for (int i = 0; i < node->input_count; i++) {
    if (i < 2 || node->inputs[i]) ITG_TRY(itg_infer_expect(node, i, bytes, diagnostic));
  }
  ITG_TRY(product_shape(node, false, false, diagnostic, &shape));
  for (int i = 2; i < node->input_count; i++) {
    const itg_tensor *zero = node->inputs[i];
    if (!zero) continue;
    const int64_t lines = shape.dims[i == 2 ? shape.rank - 2 : shape.rank - 1];
    if (zero->dtype != node->inputs[i - 2]->dtype ||
        !(zero->shape.rank == 0 ||
          (zero->shape.rank == 1 && (zero->shape.dims[0] == 1 || zero->shape.dims[0] == lines))))
      ITG_INFER_SHAPE("the zero point %s must be a scalar or one for each line, of its factor's type", zero->name);
  }
  return itg_infer_set(node, 0, ITG_DTYPE_S32, &shape, diagnostic);
}

itg_status itg_infer_matrix(const itg_node *node, itg_diagnostic *diagnostic) {
  switch (node->op) {
  case ITG_OP_FULLY_CONNECTED: return infer_fully_connected(node, diagnostic);
  case ITG_OP_GEMM: return infer_gemm(node, diagnostic);
  case ITG_OP_MATMUL: return infer_matmul(node, diagnostic);
  default: return infer_matmul_integer(node, diagnostic);
  }
}
