// The order of the steps of quantization. See quantize.h and plan.h.
#include "quantize/quantize.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/plan.h"

itg_node_choice itg_recipe_choice(const itg_recipe *recipe, const itg_node *node) {
  itg_node_choice choice = {.range_method = recipe->range_method,
                            .weight_method = recipe->weight_method,
                            .weight_block = recipe->weight_block};
  for (size_t i = 0; i < recipe->rule_count; i++) {
    const itg_recipe_rule *rule = &recipe->rules[i];
    if (rule->input) continue;
    if (rule->op && strcmp(rule->op, itg_op_name((int)node->op)) != 0) continue;
    if (rule->name && fnmatch(rule->name, node->name, 0) != 0) continue;
    if (rule->activation_bits) choice.activation_bits = rule->activation_bits;
    if (rule->weight_bits) choice.weight_bits = rule->weight_bits;
    if (rule->weight_block >= 0) choice.weight_block = rule->weight_block;
    if (rule->range_method >= 0) choice.range_method = rule->range_method;
    if (rule->weight_method >= 0) choice.weight_method = rule->weight_method;
  }
  return choice;
}

int32_t itg_recipe_input_bits(const itg_recipe *recipe, const char *input) {
  int32_t bits = 0;
  for (size_t i = 0; i < recipe->rule_count; i++) {
    const itg_recipe_rule *rule = &recipe->rules[i];
    if (rule->input && rule->activation_bits && fnmatch(rule->input, input, 0) == 0) bits = rule->activation_bits;
  }
  return bits;
}

itg_status itg_plan_add(itg_quantize_plan *plan, itg_tensor *tensor, const itg_tensor_statistics *statistics,
                        itg_diagnostic *diagnostic) {
  if (plan->count == plan->capacity) {
    const size_t capacity = plan->capacity ? plan->capacity * 2 : 256;
    itg_activation_entry *grown = realloc(plan->entries, capacity * sizeof *grown);
    ITG_TRY_MEMORY(grown, diagnostic);
    plan->entries = grown;
    plan->capacity = capacity;
  }
  tensor->index = (int64_t)plan->count;
  plan->entries[plan->count] = (itg_activation_entry){.tensor = tensor,
                                                      .statistics = statistics,
                                                      .range_method = plan->recipe->range_method,
                                                      .parent = plan->count,
                                                      .low = statistics ? fmin(statistics->low, 0) : 0,
                                                      .high = statistics ? fmax(statistics->high, 0) : 0,
                                                      .is_input = tensor->is_input};
  plan->count++;
  return ITG_OK;
}

size_t itg_plan_group(itg_quantize_plan *plan, size_t index) {
  itg_activation_entry *entries = plan->entries;
  while (entries[index].parent != index) {
    entries[index].parent = entries[entries[index].parent].parent; // Halves the path.
    index = entries[index].parent;
  }
  return index;
}

const itg_encoding *itg_encoding_create(itg_graph *graph, itg_dtype storage, int32_t axis, int64_t count,
                                        const double *scales, const int32_t *zero_points) {
  itg_encoding *encoding = itg_arena_allocate(&graph->arena, sizeof *encoding);
  double *own_scales = itg_arena_copy(&graph->arena, scales, (size_t)count * sizeof scales[0]);
  int32_t *own_zeros =
      zero_points ? itg_arena_copy(&graph->arena, zero_points, (size_t)count * sizeof zero_points[0]) : NULL;
  if (!encoding || !own_scales || (zero_points && !own_zeros)) return NULL;
  *encoding =
      (itg_encoding){.storage = storage, .axis = axis, .count = count, .scales = own_scales, .zero_points = own_zeros};
  return encoding;
}

static itg_status add_entries(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  itg_graph *graph = plan->graph;
  const size_t tensor_count = graph->tensor_count;
  for (size_t i = 0; i < tensor_count; i++) {
    itg_tensor *tensor = graph->tensors[i];
    if (!tensor) continue;
    tensor->index = -1;
    if (tensor->data || tensor->dtype != ITG_DTYPE_F32 || (!tensor->producer && !tensor->is_input)) continue;
    if (itg_tensor_is_state(tensor)) continue; // Its encoding is that of what is written into it.
    const itg_tensor_statistics *statistics = itg_statistics_of(plan->statistics, tensor);
    size_t count;
    if (!statistics && itg_shape_count(&tensor->shape, &count) && count > 0)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "the activation has no calibration statistics");
    ITG_TRY(itg_plan_add(plan, tensor, statistics, diagnostic));
  }
  return ITG_OK;
}

// Caches hold the codes of the keys and values that were written into them.
static void encode_caches(const itg_graph *graph) {
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op != ITG_OP_ATTENTION) continue;
    for (int32_t i = 0; i < 2; i++) {
      itg_tensor *cache = itg_node_input(node, ITG_ATTENTION_K_CACHE + i);
      if (cache) cache->encoding = node->inputs[ITG_ATTENTION_K + i]->encoding;
    }
  }
}

static itg_status run(itg_quantize_plan *plan, itg_diagnostic *diagnostic, itg_graph **twin) {
  ITG_TRY(add_entries(plan, diagnostic));
  ITG_TRY(itg_plan_import_qdq(plan, diagnostic));
  ITG_TRY(itg_plan_masks(plan, diagnostic));
  ITG_TRY(itg_plan_precision(plan, diagnostic));
  itg_plan_groups(plan);
  ITG_TRY(itg_plan_ranges(plan, diagnostic));
  ITG_TRY(itg_plan_target_snap(plan, diagnostic));
  ITG_TRY(itg_plan_moves(plan, diagnostic));
  encode_caches(plan->graph);
  if (twin) ITG_TRY(itg_graph_clone(plan->graph, diagnostic, twin));
  return itg_plan_weights(plan, diagnostic);
}

itg_status itg_quantize_with_twin(itg_graph *graph, const itg_statistics *statistics, const itg_recipe *recipe,
                                  const itg_target *target, itg_pool *pool, itg_diagnostic *diagnostic,
                                  itg_graph **twin) {
  itg_quantize_plan plan = {.graph = graph, .statistics = statistics, .recipe = recipe, .target = target, .pool = pool};
  itg_graph *copy = NULL;
  const itg_status status = run(&plan, diagnostic, twin ? &copy : NULL);
  free(plan.entries);
  if (status != ITG_OK) {
    itg_graph_destroy(copy);
    return status;
  }
  graph->stage = ITG_STAGE_QUANTIZED;
  if (twin) *twin = copy;
  return ITG_OK;
}

itg_status itg_quantize(itg_graph *graph, const itg_statistics *statistics, const itg_recipe *recipe,
                        const itg_target *target, itg_pool *pool, itg_diagnostic *diagnostic) {
  return itg_quantize_with_twin(graph, statistics, recipe, target, pool, diagnostic, NULL);
}
