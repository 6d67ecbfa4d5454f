// Nodes whose inputs are all constants are computed by the interpreter.
#include "interpret/interpret.h"
#include "passes/list.h"
#include "passes/rewrite.h"

// A result may be larger than this only when its inputs are nearly as large: an Expand of one number is not worth a file.
enum { FREE_BYTES = 16 << 20, GROWTH = 8 };
// All results together: what the graph's constants may grow to, and a start for small graphs.
enum { START_BYTES = 256 << 20 };

static bool is_foldable(const itg_node *node, size_t *budget) {
  size_t inputs = 0, outputs = 0, bytes;
  for (int32_t i = 0; i < node->input_count; i++) {
    const itg_tensor *tensor = node->inputs[i];
    if (!tensor) continue;
    if (!itg_tensor_is_constant(tensor) || !itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes)) return false;
    inputs += bytes;
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *tensor = node->outputs[i];
    if (!tensor) continue;
    if (tensor->is_output || !itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes)) return false;
    outputs += bytes;
  }
  if (outputs > *budget || (outputs > FREE_BYTES && outputs / GROWTH > inputs)) return false;
  *budget -= outputs;
  return true;
}

static size_t constant_bytes(const itg_graph *graph) {
  size_t sum = 0, bytes;
  for (size_t i = 0; i < graph->tensor_count; i++) {
    const itg_tensor *tensor = graph->tensors[i];
    if (tensor && tensor->data && itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes) && bytes < SIZE_MAX / 64 - sum)
      sum += bytes;
  }
  return sum;
}

static itg_status fold(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  void *data[4] = {0};
  if (node->output_count > 4) return ITG_OK;
  for (int32_t i = 0; i < node->output_count; i++) {
    size_t bytes;
    if (!node->outputs[i]) continue;
    if (!itg_shape_bytes(&node->outputs[i]->shape, node->outputs[i]->dtype, &bytes)) return ITG_OK;
    data[i] = itg_arena_allocate(&graph->arena, bytes);
    ITG_TRY_MEMORY(data[i], diagnostic);
  }
  const itg_status status = itg_interpret_node(node, data, diagnostic);
  if (status == ITG_ERROR_UNSUPPORTED) return ITG_OK; // It stays; whoever needs it executed will say so.
  ITG_TRY(status);
  *changed = true;
  itg_graph_remove_node(graph, node);
  for (int32_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i]) node->outputs[i]->data = data[i];
  }
  return ITG_OK;
}

itg_status itg_pass_fold_constants(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  size_t budget = START_BYTES + GROWTH * constant_bytes(graph);
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (!is_foldable(node, &budget)) continue;
    ITG_TRY(fold(graph, node, changed, diagnostic));
  }
  if (*changed) itg_graph_sweep(graph);
  return ITG_OK;
}
