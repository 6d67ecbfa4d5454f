// Channels-last conversion: convolutions, pools, Resize, DepthToSpace, BatchNorm and the other per-channel operations, and
// softmax over a middle axis are rewritten to run with their channels (or axis) last. Each gets a Transpose in front and one
// behind, so that the graph keeps its meaning; sink_transposes.c then cancels them against each other.
//
// Windows with one spatial dimension get a second one of size 1 (Reshape in front and behind). Three stay as they are.
#include <stdlib.h>

#include "passes/batch_norm.h"
#include "passes/list.h"
#include "passes/rewrite.h"

// Dimension `axis` moves to the end: [N,C,H,W] with axis 1 becomes [N,H,W,C].
static void move_last(int32_t rank, int32_t axis, int32_t *permutation) {
  for (int32_t i = 0, from = 0; i < rank - 1; i++, from++) {
    if (from == axis) from++;
    permutation[i] = from;
  }
  permutation[rank - 1] = axis;
}

static void invert(int32_t rank, const int32_t *permutation, int32_t *inverse) {
  for (int32_t i = 0; i < rank; i++) inverse[permutation[i]] = i;
}

// Gives input 0 of a node with one output a Transpose in front, and a Transpose behind that writes the old output.
static itg_status surround(itg_graph *graph, itg_node *node, const int32_t *permutation, itg_diagnostic *diagnostic) {
  itg_tensor *y = node->outputs[0];
  int32_t inverse[ITG_MAX_RANK];
  itg_tensor *x = itg_insert_transpose(graph, node, node->inputs[0], permutation);
  ITG_TRY_MEMORY(x, diagnostic);
  ITG_TRY_MEMORY(itg_node_set_input(node, 0, x), diagnostic);
  const itg_shape shape = itg_shape_permute(&y->shape, permutation);
  itg_tensor *inner = itg_graph_add_tensor(graph, y->name, y->dtype, &shape);
  ITG_TRY_MEMORY(inner, diagnostic);
  itg_node_set_output(node, 0, inner);
  itg_node *back = itg_graph_insert_node(graph, node->next, ITG_OP_TRANSPOSE, node->name, &inner, 1, &y, 1);
  ITG_TRY_MEMORY(back, diagnostic);
  invert(y->shape.rank, permutation, inverse);
  for (int32_t i = 0; i < y->shape.rank; i++) back->attributes.permutation.permutation[i] = inverse[i];
  return ITG_OK;
}

// [N,C,L] -> [N,C,1,L].
static itg_shape flat_image(const itg_shape *line) {
  return itg_shape_of(4, (int64_t[]){line->dims[0], line->dims[1], 1, line->dims[2]});
}

static void flatten_window(itg_window *window) {
  int32_t *const fields[] = {window->kernel, window->stride, window->dilation, window->pad_begin, window->pad_end};
  for (int i = 0; i < 5; i++) {
    fields[i][1] = fields[i][0];
    fields[i][0] = i < 3 ? 1 : 0;
  }
  window->rank = 2;
}

// Input 0 and the output of a one-dimensional window become images of height 1, with Reshapes around.
static itg_status add_height(itg_graph *graph, itg_node *node, itg_diagnostic *diagnostic) {
  itg_tensor *y = node->outputs[0];
  const itg_shape in = flat_image(&node->inputs[0]->shape), out = flat_image(&y->shape);
  itg_tensor *x = itg_insert_reshape(graph, node, node->inputs[0], &in);
  ITG_TRY_MEMORY(x, diagnostic);
  ITG_TRY_MEMORY(itg_node_set_input(node, 0, x), diagnostic);
  itg_tensor *inner = itg_graph_add_tensor(graph, y->name, y->dtype, &out);
  ITG_TRY_MEMORY(inner, diagnostic);
  itg_node_set_output(node, 0, inner);
  ITG_TRY_MEMORY(itg_graph_insert_node(graph, node->next, ITG_OP_RESHAPE, node->name, &inner, 1, &y, 1), diagnostic);
  return ITG_OK;
}

// CONV [O,C/g,k..] -> [O,k..,C/g];  CONV_TRANSPOSE [C,O/g,k..] -> [O/g,k..,C].
static itg_status convert_weight(itg_graph *graph, itg_node *node, bool add_dimension, itg_diagnostic *diagnostic) {
  itg_tensor *weight = node->inputs[1];
  if (add_dimension) {
    const itg_shape shape = flat_image(&weight->shape);
    weight = itg_tensor_is_constant(weight) ? itg_constant_reshape(graph, weight, &shape)
                                            : itg_insert_reshape(graph, node, weight, &shape);
    ITG_TRY_MEMORY(weight, diagnostic);
  }
  const int32_t forward[4] = {0, 2, 3, 1}, transposed[4] = {1, 2, 3, 0};
  const int32_t *permutation = node->op == ITG_OP_CONV ? forward : transposed;
  weight = itg_tensor_is_constant(weight) ? itg_constant_transpose(graph, weight, permutation)
                                          : itg_insert_transpose(graph, node, weight, permutation);
  ITG_TRY_MEMORY(weight, diagnostic);
  ITG_TRY_MEMORY(itg_node_set_input(node, 1, weight), diagnostic);
  return ITG_OK;
}

static const int32_t image_last[4] = {0, 2, 3, 1};

static itg_status convert_conv(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  itg_conv_attributes *conv = &node->attributes.conv;
  if (conv->layout != ITG_LAYOUT_CHANNELS_FIRST || conv->window.rank > 2) return ITG_OK;
  const bool is_line = conv->window.rank == 1;
  if (is_line) {
    flatten_window(&conv->window);
    conv->output_padding[1] = conv->output_padding[0];
    conv->output_padding[0] = 0;
    ITG_TRY(add_height(graph, node, diagnostic));
  }
  ITG_TRY(convert_weight(graph, node, is_line, diagnostic));
  conv->layout = ITG_LAYOUT_CHANNELS_LAST;
  *changed = true;
  return surround(graph, node, image_last, diagnostic);
}

static itg_status convert_pool(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  itg_pool_attributes *pool = &node->attributes.pool;
  if (pool->layout != ITG_LAYOUT_CHANNELS_FIRST || pool->window.rank > 2) return ITG_OK;
  if (pool->window.rank == 1) {
    flatten_window(&pool->window);
    pool->declared_pad_end[1] = pool->declared_pad_end[0];
    pool->declared_pad_end[0] = 0;
    ITG_TRY(add_height(graph, node, diagnostic));
  }
  pool->layout = ITG_LAYOUT_CHANNELS_LAST;
  *changed = true;
  return surround(graph, node, image_last, diagnostic);
}

static itg_status convert_block(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  if (node->attributes.block.layout != ITG_LAYOUT_CHANNELS_FIRST) return ITG_OK;
  node->attributes.block.layout = ITG_LAYOUT_CHANNELS_LAST;
  *changed = true;
  return surround(graph, node, image_last, diagnostic);
}

static void permute_doubles(double *values, const int32_t *permutation, int32_t rank) {
  double old[ITG_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) old[i] = values[i];
  for (int32_t i = 0; i < rank; i++) values[i] = old[permutation[i]];
}

// A Resize of [N,C,H,W] that leaves N and C alone. One of [N,C,L] gets a height first.
static itg_status convert_resize(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  const itg_shape in = node->inputs[0]->shape, out = node->outputs[0]->shape;
  itg_resize_attributes *resize = &node->attributes.resize;
  const int32_t rank = in.rank;
  if ((rank != 3 && rank != 4) || in.dims[0] != out.dims[0] || in.dims[1] != out.dims[1] || resize->scale[1] != 1 ||
      (rank == 4 && in.dims[2] == out.dims[2] && in.dims[3] == out.dims[3]))
    return ITG_OK;
  if (rank == 3) {
    double *const fields[] = {resize->scale, resize->roi_start, resize->roi_end};
    for (int i = 0; i < 3; i++) {
      fields[i][3] = fields[i][2];
      fields[i][2] = i == 1 ? 0 : 1;
    }
    ITG_TRY(add_height(graph, node, diagnostic));
  }
  permute_doubles(resize->scale, image_last, 4);
  permute_doubles(resize->roi_start, image_last, 4);
  permute_doubles(resize->roi_end, image_last, 4);
  *changed = true;
  return surround(graph, node, image_last, diagnostic);
}

// BATCH_NORM with constant parameters becomes AFFINE along the last dimension.
static itg_status convert_batch_norm(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  double *gain, *offset;
  const int32_t axis = node->attributes.norm.axis, rank = node->inputs[0]->shape.rank;
  if (axis < 0 || axis >= rank) return ITG_OK;
  ITG_TRY(itg_batch_norm_affine(node, diagnostic, &gain, &offset));
  if (!gain) return ITG_OK;
  const itg_tensor *scale = node->inputs[1];
  itg_tensor *a = itg_constant_write(graph, scale->name, scale->dtype, &scale->shape, gain);
  itg_tensor *b = itg_constant_write(graph, node->inputs[2]->name, scale->dtype, &scale->shape, offset);
  free(gain);
  free(offset);
  ITG_TRY_MEMORY(a && b, diagnostic);
  itg_node *affine = itg_replace_node(graph, node, ITG_OP_AFFINE, (itg_tensor *[]){node->inputs[0], a, b}, 3);
  ITG_TRY_MEMORY(affine, diagnostic);
  *changed = true;
  if (axis == rank - 1) return ITG_OK;
  int32_t permutation[ITG_MAX_RANK];
  move_last(rank, axis, permutation);
  return surround(graph, affine, permutation, diagnostic);
}

// Operations along one axis: the axis moves to the end.
static itg_status convert_axis(itg_graph *graph, itg_node *node, int32_t *axis, bool *changed,
                               itg_diagnostic *diagnostic) {
  const int32_t rank = node->inputs[0]->shape.rank;
  if (*axis < 0 || *axis >= rank - 1) return ITG_OK;
  int32_t permutation[ITG_MAX_RANK];
  move_last(rank, *axis, permutation);
  *axis = rank - 1;
  *changed = true;
  return surround(graph, node, permutation, diagnostic);
}

static itg_status convert(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE: return convert_conv(graph, node, changed, diagnostic);
  case ITG_OP_MAX_POOL:
  case ITG_OP_AVERAGE_POOL:
  case ITG_OP_LP_POOL: return convert_pool(graph, node, changed, diagnostic);
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH: return convert_block(graph, node, changed, diagnostic);
  case ITG_OP_RESIZE: return convert_resize(graph, node, changed, diagnostic);
  case ITG_OP_BATCH_NORM: return convert_batch_norm(graph, node, changed, diagnostic);
  case ITG_OP_INSTANCE_NORM:
  case ITG_OP_GROUP_NORM:
  case ITG_OP_LRN:
  case ITG_OP_LP_NORM: return convert_axis(graph, node, &node->attributes.norm.axis, changed, diagnostic);
  case ITG_OP_SOFTMAX:
  case ITG_OP_LOG_SOFTMAX:
  case ITG_OP_HARDMAX: return convert_axis(graph, node, &node->attributes.axis.axis, changed, diagnostic);
  default: return ITG_OK;
  }
}

itg_status itg_pass_channels_last(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (!itg_tensor_is_constant(node->inputs[0])) ITG_TRY(convert(graph, node, changed, diagnostic));
  }
  return ITG_OK;
}
