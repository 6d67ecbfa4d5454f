// Half-precision graphs become float32 ones: every f16 and bf16 tensor is widened, which loses nothing. Graph inputs and outputs
// keep their type, with a Cast beside them.
#include <string.h>

#include "passes/list.h"
#include "passes/rewrite.h"
#include "tensor/half.h"

static bool is_narrow(const itg_tensor *tensor) {
  return tensor && (tensor->dtype == ITG_DTYPE_F16 || tensor->dtype == ITG_DTYPE_BF16);
}

static itg_status widen_constant(itg_graph *graph, itg_tensor *tensor, itg_diagnostic *diagnostic) {
  size_t count;
  if (!itg_shape_count(&tensor->shape, &count))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, tensor->name, "constant is too large");
  float *data = itg_arena_array(&graph->arena, count, sizeof *data);
  ITG_TRY_MEMORY(data, diagnostic);
  for (size_t i = 0; i < count; i++) {
    uint16_t code;
    memcpy(&code, (const char *)tensor->data + i * sizeof code, sizeof code);
    data[i] = tensor->dtype == ITG_DTYPE_F16 ? itg_f16_to_f32(code) : itg_bf16_to_f32(code);
  }
  tensor->data = data;
  tensor->dtype = ITG_DTYPE_F32;
  return ITG_OK;
}

// Lets everybody who reads `tensor` read `wide` instead.
static bool move_readers(itg_tensor *tensor, itg_tensor *wide) {
  while (tensor->user_count > 0) {
    itg_node *user = tensor->users[tensor->user_count - 1];
    for (int32_t i = 0; i < user->input_count; i++) {
      if (user->inputs[i] == tensor && !itg_node_set_input(user, i, wide)) return false;
    }
  }
  return true;
}

static itg_status add_cast(itg_graph *graph, itg_node *before, itg_tensor *from, itg_tensor *to,
                           itg_diagnostic *diagnostic) {
  itg_node *cast = itg_graph_insert_node(graph, before, ITG_OP_CAST, to->name, &from, 1, &to, 1);
  ITG_TRY_MEMORY(cast, diagnostic);
  cast->attributes.cast = (itg_cast_attributes){.to = (int32_t)to->dtype, .saturate = 1};
  return ITG_OK;
}

// An input, output or constant output keeps its type; everybody else works with a wide tensor beside it.
static itg_status widen_end(itg_graph *graph, itg_tensor *tensor, itg_diagnostic *diagnostic) {
  itg_tensor *wide = itg_graph_add_tensor(graph, tensor->name, ITG_DTYPE_F32, &tensor->shape);
  ITG_TRY_MEMORY(wide && move_readers(tensor, wide), diagnostic);
  itg_node *producer = tensor->producer;
  if (!producer) return add_cast(graph, graph->first, tensor, wide, diagnostic);
  for (int32_t i = 0; i < producer->output_count; i++) {
    if (producer->outputs[i] == tensor) itg_node_set_output(producer, i, wide);
  }
  return add_cast(graph, NULL, wide, tensor, diagnostic);
}

itg_status itg_pass_widen_floats(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  const size_t count = graph->tensor_count; // Those added below are wide.
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op == ITG_OP_CAST && is_narrow(node->outputs[0])) node->attributes.cast.to = ITG_DTYPE_F32;
  }
  for (size_t i = 0; i < count; i++) {
    itg_tensor *tensor = graph->tensors[i];
    if (!is_narrow(tensor)) continue;
    *changed = true;
    if (tensor->is_input || tensor->is_output)
      ITG_TRY(widen_end(graph, tensor, diagnostic));
    else if (itg_tensor_is_constant(tensor))
      ITG_TRY(widen_constant(graph, tensor, diagnostic));
    else
      tensor->dtype = ITG_DTYPE_F32;
  }
  return ITG_OK;
}
