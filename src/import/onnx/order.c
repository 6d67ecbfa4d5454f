// See order.h. Kahn's algorithm over producer -> reader edges held in one array.
#include "import/onnx/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

typedef struct sorter {
  const itg_onnx_graph *graph;
  const uint8_t *file;
  itg_diagnostic *diagnostic;
  itg_map producers; // Output name -> node index + 1
  uint32_t *pending; // Inputs of a node whose producer is not placed yet.
  size_t *first;     // Edges of node i: readers[first[i] .. first[i + 1]]
  uint32_t *readers, *order;
  bool sorted;
} sorter;

typedef itg_status visit_function(sorter *sort, size_t node, itg_span name, void *context);

// Calls `visit` for every non-empty input (field 1) or output (field 2) name of a node.
static itg_status for_each_name(sorter *sort, size_t node, uint32_t number, visit_function *visit, void *context) {
  itg_wire wire = itg_wire_open(sort->graph->nodes.items[node], sort->file);
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, sort->diagnostic, &field, &more));
    if (!more) return ITG_OK;
    if (field.number == number && field.type == ITG_WIRE_BYTES && field.bytes.size > 0)
      ITG_TRY(visit(sort, node, field.bytes, context));
  }
}

static itg_status add_producer(sorter *sort, size_t node, itg_span name, void *context) {
  (void)context;
  if (itg_map_get(&sort->producers, (const char *)name.data, name.size)) {
    char text[128];
    snprintf(text, sizeof text, "%.*s", name.size < 120 ? (int)name.size : 120, (const char *)name.data);
    ITG_FAIL(sort->diagnostic, ITG_ERROR_FORMAT, text, "two nodes produce this value");
  }
  ITG_TRY_MEMORY(itg_map_set(&sort->producers, (const char *)name.data, name.size, (void *)(uintptr_t)(node + 1)),
                 sort->diagnostic);
  return ITG_OK;
}

static size_t producer_of(const sorter *sort, itg_span name) { // Index + 1, 0 for none.
  return (size_t)(uintptr_t)itg_map_get(&sort->producers, (const char *)name.data, name.size);
}

static itg_status check_order(sorter *sort, size_t node, itg_span name, void *context) {
  (void)context;
  const size_t producer = producer_of(sort, name);
  if (producer > node) sort->sorted = false;
  return ITG_OK;
}

static itg_status count_edge(sorter *sort, size_t node, itg_span name, void *context) {
  (void)context;
  const size_t producer = producer_of(sort, name);
  if (!producer) return ITG_OK;
  sort->first[producer]++; // Counts; turned into places afterwards.
  sort->pending[node]++;
  return ITG_OK;
}

static itg_status place_edge(sorter *sort, size_t node, itg_span name, void *context) {
  size_t *next = context;
  const size_t producer = producer_of(sort, name);
  if (producer) sort->readers[next[producer - 1]++] = (uint32_t)node;
  return ITG_OK;
}

static itg_status report_cycle(sorter *sort) {
  size_t node = 0;
  while (sort->pending[node] == 0) node++;
  itg_onnx_node parsed = {0};
  char text[128] = "graph";
  if (itg_onnx_node_parse(sort->graph->nodes.items[node], sort->file, sort->diagnostic, &parsed) == ITG_OK) {
    const itg_span name = parsed.name.size || !parsed.outputs.count ? parsed.name : parsed.outputs.items[0];
    snprintf(text, sizeof text, "%.*s", name.size < 120 ? (int)name.size : 120, (const char *)name.data);
  }
  itg_onnx_node_free(&parsed);
  ITG_FAIL(sort->diagnostic, ITG_ERROR_FORMAT, text, "the graph has a cycle through this node");
}

static itg_status sort_nodes(sorter *sort) {
  const size_t count = sort->graph->nodes.count;
  sort->pending = calloc(count, sizeof sort->pending[0]);
  sort->first = calloc(2 * count + 1, sizeof sort->first[0]);
  ITG_TRY_MEMORY(sort->pending && sort->first, sort->diagnostic);
  for (size_t i = 0; i < count; i++) ITG_TRY(for_each_name(sort, i, 1, count_edge, NULL));
  for (size_t i = 0; i < count; i++) sort->first[i + 1] += sort->first[i];
  sort->readers = malloc((sort->first[count] + 1) * sizeof sort->readers[0]);
  ITG_TRY_MEMORY(sort->readers, sort->diagnostic);
  size_t *next = sort->first + count + 1;
  memcpy(next, sort->first, count * sizeof *next);
  for (size_t i = 0; i < count; i++) ITG_TRY(for_each_name(sort, i, 1, place_edge, next));
  size_t placed = 0;
  for (size_t i = 0; i < count; i++) {
    if (sort->pending[i] == 0) sort->order[placed++] = (uint32_t)i;
  }
  for (size_t done = 0; done < placed; done++) {
    const size_t node = sort->order[done];
    for (size_t e = sort->first[node]; e < sort->first[node + 1]; e++) {
      if (--sort->pending[sort->readers[e]] == 0) sort->order[placed++] = sort->readers[e];
    }
  }
  return placed == count ? ITG_OK : report_cycle(sort);
}

static itg_status order_nodes(sorter *sort) {
  const size_t count = sort->graph->nodes.count;
  sort->order = malloc((count + 1) * sizeof sort->order[0]);
  ITG_TRY_MEMORY(sort->order, sort->diagnostic);
  for (size_t i = 0; i < count; i++) {
    sort->order[i] = (uint32_t)i;
    ITG_TRY(for_each_name(sort, i, 2, add_producer, NULL));
  }
  sort->sorted = true;
  for (size_t i = 0; i < count && sort->sorted; i++) ITG_TRY(for_each_name(sort, i, 1, check_order, NULL));
  return sort->sorted ? ITG_OK : sort_nodes(sort);
}

itg_status itg_onnx_order_nodes(const itg_onnx_graph *graph, const uint8_t *file, itg_diagnostic *diagnostic,
                                uint32_t **order) {
  sorter sort = {.graph = graph, .file = file, .diagnostic = diagnostic};
  const itg_status status = order_nodes(&sort);
  itg_map_free(&sort.producers);
  free(sort.pending);
  free(sort.first);
  free(sort.readers);
  if (status != ITG_OK) {
    free(sort.order);
    return status;
  }
  *order = sort.order;
  return ITG_OK;
}
