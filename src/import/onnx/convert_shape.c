// Operations on shapes, which the import computes itself, and those that only change the shape. See converters.h.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "import/onnx/converters.h"

enum { MAX_GENERATED = 1 << 22 }; // Elements of a constant made by Range, EyeLike or NonZero.

itg_status itg_onnx_convert_shape(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  int64_t start, end;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  const int64_t rank = x->shape.rank;
  ITG_TRY(itg_onnx_get_int(importer, "start", 0, &start));
  ITG_TRY(itg_onnx_get_int(importer, "end", rank, &end));
  start = itg_max_i64(0, itg_min_i64(rank, start < 0 ? start + rank : start));
  end = itg_max_i64(start, itg_min_i64(rank, end < 0 ? end + rank : end));
  ITG_TRY(itg_onnx_ints(importer, NULL, x->shape.dims + start, (size_t)(end - start), &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_size(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  size_t count;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  if (!itg_shape_count(&x->shape, &count)) ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "%s", "the size overflows");
  ITG_TRY(itg_onnx_filled(importer, NULL, ITG_DTYPE_S64, (double)count, NULL, &y));
  return itg_onnx_finish(importer, y);
}

static itg_status list_constant(itg_onnx_importer *importer, const itg_onnx_attribute *attribute, bool floats,
                                itg_tensor **out) {
  size_t count, again;
  ITG_TRY(floats ? itg_onnx_attribute_floats(attribute, importer->diagnostic, NULL, 0, &count)
                 : itg_onnx_attribute_ints(attribute, importer->diagnostic, NULL, 0, &count));
  const itg_shape shape = {1, {(int64_t)count}};
  ITG_TRY(itg_onnx_zeroed(importer, NULL, floats ? ITG_DTYPE_F32 : ITG_DTYPE_S64, &shape, out));
  if (floats)
    return itg_onnx_attribute_floats(attribute, importer->diagnostic, itg_tensor_writable(*out), count, &again);
  return itg_onnx_attribute_ints(attribute, importer->diagnostic, itg_tensor_writable(*out), count, &again);
}

static itg_status tensor_constant(itg_onnx_importer *importer, const itg_onnx_attribute *attribute, itg_tensor **out) {
  itg_onnx_tensor tensor = {0};
  ITG_TRY(itg_onnx_tensor_parse(attribute->bytes, importer->file, importer->diagnostic, &tensor));
  const itg_span name = importer->node->outputs.items[0];
  char *text = itg_arena_string(&importer->arena, (const char *)name.data, name.size);
  ITG_TRY_MEMORY(text, importer->diagnostic);
  return itg_onnx_make_constant(importer, &tensor, text, out);
}

itg_status itg_onnx_convert_constant(itg_onnx_importer *importer, int op) {
  (void)op;
  static const char *const names[] = {"value", "value_float", "value_int", "value_floats", "value_ints"};
  const itg_onnx_attribute *attribute = NULL;
  int kind = 0;
  for (; kind < 5; kind++) {
    attribute = itg_onnx_attribute_find(importer, names[kind]);
    if (attribute) break;
  }
  itg_tensor *y;
  switch (kind) {
  case 0: ITG_TRY(tensor_constant(importer, attribute, &y)); break;
  case 1: ITG_TRY(itg_onnx_filled(importer, NULL, ITG_DTYPE_F32, (double)attribute->f, NULL, &y)); break;
  case 2:
    ITG_TRY(itg_onnx_ints(importer, NULL, &attribute->i, 1, &y));
    y->shape.rank = 0;
    break;
  case 3:
  case 4: ITG_TRY(list_constant(importer, attribute, kind == 3, &y)); break;
  default: ITG_ONNX_REFUSE(importer, "%s", "only tensors and numbers are supported as values");
  }
  return itg_onnx_finish(importer, y);
}

// Dimensions from a constant input. Errors: UNSUPPORTED (rank), SHAPE.
static itg_status read_shape(const itg_onnx_importer *importer, size_t index, itg_shape *shape) {
  itg_tensor *tensor;
  size_t count;
  int64_t dims[64];
  ITG_TRY(itg_onnx_required(importer, index, &tensor));
  ITG_TRY(itg_onnx_constant_ints(importer, tensor, "the shape", dims, 64, &count));
  if (count > ITG_MAX_RANK) ITG_ONNX_REFUSE(importer, "%zu dimensions; at most %d are supported", count, ITG_MAX_RANK);
  *shape = itg_shape_of((int)count, dims);
  return ITG_OK;
}

itg_status itg_onnx_convert_constant_of_shape(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_shape shape;
  itg_tensor *value, *y;
  ITG_TRY(read_shape(importer, 0, &shape));
  for (int i = 0; i < shape.rank; i++) {
    if (shape.dims[i] < 0) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "dimension %d is negative", i);
  }
  const itg_onnx_attribute *attribute = itg_onnx_attribute_find(importer, "value");
  if (attribute)
    ITG_TRY(tensor_constant(importer, attribute, &value));
  else
    ITG_TRY(itg_onnx_filled(importer, "value", ITG_DTYPE_F32, 0, NULL, &value));
  size_t count;
  if (!itg_shape_count(&value->shape, &count) || count != 1)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "the value must have one element");
  const itg_shape scalar = {0};
  ITG_TRY(itg_onnx_reshape(importer, "value", value, &scalar, &value));
  ITG_TRY(itg_onnx_emit(importer, NULL, ITG_OP_EXPAND, NULL, &shape, 1, &value, &y));
  return itg_onnx_finish(importer, y);
}

static bool is_int(itg_dtype dtype) {
  return dtype == ITG_DTYPE_S64 || dtype == ITG_DTYPE_S32 || dtype == ITG_DTYPE_S16;
}

static itg_status fill_range(itg_onnx_importer *importer, const double *bounds, const int64_t *exact, size_t count,
                             itg_tensor *y) {
  void *data = itg_tensor_writable(y);
  for (size_t i = 0; i < count; i++) {
    const double real = bounds[0] + (double)i * bounds[2];
    const int64_t integer = (int64_t)((uint64_t)exact[0] + i * (uint64_t)exact[2]); // Within [start, limit).
    switch (y->dtype) {
    case ITG_DTYPE_F32: ((float *)data)[i] = (float)real; break;
    case ITG_DTYPE_F64: ((double *)data)[i] = real; break;
    case ITG_DTYPE_S64: ((int64_t *)data)[i] = integer; break;
    case ITG_DTYPE_S32: ((int32_t *)data)[i] = (int32_t)integer; break;
    case ITG_DTYPE_S16: ((int16_t *)data)[i] = (int16_t)integer; break;
    default: ITG_ONNX_REFUSE(importer, "type %s is not supported", itg_dtype_name(y->dtype));
    }
  }
  return ITG_OK;
}

itg_status itg_onnx_convert_range(itg_onnx_importer *importer, int op) {
  (void)op;
  static const char *const names[] = {"start", "limit", "delta"};
  double bounds[3] = {0};
  int64_t exact[3] = {0};
  itg_tensor *inputs[3];
  size_t count;
  for (size_t i = 0; i < 3; i++) {
    ITG_TRY(itg_onnx_required(importer, i, &inputs[i]));
    if (inputs[i]->dtype != inputs[0]->dtype) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the types differ");
    ITG_TRY(itg_onnx_constant_doubles(importer, inputs[i], names[i], &bounds[i], 1, &count));
    if (is_int(inputs[0]->dtype)) ITG_TRY(itg_onnx_constant_ints(importer, inputs[i], names[i], &exact[i], 1, &count));
    if (count != 1) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s is empty", names[i]);
  }
  const double steps = bounds[2] == 0 ? NAN : ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (!(steps <= MAX_GENERATED)) ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "a range of %g elements", steps);
  const itg_shape shape = {1, {steps > 0 ? (int64_t)steps : 0}};
  itg_tensor *y;
  ITG_TRY(itg_onnx_zeroed(importer, NULL, inputs[0]->dtype, &shape, &y));
  ITG_TRY(fill_range(importer, bounds, exact, (size_t)shape.dims[0], y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_eye_like(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *ones, *y;
  int64_t k, type;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "k", 0, &k));
  ITG_TRY(itg_onnx_get_int(importer, "dtype", 0, &type));
  const itg_dtype dtype = type ? itg_onnx_dtype((uint64_t)type) : x->dtype;
  if (x->shape.rank != 2) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "the input must have 2 dimensions");
  const int64_t rows = x->shape.dims[0], columns = x->shape.dims[1];
  if (dtype == ITG_DTYPE_NONE || rows > MAX_GENERATED || columns > MAX_GENERATED || rows * columns > MAX_GENERATED)
    ITG_ONNX_REFUSE(importer, "%lldx%lld of type %s is not supported", (long long)rows, (long long)columns,
                    itg_onnx_dtype_name((uint64_t)type));
  ITG_TRY(itg_onnx_zeroed(importer, dtype == ITG_DTYPE_F32 ? NULL : "diagonal", ITG_DTYPE_F32, &x->shape, &ones));
  float *values = itg_tensor_writable(ones);
  for (int64_t i = 0; i < rows; i++) {
    if (k > -MAX_GENERATED && k < MAX_GENERATED && i + k >= 0 && i + k < columns) values[i * columns + i + k] = 1;
  }
  ITG_TRY(itg_onnx_cast(importer, NULL, ones, dtype, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_non_zero(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  size_t count, found = 0;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  if (!itg_shape_count(&x->shape, &count) || count > MAX_GENERATED)
    ITG_ONNX_REFUSE(importer, "%s", "the input is too large");
  double *values = calloc(count + 1, sizeof *values);
  ITG_TRY_MEMORY(values, importer->diagnostic);
  const itg_status status = itg_onnx_constant_doubles(importer, x, "the input", values, count, &count);
  for (size_t i = 0; i < count && status == ITG_OK; i++) found += values[i] != 0;
  const itg_shape shape = {2, {x->shape.rank, (int64_t)found}};
  y = status == ITG_OK ? itg_graph_add_constant(importer->graph, NULL, ITG_DTYPE_S64, &shape, NULL) : NULL;
  for (size_t i = 0, at = 0; i < count && y; i++) {
    if (values[i] == 0) continue;
    size_t rest = i;
    for (int d = x->shape.rank - 1; d >= 0; d--) {
      ((int64_t *)itg_tensor_writable(y))[(size_t)d * found + at] = (int64_t)(rest % (size_t)x->shape.dims[d]);
      rest /= (size_t)x->shape.dims[d];
    }
    at++;
  }
  free(values);
  ITG_TRY(status);
  ITG_TRY_MEMORY(y, importer->diagnostic);
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_reshape(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  itg_shape shape;
  int64_t allow_zero, known = 1;
  int unknown = -1;
  size_t count;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(read_shape(importer, 1, &shape));
  ITG_TRY(itg_onnx_get_int(importer, "allowzero", 0, &allow_zero));
  for (int i = 0; i < shape.rank; i++) {
    if (shape.dims[i] == 0 && !allow_zero) {
      if (i >= x->shape.rank) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "dimension %d has nothing to copy", i);
      shape.dims[i] = x->shape.dims[i];
    }
    if (shape.dims[i] < -1 || (shape.dims[i] == -1 && unknown >= 0))
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "dimension %d is not valid", i);
    if (shape.dims[i] == -1)
      unknown = i;
    else if (!itg_checked_multiply_i64(known, shape.dims[i], &known))
      ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "%s", "the shape overflows");
  }
  if (unknown >= 0) {
    if (!itg_shape_count(&x->shape, &count) || known == 0 || count % (size_t)known != 0)
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%zu elements do not divide by %lld", count, (long long)known);
    shape.dims[unknown] = (int64_t)(count / (size_t)known);
  }
  ITG_TRY(itg_onnx_reshape(importer, NULL, x, &shape, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_flatten(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  int64_t axis;
  itg_shape shape = {.rank = 2};
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "axis", 1, &axis));
  if (axis < 0) axis += x->shape.rank;
  if (axis < 0 || axis > x->shape.rank)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "axis %lld is out of range", (long long)axis);
  ITG_TRY(itg_onnx_product(importer, &x->shape, 0, (int)axis, &shape.dims[0]));
  ITG_TRY(itg_onnx_product(importer, &x->shape, (int)axis, x->shape.rank, &shape.dims[1]));
  ITG_TRY(itg_onnx_reshape(importer, NULL, x, &shape, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_squeeze(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  int64_t axes[ITG_MAX_RANK];
  size_t count;
  bool present;
  uint32_t dropped = 0;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "axes", 1, axes, ITG_MAX_RANK, &count, &present));
  for (size_t i = 0; i < count; i++) {
    int32_t axis;
    ITG_TRY(itg_onnx_axis(importer, axes[i], x->shape.rank, &axis));
    if (x->shape.dims[axis] != 1) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "dimension %d is not 1", (int)axis);
    dropped |= 1u << axis;
  }
  itg_shape shape = {0};
  for (int i = 0; i < x->shape.rank; i++) {
    const bool drop = present ? dropped >> i & 1 : x->shape.dims[i] == 1;
    if (!drop) shape.dims[shape.rank++] = x->shape.dims[i];
  }
  ITG_TRY(itg_onnx_reshape(importer, NULL, x, &shape, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_unsqueeze(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y;
  int64_t axes[ITG_MAX_RANK];
  size_t count;
  bool present;
  uint32_t added = 0;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_ints_or_input(importer, "axes", 1, axes, ITG_MAX_RANK, &count, &present));
  const int rank = x->shape.rank + (int)count;
  if (rank > ITG_MAX_RANK) ITG_ONNX_REFUSE(importer, "%d dimensions; at most %d are supported", rank, ITG_MAX_RANK);
  for (size_t i = 0; i < count; i++) {
    int32_t axis;
    ITG_TRY(itg_onnx_axis(importer, axes[i], rank, &axis));
    if (added >> axis & 1) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "axis %d appears twice", (int)axis);
    added |= 1u << axis;
  }
  itg_shape shape = {.rank = rank};
  for (int i = 0, from = 0; i < rank; i++) shape.dims[i] = added >> i & 1 ? 1 : x->shape.dims[from++];
  ITG_TRY(itg_onnx_reshape(importer, NULL, x, &shape, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_expand(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  itg_shape target, shape;
  size_t count;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(read_shape(importer, 1, &target));
  if (!itg_shape_count(&target, &count) || !itg_shape_broadcast(&x->shape, &target, &shape))
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%s", "the input does not broadcast to the shape");
  if (itg_shape_equal(&shape, &x->shape)) return itg_onnx_finish(importer, x);
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, NULL, &shape, 1, &x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_tile(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  itg_shape repeats, shape;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(read_shape(importer, 1, &repeats));
  if (repeats.rank != x->shape.rank)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%d repeats for %d dimensions", (int)repeats.rank, (int)x->shape.rank);
  shape = x->shape;
  for (int i = 0; i < shape.rank; i++) {
    if (repeats.dims[i] < 0 || !itg_checked_multiply_i64(shape.dims[i], repeats.dims[i], &shape.dims[i]))
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%lld repeats of dimension %d", (long long)repeats.dims[i], i);
  }
  if (itg_shape_equal(&shape, &x->shape)) return itg_onnx_finish(importer, x);
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, NULL, &shape, 1, &x, &y));
  return itg_onnx_finish(importer, y);
}
