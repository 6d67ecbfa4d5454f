// Operations that move codes. See task.h.
#include "plan/task.h"

typedef struct walk { // One dimension of the output: its size and how far the input moves a step.
  int64_t size, stride;
} walk;

// Appends a dimension, merged with the one before where both are walked in one stride.
static void add_dimension(itg_copy_task *task, walk next) {
  if (next.size == 1) return;
  const int32_t last = task->rank - 1;
  if (task->rank > 0 && task->stride[last] == next.stride * next.size) {
    task->dims[last] *= next.size;
    task->stride[last] = next.stride;
  } else {
    task->dims[task->rank] = next.size;
    task->stride[task->rank++] = next.stride;
  }
}

// [N,H,W,C'*b*b] -> [N,H*b,W*b,C'] or the same with channels first: the output's dimensions with H and W split in two.
static void depth_to_space(const itg_node *node, const int64_t *strides, itg_copy_task *task) {
  const itg_block_attributes *attributes = &node->attributes.block;
  const bool last = attributes->layout == ITG_LAYOUT_CHANNELS_LAST;
  const itg_shape *x = &node->inputs[0]->shape;
  const int64_t b = attributes->block, channel = strides[last ? 3 : 1];
  const int h = last ? 1 : 2, w = last ? 2 : 3;
  const int64_t depth = x->dims[last ? 3 : 1] / (b * b);
  // Channel of the input: (i*b + j)*depth + c, or with column_row_depth c*b*b + i*b + j.
  const int64_t row = attributes->column_row_depth ? b * channel : b * depth * channel;
  const int64_t column = attributes->column_row_depth ? channel : depth * channel;
  const walk channels = {depth, attributes->column_row_depth ? b * b * channel : channel};
  add_dimension(task, (walk){x->dims[0], strides[0]});
  if (!last) add_dimension(task, channels);
  add_dimension(task, (walk){x->dims[h], strides[h]});
  add_dimension(task, (walk){b, row});
  add_dimension(task, (walk){x->dims[w], strides[w]});
  add_dimension(task, (walk){b, column});
  if (last) add_dimension(task, channels);
}

// The reverse: output channel (i*b + j)*C + c comes from row h*b + i, column w*b + j.
static void space_to_depth(const itg_node *node, const int64_t *strides, itg_copy_task *task) {
  const itg_block_attributes *attributes = &node->attributes.block;
  const bool last = attributes->layout == ITG_LAYOUT_CHANNELS_LAST;
  const itg_shape *x = &node->inputs[0]->shape;
  const int64_t b = attributes->block;
  const int h = last ? 1 : 2, w = last ? 2 : 3, c = last ? 3 : 1;
  const walk image[2] = {{x->dims[h] / b, strides[h] * b}, {x->dims[w] / b, strides[w] * b}};
  const walk depth[3] = {{b, strides[h]}, {b, strides[w]}, {x->dims[c], strides[c]}};
  add_dimension(task, (walk){x->dims[0], strides[0]});
  for (int i = 0; last && i < 2; i++) add_dimension(task, image[i]);
  for (int i = 0; i < 3; i++) add_dimension(task, depth[i]);
  for (int i = 0; !last && i < 2; i++) add_dimension(task, image[i]);
}

void itg_plan_copy(const itg_node *node, itg_copy_task *task) {
  const itg_shape *x = &node->inputs[0]->shape, *out = &node->outputs[0]->shape;
  *task = (itg_copy_task){.element_size = (int32_t)itg_dtype_size(node->outputs[0]->dtype)};
  int64_t strides[ITG_MAX_RANK] = {0}, repeated[ITG_MAX_RANK] = {0};
  itg_plan_strides(x, strides);
  switch (node->op) {
  case ITG_OP_TRANSPOSE:
    for (int i = 0; i < out->rank; i++)
      add_dimension(task, (walk){out->dims[i], strides[node->attributes.permutation.permutation[i]]});
    break;
  case ITG_OP_SLICE:
    for (int i = 0; i < out->rank; i++) {
      task->offset += node->attributes.slice.start[i] * strides[i];
      // The step of a dimension of 1 is never taken and may be any number.
      if (out->dims[i] > 1) add_dimension(task, (walk){out->dims[i], node->attributes.slice.step[i] * strides[i]});
    }
    break;
  case ITG_OP_EXPAND:
    itg_plan_broadcast_strides(x, out, repeated);
    for (int i = 0; i < out->rank; i++) add_dimension(task, (walk){out->dims[i], repeated[i]});
    break;
  case ITG_OP_TILE:
    for (int i = 0; i < out->rank; i++) {
      add_dimension(task, (walk){out->dims[i] / x->dims[i], 0});
      add_dimension(task, (walk){x->dims[i], strides[i]});
    }
    break;
  case ITG_OP_DEPTH_TO_SPACE: depth_to_space(node, strides, task); break;
  case ITG_OP_SPACE_TO_DEPTH: space_to_depth(node, strides, task); break;
  default: // RESHAPE and IDENTITY copy as it lies.
    add_dimension(task, (walk){itg_plan_product(x, 0, x->rank), 1});
    break;
  }
  if (task->rank == 0) { // A single element.
    task->dims[0] = 1;
    task->stride[0] = 1;
    task->rank = 1;
  }
}

itg_status itg_plan_concat(const itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic, itg_concat_task *task) {
  const itg_tensor *out = node->outputs[0];
  const int axis = node->attributes.axis.axis;
  const int64_t element = (int64_t)itg_dtype_size(out->dtype);
  int64_t *inner = itg_arena_array(arena, (size_t)node->input_count, sizeof *inner);
  ITG_TRY_MEMORY(inner, diagnostic);
  for (int32_t i = 0; i < node->input_count; i++)
    inner[i] = itg_plan_product(&node->inputs[i]->shape, axis, out->shape.rank) * element;
  *task = (itg_concat_task){.outer = itg_plan_product(&out->shape, 0, axis),
                            .total = itg_plan_product(&out->shape, axis, out->shape.rank) * element,
                            .input_count = node->input_count,
                            .inner = inner};
  return ITG_OK;
}

void itg_plan_pad(const itg_node *node, itg_pad_task *task) {
  const itg_pad_attributes *pad = &node->attributes.pad;
  const itg_shape *x = &node->inputs[0]->shape, *out = &node->outputs[0]->shape;
  *task = (itg_pad_task){.rank = out->rank,
                         .element_size = (int32_t)itg_dtype_size(node->outputs[0]->dtype),
                         .mode = pad->mode,
                         .code = pad->code};
  for (int i = 0; i < out->rank; i++) {
    task->in_dims[i] = x->dims[i];
    task->out_dims[i] = out->dims[i];
    task->begin[i] = pad->begin[i];
  }
}

void itg_plan_gather(const itg_node *node, itg_gather_task *task) {
  const itg_tensor *x = node->inputs[0], *indices = node->inputs[1];
  const int axis = node->attributes.axis.axis;
  *task = (itg_gather_task){.outer = itg_plan_product(&x->shape, 0, axis),
                            .axis = x->shape.dims[axis],
                            .inner = itg_plan_product(&x->shape, axis + 1, x->shape.rank),
                            .count = itg_plan_product(&indices->shape, 0, indices->shape.rank),
                            .element_size = (int32_t)itg_dtype_size(x->dtype),
                            .index_type = (int32_t)indices->dtype};
}
