// Nodes that do nothing, nodes that do what another node does already, and nodes nobody needs.
#include <math.h>
#include <string.h>

#include "passes/list.h"
#include "passes/rewrite.h"

static bool is_identity_permutation(const itg_node *node) {
  for (int32_t i = 0; i < node->inputs[0]->shape.rank; i++) {
    if (node->attributes.permutation.permutation[i] != i) return false;
  }
  return true;
}

static bool is_whole_slice(const itg_node *node) {
  for (int32_t i = 0; i < node->inputs[0]->shape.rank; i++) {
    if (node->attributes.slice.step[i] != 1 && node->inputs[0]->shape.dims[i] > 1) return false;
  }
  return true;
}

static bool is_empty_pad(const itg_node *node) {
  for (int32_t i = 0; i < node->inputs[0]->shape.rank; i++) {
    if (node->attributes.pad.begin[i] || node->attributes.pad.end[i]) return false;
  }
  return true;
}

// Arithmetic with a neutral constant: x + 0, x - 0, x * 1, x / 1, x ^ 1. The index of x, or -1.
static int32_t neutral_operand(const itg_node *node) {
  double value;
  const bool commutes = node->op == ITG_OP_ADD || node->op == ITG_OP_MUL;
  const double neutral = node->op == ITG_OP_ADD || node->op == ITG_OP_SUB ? 0 : 1;
  if (itg_constant_is_uniform(node->inputs[1], &value) && value == neutral) return 0;
  if (commutes && itg_constant_is_uniform(node->inputs[0], &value) && value == neutral) return 1;
  return -1;
}

// A Resize by 1 in every dimension; cropping changes values even so.
static bool is_unit_resize(const itg_node *node) {
  const itg_resize_attributes *resize = &node->attributes.resize;
  for (int32_t i = 0; i < node->inputs[0]->shape.rank; i++) {
    if (resize->scale[i] != 1) return false;
  }
  return resize->coordinates != ITG_RESIZE_TF_CROP;
}

// Which input passes through unchanged, or -1. Shape and type are compared by the caller.
static int32_t passes_through(const itg_node *node) {
  switch (node->op) {
  case ITG_OP_IDENTITY:
  case ITG_OP_RESHAPE:
  case ITG_OP_EXPAND:
  case ITG_OP_TILE:
  case ITG_OP_CAST: return 0;
  case ITG_OP_CONCAT: return node->input_count == 1 ? 0 : -1;
  case ITG_OP_TRANSPOSE: return is_identity_permutation(node) ? 0 : -1;
  case ITG_OP_SLICE: return is_whole_slice(node) ? 0 : -1;
  case ITG_OP_RESIZE: return is_unit_resize(node) ? 0 : -1;
  case ITG_OP_PAD: return is_empty_pad(node) ? 0 : -1;
  case ITG_OP_CLIP:
    return node->attributes.scalar.alpha == -INFINITY && node->attributes.scalar.beta == INFINITY ? 0 : -1;
  case ITG_OP_ADD:
  case ITG_OP_SUB:
  case ITG_OP_MUL:
  case ITG_OP_DIV:
  case ITG_OP_POW: return neutral_operand(node);
  case ITG_OP_REDUCE_SUM:
  case ITG_OP_REDUCE_MEAN:
  case ITG_OP_REDUCE_MAX:
  case ITG_OP_REDUCE_MIN: return node->attributes.reduce.axes == 0 ? 0 : -1;
  default: return -1;
  }
}

static itg_status drop_if_idle(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  const int32_t index = passes_through(node);
  if (index < 0) return ITG_OK;
  itg_tensor *x = node->inputs[index];
  const itg_tensor *y = node->outputs[0];
  if (x->dtype != y->dtype || !itg_shape_equal(&x->shape, &y->shape) || !itg_can_bypass_node(node, x)) return ITG_OK;
  ITG_TRY_MEMORY(itg_bypass_node(graph, node, x), diagnostic);
  *changed = true;
  return ITG_OK;
}

// An Expand in front of an operation that broadcasts by itself.
static itg_status drop_expansions(itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  for (int32_t i = 0; i < node->input_count; i++) {
    const itg_node *expand = node->inputs[i]->producer;
    if (!expand || expand->op != ITG_OP_EXPAND) continue;
    itg_shape shape = expand->inputs[0]->shape;
    bool fits = true;
    for (int32_t k = 0; k < node->input_count && fits; k++)
      fits = k == i || itg_shape_broadcast(&shape, &node->inputs[k]->shape, &shape);
    if (!fits || !itg_shape_equal(&shape, &node->outputs[0]->shape) || (node->op == ITG_OP_PRELU && i == 0)) continue;
    ITG_TRY_MEMORY(itg_node_set_input(node, i, expand->inputs[0]), diagnostic);
    *changed = true;
  }
  return ITG_OK;
}

// Two nodes are equal when operation, attributes, inputs and the output's shape and type are; this is their key.
static char *make_key(itg_arena *arena, const itg_node *node, size_t *length) {
  const itg_op_info *info = itg_op_get_info((int)node->op);
  const size_t inputs = (size_t)node->input_count * sizeof node->inputs[0];
  const itg_tensor *y = node->outputs[0];
  const int64_t head[4] = {(int64_t)node->op, node->input_count, (int64_t)y->dtype, y->shape.rank};
  const size_t dims = (size_t)y->shape.rank * sizeof y->shape.dims[0];
  *length = sizeof head + dims + info->attribute_size + inputs;
  char *key = itg_arena_allocate(arena, *length), *end = key;
  if (!key) return NULL;
  memcpy(end, head, sizeof head);
  end += sizeof head;
  memcpy(end, y->shape.dims, dims);
  end += dims;
  memcpy(end, &node->attributes, info->attribute_size);
  end += info->attribute_size;
  if (inputs) memcpy(end, node->inputs, inputs);
  return key;
}

static itg_status share_duplicates(itg_graph *graph, itg_arena *arena, itg_map *seen, bool *changed,
                                   itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (node->output_count != 1 || !node->outputs[0]) continue;
    size_t length;
    char *key = make_key(arena, node, &length);
    ITG_TRY_MEMORY(key, diagnostic);
    const itg_node *same = itg_map_get(seen, key, length);
    if (!same) {
      ITG_TRY_MEMORY(itg_map_set(seen, key, length, node), diagnostic);
    } else if (itg_can_bypass_node(node, same->outputs[0])) {
      ITG_TRY_MEMORY(itg_bypass_node(graph, node, same->outputs[0]), diagnostic);
      *changed = true;
    }
  }
  return ITG_OK;
}

itg_status itg_pass_eliminate(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  const int64_t nodes = graph->node_count;
  itg_graph_sweep(graph);
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (itg_op_get_info((int)node->op)->flags & (ITG_OP_BINARY | ITG_OP_TERNARY))
      ITG_TRY(drop_expansions(node, changed, diagnostic));
    ITG_TRY(drop_if_idle(graph, node, changed, diagnostic));
  }
  itg_arena arena = {0};
  itg_map seen = {0};
  const itg_status status = share_duplicates(graph, &arena, &seen, changed, diagnostic);
  itg_map_free(&seen);
  itg_arena_free(&arena);
  ITG_TRY(status);
  itg_graph_sweep(graph);
  if (graph->node_count != nodes) *changed = true;
  return ITG_OK;
}
