// The BatchNorm that reads a residual stream: s = a + b goes on as the stream (16 bits) and, through gain[c]*s + offset[c], into
// a convolution (8 bits). One node with two outputs lets the kernel compute both while the sum is at hand, with one rounding
// each, and the convolution pads the second with its own zero, which is right at the borders. The form is that of He et al.,
// "Identity Mappings in Deep Residual Networks" (2016).
#include "adapt/list.h"

// The only AFFINE among the readers of `sum`, or NULL when there is none or more than one.
static itg_node *only_affine_reader(const itg_tensor *sum) {
  itg_node *found = NULL;
  for (int32_t i = 0; i < sum->user_count; i++) {
    itg_node *user = sum->users[i];
    if (user->op != ITG_OP_AFFINE) continue;
    if (found || user->inputs[0] != sum) return NULL;
    found = user;
  }
  return found;
}

static bool adds_equal_shapes(const itg_node *node) {
  return node->op == ITG_OP_ADD && !itg_tensor_is_constant(node->inputs[0]) &&
         !itg_tensor_is_constant(node->inputs[1]) && itg_shape_equal(&node->inputs[0]->shape, &node->inputs[1]->shape);
}

itg_status itg_adapt_add_affine(itg_graph *graph, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (!adds_equal_shapes(node)) continue;
    itg_node *affine = only_affine_reader(node->outputs[0]);
    if (!affine || !itg_tensor_is_constant(affine->inputs[1]) || !itg_tensor_is_constant(affine->inputs[2])) continue;
    itg_tensor *const inputs[4] = {node->inputs[0], node->inputs[1], affine->inputs[1], affine->inputs[2]};
    itg_tensor *const outputs[2] = {node->outputs[0], affine->outputs[0]};
    if (affine == following) following = affine->next;
    itg_node *before = node->next == affine ? affine->next : node->next;
    const char *name = node->name;
    itg_graph_remove_node(graph, affine);
    itg_graph_remove_node(graph, node);
    itg_node *made = itg_graph_insert_node(graph, before, ITG_OP_ADD_AFFINE, name, inputs, 4, outputs, 2);
    ITG_TRY_MEMORY(made, diagnostic);
  }
  return ITG_OK;
}
