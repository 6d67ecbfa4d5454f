// The NPU's kernels want operands and result of one operation equally wide: u8 and u8, or u16 and u16 (weights stay s8, second
// operands of MatMul 8-bit). Narrow operands of a wide result are widened, which is exact but for the rounding of the
// scale; the result of a wide operand is wide, and its readers narrow it.
#include <math.h>

#include "quantize/plan.h"

// Operations whose first `operands` inputs must be as wide as the result; 0 for those that do not care.
static int32_t equal_operands(const itg_node *node) {
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE:
  case ITG_OP_FULLY_CONNECTED:
  case ITG_OP_MATMUL:
  case ITG_OP_AFFINE:
  case ITG_OP_PRELU:
  case ITG_OP_LEAKY_RELU:
  case ITG_OP_RELU:
  case ITG_OP_CLIP:
  case ITG_OP_HARD_SIGMOID:
  case ITG_OP_SOFTMAX:
  case ITG_OP_LAYER_NORM:
  case ITG_OP_RMS_NORM:
  case ITG_OP_LP_NORM:
  case ITG_OP_AVERAGE_POOL:
  case ITG_OP_REDUCE_MEAN:
  case ITG_OP_REDUCE_SUM: return 1;
  case ITG_OP_ADD:
  case ITG_OP_SUB:
  case ITG_OP_MUL:
  case ITG_OP_DIV: return 2;
  case ITG_OP_IDENTITY: return 0; // A Convert: the one place where bits change.
  default:
    return node->input_count == 1 && (itg_op_get_info((int)node->op)->flags & ITG_OP_UNARY) &&
           !itg_op_moves_codes(node->op);
  }
}

void itg_plan_target_bits(itg_quantize_plan *plan) {
  if (!plan->target) return;
  // Probabilities are wide: the NPU's 8-bit Softmax has the fixed scale 1/256, which long flat rows do not come near.
  ITG_FOR_EACH_NODE(node, plan->graph) {
    itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
    if (node->op == ITG_OP_SOFTMAX && output && !output->chosen) output->bits = 16;
  }
  // What reads a 16-bit stream element by element answers in 16 bits; its own readers narrow.
  ITG_FOR_EACH_NODE(node, plan->graph) {
    if (!equal_operands(node) || node->op == ITG_OP_CONV || node->op == ITG_OP_CONV_TRANSPOSE ||
        node->op == ITG_OP_FULLY_CONNECTED || node->op == ITG_OP_MATMUL)
      continue;
    itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
    for (int32_t i = 0; i < equal_operands(node) && output; i++) {
      const itg_activation_entry *input = itg_plan_entry(plan, node->inputs[i]);
      if (input && input->bits == 16) output->bits = 16;
    }
  }
  // Probabilities stay wide as first operands; so their products are wide too.
  ITG_FOR_EACH_NODE(node, plan->graph) {
    if (node->op != ITG_OP_MATMUL) continue;
    const itg_node *producer = node->inputs[0]->producer;
    const itg_activation_entry *input = itg_plan_entry(plan, node->inputs[0]);
    itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
    if (producer && producer->op == ITG_OP_SOFTMAX && input && input->bits == 16 && output) output->bits = 16;
  }
  // A wide result is rounded once when its producer is wide already.
  for (itg_node *node = plan->graph->last; node; node = node->previous) {
    const itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
    const bool passes_through =
        node->op == ITG_OP_PRELU || node->op == ITG_OP_LEAKY_RELU || node->op == ITG_OP_RELU || node->op == ITG_OP_CLIP;
    if (!passes_through || !output || output->bits != 16) continue;
    itg_activation_entry *input = itg_plan_entry(plan, node->inputs[0]);
    if (input && !node->inputs[0]->is_input) input->bits = 16;
  }
}

itg_status itg_plan_target_widen(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  if (!plan->target) return ITG_OK;
  const size_t count = plan->count;
  for (size_t i = 0; i < count; i++) {
    itg_tensor *tensor = plan->entries[i].tensor, *wide = NULL;
    if (plan->entries[i].bits == 16) continue;
    for (int32_t u = 0; u < tensor->user_count;) {
      itg_node *user = tensor->users[u];
      const itg_activation_entry *output = itg_plan_entry(plan, user->outputs[0]);
      bool changed = false;
      for (int32_t k = 0; k < equal_operands(user) && output && output->bits == 16; k++) {
        if (user->inputs[k] != tensor) continue;
        if (!wide) ITG_TRY(itg_plan_convert(plan, tensor, 16, false, diagnostic, &wide));
        ITG_TRY_MEMORY(itg_node_set_input(user, k, wide), diagnostic);
        output = itg_plan_entry(plan, user->outputs[0]); // The entries may have moved.
        changed = true;
      }
      if (!changed) u++;
    }
  }
  return ITG_OK;
}

static itg_status replace_encoding(itg_quantize_plan *plan, const itg_encoding *old, double scale,
                                   itg_diagnostic *diagnostic) {
  const itg_encoding *made = itg_encoding_create(plan->graph, old->storage, -1, 1, &scale, old->zero_points);
  ITG_TRY_MEMORY(made, diagnostic);
  for (size_t i = 0; i < plan->count; i++) {
    if (plan->entries[i].tensor->encoding == old) plan->entries[i].tensor->encoding = made;
  }
  return ITG_OK;
}

itg_status itg_plan_target_snap(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  enum { BITS = 11 };
  if (!plan->target || plan->target->arch >= 73) return ITG_OK;
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
    if (node->op != ITG_OP_MATMUL || !output || output->given || output->fixed) continue;
    const itg_encoding *a = node->inputs[0]->encoding, *b = node->inputs[1]->encoding, *y = node->outputs[0]->encoding;
    if (!a || !b || !y) continue;
    int exponent;
    const double product = a->scales[0] * b->scales[0], mantissa = frexp(product / y->scales[0], &exponent);
    const double kept = floor(ldexp(mantissa, BITS) + 1e-6);
    ITG_TRY(replace_encoding(plan, y, (double)(float)(product / ldexp(kept, exponent - BITS)), diagnostic));
  }
  return ITG_OK;
}
