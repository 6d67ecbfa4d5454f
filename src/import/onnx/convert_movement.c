// Operations that move elements by fixed patterns. See converters.h.
#include "base/checked.h"
#include "import/onnx/converters.h"

itg_status itg_onnx_convert_transpose(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  int64_t given[ITG_MAX_RANK];
  int32_t permutation[ITG_MAX_RANK];
  size_t count;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_ints(importer, "perm", given, ITG_MAX_RANK, &count));
  const int32_t rank = x->shape.rank;
  if (count != 0 && count != (size_t)rank)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "the permutation has %zu entries, the input %d dimensions", count,
                  (int)rank);
  for (int32_t i = 0; i < rank; i++) {
    permutation[i] = rank - 1 - i;
    if (count) ITG_TRY(itg_onnx_axis(importer, given[i], rank, &permutation[i]));
  }
  ITG_TRY(itg_onnx_transpose(importer, NULL, x, permutation, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_concat(itg_onnx_importer *importer, int op) {
  const size_t count = importer->node->inputs.count;
  int64_t axis;
  itg_attributes attributes = {0};
  itg_tensor *first, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &first));
  ITG_TRY(itg_onnx_get_int(importer, "axis", 1, &axis));
  ITG_TRY(itg_onnx_axis(importer, axis, first->shape.rank, &attributes.axis.axis));
  if (count == 1) return itg_onnx_finish(importer, first);
  if (count > INT32_MAX) ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "%zu inputs", count);
  itg_tensor **inputs = itg_arena_array(&importer->arena, count, sizeof inputs[0]);
  ITG_TRY_MEMORY(inputs, importer->diagnostic);
  for (size_t i = 0; i < count; i++) ITG_TRY(itg_onnx_required(importer, i, &inputs[i]));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, (int32_t)count, inputs, &y));
  return itg_onnx_finish(importer, y);
}

// Sizes of the parts: given, or as equal as the specification has it (opset 18: a smaller last part is allowed).
static itg_status split_sizes(itg_onnx_importer *importer, int64_t length, size_t parts, int64_t *sizes) {
  size_t count;
  bool present;
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "split", 1, sizes, parts, &count, &present));
  if (present && count != parts) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%zu sizes for %zu outputs", count, parts);
  if (!present) {
    const int64_t part = length / (int64_t)parts + (length % (int64_t)parts != 0);
    for (size_t i = 0; i < parts; i++) sizes[i] = itg_max_i64(0, itg_min_i64(part, length - (int64_t)i * part));
  }
  int64_t total = 0;
  for (size_t i = 0; i < parts; i++) {
    if (sizes[i] < 0 || !itg_checked_add_i64(total, sizes[i], &total))
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "part %zu is not valid", i);
  }
  if (total != length)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "the parts have %lld elements in all, the input %lld", (long long)total,
                  (long long)length);
  return ITG_OK;
}

itg_status itg_onnx_convert_split(itg_onnx_importer *importer, int op) {
  (void)op;
  const size_t parts = importer->node->outputs.count;
  int64_t given;
  int32_t axis;
  itg_tensor *x, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "axis", 0, &given));
  ITG_TRY(itg_onnx_axis(importer, given, x->shape.rank, &axis));
  int64_t *sizes = itg_arena_array(&importer->arena, parts, sizeof sizes[0]);
  ITG_TRY_MEMORY(sizes, importer->diagnostic);
  ITG_TRY(split_sizes(importer, x->shape.dims[axis], parts, sizes));
  int64_t start = 0;
  for (size_t i = 0; i < parts; start += sizes[i++]) {
    if (!itg_onnx_has_output(importer, i)) continue;
    itg_attributes attributes = {0};
    itg_shape shape = x->shape;
    for (int d = 0; d < shape.rank; d++) attributes.slice.step[d] = 1;
    attributes.slice.start[axis] = sizes[i] > 0 ? start : 0;
    shape.dims[axis] = sizes[i];
    y = x;
    if (parts > 1) ITG_TRY(itg_onnx_emit_output(importer, i, ITG_OP_SLICE, &attributes, &shape, x, &y));
    ITG_TRY(itg_onnx_bind(importer, i, y));
  }
  return ITG_OK;
}

// Resolves one dimension of a Slice: negative positions count from the end, everything is clamped to the input.
static void resolve_slice(int64_t dim, int64_t start, int64_t end, int64_t step, itg_slice_attributes *slice, int axis,
                          int64_t *size) {
  const int64_t farthest = (int64_t)1 << 41; // Beyond every dimension.
  step = itg_max_i64(-farthest, itg_min_i64(farthest, step));
  if (start < 0) start = start < -dim ? -1 : start + dim;
  if (end < 0) end = end < -dim ? -1 : end + dim;
  if (step > 0) {
    start = itg_max_i64(0, itg_min_i64(dim, start));
    end = itg_max_i64(0, itg_min_i64(dim, end));
    *size = end > start ? (end - start - 1) / step + 1 : 0;
  } else {
    start = itg_max_i64(0, itg_min_i64(dim - 1, start));
    end = itg_min_i64(dim - 1, end);
    *size = dim > 0 && start > end ? (start - end - 1) / -step + 1 : 0;
  }
  slice->start[axis] = *size > 0 ? start : 0;
  slice->step[axis] = step;
}

itg_status itg_onnx_convert_slice(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  int64_t starts[ITG_MAX_RANK], ends[ITG_MAX_RANK], axes[ITG_MAX_RANK], steps[ITG_MAX_RANK];
  size_t count, end_count, axis_count, step_count;
  bool present;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "starts", 1, starts, ITG_MAX_RANK, &count, &present));
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "ends", 2, ends, ITG_MAX_RANK, &end_count, &present));
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "axes", 3, axes, ITG_MAX_RANK, &axis_count, &present));
  const bool has_axes = present;
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "steps", 4, steps, ITG_MAX_RANK, &step_count, &present));
  if (end_count != count || (has_axes && axis_count != count) || (present && step_count != count) ||
      count > (size_t)x->shape.rank)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "starts, ends, axes and steps do not have the same length");
  itg_attributes attributes = {0};
  itg_shape shape = x->shape;
  bool whole = true;
  for (int i = 0; i < shape.rank; i++) attributes.slice.step[i] = 1;
  for (size_t i = 0; i < count; i++) {
    int32_t axis = (int32_t)i;
    if (has_axes) ITG_TRY(itg_onnx_axis(importer, axes[i], shape.rank, &axis));
    const int64_t step = present ? steps[i] : 1;
    if (step == 0) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "a step is 0");
    resolve_slice(x->shape.dims[axis], starts[i], ends[i], step, &attributes.slice, axis, &shape.dims[axis]);
    whole &= step == 1 && shape.dims[axis] == x->shape.dims[axis];
  }
  if (whole) return itg_onnx_finish(importer, x);
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, &shape, 1, &x, &y));
  return itg_onnx_finish(importer, y);
}

static itg_status pad_mode(const itg_onnx_importer *importer, int32_t *mode) {
  const itg_span text = itg_onnx_get_string(importer, "mode");
  if (text.size == 0 || itg_span_equals(text, "constant"))
    *mode = ITG_PAD_CONSTANT;
  else if (itg_span_equals(text, "reflect"))
    *mode = ITG_PAD_REFLECT;
  else if (itg_span_equals(text, "edge"))
    *mode = ITG_PAD_EDGE;
  else if (itg_span_equals(text, "wrap"))
    *mode = ITG_PAD_WRAP;
  else
    ITG_ONNX_REFUSE(importer, "mode '%.*s' is not supported", text.size < 40 ? (int)text.size : 40,
                    (const char *)text.data);
  return ITG_OK;
}

itg_status itg_onnx_convert_pad(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *value, *y;
  int64_t pads[2 * ITG_MAX_RANK], axes[ITG_MAX_RANK];
  size_t count, axis_count = 0, one;
  bool present, any = false, has_axes = false;
  itg_attributes attributes = {0};
  itg_pad_attributes *pad = &attributes.pad;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(pad_mode(importer, &pad->mode));
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "pads", 1, pads, 2 * ITG_MAX_RANK, &count, &present));
  ITG_TRY(itg_onnx_get_float(importer, "value", 0, &pad->value));
  if (importer->opset >= 11) {
    ITG_TRY(itg_onnx_input(importer, 2, &value));
    if (value) ITG_TRY(itg_onnx_constant_doubles(importer, value, "constant_value", &pad->value, 1, &one));
    ITG_TRY(itg_onnx_get_ints_or_input(importer, "axes", 3, axes, ITG_MAX_RANK, &axis_count, &has_axes));
  }
  if (!has_axes) axis_count = (size_t)x->shape.rank;
  if (count != 2 * axis_count) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%zu pads for %zu axes", count, axis_count);
  for (size_t i = 0; i < axis_count; i++) {
    int32_t axis = (int32_t)i;
    if (has_axes) ITG_TRY(itg_onnx_axis(importer, axes[i], x->shape.rank, &axis));
    pad->begin[axis] = pads[i];
    pad->end[axis] = pads[axis_count + i];
    any |= pads[i] != 0 || pads[axis_count + i] != 0;
  }
  if (!any) return itg_onnx_finish(importer, x);
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

static itg_status convert_blocks(itg_onnx_importer *importer, int op, bool column_row_depth) {
  itg_tensor *x, *y;
  int64_t size;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "blocksize", 0, &size));
  if (size < 1 || size > 1 << 20)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "block size %lld is out of range", (long long)size);
  const itg_attributes attributes = {.block = {(int32_t)size, ITG_LAYOUT_CHANNELS_FIRST, column_row_depth, 0}};
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_depth_to_space(itg_onnx_importer *importer, int op) {
  return convert_blocks(importer, op, itg_span_equals(itg_onnx_get_string(importer, "mode"), "CRD"));
}

itg_status itg_onnx_convert_space_to_depth(itg_onnx_importer *importer, int op) {
  return convert_blocks(importer, op, false);
}

itg_status itg_onnx_convert_trilu(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *given, *y;
  int64_t upper, k = 0;
  size_t count;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "upper", 1, &upper));
  ITG_TRY(itg_onnx_input(importer, 1, &given));
  if (given) ITG_TRY(itg_onnx_constant_ints(importer, given, "k", &k, 1, &count));
  k = itg_max_i64(INT32_MIN / 2, itg_min_i64(INT32_MAX / 2, k));
  const itg_attributes attributes = {.axis = {(int32_t)k, upper != 0}};
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_reverse_sequence(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[2], *y;
  int64_t batch, time;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_get_int(importer, "batch_axis", 1, &batch));
  ITG_TRY(itg_onnx_get_int(importer, "time_axis", 0, &time));
  ITG_TRY(itg_onnx_axis(importer, batch, inputs[0]->shape.rank, &attributes.axis.flag));
  ITG_TRY(itg_onnx_axis(importer, time, inputs[0]->shape.rank, &attributes.axis.axis));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}
