// InstanceNorm and GroupNorm as LayerNorm: both normalise over the elements of a group of channels of one sample, so with these
// side by side in memory they are a LayerNorm of [N, groups, elements] without gains, followed by the gains as Affine.
// Ulyanov et al., "Instance Normalization" (2016); Wu and He, "Group Normalization" (2018).
#include "adapt/list.h"
#include "passes/rewrite.h"

static bool applies(const itg_node *node) {
  const itg_tensor *x = node->inputs[0];
  const int32_t rank = x->shape.rank;
  if (node->op != ITG_OP_INSTANCE_NORM && node->op != ITG_OP_GROUP_NORM) return false;
  if (rank < 3 || node->attributes.norm.axis != rank - 1 || !itg_dtype_is_rewritable(x->dtype)) return false;
  const int64_t channels = x->shape.dims[rank - 1];
  const int32_t groups = node->attributes.norm.groups;
  if (channels < 1 || (node->op == ITG_OP_GROUP_NORM && (groups < 1 || channels % groups != 0))) return false;
  for (int i = 1; i <= 2; i++) {
    const itg_tensor *constant = node->inputs[i];
    if (!itg_tensor_is_constant(constant) || constant->shape.rank != 1 || constant->shape.dims[0] != channels)
      return false;
  }
  return true;
}

static itg_tensor *make_ones(itg_graph *graph, const char *name, itg_dtype dtype, int64_t count) {
  const itg_shape shape = itg_shape_of(1, &count);
  itg_tensor *ones = itg_graph_add_constant(graph, name, dtype, &shape, NULL);
  for (int64_t i = 0; ones && i < count; i++) {
    if (dtype == ITG_DTYPE_F64)
      ((double *)itg_tensor_writable(ones))[i] = 1;
    else
      ((float *)itg_tensor_writable(ones))[i] = 1;
  }
  return ones;
}

static itg_status decompose(itg_graph *graph, itg_node *node, itg_diagnostic *diagnostic) {
  itg_tensor *x = node->inputs[0];
  const int32_t rank = x->shape.rank;
  const int64_t channels = x->shape.dims[rank - 1];
  const int64_t groups = node->op == ITG_OP_INSTANCE_NORM ? channels : node->attributes.norm.groups;
  int32_t first[ITG_MAX_RANK] = {0, rank - 1}, last[ITG_MAX_RANK] = {0};
  int64_t elements = channels / groups;
  for (int32_t i = 1; i + 1 < rank; i++) {
    elements *= x->shape.dims[i];
    first[i + 1] = i;
    last[i] = i + 1;
  }
  last[rank - 1] = 1;
  itg_tensor *moved = itg_insert_transpose(graph, node, x, first);
  ITG_TRY_MEMORY(moved, diagnostic);
  const itg_shape flat = itg_shape_of(3, (int64_t[]){x->shape.dims[0], groups, elements});
  itg_tensor *rows = itg_insert_reshape(graph, node, moved, &flat);
  itg_tensor *ones = make_ones(graph, node->name, x->dtype, elements);
  itg_tensor *normal = itg_graph_add_tensor(graph, x->name, x->dtype, &flat);
  ITG_TRY_MEMORY(rows && ones && normal, diagnostic);
  itg_node *norm =
      itg_graph_insert_node(graph, node, ITG_OP_LAYER_NORM, node->name, (itg_tensor *[]){rows, ones}, 2, &normal, 1);
  ITG_TRY_MEMORY(norm, diagnostic);
  norm->attributes.norm.axis = 2;
  norm->attributes.norm.epsilon = node->attributes.norm.epsilon;
  itg_tensor *back = itg_insert_reshape(graph, node, normal, &moved->shape);
  ITG_TRY_MEMORY(back, diagnostic);
  itg_tensor *images = itg_insert_transpose(graph, node, back, last);
  ITG_TRY_MEMORY(images, diagnostic);
  ITG_TRY_MEMORY(
      itg_replace_node(graph, node, ITG_OP_AFFINE, (itg_tensor *[]){images, node->inputs[1], node->inputs[2]}, 3),
      diagnostic);
  return ITG_OK;
}

itg_status itg_adapt_decompose_norms(itg_graph *graph, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (applies(node)) ITG_TRY(decompose(graph, node, diagnostic));
  }
  return ITG_OK;
}
