// How many bits each activation gets.
//
// a8w8 and a16w8 are uniform except where the arithmetic asks for something else (inputs of norms and Softmax are u16, the
// second operand of a MatMul is 8-bit symmetric). a8w8+s16 keeps 8-bit operands in everything that multiplies, and gives
// 16 bits to what accumulates error: the operands and results of additions, and everything near the graph outputs (head.c).
// (facts: the residual stream is the most valuable 16-bit tensor).
#include <string.h>

#include "quantize/plan.h"
#include "quantize/unary_function.h"

static void want(itg_quantize_plan *plan, const itg_tensor *tensor, int32_t bits) {
  itg_activation_entry *entry = itg_plan_entry(plan, tensor);
  if (entry && !entry->chosen) entry->bits = bits;
}

static bool is_activation(const itg_quantize_plan *plan, const itg_tensor *tensor) {
  return itg_plan_entry(plan, tensor) != NULL;
}

static void apply_recipe(itg_quantize_plan *plan, int32_t base) {
  for (size_t i = 0; i < plan->count; i++) {
    if (!plan->entries[i].chosen) plan->entries[i].bits = base; // Imported encodings are chosen already.
  }
  for (int32_t i = 0; i < plan->graph->input_count; i++) {
    itg_activation_entry *entry = itg_plan_entry(plan, plan->graph->inputs[i]);
    const int32_t bits = itg_recipe_input_bits(plan->recipe, plan->graph->inputs[i]->name);
    if (!entry || entry->tensor->encoding || !bits) continue;
    entry->bits = bits;
    entry->chosen = true;
  }
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const itg_node_choice choice = itg_recipe_choice(plan->recipe, node);
    for (int32_t i = 0; i < node->output_count; i++) {
      itg_activation_entry *entry = itg_plan_entry(plan, node->outputs[i]);
      if (!entry || entry->tensor->encoding) continue;
      entry->range_method = choice.range_method;
      if (!choice.activation_bits) continue;
      entry->bits = choice.activation_bits;
      entry->chosen = true;
    }
  }
}

// What the integer operations themselves ask for.
static void apply_arithmetic(itg_quantize_plan *plan) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    switch (node->op) {
    case ITG_OP_SOFTMAX:
      want(plan, node->inputs[0], 16);
      want(plan, node->outputs[0], 16);
      break;
    case ITG_OP_ATTENTION: // The scores; queries keep 16 bits, as their product is what attention decides by.
      want(plan, node->inputs[ITG_ATTENTION_Q], 16);
      if (node->output_count > 1) want(plan, node->outputs[1], 16);
      break;
    case ITG_OP_LAYER_NORM:
    case ITG_OP_RMS_NORM:
    case ITG_OP_LP_NORM: want(plan, node->inputs[0], 16); break;
    default: break;
    }
  }
}

static void apply_stream(itg_quantize_plan *plan) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    if (node->op != ITG_OP_ADD && node->op != ITG_OP_SUB && node->op != ITG_OP_ADD_AFFINE) continue;
    if (!is_activation(plan, node->inputs[0]) || !is_activation(plan, node->inputs[1])) continue;
    want(plan, node->inputs[0], 16);
    want(plan, node->inputs[1], 16);
    want(plan, node->outputs[0], 16);
  }
}

// What only affines read goes to them in 16 bits: their result, which something multiplies, is then rounded to 8 bits once and
// not twice. (BatchNorm in front of a zero-padded convolution, which cannot be folded at the borders.)
static void apply_affine_inputs(itg_quantize_plan *plan) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    itg_tensor *x = node->inputs[0];
    if (node->op != ITG_OP_AFFINE || x->is_input) continue;
    bool only_affines = true;
    for (int32_t u = 0; u < x->user_count; u++) only_affines = only_affines && x->users[u]->op == ITG_OP_AFFINE;
    if (only_affines) want(plan, x, 16);
  }
}

// A function whose result has 16 bits reads 16 bits where that is free: behind an accumulator.
static void apply_function_inputs(itg_quantize_plan *plan) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
    if (!itg_unary_is_smooth(node->op) || !output || output->bits != 16 || node->inputs[0]->is_input) continue;
    if (itg_tensor_only_user(node->inputs[0])) want(plan, node->inputs[0], 16);
  }
}

// Producers write the bits that a view of their output needs, so that the code is rounded once.
static void propagate_through_views(itg_quantize_plan *plan) {
  for (itg_node *node = plan->graph->last; node; node = node->previous) {
    const itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
    if (!itg_op_moves_codes(node->op) || !output || output->bits != 16) continue;
    for (int32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] && !node->inputs[i]->is_input) want(plan, node->inputs[i], 16);
    }
  }
}

static bool is_key_or_value(const itg_node *node, const itg_tensor *tensor) {
  return node->op == ITG_OP_ATTENTION && node->inputs[ITG_ATTENTION_Q] != tensor &&
         (node->inputs[ITG_ATTENTION_K] == tensor || node->inputs[ITG_ATTENTION_V] == tensor);
}

// True when every reader takes the tensor as the second operand of a MatMul or attention, directly or through a view.
static bool only_second_operand(const itg_quantize_plan *plan, const itg_tensor *tensor) {
  if (tensor->user_count == 0 || tensor->is_output || tensor->is_input) return false;
  for (int32_t u = 0; u < tensor->user_count; u++) {
    const itg_node *user = tensor->users[u];
    if (user->op == ITG_OP_MATMUL && user->inputs[0] != tensor) continue;
    if (is_key_or_value(user, tensor)) continue;
    const itg_activation_entry *output = itg_plan_entry(plan, user->outputs[0]);
    if (!itg_op_moves_codes(user->op) || user->op == ITG_OP_CONCAT || !output || !output->symmetric) return false;
  }
  return true;
}

static void mark_fixed(itg_quantize_plan *plan) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    itg_activation_entry *entry = itg_plan_entry(plan, node->outputs[0]);
    if (!entry || entry->symmetric) continue;
    // A u8 Softmax keeps its calibrated scale: long flat rows never come near 1.
    entry->fixed = node->op == ITG_OP_SIGMOID || (node->op == ITG_OP_SOFTMAX && entry->bits == 16);
  }
}

// True when operand `index` of the node must have 8 bits although its tensor has 16.
static bool takes_eight(const itg_quantize_plan *plan, const itg_node *node, int32_t index, bool uniform16) {
  const itg_tensor *tensor = node->inputs[index];
  const itg_activation_entry *entry = itg_plan_entry(plan, tensor);
  const itg_activation_entry *output = itg_plan_entry(plan, node->outputs[0]);
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE:
  case ITG_OP_FULLY_CONNECTED:
    if (plan->target && output && output->bits == 16) return false;
    return index == 0 && !uniform16 && !entry->chosen && !(output && output->bits == 16 && output->wide_product);
  case ITG_OP_MATMUL:
    if (index == 1) return true;
    return !uniform16 && !entry->chosen && !(tensor->producer && tensor->producer->op == ITG_OP_SOFTMAX);
  default: return itg_op_moves_codes(node->op) && output && output->bits == 8;
  }
}

// An NPU's matrix operation answers in as many bits as it gets: a narrow second operand is then a Convert of its own.
static bool answers_wide(const itg_quantize_plan *plan, const itg_node *node, bool uniform16) {
  if (!plan->target || itg_op_moves_codes(node->op)) return false;
  const itg_activation_entry *input = itg_plan_entry(plan, node->inputs[0]);
  return input && input->bits == 16 && !takes_eight(plan, node, 0, uniform16);
}

static void apply_second_operands(itg_quantize_plan *plan, bool uniform16) {
  for (itg_node *node = plan->graph->last; node; node = node->previous) {
    itg_activation_entry *entry = itg_plan_entry(plan, node->outputs[0]);
    if (!entry || node->op == ITG_OP_SOFTMAX || !only_second_operand(plan, node->outputs[0])) continue;
    if (answers_wide(plan, node, uniform16)) continue;
    // A recipe may ask for caches of 16 bits.
    const bool wide =
        entry->chosen && entry->bits == 16 && is_key_or_value(node->outputs[0]->users[0], node->outputs[0]);
    if (!wide) entry->bits = 8;
    entry->symmetric = true;
  }
}

itg_status itg_plan_convert(itg_quantize_plan *plan, itg_tensor *tensor, int32_t bits, bool symmetric,
                            itg_diagnostic *diagnostic, itg_tensor **out) {
  itg_tensor *converted = itg_graph_add_tensor(plan->graph, tensor->name, ITG_DTYPE_F32, &tensor->shape);
  ITG_TRY_MEMORY(converted, diagnostic);
  itg_node *before = tensor->producer ? tensor->producer->next : plan->graph->first;
  ITG_TRY_MEMORY(
      itg_graph_insert_node(plan->graph, before, ITG_OP_IDENTITY, converted->name, &tensor, 1, &converted, 1),
      diagnostic);
  const itg_activation_entry source = *itg_plan_entry(plan, tensor);
  ITG_TRY(itg_plan_add(plan, converted, source.statistics, diagnostic));
  itg_activation_entry *entry = itg_plan_entry(plan, converted);
  entry->bits = bits;
  entry->symmetric = symmetric;
  entry->range_method = source.range_method;
  *out = converted;
  return ITG_OK;
}

// Inserts one Convert behind `tensor` for all readers that take 8 bits; `second` ones need a symmetric code.
static itg_status convert_readers(itg_quantize_plan *plan, size_t index, bool uniform16, bool second,
                                  itg_diagnostic *diagnostic) {
  itg_tensor *tensor = plan->entries[index].tensor;
  const bool wide = plan->entries[index].bits == 16;
  itg_tensor *converted = NULL;
  for (int32_t u = 0; u < tensor->user_count;) {
    itg_node *user = tensor->users[u];
    bool changed = false;
    for (int32_t i = 0; i < user->input_count; i++) {
      if (user->inputs[i] != tensor) continue;
      const bool is_second = user->op == ITG_OP_MATMUL && i == 1;
      if (is_second != second) continue;
      const bool needed = is_second ? !plan->entries[index].symmetric : wide && takes_eight(plan, user, i, uniform16);
      if (!needed) continue;
      if (!converted) ITG_TRY(itg_plan_convert(plan, tensor, 8, second, diagnostic, &converted));
      ITG_TRY_MEMORY(itg_node_set_input(user, i, converted), diagnostic);
      changed = true;
    }
    if (!changed) u++; // Otherwise the list of users moved up.
  }
  return ITG_OK;
}

itg_status itg_plan_precision(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  const bool uniform16 = itg_recipe_operand_bits(plan->recipe) == 16;
  apply_recipe(plan, uniform16 ? 16 : 8);
  apply_arithmetic(plan);
  if (strcmp(plan->recipe->precision, "a8w8+s16") == 0) {
    apply_stream(plan);
    if (!plan->target) { // An NPU's operations answer in as many bits as they get.
      apply_affine_inputs(plan);
      apply_function_inputs(plan);
    }
    ITG_TRY(itg_plan_head(plan, diagnostic));
    propagate_through_views(plan);
  }
  itg_plan_target_bits(plan);
  if (uniform16 && !plan->target && itg_method_is_on(plan->recipe->methods_off, ITG_METHOD_SPLIT_VALUES))
    ITG_TRY(itg_plan_split_values(plan, diagnostic));
  apply_second_operands(plan, uniform16);
  mark_fixed(plan);
  const size_t count = plan->count;
  for (size_t i = 0; i < count; i++) {
    ITG_TRY(convert_readers(plan, i, uniform16, false, diagnostic));
    ITG_TRY(convert_readers(plan, i, uniform16, true, diagnostic));
  }
  return itg_plan_target_widen(plan, diagnostic);
}
