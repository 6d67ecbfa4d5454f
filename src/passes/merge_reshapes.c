// Clean-up of movement: a Transpose that only moves dimensions of 1 is a Reshape; a Reshape of a Reshape is one; a Reshape in
// front of unary operations moves behind them, so that activations stand directly behind the operation they can be fused with.
#include "passes/list.h"
#include "passes/rewrite.h"

static bool moves_only_ones(const itg_node *transpose) {
  const itg_shape *shape = &transpose->inputs[0]->shape;
  const int32_t *permutation = transpose->attributes.permutation.permutation;
  int32_t last = -1;
  for (int32_t i = 0; i < shape->rank; i++) {
    if (shape->dims[permutation[i]] == 1) continue;
    if (permutation[i] < last) return false;
    last = permutation[i];
  }
  return true;
}

static itg_status visit_reshape(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  const itg_node *front = node->inputs[0]->producer;
  if (front && front->op == ITG_OP_RESHAPE) {
    ITG_TRY_MEMORY(itg_node_set_input(node, 0, front->inputs[0]), diagnostic);
    *changed = true;
  }
  itg_tensor *x = node->inputs[0];
  if (itg_shape_equal(&x->shape, &node->outputs[0]->shape) && itg_can_bypass_node(node, x)) {
    ITG_TRY_MEMORY(itg_bypass_node(graph, node, x), diagnostic);
    *changed = true;
  }
  return ITG_OK;
}

// The Reshape that alone feeds this operand, or NULL.
static const itg_node *reshape_in_front(const itg_tensor *tensor) { return itg_sole_producer(tensor, ITG_OP_RESHAPE); }

// f(Reshape(x)) becomes Reshape(f(x)); for two operands when both are reshaped alike.
static itg_status visit_elementwise(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  const itg_node *first = reshape_in_front(node->inputs[0]);
  if (!first || !itg_shape_equal(&first->outputs[0]->shape, &node->outputs[0]->shape)) return ITG_OK;
  const itg_shape *shape = &first->inputs[0]->shape;
  for (int32_t i = 1; i < node->input_count; i++) {
    const itg_node *other = reshape_in_front(node->inputs[i]);
    if (!other || !itg_shape_equal(&other->inputs[0]->shape, shape) ||
        !itg_shape_equal(&other->outputs[0]->shape, &first->outputs[0]->shape))
      return ITG_OK;
  }
  itg_tensor *old = node->outputs[0];
  itg_tensor *fresh = itg_graph_add_tensor(graph, old->name, old->dtype, shape);
  ITG_TRY_MEMORY(fresh, diagnostic);
  for (int32_t i = 0; i < node->input_count; i++)
    ITG_TRY_MEMORY(itg_node_set_input(node, i, node->inputs[i]->producer->inputs[0]), diagnostic);
  itg_node_set_output(node, 0, fresh);
  ITG_TRY_MEMORY(itg_graph_insert_node(graph, node->next, ITG_OP_RESHAPE, node->name, &fresh, 1, &old, 1), diagnostic);
  *changed = true;
  return ITG_OK;
}

itg_status itg_pass_merge_reshapes(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (node->op == ITG_OP_TRANSPOSE && moves_only_ones(node)) {
      node->op = ITG_OP_RESHAPE;
      node->attributes = (itg_attributes){0};
      *changed = true;
    }
    if (node->op == ITG_OP_RESHAPE) {
      ITG_TRY(visit_reshape(graph, node, changed, diagnostic));
    } else if (itg_op_get_info((int)node->op)->flags & (ITG_OP_UNARY | ITG_OP_BINARY)) {
      ITG_TRY(visit_elementwise(graph, node, changed, diagnostic));
    }
  }
  itg_graph_sweep(graph);
  return ITG_OK;
}
