// Building and editing graphs. See graph.h.
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define none scalar // Operations without attributes: size 0 below, any member will do.
static const itg_op_info infos[] = {
#define ITG_OP(number, name, text, min_inputs, max_inputs, outputs, attribute, flags)                                 \
  {ITG_OP_##name,                                                                                                     \
   text,                                                                                                              \
   min_inputs,                                                                                                        \
   max_inputs,                                                                                                        \
   outputs,                                                                                                           \
   sizeof(((itg_attributes *)0)->attribute) * (#attribute[0] != 'n' || #attribute[1] != 'o' || #attribute[2] != 'n'), \
   flags},
#include "graph/ops.def"
#undef ITG_OP
};
#undef none

const itg_op_info *itg_op_get_info(int op) {
  size_t low = 0, high = sizeof infos / sizeof infos[0];
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if ((int)infos[middle].op == op) return &infos[middle];
    if ((int)infos[middle].op < op)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

const char *itg_op_name(int op) {
  const itg_op_info *info = itg_op_get_info(op);
  return info ? info->name : "?";
}

itg_status itg_graph_create(itg_diagnostic *diagnostic, itg_graph **out) {
  itg_graph *graph = calloc(1, sizeof *graph);
  ITG_TRY_MEMORY(graph, diagnostic);
  graph->name = "";
  *out = graph;
  return ITG_OK;
}

void itg_graph_destroy(itg_graph *graph) {
  if (!graph) return;
  for (int32_t i = 0; i < graph->mapping_count; i++) itg_mapped_file_close(&graph->mappings[i]);
  for (size_t i = 0; i < graph->tensor_count; i++) {
    if (graph->tensors[i]) free(graph->tensors[i]->users);
  }
  free(graph->mappings);
  free(graph->tensors);
  free(graph->inputs);
  free(graph->outputs);
  itg_map_free(&graph->by_name);
  itg_arena_free(&graph->arena);
  free(graph);
}

itg_status itg_graph_keep_mapping(itg_graph *graph, itg_mapped_file file, itg_diagnostic *diagnostic) {
  itg_mapped_file *grown = realloc(graph->mappings, ((size_t)graph->mapping_count + 1) * sizeof *grown);
  ITG_TRY_MEMORY(grown, diagnostic);
  graph->mappings = grown;
  graph->mappings[graph->mapping_count++] = file;
  return ITG_OK;
}

void itg_graph_release_pages(const itg_graph *graph) {
  for (int32_t i = 0; i < graph->mapping_count; i++) itg_mapped_file_release_pages(&graph->mappings[i]);
}

static const char *unique_name(itg_graph *graph, const char *name) {
  if (!name || !*name) name = "tensor";
  const size_t length = strlen(name);
  if (!itg_map_get(&graph->by_name, name, length)) return itg_arena_string(&graph->arena, name, length);
  char *fresh = itg_arena_allocate(&graph->arena, length + 24);
  if (!fresh) return NULL;
  do {
    snprintf(fresh, length + 24, "%s_%llu", name, (unsigned long long)graph->next_id++);
  } while (itg_map_get(&graph->by_name, fresh, strlen(fresh)));
  return fresh;
}

itg_tensor *itg_graph_add_tensor(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape) {
  if (graph->tensor_count == graph->tensor_capacity) {
    const size_t capacity = graph->tensor_capacity ? graph->tensor_capacity * 2 : 256;
    itg_tensor **grown = realloc(graph->tensors, capacity * sizeof *grown);
    if (!grown) return NULL;
    graph->tensors = grown;
    graph->tensor_capacity = capacity;
  }
  itg_tensor *tensor = itg_arena_allocate(&graph->arena, sizeof *tensor);
  if (!tensor) return NULL;
  tensor->name = unique_name(graph, name);
  if (!tensor->name || !itg_map_set(&graph->by_name, tensor->name, strlen(tensor->name), tensor)) return NULL;
  tensor->dtype = dtype;
  tensor->shape = *shape;
  graph->tensors[graph->tensor_count++] = tensor;
  return tensor;
}

itg_tensor *itg_graph_add_constant(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape,
                                   const void *data) {
  size_t bytes;
  if (!itg_shape_bytes(shape, dtype, &bytes)) return NULL;
  void *copy = itg_arena_allocate(&graph->arena, bytes);
  if (!copy) return NULL;
  if (data && bytes) memcpy(copy, data, bytes);
  return itg_graph_add_borrowed(graph, name, dtype, shape, copy);
}

itg_tensor *itg_graph_add_borrowed(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape,
                                   const void *data) {
  itg_tensor *tensor = itg_graph_add_tensor(graph, name, dtype, shape);
  if (tensor) tensor->data = data;
  return tensor;
}

itg_status itg_graph_align_constant(itg_graph *graph, itg_tensor *tensor, itg_diagnostic *diagnostic) {
  const size_t alignment = itg_dtype_size(tensor->dtype);
  if (!tensor->data || alignment < 2 || (uintptr_t)tensor->data % alignment == 0) return ITG_OK;
  size_t bytes;
  if (!itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, tensor->name, "constant is too large");
  void *copy = itg_arena_copy(&graph->arena, tensor->data, bytes);
  ITG_TRY_MEMORY(copy, diagnostic);
  tensor->data = copy;
  return ITG_OK;
}

itg_tensor *itg_graph_find(const itg_graph *graph, const char *name) {
  return itg_map_get(&graph->by_name, name, strlen(name));
}

static bool add_user(itg_tensor *tensor, itg_node *node) {
  if (tensor->user_count == tensor->user_capacity) {
    const int32_t capacity = tensor->user_capacity ? tensor->user_capacity * 2 : 4;
    itg_node **grown = realloc(tensor->users, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    tensor->users = grown;
    tensor->user_capacity = capacity;
  }
  tensor->users[tensor->user_count++] = node;
  return true;
}

// Searched from the end: callers that take a tensor's users away one by one mostly take the last, and a tensor may have
// a million of them.
static void remove_user(itg_tensor *tensor, const itg_node *node) {
  for (int32_t i = tensor->user_count - 1; i >= 0; i--) {
    if (tensor->users[i] != node) continue;
    memmove(&tensor->users[i], &tensor->users[i + 1], (size_t)(tensor->user_count - i - 1) * sizeof tensor->users[0]);
    tensor->user_count--;
    return;
  }
}

static void link_before(itg_graph *graph, itg_node *node, itg_node *before) {
  node->next = before;
  node->previous = before ? before->previous : graph->last;
  if (node->previous)
    node->previous->next = node;
  else
    graph->first = node;
  if (before)
    before->previous = node;
  else
    graph->last = node;
  graph->node_count++;
}

static void unlink_node(itg_graph *graph, itg_node *node) {
  if (node->previous)
    node->previous->next = node->next;
  else
    graph->first = node->next;
  if (node->next)
    node->next->previous = node->previous;
  else
    graph->last = node->previous;
  node->next = node->previous = NULL;
  graph->node_count--;
}

itg_node *itg_graph_insert_node(itg_graph *graph, itg_node *before, itg_op op, const char *name,
                                itg_tensor *const *inputs, int32_t input_count, itg_tensor *const *outputs,
                                int32_t output_count) {
  itg_node *node = itg_arena_allocate(&graph->arena, sizeof *node);
  if (!node) return NULL;
  node->op = op;
  node->name = name && *name ? itg_arena_string(&graph->arena, name, strlen(name))
                             : (output_count > 0 && outputs[0] ? outputs[0]->name : itg_op_name(op));
  node->inputs = itg_arena_array(&graph->arena, (size_t)input_count, sizeof node->inputs[0]);
  node->outputs = itg_arena_array(&graph->arena, (size_t)output_count, sizeof node->outputs[0]);
  if (!node->name || !node->inputs || !node->outputs) return NULL;
  node->input_count = input_count;
  node->output_count = output_count;
  for (int32_t i = 0; i < input_count; i++) {
    if (inputs[i] && !add_user(inputs[i], node)) {
      while (i-- > 0) {
        if (inputs[i]) remove_user(inputs[i], node);
      }
      return NULL;
    }
    node->inputs[i] = inputs[i];
  }
  for (int32_t i = 0; i < output_count; i++) {
    node->outputs[i] = outputs[i];
    if (outputs[i]) outputs[i]->producer = node;
  }
  link_before(graph, node, before);
  return node;
}

void itg_graph_remove_node(itg_graph *graph, itg_node *node) {
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i]) remove_user(node->inputs[i], node);
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] && node->outputs[i]->producer == node) node->outputs[i]->producer = NULL;
  }
  unlink_node(graph, node);
}

bool itg_node_set_input(itg_node *node, int32_t index, itg_tensor *tensor) {
  if (node->inputs[index] == tensor) return true;
  if (tensor && !add_user(tensor, node)) return false;
  if (node->inputs[index]) remove_user(node->inputs[index], node);
  node->inputs[index] = tensor;
  return true;
}

void itg_node_set_output(itg_node *node, int32_t index, itg_tensor *tensor) {
  if (node->outputs[index]) node->outputs[index]->producer = NULL;
  node->outputs[index] = tensor;
  if (tensor) tensor->producer = node;
}

bool itg_node_resize_inputs(itg_graph *graph, itg_node *node, int32_t count) {
  itg_tensor **inputs = itg_arena_array(&graph->arena, (size_t)count, sizeof inputs[0]);
  if (!inputs) return false;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (i < count)
      inputs[i] = node->inputs[i];
    else if (node->inputs[i])
      remove_user(node->inputs[i], node);
  }
  node->inputs = inputs;
  node->input_count = count;
  return true;
}

static bool swap_names(itg_graph *graph, itg_tensor *a, itg_tensor *b) {
  const char *name = a->name;
  a->name = b->name;
  b->name = name;
  return itg_map_set(&graph->by_name, a->name, strlen(a->name), a) &&
         itg_map_set(&graph->by_name, b->name, strlen(b->name), b);
}

bool itg_graph_replace_uses(itg_graph *graph, itg_tensor *old, itg_tensor *replacement) {
  while (old->user_count > 0) {
    itg_node *user = old->users[old->user_count - 1];
    for (int32_t i = 0; i < user->input_count; i++) {
      if (user->inputs[i] == old && !itg_node_set_input(user, i, replacement)) return false;
    }
  }
  if (!old->is_output) return true;
  for (int32_t i = 0; i < graph->output_count; i++) {
    if (graph->outputs[i] == old) graph->outputs[i] = replacement;
  }
  old->is_output = false;
  const bool keeps_name = replacement->is_input || replacement->is_output; // A pass-through input keeps its own name.
  replacement->is_output = true;
  return keeps_name || swap_names(graph, old, replacement);
}

static bool append(itg_tensor ***list, int32_t *count, itg_tensor *tensor) {
  itg_tensor **grown = realloc(*list, ((size_t)*count + 1) * sizeof *grown);
  if (!grown) return false;
  *list = grown;
  grown[(*count)++] = tensor;
  return true;
}

bool itg_graph_add_input(itg_graph *graph, itg_tensor *tensor) {
  if (!append(&graph->inputs, &graph->input_count, tensor)) return false;
  return tensor->is_input = true;
}

bool itg_graph_add_output(itg_graph *graph, itg_tensor *tensor) {
  if (!append(&graph->outputs, &graph->output_count, tensor)) return false;
  return tensor->is_output = true;
}

bool itg_tensor_is_state(const itg_tensor *tensor) {
  for (int32_t u = 0; tensor->is_input && u < tensor->user_count; u++) {
    const itg_node *node = tensor->users[u];
    if (node->op != ITG_OP_ATTENTION && node->op != ITG_OP_Q_ATTENTION) continue;
    if (itg_node_input(node, ITG_ATTENTION_K_CACHE) == tensor || itg_node_input(node, ITG_ATTENTION_V_CACHE) == tensor)
      return true;
  }
  return false;
}

void itg_graph_sweep(itg_graph *graph) {
  for (itg_node *node = graph->last, *previous; node; node = previous) {
    previous = node->previous;
    bool needed = false;
    for (int32_t i = 0; i < node->output_count; i++) {
      const itg_tensor *tensor = node->outputs[i];
      if (tensor && (tensor->is_output || tensor->user_count > 0)) needed = true;
    }
    if (!needed) itg_graph_remove_node(graph, node);
  }
  size_t kept = 0;
  for (size_t i = 0; i < graph->tensor_count; i++) {
    itg_tensor *tensor = graph->tensors[i];
    if (!tensor) continue;
    if (!tensor->is_input && !tensor->is_output && !tensor->producer && tensor->user_count == 0) {
      itg_map_set(&graph->by_name, tensor->name, strlen(tensor->name), NULL);
      free(tensor->users);
    } else {
      graph->tensors[kept++] = tensor;
    }
  }
  graph->tensor_count = kept;
}

// Kahn's algorithm; `index` counts the inputs whose producer is not yet placed. The queue is the list of placed nodes
// itself, in the old order among nodes that become ready together.
itg_status itg_graph_sort(itg_graph *graph, itg_diagnostic *diagnostic) {
  const int64_t count = graph->node_count;
  if (count == 0) return ITG_OK;
  itg_node **order = calloc((size_t)count, sizeof *order);
  ITG_TRY_MEMORY(order, diagnostic);
  int64_t placed = 0;
  ITG_FOR_EACH_NODE(node, graph) {
    node->index = 0;
    for (int32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] && node->inputs[i]->producer) node->index++;
    }
    if (node->index == 0) order[placed++] = node;
  }
  for (int64_t done = 0; done < placed; done++) {
    for (int32_t i = 0; i < order[done]->output_count; i++) {
      const itg_tensor *tensor = order[done]->outputs[i];
      for (int32_t u = 0; tensor && u < tensor->user_count; u++) {
        if (--tensor->users[u]->index == 0) order[placed++] = tensor->users[u];
      }
    }
  }
  if (placed < count) {
    const char *name = "";
    ITG_FOR_EACH_NODE(node, graph) {
      if (node->index > 0) {
        name = node->name;
        break;
      }
    }
    free(order);
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name, "the graph has a cycle through this node");
  }
  graph->first = graph->last = NULL;
  graph->node_count = 0;
  for (int64_t i = 0; i < count; i++) link_before(graph, order[i], NULL);
  free(order);
  return ITG_OK;
}
