// The NPU's convolutions have no slope for negative sums: PRelu and LeakyRelu are operations of their own there, with an
// encoding between them that calibration must see.
#include "adapt/list.h"

static bool has_slope(const itg_node *node) {
  if (node->op != ITG_OP_CONV && node->op != ITG_OP_CONV_TRANSPOSE && node->op != ITG_OP_FULLY_CONNECTED) return false;
  const int32_t kind = node->attributes.conv.activation.kind;
  return kind == ITG_ACTIVATION_PRELU || kind == ITG_ACTIVATION_LEAKY;
}

static itg_status split(itg_graph *graph, itg_node *node, itg_diagnostic *diagnostic) {
  itg_activation *activation = &node->attributes.conv.activation;
  itg_tensor *output = node->outputs[0], *slope = NULL;
  itg_tensor *sum = itg_graph_add_tensor(graph, output->name, output->dtype, &output->shape);
  ITG_TRY_MEMORY(sum, diagnostic);
  const bool is_prelu = activation->kind == ITG_ACTIVATION_PRELU;
  if (is_prelu) {
    slope = node->inputs[node->input_count - 1];
    ITG_TRY_MEMORY(itg_node_set_input(node, node->input_count - 1, NULL), diagnostic);
    ITG_TRY_MEMORY(itg_node_resize_inputs(graph, node, node->input_count - 1), diagnostic);
  }
  itg_node_set_output(node, 0, sum);
  itg_tensor *inputs[] = {sum, slope};
  itg_node *behind = itg_graph_insert_node(graph, node->next, is_prelu ? ITG_OP_PRELU : ITG_OP_LEAKY_RELU, node->name,
                                           inputs, is_prelu ? 2 : 1, &output, 1);
  ITG_TRY_MEMORY(behind, diagnostic);
  if (!is_prelu) behind->attributes.scalar.alpha = activation->slope;
  *activation = (itg_activation){0};
  return ITG_OK;
}

itg_status itg_adapt_split_slopes(itg_graph *graph, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, graph) {
    if (has_slope(node)) ITG_TRY(split(graph, node, diagnostic));
  }
  return ITG_OK;
}
