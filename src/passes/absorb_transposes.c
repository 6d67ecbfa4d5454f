// Flatten in front of FullyConnected, after the channels-last conversion: s [N,H,W,C] -> Transpose -> Reshape [N, C*H*W] ->
// FullyConnected. The order of the flattened elements goes into the columns of the weights, and the Transpose disappears.
// Between Reshape and FullyConnected there may be unary operations and Affine (a BatchNorm of the flattened features).
#include "passes/list.h"
#include "passes/rewrite.h"

typedef struct flattening {
  itg_shape dims;                    // The flattened dimensions in their old order.
  int32_t permutation[ITG_MAX_RANK]; // From the old order to that of s.
} flattening;

// Whether Reshape(Transpose(s)) flattens dimensions into its last one such that the dimensions in front keep their order and
// come first in s as well. Dimensions of 1 do not count.
static bool describe(const itg_node *reshape, const itg_node *transpose, flattening *out) {
  const itg_shape *t = &reshape->inputs[0]->shape, *z = &reshape->outputs[0]->shape;
  const int32_t *permutation = transpose->attributes.permutation.permutation;
  if (z->rank < 1) return false;
  int64_t product = 1;
  int32_t split = t->rank;
  while (split > 0 && product < z->dims[z->rank - 1]) product *= t->dims[--split];
  if (product != z->dims[z->rank - 1] || product <= 1) return false;
  int32_t last_front = -1, count = 0, position[ITG_MAX_RANK];
  out->dims.rank = t->rank - split;
  for (int32_t i = split; i < t->rank; i++) out->dims.dims[i - split] = t->dims[i];
  for (int32_t i = 0; i < t->rank; i++) position[permutation[i]] = i; // Of dimension j of s among those of t.
  for (int32_t j = 0; j < t->rank; j++) {
    const int32_t i = position[j];
    if (i >= split) {
      out->permutation[count++] = i - split;
    } else if (t->dims[i] != 1) {
      if (i < last_front || count > 0) return false;
      last_front = i;
    }
  }
  return true;
}

static itg_tensor *permute_columns(itg_graph *graph, itg_tensor *tensor, const flattening *order) {
  int32_t permutation[ITG_MAX_RANK];
  const int32_t front = tensor->shape.rank - 1, rank = front + order->dims.rank;
  itg_shape shape = {.rank = rank};
  if (rank > ITG_MAX_RANK) return NULL;
  for (int32_t i = 0; i < front; i++) {
    shape.dims[i] = tensor->shape.dims[i];
    permutation[i] = i;
  }
  for (int32_t i = 0; i < order->dims.rank; i++) {
    shape.dims[front + i] = order->dims.dims[i];
    permutation[front + i] = front + order->permutation[i];
  }
  itg_tensor *split = itg_constant_reshape(graph, tensor, &shape);
  itg_tensor *moved = split ? itg_constant_transpose(graph, split, permutation) : NULL;
  return moved ? itg_constant_reshape(graph, moved, &tensor->shape) : NULL;
}

// Whether every way from `tensor` leads through unary operations and Affine to the input of a FullyConnected. `fuel` bounds
// the walk.
static bool all_readers_absorb(const itg_tensor *tensor, int *fuel) {
  if (tensor->is_output || tensor->user_count == 0) return false;
  for (int32_t i = 0; i < tensor->user_count; i++) {
    const itg_node *user = tensor->users[i];
    if (--*fuel < 0) return false;
    if (user->op == ITG_OP_FULLY_CONNECTED) {
      if (user->inputs[0] != tensor || !itg_tensor_is_constant(user->inputs[1]) || user->inputs[1]->shape.rank != 2)
        return false;
    } else if (user->op == ITG_OP_AFFINE) {
      if (!itg_tensor_is_constant(user->inputs[1]) || !itg_tensor_is_constant(user->inputs[2]) ||
          !all_readers_absorb(user->outputs[0], fuel))
        return false;
    } else if (!(itg_op_get_info((int)user->op)->flags & ITG_OP_UNARY) || !all_readers_absorb(user->outputs[0], fuel)) {
      return false;
    }
  }
  return true;
}

static itg_status absorb(itg_graph *graph, const itg_tensor *tensor, const flattening *order,
                         itg_diagnostic *diagnostic) {
  for (int32_t i = 0; i < tensor->user_count; i++) {
    itg_node *user = tensor->users[i];
    const int32_t constants = user->op == ITG_OP_FULLY_CONNECTED ? 1 : user->op == ITG_OP_AFFINE ? 2 : 0;
    for (int32_t c = 1; c <= constants; c++) {
      itg_tensor *moved = permute_columns(graph, user->inputs[c], order);
      ITG_TRY_MEMORY(moved && itg_node_set_input(user, c, moved), diagnostic);
    }
    if (user->op != ITG_OP_FULLY_CONNECTED) ITG_TRY(absorb(graph, user->outputs[0], order, diagnostic));
  }
  return ITG_OK;
}

itg_status itg_pass_absorb_transposes(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op != ITG_OP_RESHAPE) continue;
    const itg_node *transpose = node->inputs[0]->producer;
    flattening order;
    int fuel = 64;
    if (!transpose || transpose->op != ITG_OP_TRANSPOSE || !describe(node, transpose, &order) ||
        !all_readers_absorb(node->outputs[0], &fuel))
      continue;
    ITG_TRY(absorb(graph, node->outputs[0], &order, diagnostic));
    ITG_TRY_MEMORY(itg_node_set_input(node, 0, transpose->inputs[0]), diagnostic);
    *changed = true;
  }
  if (*changed) itg_graph_sweep(graph);
  return ITG_OK;
}
