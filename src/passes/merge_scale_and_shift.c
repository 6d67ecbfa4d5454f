// Two steps of arithmetic with per-channel or scalar constants, one behind the other, become one BatchNorm with mean 0 and
// variance 1, which later folds into a convolution or becomes Affine: y = a2*(a1*x + b1) + b2. A BatchNorm counts as a step.
#include <stdlib.h>

#include "passes/batch_norm.h"
#include "passes/constant_operand.h"
#include "passes/list.h"
#include "passes/rewrite.h"

static bool is_step(const itg_node *node) {
  return node->op == ITG_OP_BATCH_NORM || (node->op >= ITG_OP_ADD && node->op <= ITG_OP_DIV);
}

static itg_status read_step(const itg_node *node, int32_t axis, itg_diagnostic *diagnostic, itg_channel_map *map) {
  if (node->op != ITG_OP_BATCH_NORM) return itg_channel_map_read(node, axis, diagnostic, map);
  *map = (itg_channel_map){0};
  if (node->attributes.norm.axis != axis) return ITG_OK;
  ITG_TRY(itg_batch_norm_affine(node, diagnostic, &map->gain, &map->offset));
  if (map->gain) map->x = node->inputs[0];
  return ITG_OK;
}

// The dimension of channels: the one along which a constant varies; without one, that of images, else the last.
static int32_t find_axis(const itg_node *first, const itg_node *second) {
  const itg_node *const nodes[] = {first, second};
  const int32_t rank = second->outputs[0]->shape.rank;
  for (int n = 0; n < 2; n++) {
    if (nodes[n]->op == ITG_OP_BATCH_NORM) return nodes[n]->attributes.norm.axis;
    for (int32_t i = 0; i < 2; i++) {
      const itg_tensor *constant = nodes[n]->inputs[i];
      if (!itg_tensor_is_constant(constant)) continue;
      for (int32_t d = 0; d < constant->shape.rank; d++) {
        if (constant->shape.dims[d] != 1) return d + rank - constant->shape.rank;
      }
    }
  }
  return rank >= 4 ? 1 : rank - 1;
}

// Dead ends of one channel (masks, scalars) are cheaper as they are.
static bool is_worth(const itg_tensor *x, int32_t axis) {
  return axis >= 0 && axis < x->shape.rank && x->shape.dims[axis] > 1;
}

// The constant to write: that of the step in front when this pass made it, else a new one.
static itg_tensor *own_constant(itg_graph *graph, const itg_node *front, int32_t index, const itg_node *node,
                                const itg_shape *shape, itg_dtype dtype, const double *values) {
  itg_tensor *constant = front->op == ITG_OP_BATCH_NORM ? front->inputs[index] : NULL;
  if (!itg_is_own_constant(constant)) constant = itg_graph_add_constant(graph, node->name, dtype, shape, NULL);
  if (!constant) return NULL;
  itg_constant_fill(constant, values);
  itg_mark_own_constant(constant);
  return constant;
}

static itg_status build(itg_graph *graph, itg_node *node, const itg_node *front, itg_tensor *x, int32_t axis,
                        const itg_channel_map *inner, const itg_channel_map *outer, itg_diagnostic *diagnostic) {
  const int64_t channels = x->shape.dims[axis];
  const itg_shape shape = itg_shape_of(1, &channels);
  double *values = calloc((size_t)channels * 4, sizeof *values);
  ITG_TRY_MEMORY(values, diagnostic);
  double *gain = values, *offset = values + channels, *ones = values + 2 * channels, *zeroes = values + 3 * channels;
  for (int64_t i = 0; i < channels; i++) {
    const double a1 = inner->gain ? inner->gain[i] : 1, b1 = inner->offset ? inner->offset[i] : 0;
    const double a2 = outer->gain ? outer->gain[i] : 1, b2 = outer->offset ? outer->offset[i] : 0;
    gain[i] = a2 * a1;
    offset[i] = a2 * b1 + b2;
    ones[i] = 1;
  }
  itg_tensor *scale = own_constant(graph, front, 1, node, &shape, x->dtype, gain);
  itg_tensor *bias = own_constant(graph, front, 2, node, &shape, x->dtype, offset);
  itg_tensor *mean = own_constant(graph, front, 3, node, &shape, x->dtype, zeroes);
  itg_tensor *variance = own_constant(graph, front, 4, node, &shape, x->dtype, ones);
  free(values);
  ITG_TRY_MEMORY(scale && bias && variance && mean, diagnostic);
  itg_node *made =
      itg_replace_node(graph, node, ITG_OP_BATCH_NORM, (itg_tensor *[]){x, scale, bias, mean, variance}, 5);
  ITG_TRY_MEMORY(made, diagnostic);
  made->attributes.norm.axis = axis;
  return ITG_OK;
}

itg_status itg_pass_merge_scale_and_shift(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  itg_forget_own_constants(graph);
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (!is_step(node) || !itg_dtype_is_rewritable(node->outputs[0]->dtype)) continue;
    const itg_tensor *between = node->inputs[itg_tensor_is_constant(node->inputs[0]) ? 1 : 0];
    itg_node *front = between->producer;
    if (!front || !is_step(front) || itg_tensor_only_user(between) != node) continue;
    const int32_t axis = find_axis(front, node);
    if (!is_worth(between, axis)) continue;
    itg_channel_map inner, outer = {0};
    itg_status status = read_step(front, axis, diagnostic, &inner);
    if (status == ITG_OK && inner.x) status = read_step(node, axis, diagnostic, &outer);
    if (status == ITG_OK && inner.x && outer.x) {
      status = build(graph, node, front, inner.x, axis, &inner, &outer, diagnostic);
      *changed = true;
    }
    itg_channel_map_free(&inner);
    itg_channel_map_free(&outer);
    ITG_TRY(status);
  }
  if (*changed) itg_graph_sweep(graph);
  return ITG_OK;
}
