// Arithmetic with per-channel constants behind a convolution, transposed convolution or FullyConnected goes into its weights
// and bias: the bias of a MatMul, a scale layer, the division by a constant.
#include "passes/channel_affine.h"
#include "passes/constant_operand.h"
#include "passes/list.h"
#include "passes/rewrite.h"

// The operand's producer when it accepts a gain and offset and nobody else reads it.
static itg_node *accepting_producer(const itg_node *node) {
  for (int32_t i = 0; i < 2; i++) {
    const itg_tensor *x = node->inputs[i];
    if (x->producer && itg_tensor_only_user(x) == node && itg_accepts_channel_affine(x->producer)) return x->producer;
  }
  return NULL;
}

itg_status itg_pass_fold_channel_constants(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  itg_forget_own_constants(graph);
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (node->op < ITG_OP_ADD || node->op > ITG_OP_DIV) continue;
    itg_node *producer = accepting_producer(node);
    if (!producer) continue;
    itg_channel_map map;
    ITG_TRY(itg_channel_map_read(node, itg_output_channel_axis(producer), diagnostic, &map));
    if (!map.x || map.x->producer != producer) {
      itg_channel_map_free(&map);
      continue;
    }
    const itg_status status = itg_fold_channel_affine(graph, producer, map.gain, map.offset, diagnostic);
    itg_channel_map_free(&map);
    ITG_TRY(status);
    itg_take_over_output(graph, producer, node);
    *changed = true;
  }
  return ITG_OK;
}
