// Attention masks that add a huge negative number ("the lowest float") to masked logits.
//
// Such a number would eat the whole range of the logits. The mask is scaled down to what Softmax needs: a masked logit
// falls below every logit of its row by 20 or more, where exp is 2e-9. Found by its shape: Softmax(a + m) with m, behind
// views, a product with one constant, and values far below those of a. What the product can reach follows from the operations
// that lead to it, not only from the samples: these may never have masked anything.
#include <math.h>
#include <string.h>

#include "quantize/plan.h"

static const double suspicious = -1000, margin = 20;

// The product that makes the mask, looking back through views; NULL when there is none.
static itg_node *find_product(const itg_tensor *mask) {
  itg_node *node = mask->producer;
  while (node && (itg_op_moves_codes(node->op) && node->input_count == 1)) node = node->inputs[0]->producer;
  if (!node || node->op != ITG_OP_MUL) return NULL;
  return itg_tensor_is_constant(node->inputs[0]) != itg_tensor_is_constant(node->inputs[1]) ? node : NULL;
}

typedef struct interval {
  double low, high; // Empty when low > high: nothing is known.
} interval;
static const interval unknown = {1, 0};

static interval interval_of_constant(const itg_tensor *constant) {
  interval result = {INFINITY, -INFINITY};
  size_t count;
  if (constant->dtype != ITG_DTYPE_F32 || !itg_shape_count(&constant->shape, &count)) return unknown;
  for (size_t i = 0; i < count; i++) {
    float value;
    memcpy(&value, (const char *)constant->data + i * sizeof value, sizeof value);
    result.low = fmin(result.low, (double)value);
    result.high = fmax(result.high, (double)value);
  }
  return result;
}

static interval combine(itg_op op, interval a, interval b) {
  if (a.low > a.high || b.low > b.high) return unknown;
  if (op == ITG_OP_ADD) return (interval){a.low + b.low, a.high + b.high};
  if (op == ITG_OP_SUB) return (interval){a.low - b.high, a.high - b.low};
  const double p = a.low * b.low, q = a.low * b.high, r = a.high * b.low, s = a.high * b.high;
  return (interval){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

// Widens the ranges of what leads to a mask to everything that its operations can give from the calibrated ranges, which hold
// 0, of what they begin with (a cast of the caller's mask), and returns the tensor's.
static interval widen(itg_quantize_plan *plan, const itg_tensor *tensor, int depth) {
  enum { MOST_DEPTH = 16 };
  if (itg_tensor_is_constant(tensor)) return interval_of_constant(tensor);
  itg_activation_entry *entry = itg_plan_entry(plan, tensor);
  if (!entry) return unknown;
  const itg_node *node = tensor->producer;
  interval range = unknown;
  if (node && depth < MOST_DEPTH) {
    if (node->op == ITG_OP_ADD || node->op == ITG_OP_SUB || node->op == ITG_OP_MUL)
      range = combine(node->op, widen(plan, node->inputs[0], depth + 1), widen(plan, node->inputs[1], depth + 1));
    else if (itg_op_moves_codes(node->op) && node->input_count == 1)
      range = widen(plan, node->inputs[0], depth + 1);
    else if (node->op == ITG_OP_CAST && !itg_dtype_is_float(node->inputs[0]->dtype)) // A mask: 0 or 1.
      range = (interval){0, 1};
  }
  if (range.low <= range.high) {
    entry->low = fmin(entry->low, range.low);
    entry->high = fmax(entry->high, range.high);
  }
  return (interval){entry->low, entry->high};
}

static itg_tensor *constant_of(const itg_node *product) {
  return product->inputs[itg_tensor_is_constant(product->inputs[0]) ? 0 : 1];
}

// Multiplies the ranges of everything between the product and its readers by `ratio`, as far as views go.
static void scale_ranges(itg_quantize_plan *plan, const itg_tensor *tensor, double ratio) {
  itg_activation_entry *entry = itg_plan_entry(plan, tensor);
  if (!entry) return;
  entry->low *= ratio;
  entry->high *= ratio;
  for (int32_t u = 0; u < tensor->user_count; u++) {
    const itg_node *user = tensor->users[u];
    if (itg_op_moves_codes(user->op) && user->input_count == 1) scale_ranges(plan, user->outputs[0], ratio);
  }
}

static itg_status scale_constant(itg_quantize_plan *plan, itg_node *product, double ratio, itg_diagnostic *diagnostic) {
  const itg_tensor *constant = constant_of(product);
  size_t count;
  if (constant->dtype != ITG_DTYPE_F32 || !itg_shape_count(&constant->shape, &count)) return ITG_OK;
  itg_tensor *scaled = itg_graph_add_constant(plan->graph, constant->name, ITG_DTYPE_F32, &constant->shape, NULL);
  ITG_TRY_MEMORY(scaled, diagnostic);
  scaled->index = -1;
  for (size_t i = 0; i < count; i++) {
    float value;
    memcpy(&value, (const char *)constant->data + i * sizeof value, sizeof value);
    ((float *)itg_tensor_writable(scaled))[i] = (float)((double)value * ratio);
  }
  const int32_t index = constant == product->inputs[0] ? 0 : 1;
  ITG_TRY_MEMORY(itg_node_set_input(product, index, scaled), diagnostic);
  return ITG_OK;
}

// Masks that the samples did not use show their depth only in the constant.
static void widen_masks(itg_quantize_plan *plan) {
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const itg_node *add = node->op == ITG_OP_SOFTMAX ? node->inputs[0]->producer : NULL;
    for (int32_t i = 0; add && add->op == ITG_OP_ADD && i < 2; i++) {
      const itg_node *product = itg_plan_entry(plan, add->inputs[i]) ? find_product(add->inputs[i]) : NULL;
      if (product && interval_of_constant(constant_of(product)).low < suspicious) widen(plan, add->inputs[i], 0);
    }
  }
}

itg_status itg_plan_masks(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  widen_masks(plan);
  // Widths of the logits decide; the widest of all readers of one mask counts, so collect first.
  double width = 0;
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const itg_node *add = node->op == ITG_OP_SOFTMAX ? node->inputs[0]->producer : NULL;
    if (!add || add->op != ITG_OP_ADD) continue;
    for (int32_t i = 0; i < 2; i++) {
      const itg_activation_entry *logits = itg_plan_entry(plan, add->inputs[1 - i]);
      const itg_activation_entry *mask = itg_plan_entry(plan, add->inputs[i]);
      if (logits && mask && mask->low < suspicious && logits->low >= suspicious)
        width = fmax(width, logits->high - logits->low);
    }
  }
  if (width == 0) return ITG_OK;
  const double lowest = -(width + margin);
  ITG_FOR_EACH_NODE(node, plan->graph) {
    const itg_node *add = node->op == ITG_OP_SOFTMAX ? node->inputs[0]->producer : NULL;
    if (!add || add->op != ITG_OP_ADD) continue;
    for (int32_t i = 0; i < 2; i++) {
      const itg_activation_entry *logits = itg_plan_entry(plan, add->inputs[1 - i]);
      itg_activation_entry *mask = itg_plan_entry(plan, add->inputs[i]);
      if (!logits || !mask || logits->low < suspicious) continue;
      itg_node *product = mask->low < suspicious ? find_product(add->inputs[i]) : NULL;
      if (product) {
        const double ratio = lowest / mask->low;
        ITG_TRY(scale_constant(plan, product, ratio, diagnostic));
        scale_ranges(plan, product->outputs[0], ratio);
      }
      itg_activation_entry *sum = itg_plan_entry(plan, add->outputs[0]);
      if (!sum || sum->low >= suspicious || mask->low < suspicious) continue; // Not touched by a scaled mask.
      sum->low = fmin(0, logits->low + mask->low);
      sum->high = fmax(0, logits->high + mask->high);
    }
  }
  return ITG_OK;
}
