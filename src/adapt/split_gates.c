// The NPU has no kernel for x*sigmoid(x): SiLU and QuickGELU become a Sigmoid and a Mul, with an encoding between them that
// calibration must see. Elfwing et al., "Sigmoid-Weighted Linear Units" (2017); Hendrycks and Gimpel, "Gaussian Error Linear
// Units" (2016), section 2.
#include "adapt/list.h"
#include "passes/rewrite.h"

static itg_tensor *insert_unary(itg_graph *graph, itg_node *before, itg_op op, itg_tensor *x) {
  itg_tensor *y = itg_graph_add_tensor(graph, x->name, x->dtype, &x->shape);
  return y && itg_graph_insert_node(graph, before, op, before->name, &x, 1, &y, 1) ? y : NULL;
}

// x times a constant.
static itg_tensor *insert_gain(itg_graph *graph, itg_node *before, itg_tensor *x, double gain) {
  const float value = (float)gain;
  const itg_shape scalar = {0};
  itg_tensor *constant = itg_graph_add_constant(graph, "gain", ITG_DTYPE_F32, &scalar, &value);
  itg_tensor *y = itg_graph_add_tensor(graph, x->name, x->dtype, &x->shape);
  if (!constant || !y) return NULL;
  itg_tensor *inputs[] = {x, constant};
  return itg_graph_insert_node(graph, before, ITG_OP_MUL, before->name, inputs, 2, &y, 1) ? y : NULL;
}

static itg_status split(itg_graph *graph, itg_node *node, itg_diagnostic *diagnostic) {
  itg_tensor *x = node->inputs[0], *scaled = x;
  if (node->op == ITG_OP_QUICK_GELU && node->attributes.scalar.alpha != 1) {
    scaled = insert_gain(graph, node, x, node->attributes.scalar.alpha);
    ITG_TRY_MEMORY(scaled, diagnostic);
  }
  itg_tensor *gate = insert_unary(graph, node, ITG_OP_SIGMOID, scaled);
  ITG_TRY_MEMORY(gate, diagnostic);
  itg_tensor *inputs[] = {x, gate};
  ITG_TRY_MEMORY(itg_replace_node(graph, node, ITG_OP_MUL, inputs, 2), diagnostic);
  return ITG_OK;
}

itg_status itg_adapt_split_gates(itg_graph *graph, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    const bool applies = (node->op == ITG_OP_SILU || node->op == ITG_OP_QUICK_GELU) &&
                         node->inputs[0]->dtype == ITG_DTYPE_F32 && !itg_tensor_is_constant(node->inputs[0]);
    if (applies) ITG_TRY(split(graph, node, diagnostic));
  }
  return ITG_OK;
}
