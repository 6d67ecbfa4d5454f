// Attention values in two bytes: P*V = P*H + P*L, H the values in 8 bits and L what H lost, in 8 bits of a 254th of the scale.
//
// The second operand of a matrix product has 8 bits, so where everything else has 16, values are what limits attention
// (MiniLM, a16w8: values alone leave 33 dB at the output, keys alone 44). In real arithmetic L is 0 and the split exact.
#include <math.h>

#include "quantize/plan.h"

// Values beyond what was seen go into H; its coarser steps cost nothing, because L holds them.
static const double headroom = 1.25, half_step = 0.51;

static itg_status add_entry(itg_quantize_plan *plan, itg_tensor *tensor, int32_t bits, bool symmetric, double low,
                            double high, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_plan_add(plan, tensor, NULL, diagnostic));
  itg_activation_entry *entry = itg_plan_entry(plan, tensor);
  entry->bits = bits;
  entry->symmetric = symmetric;
  entry->range_method = ITG_RANGE_MIN_MAX;
  entry->chosen = true;
  entry->low = low;
  entry->high = high;
  return ITG_OK;
}

// A node before `before` and its output, shaped like `like`.
static itg_status add_node(itg_quantize_plan *plan, itg_node *before, itg_op op, const itg_tensor *like,
                           itg_tensor *const *inputs, int32_t count, itg_diagnostic *diagnostic, itg_tensor **out) {
  itg_tensor *output = itg_graph_add_tensor(plan->graph, like->name, ITG_DTYPE_F32, &like->shape);
  ITG_TRY_MEMORY(output, diagnostic);
  itg_node *node = itg_graph_insert_node(plan->graph, before, op, before->name, inputs, count, &output, 1);
  ITG_TRY_MEMORY(node, diagnostic);
  if (op == ITG_OP_MATMUL) node->attributes = before->attributes;
  *out = output;
  return ITG_OK;
}

static itg_status split(itg_quantize_plan *plan, itg_node *product, itg_diagnostic *diagnostic) {
  itg_tensor *p = product->inputs[0], *v = product->inputs[1], *y = product->outputs[0];
  const itg_activation_entry values = *itg_plan_entry(plan, v), result = *itg_plan_entry(plan, y);
  const double reach = headroom * fmax(-values.low, values.high), rest = half_step * reach / 127;
  itg_tensor *high, *difference, *low, *from_high, *from_low;
  ITG_TRY(add_node(plan, product, ITG_OP_IDENTITY, v, &v, 1, diagnostic, &high));
  ITG_TRY(add_entry(plan, high, 8, true, -reach, reach, diagnostic));
  ITG_TRY(add_node(plan, product, ITG_OP_SUB, v, (itg_tensor *[]){v, high}, 2, diagnostic, &difference));
  ITG_TRY(add_entry(plan, difference, 16, false, -rest, rest, diagnostic));
  ITG_TRY(add_node(plan, product, ITG_OP_IDENTITY, v, &difference, 1, diagnostic, &low));
  ITG_TRY(add_entry(plan, low, 8, true, -rest, rest, diagnostic));
  ITG_TRY(add_node(plan, product, ITG_OP_MATMUL, y, (itg_tensor *[]){p, high}, 2, diagnostic, &from_high));
  ITG_TRY(add_entry(plan, from_high, 16, false, result.low, result.high, diagnostic));
  ITG_TRY(add_node(plan, product, ITG_OP_MATMUL, y, (itg_tensor *[]){p, low}, 2, diagnostic, &from_low));
  ITG_TRY(add_entry(plan, from_low, 16, false, -rest, rest, diagnostic));
  product->op = ITG_OP_ADD;
  product->attributes = (itg_attributes){0};
  ITG_TRY_MEMORY(itg_node_set_input(product, 0, from_high) && itg_node_set_input(product, 1, from_low), diagnostic);
  return ITG_OK;
}

itg_status itg_plan_split_values(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    if (node->op != ITG_OP_MATMUL || !node->inputs[0]->producer) continue;
    const itg_activation_entry *values = itg_plan_entry(plan, node->inputs[1]);
    const itg_activation_entry *result = itg_plan_entry(plan, node->outputs[0]);
    if (node->inputs[0]->producer->op != ITG_OP_SOFTMAX || !values || values->bits != 16 || values->tensor->encoding)
      continue;
    if (result && result->bits == 16 && !result->tensor->encoding) ITG_TRY(split(plan, node, diagnostic));
  }
  return ITG_OK;
}
