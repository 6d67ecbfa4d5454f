// Nodes that move codes get operands in the encoding of their output: Converts (IDENTITY nodes) for activations, encoded
// copies for float constants.
#include "quantize/plan.h"

// A Convert of `tensor` to `encoding` that exists already, before `node`.
static itg_tensor *existing_convert(const itg_tensor *tensor, const itg_encoding *encoding) {
  for (int32_t u = 0; u < tensor->user_count; u++) {
    const itg_node *user = tensor->users[u];
    if (user->op == ITG_OP_IDENTITY && itg_encoding_equal(user->outputs[0]->encoding, encoding))
      return user->outputs[0];
  }
  return NULL;
}

static itg_status convert_operand(itg_quantize_plan *plan, itg_node *node, int32_t index, const itg_encoding *encoding,
                                  itg_diagnostic *diagnostic) {
  itg_tensor *tensor = node->inputs[index], *converted = existing_convert(tensor, encoding);
  if (!converted) {
    converted = itg_graph_add_tensor(plan->graph, tensor->name, ITG_DTYPE_F32, &tensor->shape);
    ITG_TRY_MEMORY(converted, diagnostic);
    converted->index = -1;
    converted->encoding = encoding;
    // Right behind the producer, so that every later reader may share it.
    itg_node *before = tensor->producer ? tensor->producer->next : plan->graph->first;
    ITG_TRY_MEMORY(
        itg_graph_insert_node(plan->graph, before, ITG_OP_IDENTITY, converted->name, &tensor, 1, &converted, 1),
        diagnostic);
  }
  ITG_TRY_MEMORY(itg_node_set_input(node, index, converted), diagnostic);
  return ITG_OK;
}

static itg_status encode_constant(itg_quantize_plan *plan, itg_node *node, int32_t index, const itg_encoding *encoding,
                                  itg_diagnostic *diagnostic) {
  const itg_tensor *constant = node->inputs[index];
  itg_tensor *copy =
      itg_graph_add_borrowed(plan->graph, constant->name, constant->dtype, &constant->shape, constant->data);
  ITG_TRY_MEMORY(copy, diagnostic);
  copy->index = -1;
  copy->encoding = encoding;
  ITG_TRY_MEMORY(itg_node_set_input(node, index, copy), diagnostic);
  return ITG_OK;
}

itg_status itg_plan_moves(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const itg_encoding *encoding = node->outputs[0] ? node->outputs[0]->encoding : NULL;
    if (!itg_op_moves_codes(node->op) || !encoding) continue;
    // A table of rows (GATHER from a constant) has codes of its own.
    if (node->op == ITG_OP_GATHER && itg_tensor_is_constant(node->inputs[0])) continue;
    for (int32_t i = 0; i < node->input_count; i++) {
      const itg_tensor *input = node->inputs[i];
      if (!input || input->dtype != ITG_DTYPE_F32 || itg_encoding_equal(input->encoding, encoding)) continue;
      if (input->data)
        ITG_TRY(encode_constant(plan, node, i, encoding, diagnostic));
      else
        ITG_TRY(convert_operand(plan, node, i, encoding, diagnostic));
    }
  }
  return ITG_OK;
}
