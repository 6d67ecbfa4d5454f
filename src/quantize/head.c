// The network's head: what lies between the last operations with weights and the graph outputs. Nothing after it can average its
// rounding out, and what it holds is what users read: box coordinates, scores, embeddings. So everything there has 16 bits
// (decoding of boxes in 8 bits: RFB-320 finds 87 % of its boxes again with an IoU of 0.9, in 16 bits 93 %).
//
// The last operations with weights write 16 bits at no cost. They also read 16 bits, and what lies before them is the head too,
// where that is cheap: round after round, as long as all of them together make up a small part of the network's products.
// Vectors (one value a channel: from the global pooling or flattening on) are cheap always.
#include <stdlib.h>

#include "plan/task.h"
#include "quantize/plan.h"

static const double cheap = 0.04; // Of all multiply-accumulates.
enum { MOST_ROUNDS = 8 };

static bool is_vector(const itg_tensor *tensor) {
  int large = 0;
  for (int32_t i = 0; i < tensor->shape.rank; i++) large += tensor->shape.dims[i] > 1;
  return tensor->shape.rank >= 2 && large <= 1;
}

// Operations whose operand in 16 bits costs products.
static bool is_weighted(const itg_node *node) {
  return node->op == ITG_OP_CONV || node->op == ITG_OP_CONV_TRANSPOSE || node->op == ITG_OP_FULLY_CONNECTED ||
         node->op == ITG_OP_MATMUL || node->op == ITG_OP_ATTENTION;
}

// Numbers that came in from outside: a graph input, or integers (a mask) made floats.
static bool comes_from_outside(const itg_tensor *tensor) {
  const itg_node *node = tensor->producer;
  return tensor->is_input || (node && node->op == ITG_OP_CAST && !itg_dtype_is_float(node->inputs[0]->dtype));
}

typedef struct head {
  const itg_quantize_plan *plan;
  int32_t *depth; // [entries] Fewest weighted operations up to a graph output; those on vectors do not count.
} head;

static int32_t depth_of(const head *h, const itg_tensor *tensor) {
  return tensor && tensor->index >= 0 ? h->depth[tensor->index] : MOST_ROUNDS;
}

static int32_t output_depth(const head *h, const itg_node *node) {
  int32_t depth = MOST_ROUNDS;
  for (int32_t i = 0; i < node->output_count; i++) {
    if (depth_of(h, node->outputs[i]) < depth) depth = depth_of(h, node->outputs[i]);
  }
  return depth;
}

// Operands that a weighted operation reads in 8 bits whatever its result has do not belong to the head.
static void measure_depths(head *h) {
  for (size_t i = 0; i < h->plan->count; i++) h->depth[i] = h->plan->entries[i].tensor->is_output ? 0 : MOST_ROUNDS;
  for (const itg_node *node = h->plan->graph->last; node; node = node->previous) {
    const bool weighted = is_weighted(node), free_of_cost = !weighted || is_vector(node->outputs[0]);
    const int32_t depth = output_depth(h, node) + (free_of_cost ? 0 : 1);
    for (int32_t i = 0; i < (weighted ? 1 : node->input_count); i++) {
      if (node->inputs[i] && node->inputs[i]->index >= 0 && depth < h->depth[node->inputs[i]->index])
        h->depth[node->inputs[i]->index] = depth;
    }
  }
}

// Rounds whose weighted operations may all read 16 bits.
static int32_t affordable_rounds(const head *h) {
  double total = 0, of_round[MOST_ROUNDS] = {0};
  ITG_FOR_EACH_NODE(node, h->plan->graph) {
    const double products = (double)itg_plan_multiply_accumulates(node);
    const int32_t depth = output_depth(h, node);
    total += products;
    if (depth < MOST_ROUNDS && !is_vector(node->outputs[0])) of_round[depth] += products;
  }
  int32_t rounds = 0;
  for (double sum = 0; rounds < MOST_ROUNDS - 1; rounds++) {
    sum += of_round[rounds];
    if (sum > cheap * total) break;
  }
  return rounds;
}

itg_status itg_plan_head(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  head h = {plan, malloc((plan->count + 1) * sizeof h.depth[0])};
  ITG_TRY_MEMORY(h.depth, diagnostic);
  measure_depths(&h);
  const int32_t rounds = affordable_rounds(&h);
  for (size_t i = 0; i < plan->count; i++) {
    itg_activation_entry *entry = &plan->entries[i];
    if (h.depth[i] > rounds || comes_from_outside(entry->tensor)) continue;
    if (!entry->chosen) entry->bits = 16;
    entry->wide_product = h.depth[i] < rounds || is_vector(entry->tensor);
  }
  free(h.depth);
  return ITG_OK;
}
