// Shape inference of operations that move elements. See infer.h.
#include <math.h>

#include "base/checked.h"
#include "graph/infer_rules.h"

static itg_status infer_reshape(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  itg_tensor *y = node->outputs[0];
  size_t from, to;
  if (!itg_shape_count(&x->shape, &from) || !itg_shape_count(&y->shape, &to) || from != to) {
    char left[96], right[96];
    ITG_INFER_SHAPE("%s cannot become %s", itg_shape_print(&x->shape, left, sizeof left),
                    itg_shape_print(&y->shape, right, sizeof right));
  }
  return itg_infer_set(node, 0, x->dtype, &y->shape, diagnostic);
}

static itg_status infer_transpose(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  itg_shape shape = {.rank = x->shape.rank};
  uint32_t seen = 0;
  for (int i = 0; i < shape.rank; i++) {
    const int32_t from = node->attributes.permutation.permutation[i];
    if (from < 0 || from >= shape.rank || (seen >> from & 1)) ITG_INFER_SHAPE("%s", "not a permutation");
    seen |= 1u << from;
    shape.dims[i] = x->shape.dims[from];
  }
  return itg_infer_set(node, 0, x->dtype, &shape, diagnostic);
}

static itg_status infer_concat(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  const int32_t axis = node->attributes.axis.axis;
  ITG_TRY(itg_infer_axis(node, axis, diagnostic));
  itg_shape shape = x->shape;
  for (int i = 1; i < node->input_count; i++) {
    ITG_TRY(itg_infer_expect(node, i, ITG_TYPES_ANY, diagnostic));
    const itg_tensor *other = node->inputs[i];
    if (other->dtype != x->dtype) ITG_TRY(itg_infer_same_type(node, i, diagnostic));
    bool fits = other->shape.rank == shape.rank;
    for (int d = 0; fits && d < shape.rank; d++) fits = d == axis || other->shape.dims[d] == shape.dims[d];
    if (!fits) ITG_INFER_SHAPE("%s does not fit %s along axis %d", other->name, x->name, (int)axis);
    if (!itg_checked_add_i64(shape.dims[axis], other->shape.dims[axis], &shape.dims[axis]))
      ITG_INFER_FAIL(ITG_ERROR_LIMIT, "axis %d overflows", (int)axis);
  }
  return itg_infer_set(node, 0, x->dtype, &shape, diagnostic);
}

static itg_status infer_slice(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  itg_tensor *y = node->outputs[0];
  const itg_slice_attributes *slice = &node->attributes.slice;
  if (y->shape.rank != x->shape.rank) ITG_INFER_SHAPE("%s", "a slice keeps the number of dimensions");
  for (int i = 0; i < x->shape.rank; i++) {
    const int64_t size = y->shape.dims[i], in = x->shape.dims[i], start = slice->start[i], step = slice->step[i];
    int64_t last = start;
    if (step == 0 || size < 0) ITG_INFER_SHAPE("the slice of dimension %d is not valid", i);
    if (size == 0) continue;
    if (start < 0 || start >= in || !itg_checked_multiply_i64(size - 1, step, &last) ||
        !itg_checked_add_i64(start, last, &last) || last < 0 || last >= in)
      ITG_INFER_SHAPE("the slice of dimension %d leaves its %lld elements", i, (long long)in);
  }
  return itg_infer_set(node, 0, x->dtype, &y->shape, diagnostic);
}

static itg_status infer_gather(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0], *indices = node->inputs[1];
  const int32_t axis = node->attributes.axis.axis;
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_INDEX, diagnostic));
  ITG_TRY(itg_infer_axis(node, axis, diagnostic));
  if (x->shape.rank - 1 + indices->shape.rank > ITG_MAX_RANK)
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "the result has more than %d dimensions", ITG_MAX_RANK);
  itg_shape shape = {0};
  for (int i = 0; i < axis; i++) shape.dims[shape.rank++] = x->shape.dims[i];
  for (int i = 0; i < indices->shape.rank; i++) shape.dims[shape.rank++] = indices->shape.dims[i];
  for (int i = axis + 1; i < x->shape.rank; i++) shape.dims[shape.rank++] = x->shape.dims[i];
  size_t count;
  if (x->shape.dims[axis] == 0 && itg_shape_count(&shape, &count) && count > 0)
    ITG_INFER_SHAPE("axis %d of %s is empty", (int)axis, x->name);
  return itg_infer_set(node, 0, x->dtype, &shape, diagnostic);
}

static itg_status check_elements(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0], *indices = node->inputs[1];
  const int32_t axis = node->attributes.axis.axis;
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_INDEX, diagnostic));
  ITG_TRY(itg_infer_axis(node, axis, diagnostic));
  if (indices->shape.rank != x->shape.rank)
    ITG_INFER_SHAPE("%s must have as many dimensions as %s", indices->name, x->name);
  for (int i = 0; i < x->shape.rank; i++) {
    if (i == axis ? indices->shape.dims[i] > 0 && x->shape.dims[i] == 0 : indices->shape.dims[i] > x->shape.dims[i])
      ITG_INFER_SHAPE("dimension %d of %s is larger than that of %s", i, indices->name, x->name);
  }
  return ITG_OK;
}

static itg_status infer_gather_elements(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(check_elements(node, diagnostic));
  return itg_infer_set(node, 0, node->inputs[0]->dtype, &node->inputs[1]->shape, diagnostic);
}

static itg_status check_scatter_type(const itg_node *node, itg_diagnostic *diagnostic) {
  const int32_t reduction = node->attributes.axis.flag;
  ITG_TRY(itg_infer_expect(node, 2, ITG_TYPES_ANY, diagnostic));
  ITG_TRY(itg_infer_same_type(node, 2, diagnostic));
  if (reduction < 0 || reduction > 4) ITG_INFER_SHAPE("unknown reduction %d", (int)reduction);
  if (reduction > 0 && node->inputs[0]->dtype == ITG_DTYPE_BOOL)
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "%s", "a reduction needs numbers");
  return ITG_OK;
}

static itg_status infer_scatter_elements(const itg_node *node, itg_diagnostic *diagnostic) {
  ITG_TRY(check_elements(node, diagnostic));
  ITG_TRY(check_scatter_type(node, diagnostic));
  if (!itg_shape_equal(&node->inputs[1]->shape, &node->inputs[2]->shape))
    ITG_INFER_SHAPE("%s and %s must have the same shape", node->inputs[1]->name, node->inputs[2]->name);
  return itg_infer_set(node, 0, itg_infer_dtype(node->inputs[0]), &node->inputs[0]->shape, diagnostic);
}

// Length of the index tuples of GatherND and ScatterND: the last dimension of the indices.
static itg_status tuple_length(const itg_node *node, int32_t batch, itg_diagnostic *diagnostic, int *out) {
  const itg_tensor *x = node->inputs[0], *indices = node->inputs[1];
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_INDEX, diagnostic));
  if (indices->shape.rank < 1 || batch < 0 || batch >= indices->shape.rank ||
      batch >= (x->shape.rank > 0 ? x->shape.rank : 1))
    ITG_INFER_SHAPE("%s has too few dimensions", indices->name);
  const int64_t length = indices->shape.dims[indices->shape.rank - 1];
  if (length < 1 || length > x->shape.rank - batch)
    ITG_INFER_SHAPE("index tuples of length %lld do not fit %s", (long long)length, x->name);
  size_t count;
  if (itg_shape_count(&x->shape, &count) && count == 0 && itg_shape_count(&indices->shape, &count) && count > 0)
    ITG_INFER_SHAPE("%s is empty", x->name);
  *out = (int)length;
  return ITG_OK;
}

static itg_status infer_gather_nd(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_shape *x = &node->inputs[0]->shape, *indices = &node->inputs[1]->shape;
  const int32_t batch = node->attributes.axis.flag;
  int length;
  ITG_TRY(tuple_length(node, batch, diagnostic, &length));
  for (int i = 0; i < batch; i++) {
    if (x->dims[i] != indices->dims[i]) ITG_INFER_SHAPE("batch dimension %d differs", i);
  }
  if (indices->rank - 1 + x->rank - batch - length > ITG_MAX_RANK)
    ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "the result has more than %d dimensions", ITG_MAX_RANK);
  itg_shape shape = itg_shape_of(indices->rank - 1, indices->dims);
  for (int i = batch + length; i < x->rank; i++) shape.dims[shape.rank++] = x->dims[i];
  return itg_infer_set(node, 0, node->inputs[0]->dtype, &shape, diagnostic);
}

static itg_status infer_scatter_nd(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_shape *x = &node->inputs[0]->shape, *indices = &node->inputs[1]->shape;
  int length;
  ITG_TRY(tuple_length(node, 0, diagnostic, &length));
  ITG_TRY(check_scatter_type(node, diagnostic));
  const itg_shape *updates = &node->inputs[2]->shape;
  bool fits = updates->rank == indices->rank - 1 + x->rank - length;
  for (int i = 0; fits && i < updates->rank; i++)
    fits = updates->dims[i] == (i < indices->rank - 1 ? indices->dims[i] : x->dims[i - (indices->rank - 1) + length]);
  if (!fits) ITG_INFER_SHAPE("the updates %s do not fit the indices", node->inputs[2]->name);
  return itg_infer_set(node, 0, itg_infer_dtype(node->inputs[0]), x, diagnostic);
}

static itg_status infer_pad(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  const itg_pad_attributes *pad = &node->attributes.pad;
  if (pad->mode < ITG_PAD_CONSTANT || pad->mode > ITG_PAD_WRAP) ITG_INFER_SHAPE("unknown mode %d", (int)pad->mode);
  itg_shape shape = x->shape;
  for (int i = 0; i < shape.rank; i++) {
    const int64_t in = x->shape.dims[i], begin = pad->begin[i], end = pad->end[i];
    const int64_t longest = pad->mode == ITG_PAD_CONSTANT  ? (int64_t)1 << 40
                            : pad->mode == ITG_PAD_REFLECT ? in - 1
                            : pad->mode == ITG_PAD_WRAP    ? in
                            : in > 0                       ? (int64_t)1 << 40
                                                           : 0;
    if (begin < -in || end < -in || in + (begin < 0 ? begin : 0) + (end < 0 ? end : 0) < 0)
      ITG_INFER_SHAPE("dimension %d is cropped by more than its %lld elements", i, (long long)in);
    if ((begin > 0 && begin > longest) || (end > 0 && end > longest))
      ITG_INFER_SHAPE("dimension %d of %lld elements cannot be padded by (%lld, %lld) in this mode", i, (long long)in,
                      (long long)begin, (long long)end);
    shape.dims[i] = in + begin + end;
  }
  return itg_infer_set(node, 0, x->dtype, &shape, diagnostic);
}

static itg_status infer_expand(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  itg_tensor *y = node->outputs[0];
  itg_shape shape;
  if (!itg_shape_broadcast(&x->shape, &y->shape, &shape) || !itg_shape_equal(&shape, &y->shape))
    ITG_INFER_SHAPE("%s does not broadcast to the output's shape", x->name);
  return itg_infer_set(node, 0, x->dtype, &y->shape, diagnostic);
}

static itg_status infer_tile(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  itg_tensor *y = node->outputs[0];
  bool fits = x->shape.rank == y->shape.rank;
  for (int i = 0; fits && i < x->shape.rank; i++)
    fits = x->shape.dims[i] == 0 ? y->shape.dims[i] == 0
                                 : y->shape.dims[i] >= 0 && y->shape.dims[i] % x->shape.dims[i] == 0;
  if (!fits) ITG_INFER_SHAPE("the output is no whole repetition of %s", x->name);
  return itg_infer_set(node, 0, x->dtype, &y->shape, diagnostic);
}

static itg_status infer_blocks(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  const itg_block_attributes *block = &node->attributes.block;
  const int64_t size = block->block;
  if (size < 1 || size > 1 << 20) ITG_INFER_SHAPE("block size %d is out of range", (int)block->block);
  if (x->shape.rank != 4) ITG_INFER_SHAPE("%s must have 4 dimensions", x->name);
  const bool last = block->layout == ITG_LAYOUT_CHANNELS_LAST;
  const int channel = last ? 3 : 1, row = last ? 1 : 2, column = row + 1;
  itg_shape shape = x->shape;
  if (node->op == ITG_OP_DEPTH_TO_SPACE) {
    if (shape.dims[channel] % (size * size) != 0)
      ITG_INFER_SHAPE("%lld channels do not divide by %lld", (long long)shape.dims[channel], (long long)(size * size));
    shape.dims[channel] /= size * size;
    if (!itg_checked_multiply_i64(shape.dims[row], size, &shape.dims[row]) ||
        !itg_checked_multiply_i64(shape.dims[column], size, &shape.dims[column]))
      ITG_INFER_FAIL(ITG_ERROR_LIMIT, "%s", "the output is too large");
  } else {
    if (shape.dims[row] % size != 0 || shape.dims[column] % size != 0)
      ITG_INFER_SHAPE("the image does not divide into blocks of %lld", (long long)size);
    shape.dims[row] /= size;
    shape.dims[column] /= size;
    if (!itg_checked_multiply_i64(shape.dims[channel], size * size, &shape.dims[channel]))
      ITG_INFER_FAIL(ITG_ERROR_LIMIT, "%s", "the output is too large");
  }
  return itg_infer_set(node, 0, x->dtype, &shape, diagnostic);
}

static itg_status infer_resize(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  itg_tensor *y = node->outputs[0];
  const itg_resize_attributes *resize = &node->attributes.resize;
  if (resize->mode < ITG_RESIZE_NEAREST || resize->mode > ITG_RESIZE_CUBIC ||
      resize->coordinates < ITG_RESIZE_HALF_PIXEL || resize->coordinates > ITG_RESIZE_HALF_PIXEL_SYMMETRIC ||
      resize->nearest_rounding < ITG_NEAREST_ROUND_PREFER_FLOOR || resize->nearest_rounding > ITG_NEAREST_CEIL)
    ITG_INFER_SHAPE("%s", "unknown mode");
  if (y->shape.rank != x->shape.rank) ITG_INFER_SHAPE("%s", "the number of dimensions changes");
  for (int i = 0; i < x->shape.rank; i++) {
    if (y->shape.dims[i] < 0 || (x->shape.dims[i] < 1 && y->shape.dims[i] != 0))
      ITG_INFER_SHAPE("dimension %d of %s is empty", i, x->name);
    if (!(resize->scale[i] > 0) || !isfinite(resize->scale[i]))
      ITG_INFER_SHAPE("scale %g of dimension %d must be positive", resize->scale[i], i);
  }
  return itg_infer_set(node, 0, x->dtype, &y->shape, diagnostic);
}

static itg_status infer_one_hot(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0], *values = node->inputs[1];
  itg_tensor *y = node->outputs[0];
  const int32_t axis = node->attributes.axis.axis;
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_INDEX, diagnostic));
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_ANY, diagnostic));
  ITG_TRY(itg_infer_vector(node, 1, 2, diagnostic));
  bool fits = y->shape.rank == x->shape.rank + 1 && axis >= 0 && axis < y->shape.rank;
  for (int i = 0; fits && i < y->shape.rank; i++)
    fits = i == axis ? y->shape.dims[i] >= 1 : y->shape.dims[i] == x->shape.dims[i < axis ? i : i - 1];
  if (!fits) ITG_INFER_SHAPE("the output does not fit %s", x->name);
  return itg_infer_set(node, 0, itg_infer_dtype(values), &y->shape, diagnostic);
}

static itg_status infer_reverse_sequence(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  const int32_t time = node->attributes.axis.axis, batch = node->attributes.axis.flag;
  ITG_TRY(itg_infer_axis(node, time, diagnostic));
  ITG_TRY(itg_infer_axis(node, batch, diagnostic));
  if (time == batch) ITG_INFER_SHAPE("time and batch axis are both %d", (int)time);
  ITG_TRY(itg_infer_expect(node, 1, ITG_TYPES_INDEX, diagnostic));
  ITG_TRY(itg_infer_vector(node, 1, x->shape.dims[batch], diagnostic));
  return itg_infer_set(node, 0, x->dtype, &x->shape, diagnostic);
}

itg_status itg_infer_movement(const itg_node *node, itg_diagnostic *diagnostic) {
  const int packed = node->op == ITG_OP_RESHAPE ? 1 << ITG_DTYPE_S4 : 0;
  ITG_TRY(itg_infer_expect(node, 0, ITG_TYPES_ANY | packed, diagnostic));
  if (!node->outputs[0]) ITG_INFER_SHAPE("%s", "the output is missing");
  switch (node->op) {
  case ITG_OP_RESHAPE: return infer_reshape(node, diagnostic);
  case ITG_OP_TRANSPOSE: return infer_transpose(node, diagnostic);
  case ITG_OP_CONCAT: return infer_concat(node, diagnostic);
  case ITG_OP_SLICE: return infer_slice(node, diagnostic);
  case ITG_OP_GATHER: return infer_gather(node, diagnostic);
  case ITG_OP_GATHER_ELEMENTS: return infer_gather_elements(node, diagnostic);
  case ITG_OP_GATHER_ND: return infer_gather_nd(node, diagnostic);
  case ITG_OP_SCATTER_ELEMENTS: return infer_scatter_elements(node, diagnostic);
  case ITG_OP_SCATTER_ND: return infer_scatter_nd(node, diagnostic);
  case ITG_OP_PAD: return infer_pad(node, diagnostic);
  case ITG_OP_EXPAND: return infer_expand(node, diagnostic);
  case ITG_OP_TILE: return infer_tile(node, diagnostic);
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH: return infer_blocks(node, diagnostic);
  case ITG_OP_RESIZE: return infer_resize(node, diagnostic);
  case ITG_OP_ONE_HOT: return infer_one_hot(node, diagnostic);
  case ITG_OP_REVERSE_SEQUENCE: return infer_reverse_sequence(node, diagnostic);
  case ITG_OP_TRILU:
    if (node->inputs[0]->shape.rank < 2) ITG_INFER_SHAPE("%s needs 2 dimensions", node->inputs[0]->name);
    return itg_infer_set(node, 0, node->inputs[0]->dtype, &node->inputs[0]->shape, diagnostic);
  default: ITG_INFER_FAIL(ITG_ERROR_UNSUPPORTED, "%s", "no shape rule");
  }
}
