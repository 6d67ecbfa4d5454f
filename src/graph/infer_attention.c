// Shapes of rotary embedding and attention, float and integer (ops.def, integer_ops.h).
#include "graph/infer_rules.h"

itg_status itg_infer_rope_shape(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_shape *x = &node->inputs[0]->shape;
  const int rank = x->rank;
  if (rank < 2) ITG_INFER_SHAPE("%s needs two dimensions or more", node->inputs[0]->name);
  const int64_t length = x->dims[rank - 2], width = x->dims[rank - 1];
  for (int32_t i = 1; i <= 2; i++) {
    const itg_shape *table = &node->inputs[i]->shape;
    // 2 * dims[1] cannot overflow: a tensor has fewer than 2^62 elements.
    if (table->rank != 2 || table->dims[0] != length || table->dims[1] < 1 || table->dims[1] > width ||
        width % (2 * table->dims[1]) || table->dims[1] != node->inputs[1]->shape.dims[1])
      ITG_INFER_SHAPE("%s must be [%lld,D/2] with heads of D in rows of %lld", node->inputs[i]->name, (long long)length,
                      (long long)width);
  }
  return ITG_OK;
}

static bool is_rows(const itg_tensor *tensor, int64_t block) {
  return tensor->shape.rank == 3 && tensor->shape.dims[0] == 1 && tensor->shape.dims[1] == block &&
         tensor->shape.dims[2] > 0;
}

// Without caches nothing says how wide a head is, so there is one group: k and v are one head.
static itg_status cache_shape(const itg_node *node, itg_diagnostic *diagnostic, itg_attention_shape *out) {
  const itg_tensor *k_cache = itg_node_input(node, ITG_ATTENTION_K_CACHE);
  const itg_tensor *v_cache = itg_node_input(node, ITG_ATTENTION_V_CACHE);
  const itg_tensor *position = itg_node_input(node, ITG_ATTENTION_POSITION);
  if (!k_cache != !v_cache || !k_cache != !position)
    ITG_INFER_SHAPE("%s", "the two caches and the position come together or not at all");
  if (!k_cache) {
    out->groups = 1;
    out->context = out->block;
    return ITG_OK;
  }
  if (k_cache == v_cache || k_cache->shape.rank != 3 || !itg_shape_equal(&k_cache->shape, &v_cache->shape) ||
      k_cache->shape.dims[0] < 1)
    ITG_INFER_SHAPE("%s", "the caches must be two tensors of one shape [G,C,D]");
  ITG_TRY(itg_infer_expect(node, ITG_ATTENTION_POSITION, 1 << ITG_DTYPE_S32, diagnostic));
  ITG_TRY(itg_infer_vector(node, ITG_ATTENTION_POSITION, 1, diagnostic));
  out->groups = k_cache->shape.dims[0];
  out->context = k_cache->shape.dims[1];
  if (out->context < out->block)
    ITG_INFER_SHAPE("a block of %lld positions does not fit a cache of %lld", (long long)out->block,
                    (long long)out->context);
  return ITG_OK;
}

itg_status itg_infer_attention_shape(const itg_node *node, itg_diagnostic *diagnostic, itg_attention_shape *out) {
  const itg_tensor *q = node->inputs[ITG_ATTENTION_Q], *k = node->inputs[ITG_ATTENTION_K];
  const itg_tensor *v = node->inputs[ITG_ATTENTION_V];
  out->block = k->shape.rank == 3 ? k->shape.dims[1] : 0;
  if (out->block < 1 || !is_rows(q, out->block) || !is_rows(k, out->block) || !itg_shape_equal(&k->shape, &v->shape))
    ITG_INFER_SHAPE("%s, %s and %s must be [1,T,H*D], [1,T,G*D] and [1,T,G*D]", q->name, k->name, v->name);
  ITG_TRY(cache_shape(node, diagnostic, out));
  const itg_tensor *k_cache = itg_node_input(node, ITG_ATTENTION_K_CACHE);
  const int64_t width = k->shape.dims[2];
  out->dim = width / out->groups;
  if (width % out->groups || (k_cache && k_cache->shape.dims[2] != out->dim) || q->shape.dims[2] % width)
    ITG_INFER_SHAPE("%lld query and %lld key values do not fit %lld groups", (long long)q->shape.dims[2],
                    (long long)width, (long long)out->groups);
  out->heads = q->shape.dims[2] / out->dim;
  return ITG_OK;
}

itg_status itg_infer_attention(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  for (int32_t i = 0; i < (node->op == ITG_OP_ROPE ? 3 : 5) && i < node->input_count; i++) {
    if (!node->inputs[i]) continue;
    ITG_TRY(itg_infer_expect(node, i, 1 << ITG_DTYPE_F32, diagnostic));
  }
  if (node->op == ITG_OP_ROPE) {
    ITG_TRY(itg_infer_rope_shape(node, diagnostic));
    return itg_infer_set(node, 0, ITG_DTYPE_F32, &x->shape, diagnostic);
  }
  itg_attention_shape shape;
  ITG_TRY(itg_infer_attention_shape(node, diagnostic, &shape));
  ITG_TRY(itg_infer_set(node, 0, ITG_DTYPE_F32, &x->shape, diagnostic));
  const itg_shape scores = itg_shape_of(3, (const int64_t[]){shape.heads, shape.block, shape.context});
  return itg_infer_set(node, 1, ITG_DTYPE_F32, &scores, diagnostic);
}
