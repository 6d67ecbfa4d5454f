// Small tools that rewrites share. See rewrite.h.
#include "passes/rewrite.h"

#include <stdlib.h>
#include <string.h>

static double element(const itg_tensor *tensor, size_t index) {
  if (tensor->dtype == ITG_DTYPE_F64) {
    double value;
    memcpy(&value, (const char *)tensor->data + index * sizeof value, sizeof value);
    return value;
  }
  float value;
  memcpy(&value, (const char *)tensor->data + index * sizeof value, sizeof value);
  return (double)value;
}

itg_status itg_constant_read(const itg_tensor *tensor, itg_diagnostic *diagnostic, double **out) {
  size_t count;
  *out = NULL;
  if (!itg_tensor_is_constant(tensor) || !itg_dtype_is_rewritable(tensor->dtype) ||
      !itg_shape_count(&tensor->shape, &count))
    return ITG_OK;
  double *values = calloc(count + 1, sizeof *values);
  ITG_TRY_MEMORY(values, diagnostic);
  for (size_t i = 0; i < count; i++) values[i] = element(tensor, i);
  *out = values;
  return ITG_OK;
}

bool itg_constant_is_uniform(const itg_tensor *tensor, double *value) {
  enum { LIMIT = 1 << 14 }; // Bounds the time for hostile graphs; constants written out in full are small.
  size_t count;
  if (!itg_tensor_is_constant(tensor) || !itg_dtype_is_rewritable(tensor->dtype) ||
      !itg_shape_count(&tensor->shape, &count) || count == 0 || count > LIMIT)
    return false;
  const double first = element(tensor, 0);
  for (size_t i = 0; i < count; i++) {
    if (!(element(tensor, i) == first)) return false;
  }
  *value = first;
  return true;
}

itg_status itg_constant_read_channels(const itg_tensor *tensor, const itg_shape *shape, int32_t axis,
                                      itg_diagnostic *diagnostic, double **out) {
  *out = NULL;
  if (!itg_tensor_is_constant(tensor) || !itg_dtype_is_rewritable(tensor->dtype) || tensor->shape.rank > shape->rank ||
      axis < 0 || axis >= shape->rank)
    return ITG_OK;
  const itg_shape extended = itg_shape_extend(&tensor->shape, shape->rank);
  for (int32_t i = 0; i < shape->rank; i++) {
    if (extended.dims[i] != 1 && (i != axis || extended.dims[i] != shape->dims[axis])) return ITG_OK;
  }
  const int64_t channels = shape->dims[axis];
  double *values = calloc((size_t)channels + 1, sizeof *values);
  ITG_TRY_MEMORY(values, diagnostic);
  for (int64_t i = 0; i < channels; i++) values[i] = element(tensor, extended.dims[axis] == 1 ? 0 : (size_t)i);
  *out = values;
  return ITG_OK;
}

void itg_constant_fill(itg_tensor *tensor, const double *values) {
  size_t count;
  if (!itg_shape_count(&tensor->shape, &count)) return;
  for (size_t i = 0; i < count; i++) {
    if (tensor->dtype == ITG_DTYPE_F64)
      ((double *)itg_tensor_writable(tensor))[i] = values[i];
    else
      ((float *)itg_tensor_writable(tensor))[i] = (float)values[i];
  }
}

itg_tensor *itg_constant_write(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape,
                               const double *values) {
  itg_tensor *tensor = itg_graph_add_constant(graph, name, dtype, shape, NULL);
  if (tensor) itg_constant_fill(tensor, values);
  return tensor;
}

void itg_forget_own_constants(itg_graph *graph) {
  for (size_t i = 0; i < graph->tensor_count; i++) {
    if (graph->tensors[i]) graph->tensors[i]->index = 0;
  }
}

itg_shape itg_shape_permute(const itg_shape *shape, const int32_t *permutation) {
  itg_shape result = {.rank = shape->rank};
  for (int32_t i = 0; i < shape->rank; i++) result.dims[i] = shape->dims[permutation[i]];
  return result;
}

itg_shape itg_shape_extend(const itg_shape *shape, int32_t rank) {
  itg_shape result = {.rank = rank};
  const int32_t added = rank - shape->rank;
  for (int32_t i = 0; i < rank; i++) result.dims[i] = i < added ? 1 : shape->dims[i - added];
  return result;
}

itg_tensor *itg_constant_transpose(itg_graph *graph, const itg_tensor *tensor, const int32_t *permutation) {
  const size_t size = itg_dtype_size(tensor->dtype);
  const int32_t rank = tensor->shape.rank;
  const itg_shape shape = itg_shape_permute(&tensor->shape, permutation);
  size_t count, strides[ITG_MAX_RANK], step[ITG_MAX_RANK];
  if (!itg_shape_count(&shape, &count)) return NULL;
  itg_tensor *result = itg_graph_add_constant(graph, tensor->name, tensor->dtype, &shape, NULL);
  if (!result) return NULL;
  size_t stride = size;
  for (int32_t i = rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= (size_t)tensor->shape.dims[i];
  }
  for (int32_t i = 0; i < rank; i++) step[i] = strides[permutation[i]];
  int64_t index[ITG_MAX_RANK] = {0};
  const char *source = tensor->data;
  char *target = itg_tensor_writable(result);
  for (size_t i = 0; i < count; i++) {
    memcpy(target + i * size, source, size);
    for (int32_t d = rank - 1; d >= 0; d--) {
      source += step[d];
      if (++index[d] < shape.dims[d]) break;
      source -= step[d] * (size_t)shape.dims[d];
      index[d] = 0;
    }
  }
  return result;
}

itg_tensor *itg_constant_reshape(itg_graph *graph, const itg_tensor *tensor, const itg_shape *shape) {
  return itg_graph_add_borrowed(graph, tensor->name, tensor->dtype, shape, tensor->data);
}

itg_tensor *itg_insert_transpose(itg_graph *graph, itg_node *before, itg_tensor *x, const int32_t *permutation) {
  const itg_shape shape = itg_shape_permute(&x->shape, permutation);
  itg_tensor *y = itg_graph_add_tensor(graph, x->name, x->dtype, &shape);
  if (!y) return NULL;
  itg_node *node = itg_graph_insert_node(graph, before, ITG_OP_TRANSPOSE, NULL, &x, 1, &y, 1);
  if (!node) return NULL;
  for (int32_t i = 0; i < x->shape.rank; i++) node->attributes.permutation.permutation[i] = permutation[i];
  return y;
}

itg_tensor *itg_insert_reshape(itg_graph *graph, itg_node *before, itg_tensor *x, const itg_shape *shape) {
  itg_tensor *y = itg_graph_add_tensor(graph, x->name, x->dtype, shape);
  return y && itg_graph_insert_node(graph, before, ITG_OP_RESHAPE, NULL, &x, 1, &y, 1) ? y : NULL;
}

itg_node *itg_sole_producer(const itg_tensor *tensor, itg_op op) {
  if (!tensor || !tensor->producer || tensor->producer->op != op || tensor->user_count != 1 || tensor->is_output)
    return NULL;
  return tensor->producer;
}

bool itg_can_bypass_node(const itg_node *node, const itg_tensor *replacement) {
  return !node->outputs[0]->is_output ||
         !(replacement->is_output || replacement->is_input || itg_tensor_is_constant(replacement));
}

bool itg_bypass_node(itg_graph *graph, itg_node *node, itg_tensor *replacement) {
  if (!itg_graph_replace_uses(graph, node->outputs[0], replacement)) return false;
  itg_graph_remove_node(graph, node);
  return true;
}

// A work list through the scratch pointers of the nodes to be removed.
void itg_remove_dead(itg_graph *graph, itg_tensor *tensor) {
  itg_node *work = NULL;
  for (;;) {
    itg_node *node = tensor ? tensor->producer : NULL;
    bool dead = node != NULL;
    for (int32_t i = 0; dead && i < node->output_count; i++)
      dead = !node->outputs[i] || (node->outputs[i]->user_count == 0 && !node->outputs[i]->is_output);
    if (dead) {
      itg_graph_remove_node(graph, node);
      node->index = 0;
      node->scratch = work;
      work = node;
    }
    while (work && work->index == work->input_count) work = work->scratch;
    if (!work) return;
    tensor = work->inputs[work->index++];
  }
}

void itg_take_over_output(itg_graph *graph, itg_node *node, itg_node *last) {
  itg_tensor *result = last->outputs[0];
  itg_graph_remove_node(graph, last);
  itg_node_set_output(node, 0, result);
}

itg_node *itg_replace_node(itg_graph *graph, itg_node *node, itg_op op, itg_tensor *const *inputs,
                           int32_t input_count) {
  itg_node *before = node->next;
  itg_graph_remove_node(graph, node);
  return itg_graph_insert_node(graph, before, op, node->name, inputs, input_count, node->outputs, node->output_count);
}
