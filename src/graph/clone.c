// A deep copy of a graph. Mapped and other borrowed constants stay shared; everything else is copied into the new arena.
#include <string.h>

#include "graph/graph.h"

static const itg_encoding *copy_encoding(itg_graph *copy, const itg_encoding *encoding) {
  itg_encoding *result = itg_arena_copy(&copy->arena, encoding, sizeof *encoding);
  if (!result) return NULL;
  result->scales = itg_arena_copy(&copy->arena, encoding->scales, (size_t)encoding->count * sizeof(double));
  if (!result->scales) return NULL;
  if (encoding->zero_points) {
    result->zero_points =
        itg_arena_copy(&copy->arena, encoding->zero_points, (size_t)encoding->count * sizeof(int32_t));
    if (!result->zero_points) return NULL;
  }
  return result;
}

// Tensors are found again by the address of the original, so that the source graph is only read.
static itg_tensor *find(const itg_map *copies, const itg_tensor *tensor) {
  return tensor ? itg_map_get(copies, (const char *)&tensor, sizeof tensor) : NULL;
}

static itg_status copy_tensors(const itg_graph *graph, itg_map *copies, itg_graph *copy, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < graph->tensor_count; i++) {
    const itg_tensor *tensor = graph->tensors[i];
    if (!tensor) continue;
    itg_tensor *made = itg_graph_add_borrowed(copy, tensor->name, tensor->dtype, &tensor->shape, tensor->data);
    ITG_TRY_MEMORY(made, diagnostic);
    if (tensor->encoding) {
      made->encoding = copy_encoding(copy, tensor->encoding);
      ITG_TRY_MEMORY(made->encoding, diagnostic);
    }
    ITG_TRY_MEMORY(itg_map_set(copies, (const char *)&graph->tensors[i], sizeof graph->tensors[i], made), diagnostic);
  }
  return ITG_OK;
}

static itg_status copy_node(const itg_node *node, const itg_map *copies, itg_graph *copy, itg_diagnostic *diagnostic) {
  const size_t inputs = (size_t)node->input_count, outputs = (size_t)node->output_count;
  itg_tensor **links = itg_arena_array(&copy->arena, inputs + outputs, sizeof links[0]);
  ITG_TRY_MEMORY(links, diagnostic);
  for (size_t i = 0; i < inputs; i++) links[i] = find(copies, node->inputs[i]);
  for (size_t i = 0; i < outputs; i++) links[inputs + i] = find(copies, node->outputs[i]);
  itg_node *made = itg_graph_insert_node(copy, NULL, node->op, node->name, links, node->input_count, links + inputs,
                                         node->output_count);
  ITG_TRY_MEMORY(made, diagnostic);
  made->attributes = node->attributes;
  return ITG_OK;
}

static itg_status copy_all(const itg_graph *graph, itg_map *copies, itg_graph *copy, itg_diagnostic *diagnostic) {
  copy->stage = graph->stage;
  copy->next_id = graph->next_id;
  copy->name = itg_arena_string(&copy->arena, graph->name, strlen(graph->name));
  ITG_TRY_MEMORY(copy->name, diagnostic);
  if (graph->source_metadata) {
    copy->source_metadata = itg_arena_string(&copy->arena, graph->source_metadata, strlen(graph->source_metadata));
    ITG_TRY_MEMORY(copy->source_metadata, diagnostic);
  }
  ITG_TRY(copy_tensors(graph, copies, copy, diagnostic));
  ITG_FOR_EACH_NODE(node, graph) { ITG_TRY(copy_node(node, copies, copy, diagnostic)); }
  for (int32_t i = 0; i < graph->input_count; i++)
    ITG_TRY_MEMORY(itg_graph_add_input(copy, find(copies, graph->inputs[i])), diagnostic);
  for (int32_t i = 0; i < graph->output_count; i++)
    ITG_TRY_MEMORY(itg_graph_add_output(copy, find(copies, graph->outputs[i])), diagnostic);
  return ITG_OK;
}

itg_status itg_graph_clone(const itg_graph *graph, itg_diagnostic *diagnostic, itg_graph **out) {
  itg_graph *copy = NULL;
  ITG_TRY(itg_graph_create(diagnostic, &copy));
  itg_map copies = {0};
  const itg_status status = copy_all(graph, &copies, copy, diagnostic);
  itg_map_free(&copies);
  if (status != ITG_OK) {
    itg_graph_destroy(copy);
    return status;
  }
  *out = copy;
  return ITG_OK;
}
