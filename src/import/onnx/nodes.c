// The loop over a graph's nodes: finds the converter of each, and collects what is not supported. See importer.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/order.h"

// All nodes of a model, counted as often as functions repeat them: a few nested functions could stand for billions.
enum { MAX_NODES = 1 << 22 };

static itg_status set_current(itg_onnx_importer *importer, const itg_onnx_node *node) {
  importer->node = node;
  itg_span name = node->name;
  if (name.size == 0 && node->outputs.count > 0) name = node->outputs.items[0];
  if (name.size + 1 > importer->node_name_capacity) {
    char *grown = realloc(importer->node_name, name.size + 256);
    ITG_TRY_MEMORY(grown, importer->diagnostic);
    importer->node_name = grown;
    importer->node_name_capacity = name.size + 256;
  }
  if (name.size) memcpy(importer->node_name, name.data, name.size);
  importer->node_name[name.size] = 0;
  snprintf(importer->op_name, sizeof importer->op_name, "%.*s", node->op_type.size < 60 ? (int)node->op_type.size : 60,
           (const char *)node->op_type.data);
  return ITG_OK;
}

static const itg_span *find_function(const itg_onnx_importer *importer) {
  char key[512];
  if (importer->functions.count == 0) return NULL;
  const size_t length = itg_onnx_operation_key(importer->node->domain, importer->node->op_type, key, sizeof key);
  return itg_map_get(&importer->functions, key, length);
}

static itg_status find_converter(const itg_onnx_importer *importer, itg_onnx_converter **converter, int *op) {
  const itg_span domain = importer->node->domain, type = importer->node->op_type;
  const char *reason = NULL;
  *converter = itg_onnx_find_converter(domain, type, op, &reason);
  if (*converter || find_function(importer)) return ITG_OK;
  if (reason) ITG_ONNX_REFUSE(importer, "%s", reason);
  ITG_ONNX_REFUSE(importer, "there is no such operation here (domain '%.*s', opset %lld)",
                  domain.size < 60 ? (int)domain.size : 60, domain.size ? (const char *)domain.data : "",
                  (long long)importer->opset);
}

static itg_status convert(itg_onnx_importer *importer, const itg_onnx_node *node) {
  itg_onnx_converter *converter;
  int op;
  ITG_TRY(find_converter(importer, &converter, &op));
  if (node->outputs.count == 0) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the node has no output");
  return converter ? converter(importer, op) : itg_onnx_inline_function(importer, *find_function(importer));
}

// ---- listing every problem instead of stopping at the first ----

static bool add_problem(itg_onnx_importer *importer, const char *reason) {
  itg_import_problems *list = importer->problems;
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? list->capacity * 2 : 16;
    itg_import_problem *grown = itg_arena_array(&list->arena, capacity, sizeof *grown);
    if (!grown) return false;
    if (list->count) memcpy(grown, list->items, list->count * sizeof *grown);
    list->items = grown;
    list->capacity = capacity;
  }
  const char *texts[] = {importer->node_name, importer->op_name, reason};
  const char *copies[3];
  for (int i = 0; i < 3; i++) {
    copies[i] = itg_arena_string(&list->arena, texts[i], strlen(texts[i]));
    if (!copies[i]) return false;
  }
  list->items[list->count++] = (itg_import_problem){copies[0], copies[1], copies[2]};
  return true;
}

// Stands in for an output of a node that was refused, so that the nodes behind it can still be judged: a tensor of the
// shape that the file notes for the value, or the mark "unusable".
static itg_status bind_stand_in(itg_onnx_importer *importer, size_t index) {
  const itg_span name = importer->node->outputs.items[index];
  if (!itg_onnx_has_output(importer, index) || itg_map_get(&importer->values, (const char *)name.data, name.size))
    return ITG_OK;
  const itg_span *description = // Descriptions speak of the model's own graph.
      importer->call ? NULL : itg_map_get(&importer->descriptions, (const char *)name.data, name.size);
  itg_onnx_value_info info;
  itg_tensor *tensor = &importer->unusable;
  if (description && itg_onnx_value_info_parse(*description, importer->file, importer->diagnostic, &info) == ITG_OK &&
      info.has_shape && itg_onnx_dtype(info.data_type) != ITG_DTYPE_NONE) {
    const itg_shape shape = itg_shape_of(info.rank, info.dims);
    bool known = true;
    for (int i = 0; i < info.rank; i++) known &= shape.dims[i] >= 0;
    if (known) {
      tensor = itg_graph_add_tensor(importer->graph, NULL, itg_onnx_dtype(info.data_type), &shape);
      ITG_TRY_MEMORY(tensor, importer->diagnostic);
    }
  }
  return itg_onnx_bind(importer, index, tensor);
}

static bool reads_unusable(const itg_onnx_importer *importer) {
  for (size_t i = 0; i < importer->node->inputs.count; i++) {
    const itg_span name = importer->node->inputs.items[i];
    if (name.size && itg_map_get(&importer->values, (const char *)name.data, name.size) == &importer->unusable)
      return true;
  }
  return false;
}

static itg_status convert_and_list(itg_onnx_importer *importer, const itg_onnx_node *node) {
  itg_status status;
  const size_t known = importer->problems->count;
  if (known > 0 && reads_unusable(importer)) {
    itg_onnx_converter *converter;
    int op;
    status = find_converter(importer, &converter, &op);
    if (status == ITG_OK) status = itg_onnx_bind_unusable(importer, 0);
  } else {
    status = convert(importer, node);
  }
  if (status != ITG_ERROR_UNSUPPORTED) return status;
  // A sub-graph's own nodes have been listed already.
  if (importer->problems->count == known)
    ITG_TRY_MEMORY(add_problem(importer, importer->diagnostic->message), importer->diagnostic);
  for (size_t i = 0; i < node->outputs.count; i++) ITG_TRY(bind_stand_in(importer, i));
  return ITG_OK;
}

static itg_status convert_all(itg_onnx_importer *importer, const itg_onnx_graph *graph, const uint32_t *order,
                              itg_onnx_node *node) {
  for (size_t i = 0; i < graph->nodes.count; i++) {
    ITG_TRY(itg_onnx_node_parse(graph->nodes.items[order[i]], importer->file, importer->diagnostic, node));
    ITG_TRY(set_current(importer, node));
    ITG_TRY(importer->problems ? convert_and_list(importer, node) : convert(importer, node));
  }
  return ITG_OK;
}

itg_status itg_onnx_import_nodes(itg_onnx_importer *importer, const itg_onnx_graph *graph) {
  const itg_onnx_node *outer = importer->node;
  uint32_t *order = NULL;
  itg_onnx_node node = {0};
  importer->node_total += graph->nodes.count;
  if (importer->node_total > MAX_NODES)
    ITG_FAIL(importer->diagnostic, ITG_ERROR_LIMIT, "graph", "the model has more than %d nodes", MAX_NODES);
  ITG_TRY(itg_onnx_order_nodes(graph, importer->file, importer->diagnostic, &order));
  itg_status status = convert_all(importer, graph, order, &node);
  importer->node = NULL;
  if (outer) { // The name buffer is long enough for it: this cannot fail any more.
    const itg_status restored = set_current(importer, outer);
    if (status == ITG_OK) status = restored;
  }
  itg_onnx_node_free(&node);
  free(order);
  return status;
}
