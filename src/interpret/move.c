// Operations that move elements without computing: copies, rearrangements, CONCAT, PAD, TRILU, REVERSE_SEQUENCE.
#include <string.h>

#include "interpret/executor.h"
#include "interpret/strided_copy.h"

// Moving works on whole elements of 1, 2, 4 or 8 bytes.
static itg_status require_elements(const itg_call *call, itg_diagnostic *diagnostic) {
  if (itg_dtype_size(call->outputs[0].dtype) == 0) return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  return ITG_OK;
}

itg_status itg_prepare_copy(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return require_elements(call, diagnostic);
}

itg_status itg_run_copy(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *y = &call->outputs[0];
  if (y->count) memmove(y->data, call->inputs[0].data, y->count * itg_dtype_size(y->dtype));
  return ITG_OK;
}

// ---- rearrangements: each is a strided view of the input ----

static void append_dim(itg_view *view, int64_t dim, int64_t stride) {
  view->dims[view->rank] = dim;
  view->strides[view->rank++] = stride;
}

static void dense_strides(const itg_shape *shape, int64_t *strides) {
  int64_t running = 1;
  for (int i = shape->rank - 1; i >= 0; i--) {
    strides[i] = running;
    running *= shape->dims[i];
  }
}

// Block index (i, j), channel c: channel (i*b + j)*C + c of the deep tensor, or c*b*b + i*b + j when column_row_depth.
static void view_depth_to_space(const itg_block_attributes *attributes, const itg_shape *x, const int64_t *s,
                                itg_view *view) {
  const bool last = attributes->layout == ITG_LAYOUT_CHANNELS_LAST;
  const int channel = last ? 3 : 1, height = last ? 1 : 2, width = height + 1;
  const int64_t b = attributes->block, depth = x->dims[channel] / (b * b), c = s[channel];
  const bool crd = attributes->column_row_depth != 0;
  const int64_t row = crd ? b * c : b * depth * c, column = crd ? c : depth * c, inner = crd ? b * b * c : c;
  append_dim(view, x->dims[0], s[0]);
  if (!last) append_dim(view, depth, inner);
  append_dim(view, x->dims[height], s[height]);
  append_dim(view, b, row);
  append_dim(view, x->dims[width], s[width]);
  append_dim(view, b, column);
  if (last) append_dim(view, depth, inner);
}

static void view_space_to_depth(const itg_block_attributes *attributes, const itg_shape *x, const int64_t *s,
                                itg_view *view) {
  const bool last = attributes->layout == ITG_LAYOUT_CHANNELS_LAST;
  const int channel = last ? 3 : 1, height = last ? 1 : 2, width = height + 1;
  const int64_t b = attributes->block;
  append_dim(view, x->dims[0], s[0]);
  if (last) {
    append_dim(view, x->dims[height] / b, s[height] * b);
    append_dim(view, x->dims[width] / b, s[width] * b);
  }
  append_dim(view, b, s[height]);
  append_dim(view, b, s[width]);
  append_dim(view, x->dims[channel], s[channel]);
  if (!last) {
    append_dim(view, x->dims[height] / b, s[height] * b);
    append_dim(view, x->dims[width] / b, s[width] * b);
  }
}

itg_status itg_prepare_rearrange(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_elements(call, diagnostic));
  const itg_attributes *attributes = &call->node->attributes;
  const itg_shape *x = &call->inputs[0].tensor->shape, *y = &call->outputs[0].tensor->shape;
  int64_t s[ITG_MAX_RANK] = {0};
  dense_strides(x, s);
  itg_view *view = itg_arena_allocate(preparation->arena, sizeof *view);
  ITG_TRY_MEMORY(view, diagnostic);
  switch (call->node->op) {
  case ITG_OP_TRANSPOSE:
    for (int i = 0; i < y->rank; i++) append_dim(view, y->dims[i], s[attributes->permutation.permutation[i]]);
    break;
  case ITG_OP_SLICE:
    for (int i = 0; i < y->rank; i++) {
      append_dim(view, y->dims[i], s[i] * attributes->slice.step[i]);
      view->offset += s[i] * attributes->slice.start[i];
    }
    break;
  case ITG_OP_EXPAND:
    for (int i = 0; i < y->rank; i++) {
      const int own = i - (y->rank - x->rank);
      append_dim(view, y->dims[i], own >= 0 && x->dims[own] != 1 ? s[own] : 0);
    }
    break;
  case ITG_OP_TILE:
    for (int i = 0; i < y->rank; i++) {
      append_dim(view, x->dims[i] ? y->dims[i] / x->dims[i] : 0, 0);
      append_dim(view, x->dims[i], s[i]);
    }
    break;
  case ITG_OP_DEPTH_TO_SPACE: view_depth_to_space(&attributes->block, x, s, view); break;
  case ITG_OP_SPACE_TO_DEPTH: view_space_to_depth(&attributes->block, x, s, view); break;
  default: ITG_FAIL(diagnostic, ITG_ERROR_INTERNAL, call->node->name, "not a rearrangement");
  }
  itg_view_simplify(view);
  preparation->prepared = view;
  return ITG_OK;
}

itg_status itg_run_rearrange(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  itg_view_copy(call->prepared, itg_dtype_size(call->outputs[0].dtype), call->inputs[0].data, call->outputs[0].data);
  return ITG_OK;
}

// ---- CONCAT ----

itg_status itg_prepare_concat(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return require_elements(call, diagnostic);
}

itg_status itg_run_concat(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *y = &call->outputs[0];
  if (y->count == 0) return ITG_OK;
  const int axis = call->node->attributes.axis.axis, rank = itg_operand_rank(y);
  const size_t size = itg_dtype_size(y->dtype), outer = itg_dims_product(itg_operand_dims(y), 0, axis);
  const size_t pitch = itg_dims_product(itg_operand_dims(y), axis, rank) * size;
  char *destination = y->data;
  for (int32_t i = 0; i < call->input_count; i++) {
    const itg_operand *x = &call->inputs[i];
    const size_t run = itg_dims_product(itg_operand_dims(x), axis, rank) * size;
    for (size_t o = 0; run && o < outer; o++) memcpy(destination + o * pitch, (const char *)x->data + o * run, run);
    destination += run;
  }
  return ITG_OK;
}

// ---- PAD: an index table for each dimension; -1 stands for the constant ----

typedef struct pad_plan {
  int64_t *source[ITG_MAX_RANK]; // Source index of each output index, times the source's stride.
  int64_t first, count;          // Innermost outputs [first, first + count) continue the source one by one.
  uint64_t fill;                 // The constant's bytes.
} pad_plan;

// Source index of position `i` (may lie outside of [0, n)), -1 for the constant.
static int64_t pad_source(int64_t i, int64_t n, int mode) {
  if (i >= 0 && i < n) return i;
  if (mode == ITG_PAD_CONSTANT || n == 0) return -1;
  if (mode == ITG_PAD_EDGE) return i < 0 ? 0 : n - 1;
  if (mode == ITG_PAD_WRAP) return (i % n + n) % n;
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1), phase = (i % period + period) % period;
  return phase < n ? phase : period - phase;
}

itg_status itg_prepare_pad(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_elements(call, diagnostic));
  const itg_pad_attributes *attributes = &call->node->attributes.pad;
  const itg_operand *x = &call->inputs[0], *y = &call->outputs[0];
  const int rank = itg_operand_rank(y);
  pad_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  int64_t strides[ITG_MAX_RANK] = {0};
  dense_strides(&x->tensor->shape, strides);
  for (int d = 0; d < rank; d++) {
    const int64_t out = itg_operand_dims(y)[d], in = itg_operand_dims(x)[d];
    plan->source[d] = itg_arena_array(preparation->arena, (size_t)out, sizeof(int64_t));
    ITG_TRY_MEMORY(plan->source[d], diagnostic);
    for (int64_t i = 0; i < out; i++) {
      const int64_t source = pad_source(i - attributes->begin[d], in, attributes->mode);
      plan->source[d][i] = source < 0 ? -1 : source * strides[d];
    }
    if (d != rank - 1) continue;
    plan->first = attributes->begin[d] > 0 ? attributes->begin[d] : 0;
    if (plan->first > out) plan->first = out;
    const int64_t end = attributes->begin[d] + in < out ? attributes->begin[d] + in : out;
    plan->count = end > plan->first ? end - plan->first : 0;
  }
  // Integers above 2^53 cannot be pad values here; the attribute is a double.
  itg_convert(ITG_DTYPE_F64, &attributes->value, y->dtype, &plan->fill, 1);
  preparation->prepared = plan;
  return ITG_OK;
}

static void fill_elements(size_t size, char *y, const uint64_t *value, int64_t count) {
  for (int64_t i = 0; i < count; i++) memcpy(y + (size_t)i * size, value, size);
}

itg_status itg_run_pad(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const pad_plan *plan = call->prepared;
  const itg_operand *y = &call->outputs[0];
  const int rank = itg_operand_rank(y), inner = rank - 1;
  const size_t size = itg_dtype_size(y->dtype);
  if (rank == 0) return itg_run_copy(call, diagnostic);
  if (y->count == 0) return ITG_OK;
  const int64_t *dims = itg_operand_dims(y), length = dims[inner];
  int64_t index[ITG_MAX_RANK] = {0};
  const char *source = call->inputs[0].data;
  char *destination = y->data;
  for (;; destination += (size_t)length * size) {
    int64_t base = 0;
    bool constant = false;
    for (int d = 0; d < inner; d++) {
      const int64_t offset = plan->source[d][index[d]];
      constant |= offset < 0;
      base += offset;
    }
    if (constant) {
      fill_elements(size, destination, &plan->fill, length);
    } else {
      for (int64_t i = 0; i < length; i++) {
        if (i == plan->first && plan->count > 0) {
          memcpy(destination + (size_t)i * size, source + (size_t)(base + plan->source[inner][i]) * size,
                 (size_t)plan->count * size);
          i += plan->count - 1;
        } else if (plan->source[inner][i] < 0) {
          memcpy(destination + (size_t)i * size, &plan->fill, size);
        } else {
          memcpy(destination + (size_t)i * size, source + (size_t)(base + plan->source[inner][i]) * size, size);
        }
      }
    }
    int d = inner - 1;
    for (; d >= 0; d--) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
    if (d < 0) return ITG_OK;
  }
}

// ---- TRILU, REVERSE_SEQUENCE ----

itg_status itg_prepare_trilu(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return require_elements(call, diagnostic);
}

itg_status itg_run_trilu(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0], *y = &call->outputs[0];
  if (y->count == 0) return ITG_OK;
  const int rank = itg_operand_rank(y);
  const int64_t rows = itg_operand_dims(y)[rank - 2], columns = itg_operand_dims(y)[rank - 1];
  const int64_t diagonal = call->node->attributes.axis.axis;
  const bool upper = call->node->attributes.axis.flag & 1;
  const size_t size = itg_dtype_size(y->dtype);
  memset(y->data, 0, y->count * size);
  for (size_t r = 0; r < y->count / (size_t)columns; r++) {
    int64_t split = (int64_t)r % rows + diagonal + (upper ? 0 : 1); // Columns below `split` are the lower part.
    split = split < 0 ? 0 : (split > columns ? columns : split);
    const size_t begin = r * (size_t)columns + (upper ? (size_t)split : 0);
    const size_t count = (size_t)(upper ? columns - split : split);
    memcpy((char *)y->data + begin * size, (const char *)x->data + begin * size, count * size);
  }
  return ITG_OK;
}

itg_status itg_prepare_reverse_sequence(const itg_call *call, itg_preparation *preparation,
                                        itg_diagnostic *diagnostic) {
  (void)preparation;
  const itg_axis_attributes *attributes = &call->node->attributes.axis;
  if (attributes->axis + attributes->flag != 1)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, call->node->name, "time and batch axes must be 0 and 1");
  return require_elements(call, diagnostic);
}

itg_status itg_run_reverse_sequence(const itg_call *call, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *y = &call->outputs[0];
  const int rank = itg_operand_rank(y);
  const int64_t *dims = itg_operand_dims(y);
  const bool time_first = call->node->attributes.axis.axis == 0;
  const int64_t steps = dims[time_first ? 0 : 1], batch = dims[time_first ? 1 : 0];
  const size_t run = itg_dims_product(dims, 2, rank) * itg_dtype_size(y->dtype);
  for (int64_t b = 0; b < batch; b++) {
    const int64_t length = itg_operand_integer(&call->inputs[1], (size_t)b);
    if (length < 0 || length > steps)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, call->node->name, "sequence length %lld is outside of [0, %lld]",
               (long long)length, (long long)steps);
    for (int64_t t = 0; run && t < steps; t++) {
      const int64_t from = t < length ? length - 1 - t : t;
      const size_t target = (size_t)(time_first ? t * batch + b : b * steps + t);
      const size_t source = (size_t)(time_first ? from * batch + b : b * steps + from);
      memcpy((char *)y->data + target * run, (const char *)x->data + source * run, run);
    }
  }
  return ITG_OK;
}
