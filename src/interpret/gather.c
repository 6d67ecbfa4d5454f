// Operations whose indices are data: gathers, scatters, ONE_HOT. An index out of range fails the run.
#include <string.h>

#include "interpret/executor.h"

// Negative indices count from the end.
static itg_status read_index(const itg_call *call, const itg_operand *indices, size_t position, int64_t limit,
                             itg_diagnostic *diagnostic, size_t *out) {
  const int64_t index = itg_operand_integer(indices, position);
  if (index < -limit || index >= limit)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, call->node->name, "index %lld is outside of [%lld, %lld]",
             (long long)index, (long long)-limit, (long long)limit - 1);
  *out = (size_t)(index < 0 ? index + limit : index);
  return ITG_OK;
}

static itg_status require_indexed(const itg_call *call, int32_t indices, itg_diagnostic *diagnostic) {
  const itg_dtype dtype = call->inputs[indices].dtype;
  if (itg_dtype_is_float(dtype) || itg_dtype_size(dtype) == 0) return itg_refuse_dtype(call, dtype, diagnostic);
  if (itg_dtype_size(call->outputs[0].dtype) == 0) return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  return ITG_OK;
}

itg_status itg_prepare_gather(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return require_indexed(call, 1, diagnostic);
}

itg_status itg_run_gather(const itg_call *call, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *indices = &call->inputs[1], *y = &call->outputs[0];
  const int axis = call->node->attributes.axis.axis, rank = itg_operand_rank(x);
  const int64_t *dims = itg_operand_dims(x);
  const size_t size = itg_dtype_size(y->dtype), outer = itg_dims_product(dims, 0, axis);
  const size_t run = itg_dims_product(dims, axis + 1, rank) * size, pitch = (size_t)dims[axis] * run;
  for (size_t i = 0; i < indices->count; i++) {
    size_t index = 0;
    ITG_TRY(read_index(call, indices, i, dims[axis], diagnostic, &index));
    for (size_t o = 0; run && o < outer; o++)
      memcpy((char *)y->data + (o * indices->count + i) * run, (const char *)x->data + o * pitch + index * run, run);
  }
  return ITG_OK;
}

static void copy_element(size_t size, const char *from, char *to) {
  switch (size) {
  case 1: *to = *from; break;
  case 2: memcpy(to, from, 2); break;
  case 4: memcpy(to, from, 4); break;
  default: memcpy(to, from, 8); break;
  }
}

// Walks every position of `indices` and gives the flat element offset in a tensor of `dims` with the coordinate along
// `axis` replaced by the index.
typedef struct element_walk {
  int64_t index[ITG_MAX_RANK];
  int64_t strides[ITG_MAX_RANK];
  size_t base; // Flat offset without the axis.
} element_walk;

static void element_walk_start(element_walk *walk, const itg_shape *shape) {
  *walk = (element_walk){.base = 0};
  int64_t running = 1;
  for (int i = shape->rank - 1; i >= 0; i--) {
    walk->strides[i] = running;
    running *= shape->dims[i];
  }
}
static void element_walk_next(element_walk *walk, const itg_shape *positions, int axis) {
  for (int d = positions->rank - 1; d >= 0; d--) {
    const size_t stride = d == axis ? 0 : (size_t)walk->strides[d];
    walk->base += stride;
    if (++walk->index[d] < positions->dims[d]) return;
    walk->base -= stride * (size_t)positions->dims[d];
    walk->index[d] = 0;
  }
}

itg_status itg_prepare_gather_elements(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return require_indexed(call, 1, diagnostic);
}

itg_status itg_run_gather_elements(const itg_call *call, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *indices = &call->inputs[1], *y = &call->outputs[0];
  const int axis = call->node->attributes.axis.axis;
  const size_t size = itg_dtype_size(y->dtype);
  element_walk walk;
  element_walk_start(&walk, &x->tensor->shape);
  for (size_t i = 0; i < indices->count; i++) {
    size_t index = 0;
    ITG_TRY(read_index(call, indices, i, itg_operand_dims(x)[axis], diagnostic, &index));
    const size_t offset = walk.base + index * (size_t)walk.strides[axis];
    copy_element(size, (const char *)x->data + offset * size, (char *)y->data + i * size);
    element_walk_next(&walk, &indices->tensor->shape, axis);
  }
  return ITG_OK;
}

// Flat offset of the block that an index tuple names: `depth` coordinates, blocks of `run` elements.
static itg_status read_tuple(const itg_call *call, const itg_operand *indices, size_t position, const int64_t *dims,
                             int depth, size_t run, itg_diagnostic *diagnostic, size_t *out) {
  size_t offset = 0;
  for (int d = 0; d < depth; d++) {
    size_t index = 0;
    ITG_TRY(read_index(call, indices, position + (size_t)d, dims[d], diagnostic, &index));
    offset = offset * (size_t)dims[d] + index;
  }
  *out = offset * run;
  return ITG_OK;
}

itg_status itg_prepare_gather_nd(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return require_indexed(call, 1, diagnostic);
}

itg_status itg_run_gather_nd(const itg_call *call, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *indices = &call->inputs[1], *y = &call->outputs[0];
  const int batch_dims = call->node->attributes.axis.flag, rank = itg_operand_rank(x);
  const int depth = (int)itg_operand_dims(indices)[itg_operand_rank(indices) - 1];
  const int64_t *dims = itg_operand_dims(x);
  const size_t size = itg_dtype_size(y->dtype), batches = itg_dims_product(dims, 0, batch_dims);
  const size_t pitch = itg_dims_product(dims, batch_dims, rank);
  const size_t run = itg_dims_product(dims, batch_dims + depth, rank);
  if (y->count == 0 || batches == 0 || run == 0) return ITG_OK;
  const size_t tuples = y->count / run / batches;
  for (size_t b = 0; b < batches; b++) {
    for (size_t t = 0; t < tuples; t++) {
      const size_t position = b * tuples + t;
      size_t offset;
      ITG_TRY(read_tuple(call, indices, position * (size_t)depth, dims + batch_dims, depth, run, diagnostic, &offset));
      memcpy((char *)y->data + position * run * size, (const char *)x->data + (b * pitch + offset) * size, run * size);
    }
  }
  return ITG_OK;
}

// ---- scatters ----

enum { REDUCTION_NONE = 0, REDUCTION_ADD, REDUCTION_MULTIPLY, REDUCTION_MAXIMUM, REDUCTION_MINIMUM };
#define FLOAT_TYPES(X) X(F32, float, float) X(F64, double, double)
#define INTEGER_TYPES(X)    \
  X(S8, int8_t, uint64_t)   \
  X(S16, int16_t, uint64_t) \
  X(S32, int32_t, uint64_t) \
  X(S64, int64_t, uint64_t) \
  X(U8, uint8_t, uint64_t) X(U16, uint16_t, uint64_t) X(U32, uint32_t, uint64_t) X(U64, uint64_t, uint64_t)

// y[i] = y[i] (reduction) x[i]; integers wrap, computed in `wide`.
#define COMBINE(enumerator, type, wide)                                    \
  case ITG_DTYPE_##enumerator: {                                           \
    const type *x = from;                                                  \
    type *y = to;                                                          \
    for (size_t i = 0; i < count; i++) {                                   \
      if (reduction == REDUCTION_ADD)                                      \
        y[i] = (type)((wide)y[i] + (wide)x[i]);                            \
      else if (reduction == REDUCTION_MULTIPLY)                            \
        y[i] = (type)((wide)y[i] * (wide)x[i]);                            \
      else if (reduction == REDUCTION_MAXIMUM ? x[i] > y[i] : x[i] < y[i]) \
        y[i] = x[i];                                                       \
    }                                                                      \
    return;                                                                \
  }
static void combine(itg_dtype dtype, int reduction, const void *from, void *to, size_t count) {
  if (reduction == REDUCTION_NONE) {
    memcpy(to, from, count * itg_dtype_size(dtype));
    return;
  }
  switch (dtype) {
    FLOAT_TYPES(COMBINE)
    INTEGER_TYPES(COMBINE)
  default: return;
  }
}

static itg_status prepare_scatter(const itg_call *call, itg_diagnostic *diagnostic) {
  ITG_TRY(require_indexed(call, 1, diagnostic));
  if (call->inputs[2].dtype != call->outputs[0].dtype) return itg_refuse_dtype(call, call->inputs[2].dtype, diagnostic);
  if (call->node->attributes.axis.flag != REDUCTION_NONE && call->outputs[0].dtype == ITG_DTYPE_BOOL)
    return itg_refuse_dtype(call, ITG_DTYPE_BOOL, diagnostic);
  return ITG_OK;
}

itg_status itg_prepare_scatter_elements(const itg_call *call, itg_preparation *preparation,
                                        itg_diagnostic *diagnostic) {
  (void)preparation;
  return prepare_scatter(call, diagnostic);
}

itg_status itg_run_scatter_elements(const itg_call *call, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *indices = &call->inputs[1], *updates = &call->inputs[2];
  const itg_operand *y = &call->outputs[0];
  const itg_axis_attributes *attributes = &call->node->attributes.axis;
  const size_t size = itg_dtype_size(y->dtype);
  if (y->count) memmove(y->data, x->data, y->count * size);
  element_walk walk;
  element_walk_start(&walk, &x->tensor->shape);
  for (size_t i = 0; i < indices->count; i++) {
    size_t index = 0;
    ITG_TRY(read_index(call, indices, i, itg_operand_dims(x)[attributes->axis], diagnostic, &index));
    const size_t offset = walk.base + index * (size_t)walk.strides[attributes->axis];
    combine(y->dtype, attributes->flag, (const char *)updates->data + i * size, (char *)y->data + offset * size, 1);
    element_walk_next(&walk, &indices->tensor->shape, attributes->axis);
  }
  return ITG_OK;
}

itg_status itg_prepare_scatter_nd(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return prepare_scatter(call, diagnostic);
}

itg_status itg_run_scatter_nd(const itg_call *call, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *indices = &call->inputs[1], *updates = &call->inputs[2];
  const itg_operand *y = &call->outputs[0];
  const int rank = itg_operand_rank(x), depth = (int)itg_operand_dims(indices)[itg_operand_rank(indices) - 1];
  const size_t size = itg_dtype_size(y->dtype), run = itg_dims_product(itg_operand_dims(x), depth, rank);
  if (y->count == 0) return ITG_OK;
  memmove(y->data, x->data, y->count * size);
  for (size_t t = 0; t < updates->count / run; t++) {
    size_t offset;
    ITG_TRY(read_tuple(call, indices, t * (size_t)depth, itg_operand_dims(x), depth, run, diagnostic, &offset));
    combine(y->dtype, call->node->attributes.axis.flag, (const char *)updates->data + t * run * size,
            (char *)y->data + offset * size, run);
  }
  return ITG_OK;
}

// ---- ONE_HOT: rows of `off` with `on` at the index; an index outside of the depth leaves its row off ----

itg_status itg_prepare_one_hot(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  if (itg_dtype_size(call->outputs[0].dtype) == 0 || call->inputs[1].dtype != call->outputs[0].dtype)
    return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  return ITG_OK;
}

itg_status itg_run_one_hot(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *indices = &call->inputs[0], *values = &call->inputs[1], *y = &call->outputs[0];
  const int axis = call->node->attributes.axis.axis;
  const int64_t depth = itg_operand_dims(y)[axis];
  const size_t size = itg_dtype_size(y->dtype);
  const size_t inner = itg_dims_product(itg_operand_dims(y), axis + 1, itg_operand_rank(y));
  const char *off = values->data, *on = off + size;
  for (size_t i = 0; i < y->count; i++) copy_element(size, off, (char *)y->data + i * size);
  for (size_t i = 0; i < indices->count; i++) {
    int64_t index;
    if (itg_dtype_is_float(indices->dtype))
      itg_convert(indices->dtype, (const char *)indices->data + i * itg_dtype_size(indices->dtype), ITG_DTYPE_S64,
                  &index, 1);
    else
      index = itg_operand_integer(indices, i);
    if (index < 0) index += depth;
    if (index < 0 || index >= depth) continue;
    const size_t offset = (i / inner * (size_t)depth + (size_t)index) * inner + i % inner;
    copy_element(size, on, (char *)y->data + offset * size);
  }
  return ITG_OK;
}
