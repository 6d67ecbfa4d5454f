// Which activations share an encoding: what only moves codes must not change them.
#include <math.h>

#include "quantize/plan.h"

bool itg_op_moves_codes(itg_op op) {
  switch (op) {
  case ITG_OP_RESHAPE:
  case ITG_OP_TRANSPOSE:
  case ITG_OP_SLICE:
  case ITG_OP_PAD:
  case ITG_OP_GATHER:
  case ITG_OP_GATHER_ELEMENTS:
  case ITG_OP_GATHER_ND:
  case ITG_OP_EXPAND:
  case ITG_OP_TILE:
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH:
  case ITG_OP_MAX_POOL:
  case ITG_OP_RESIZE:
  case ITG_OP_CONCAT:
  case ITG_OP_MIN:
  case ITG_OP_MAX:
  case ITG_OP_REDUCE_MAX:
  case ITG_OP_REDUCE_MIN: return true;
  default: return false;
  }
}

// `several`: the output gathers several inputs, so an input with a much smaller range keeps its own encoding (a Convert
// costs less than its lost resolution).
static void join(itg_quantize_plan *plan, const itg_tensor *input, const itg_tensor *output, bool several) {
  if (!itg_plan_entry(plan, input) || !itg_plan_entry(plan, output)) return;
  const size_t a = itg_plan_group(plan, (size_t)input->index), b = itg_plan_group(plan, (size_t)output->index);
  if (a == b) return;
  itg_activation_entry *in = &plan->entries[a], *out = &plan->entries[b];
  if (in->bits != out->bits) return;
  const double low = fmin(in->low, out->low), high = fmax(in->high, out->high);
  if (several) {
    const double limit = in->bits == 8 ? 4 : 64;
    if (in->fixed || out->fixed || in->symmetric != out->symmetric) return;
    if ((in->high - in->low) * limit < high - low || (out->high - out->low) * limit < high - low) return;
  }
  // The lower number stands for the group.
  itg_activation_entry *root = a < b ? in : out;
  *(a < b ? &out->parent : &in->parent) = a < b ? a : b;
  root->low = low;
  root->high = high;
  root->fixed = in->fixed || out->fixed;
  root->symmetric = in->symmetric || out->symmetric;
  root->is_input = in->is_input || out->is_input;
}

void itg_plan_groups(itg_quantize_plan *plan) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    if (!itg_op_moves_codes(node->op)) continue;
    const bool several = node->op == ITG_OP_CONCAT || node->op == ITG_OP_MIN || node->op == ITG_OP_MAX;
    if (!several) join(plan, node->inputs[0], node->outputs[0], false);
    itg_activation_entry *entry = itg_plan_entry(plan, node->outputs[0]);
    if (node->op != ITG_OP_PAD || !entry || node->attributes.pad.mode != ITG_PAD_CONSTANT) continue;
    entry = &plan->entries[itg_plan_group(plan, (size_t)node->outputs[0]->index)];
    entry->low = fmin(entry->low, node->attributes.pad.value);
    entry->high = fmax(entry->high, node->attributes.pad.value);
  }
  ITG_FOR_EACH_NODE(node, plan->graph) {
    if (node->op != ITG_OP_CONCAT && node->op != ITG_OP_MIN && node->op != ITG_OP_MAX) continue;
    for (int32_t i = 0; i < node->input_count; i++) join(plan, node->inputs[i], node->outputs[0], true);
  }
}
