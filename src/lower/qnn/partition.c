// See partition.h.
#include "lower/qnn/partition.h"

#include <stdio.h>
#include <string.h>

typedef struct splitter {
  const itg_graph *graph;
  itg_qnn_partition *result;
  const itg_node **nodes;
  double *work;    // Multiplications of each node.
  itg_map numbers; // Address of a node -> &numbers_of[i]
  size_t *numbers_of;
  itg_diagnostic *diagnostic;
} splitter;

static double count_of(const itg_tensor *tensor) {
  double count = 1;
  for (int32_t i = 0; i < tensor->shape.rank; i++) count *= (double)tensor->shape.dims[i];
  return count;
}

static double work_of(const itg_node *node) {
  switch (node->op) {
  case ITG_OP_Q_CONV:
    return count_of(node->outputs[0]) * count_of(node->inputs[1]) / (double)node->inputs[1]->shape.dims[0];
  case ITG_OP_Q_CONV_TRANSPOSE:
    return count_of(node->inputs[0]) * count_of(node->inputs[1]) /
           (double)node->inputs[1]->shape.dims[node->inputs[1]->shape.rank - 1];
  case ITG_OP_Q_FULLY_CONNECTED:
  case ITG_OP_Q_MATMUL:
    return count_of(node->outputs[0]) * (double)node->inputs[0]->shape.dims[node->inputs[0]->shape.rank - 1];
  default: return 0;
  }
}

// Number of the node that makes a tensor, or SIZE_MAX for inputs and constants.
static size_t producer_of(const splitter *s, const itg_tensor *tensor) {
  if (!tensor || !tensor->producer) return SIZE_MAX;
  const itg_node *node = tensor->producer;
  const size_t *number = itg_map_get(&s->numbers, (const char *)&node, sizeof node);
  return number ? *number : SIZE_MAX;
}

static itg_status number_nodes(splitter *s, const char *const *refusals) {
  itg_qnn_partition *r = s->result;
  r->node_count = (size_t)s->graph->node_count;
  s->nodes = itg_arena_array(&r->arena, r->node_count, sizeof s->nodes[0]);
  s->work = itg_arena_array(&r->arena, r->node_count, sizeof s->work[0]);
  s->numbers_of = itg_arena_array(&r->arena, r->node_count, sizeof s->numbers_of[0]);
  r->places = itg_arena_array(&r->arena, r->node_count, sizeof r->places[0]);
  r->reasons = itg_arena_array(&r->arena, r->node_count, sizeof r->reasons[0]);
  ITG_TRY_MEMORY(s->nodes && s->work && s->numbers_of && r->places && r->reasons, s->diagnostic);
  size_t i = 0;
  ITG_FOR_EACH_NODE(node, s->graph) {
    s->nodes[i] = node;
    s->work[i] = work_of(node);
    s->numbers_of[i] = i;
    ITG_TRY_MEMORY(itg_map_set(&s->numbers, (const char *)&s->nodes[i], sizeof s->nodes[i], &s->numbers_of[i]),
                   s->diagnostic);
    if (refusals[i] && refusals[i][0]) {
      r->reasons[i] = itg_arena_string(&r->arena, refusals[i], strlen(refusals[i]));
      ITG_TRY_MEMORY(r->reasons[i], s->diagnostic);
    }
    i++;
  }
  return ITG_OK;
}

// Marks everything that node `from` needs (its ancestors, itself included) or that needs it. Returns the work marked.
static double mark(const splitter *s, size_t from, bool ancestors, uint8_t *marked) {
  const size_t count = s->result->node_count;
  memset(marked, 0, count);
  marked[from] = 1;
  double work = 0;
  for (size_t k = 0; k < count; k++) {
    const size_t i = ancestors ? count - 1 - k : k;
    for (int32_t j = 0; j < s->nodes[i]->input_count; j++) {
      const size_t producer = producer_of(s, s->nodes[i]->inputs[j]);
      if (producer == SIZE_MAX) continue;
      if (ancestors && marked[i]) marked[producer] = 1;
      if (!ancestors && marked[producer]) marked[i] = 1;
    }
  }
  for (size_t i = 0; i < count; i++) work += marked[i] ? s->work[i] : 0;
  return work;
}

static itg_status place(splitter *s, const uint8_t *marked, itg_qnn_place where, size_t because) {
  itg_qnn_partition *r = s->result;
  for (size_t i = 0; i < r->node_count; i++) {
    if (!marked[i] || r->places[i] == ITG_QNN_BEFORE) continue;
    r->places[i] = where;
    if (r->reasons[i]) continue;
    char text[200];
    snprintf(text, sizeof text,
             where == ITG_QNN_BEFORE ? "needed by %.120s, which is computed on the CPU"
                                     : "needs %.120s, which is computed on the CPU",
             s->nodes[because]->name);
    r->reasons[i] = itg_arena_string(&r->arena, text, strlen(text));
    ITG_TRY_MEMORY(r->reasons[i], s->diagnostic);
  }
  return ITG_OK;
}

static itg_status place_all(splitter *s) {
  itg_qnn_partition *r = s->result;
  uint8_t *before = itg_arena_allocate(&r->arena, r->node_count);
  uint8_t *behind = itg_arena_allocate(&r->arena, r->node_count);
  ITG_TRY_MEMORY(before && behind, s->diagnostic);
  r->refused = itg_arena_array(&r->arena, r->node_count, sizeof r->refused[0]);
  ITG_TRY_MEMORY(r->refused, s->diagnostic);
  for (size_t i = 0; i < r->node_count; i++) r->refused[i] = r->reasons[i] != NULL;
  // Earlier ones first: what stands before the context stays there.
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < r->node_count; i++) {
      if (!r->refused[i] || r->places[i] != ITG_QNN_ON_NPU) continue;
      const bool first = mark(s, i, true, before) <= mark(s, i, false, behind);
      if (pass == 0 && first) ITG_TRY(place(s, before, ITG_QNN_BEFORE, i));
      if (pass == 1) ITG_TRY(place(s, behind, ITG_QNN_BEHIND, i));
    }
  }
  return ITG_OK;
}

static bool is_on_npu(const splitter *s, const itg_tensor *tensor) {
  const size_t producer = producer_of(s, tensor);
  return producer != SIZE_MAX && s->result->places[producer] == ITG_QNN_ON_NPU;
}

static itg_status add_once(splitter *s, itg_tensor **list, int32_t *count, itg_map *known, itg_tensor *tensor) {
  if (itg_map_get(known, tensor->name, strlen(tensor->name))) return ITG_OK;
  list[(*count)++] = tensor;
  ITG_TRY_MEMORY(itg_map_set(known, tensor->name, strlen(tensor->name), tensor), s->diagnostic);
  return ITG_OK;
}

// Inputs in the graph's order first, so that a graph that is wholly on the NPU keeps its own.
static itg_status find_borders(splitter *s, itg_map *inputs, itg_map *outputs) {
  itg_qnn_partition *r = s->result;
  const itg_graph *graph = s->graph;
  r->inputs = itg_arena_array(&r->arena, graph->tensor_count, sizeof r->inputs[0]);
  r->outputs = itg_arena_array(&r->arena, graph->tensor_count, sizeof r->outputs[0]);
  ITG_TRY_MEMORY(r->inputs && r->outputs, s->diagnostic);
  for (int32_t k = 0; k < graph->input_count; k++) {
    itg_tensor *input = graph->inputs[k];
    bool read = false;
    for (int32_t u = 0; u < input->user_count; u++) {
      const itg_node *user = input->users[u];
      const size_t *number = itg_map_get(&s->numbers, (const char *)&user, sizeof user);
      read = read || (number && r->places[*number] == ITG_QNN_ON_NPU);
    }
    if (read) ITG_TRY(add_once(s, r->inputs, &r->input_count, inputs, input));
  }
  for (int32_t k = 0; k < graph->output_count; k++) {
    if (is_on_npu(s, graph->outputs[k])) ITG_TRY(add_once(s, r->outputs, &r->output_count, outputs, graph->outputs[k]));
  }
  for (size_t i = 0; i < r->node_count; i++) {
    const bool here = r->places[i] == ITG_QNN_ON_NPU;
    for (int32_t j = 0; j < s->nodes[i]->input_count; j++) {
      itg_tensor *x = s->nodes[i]->inputs[j];
      if (!x || x->data) continue;
      if (here && !is_on_npu(s, x)) ITG_TRY(add_once(s, r->inputs, &r->input_count, inputs, x));
      if (!here && is_on_npu(s, x)) ITG_TRY(add_once(s, r->outputs, &r->output_count, outputs, x));
    }
  }
  return ITG_OK;
}

static itg_status split(splitter *s, const char *const *refusals) {
  itg_qnn_partition *r = s->result;
  ITG_TRY(number_nodes(s, refusals));
  ITG_TRY(place_all(s));
  double all = 0, left = 0;
  const char *first = NULL, *name = s->graph->name;
  for (size_t i = 0; i < r->node_count; i++) {
    all += s->work[i];
    if (r->places[i] == ITG_QNN_ON_NPU) {
      left += s->work[i];
      r->npu_count++;
    } else if (!first && r->refused[i]) {
      first = r->reasons[i];
      name = s->nodes[i]->name;
    }
  }
  if (r->npu_count == 0 || (all > 0 && left == 0))
    ITG_FAIL(s->diagnostic, ITG_ERROR_UNSUPPORTED, name, "nothing is left for the NPU: %s", first ? first : "no nodes");
  itg_map inputs = {0}, outputs = {0};
  const itg_status status = find_borders(s, &inputs, &outputs);
  itg_map_free(&inputs);
  itg_map_free(&outputs);
  return status;
}

itg_status itg_qnn_partition_make(const itg_graph *graph, const char *const *refusals, itg_diagnostic *diagnostic,
                                  itg_qnn_partition *out) {
  itg_qnn_partition result = {0};
  splitter s = {.graph = graph, .result = &result, .diagnostic = diagnostic};
  const itg_status status = split(&s, refusals);
  itg_map_free(&s.numbers);
  if (status != ITG_OK) {
    itg_qnn_partition_free(&result);
    return status;
  }
  *out = result;
  return ITG_OK;
}

void itg_qnn_partition_free(itg_qnn_partition *partition) {
  itg_arena_free(&partition->arena);
  *partition = (itg_qnn_partition){0};
}
