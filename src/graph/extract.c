// See extract.h.
#include "graph/extract.h"

#include <string.h>

typedef struct extraction {
  const itg_graph *source;
  itg_graph *graph;
  itg_map stops;  // Names of the inputs.
  itg_map needed; // Names of tensors that must be computed or given.
  itg_map made;   // Name -> tensor of the new graph.
  itg_diagnostic *diagnostic;
} extraction;

static bool has(const itg_map *map, const itg_tensor *tensor) {
  return itg_map_get(map, tensor->name, strlen(tensor->name)) != NULL;
}

static itg_status put(extraction *e, itg_map *map, const itg_tensor *tensor, void *value) {
  ITG_TRY_MEMORY(itg_map_set(map, tensor->name, strlen(tensor->name), value), e->diagnostic);
  return ITG_OK;
}

static bool makes_needed(const extraction *e, const itg_node *node) {
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *y = node->outputs[i];
    if (y && has(&e->needed, y) && !has(&e->stops, y)) return true;
  }
  return false;
}

static itg_status find_tensor(extraction *e, itg_tensor *tensor, itg_tensor **out) {
  *out = NULL;
  if (!tensor) return ITG_OK;
  *out = itg_map_get(&e->made, tensor->name, strlen(tensor->name));
  if (*out) return ITG_OK;
  *out = itg_graph_add_borrowed(e->graph, tensor->name, tensor->dtype, &tensor->shape, tensor->data);
  ITG_TRY_MEMORY(*out, e->diagnostic);
  (*out)->encoding = tensor->encoding;
  return put(e, &e->made, tensor, *out);
}

static itg_status copy_node(extraction *e, const itg_node *node) {
  const int32_t inputs = node->input_count, outputs = node->output_count;
  itg_tensor **links = itg_arena_array(&e->graph->arena, (size_t)(inputs + outputs), sizeof links[0]);
  ITG_TRY_MEMORY(links, e->diagnostic);
  for (int32_t i = 0; i < inputs; i++) ITG_TRY(find_tensor(e, node->inputs[i], &links[i]));
  for (int32_t i = 0; i < outputs; i++) ITG_TRY(find_tensor(e, node->outputs[i], &links[inputs + i]));
  itg_node *made = itg_graph_insert_node(e->graph, NULL, node->op, node->name, links, inputs, links + inputs, outputs);
  ITG_TRY_MEMORY(made, e->diagnostic);
  made->attributes = node->attributes;
  return ITG_OK;
}

static itg_status extract(extraction *e, itg_tensor *const *inputs, int32_t input_count, itg_tensor *const *outputs,
                          int32_t output_count) {
  e->graph->stage = e->source->stage;
  e->graph->name = itg_arena_string(&e->graph->arena, e->source->name, strlen(e->source->name));
  ITG_TRY_MEMORY(e->graph->name, e->diagnostic);
  for (int32_t i = 0; i < input_count; i++) ITG_TRY(put(e, &e->stops, inputs[i], inputs[i]));
  for (int32_t i = 0; i < output_count; i++) ITG_TRY(put(e, &e->needed, outputs[i], outputs[i]));
  for (const itg_node *node = e->source->last; node; node = node->previous) {
    for (int32_t i = 0; makes_needed(e, node) && i < node->input_count; i++) {
      itg_tensor *x = node->inputs[i];
      if (x && !x->data) ITG_TRY(put(e, &e->needed, x, x));
    }
  }
  for (int32_t i = 0; i < input_count; i++) {
    itg_tensor *input;
    if (!has(&e->needed, inputs[i])) continue;
    ITG_TRY(find_tensor(e, inputs[i], &input));
    ITG_TRY_MEMORY(itg_graph_add_input(e->graph, input), e->diagnostic);
  }
  ITG_FOR_EACH_NODE(node, e->source) {
    if (!makes_needed(e, node)) continue;
    for (int32_t i = 0; i < node->input_count; i++) {
      const itg_tensor *x = node->inputs[i];
      if (x && !x->data && !x->producer && !has(&e->stops, x))
        ITG_FAIL(e->diagnostic, ITG_ERROR_ARGUMENT, x->name, "is needed and is none of the part's inputs");
    }
    ITG_TRY(copy_node(e, node));
  }
  for (int32_t i = 0; i < output_count; i++) {
    itg_tensor *output;
    ITG_TRY(find_tensor(e, outputs[i], &output));
    if (!output->producer)
      ITG_FAIL(e->diagnostic, ITG_ERROR_ARGUMENT, output->name, "is computed by no node of the part");
    ITG_TRY_MEMORY(itg_graph_add_output(e->graph, output), e->diagnostic);
  }
  return ITG_OK;
}

itg_status itg_graph_extract(const itg_graph *graph, itg_tensor *const *inputs, int32_t input_count,
                             itg_tensor *const *outputs, int32_t output_count, itg_diagnostic *diagnostic,
                             itg_graph **out) {
  extraction e = {.source = graph, .diagnostic = diagnostic};
  ITG_TRY(itg_graph_create(diagnostic, &e.graph));
  const itg_status status = extract(&e, inputs, input_count, outputs, output_count);
  itg_map_free(&e.stops);
  itg_map_free(&e.needed);
  itg_map_free(&e.made);
  if (status != ITG_OK) {
    itg_graph_destroy(e.graph);
    return status;
  }
  *out = e.graph;
  return ITG_OK;
}
