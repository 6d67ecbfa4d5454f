// Reading the current ONNX node: inputs, attributes, constant values. See importer.h.
#include "import/onnx/importer.h"

#include <string.h>

#include "base/checked.h"

bool itg_onnx_has_input(const itg_onnx_importer *importer, size_t index) {
  return index < importer->node->inputs.count && importer->node->inputs.items[index].size > 0;
}

bool itg_onnx_has_output(const itg_onnx_importer *importer, size_t index) {
  return index < importer->node->outputs.count && importer->node->outputs.items[index].size > 0;
}

itg_status itg_onnx_input(const itg_onnx_importer *importer, size_t index, itg_tensor **out) {
  *out = NULL;
  if (!itg_onnx_has_input(importer, index)) return ITG_OK;
  const itg_span name = importer->node->inputs.items[index];
  itg_tensor *tensor = itg_map_get(&importer->values, (const char *)name.data, name.size);
  const int shown = name.size < 100 ? (int)name.size : 100;
  if (!tensor)
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "input '%.*s' is neither an input, an initializer nor a node's output",
                  shown, (const char *)name.data);
  if (tensor == &importer->unusable)
    ITG_ONNX_REFUSE(importer, "input '%.*s' has an element type, or is an optional output, that is not supported",
                    shown, (const char *)name.data);
  if (tensor != &importer->absent) *out = tensor;
  return ITG_OK;
}

itg_status itg_onnx_required(const itg_onnx_importer *importer, size_t index, itg_tensor **out) {
  ITG_TRY(itg_onnx_input(importer, index, out));
  if (!*out) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "input %d is missing", (int)index);
  return ITG_OK;
}

// Element `index` of a constant as an integer; the data may be unaligned.
static bool element_as_int(const itg_tensor *tensor, size_t index, int64_t *value) {
  const size_t size = itg_dtype_size(tensor->dtype);
  const uint8_t *data = (const uint8_t *)tensor->data + index * size;
  uint64_t bits = 0;
  for (size_t i = 0; i < size; i++) bits |= (uint64_t)data[i] << (8 * i);
  switch (tensor->dtype) {
  case ITG_DTYPE_S8: *value = (int8_t)bits; return true;
  case ITG_DTYPE_S16: *value = (int16_t)bits; return true;
  case ITG_DTYPE_S32: *value = (int32_t)bits; return true;
  case ITG_DTYPE_S64:
  case ITG_DTYPE_U8:
  case ITG_DTYPE_U16:
  case ITG_DTYPE_U32:
  case ITG_DTYPE_BOOL: *value = (int64_t)bits; return true;
  case ITG_DTYPE_U64: *value = (int64_t)bits; return bits <= INT64_MAX;
  default: return false;
  }
}

static itg_status check_constant(const itg_onnx_importer *importer, const itg_tensor *tensor, const char *what,
                                 size_t capacity, size_t *count) {
  if (!itg_tensor_is_constant(tensor))
    ITG_ONNX_REFUSE(importer,
                    "%s ('%s') must be known when the model is imported; fix shapes with --shape, or export "
                    "the model with static shapes",
                    what, tensor->name);
  if (!itg_shape_count(&tensor->shape, count) || *count > capacity)
    ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "%s has more than %zu elements", what, capacity);
  return ITG_OK;
}

itg_status itg_onnx_constant_ints(const itg_onnx_importer *importer, const itg_tensor *tensor, const char *what,
                                  int64_t *values, size_t capacity, size_t *count) {
  ITG_TRY(check_constant(importer, tensor, what, capacity, count));
  for (size_t i = 0; i < *count; i++) {
    if (!element_as_int(tensor, i, &values[i]))
      ITG_ONNX_REFUSE(importer, "%s must be an integer, not %s", what, itg_dtype_name(tensor->dtype));
  }
  return ITG_OK;
}

itg_status itg_onnx_constant_doubles(const itg_onnx_importer *importer, const itg_tensor *tensor, const char *what,
                                     double *values, size_t capacity, size_t *count) {
  ITG_TRY(check_constant(importer, tensor, what, capacity, count));
  for (size_t i = 0; i < *count; i++) {
    const uint8_t *data = tensor->data;
    float single;
    int64_t integer;
    if (tensor->dtype == ITG_DTYPE_F32) {
      memcpy(&single, data + i * sizeof single, sizeof single);
      values[i] = (double)single;
    } else if (tensor->dtype == ITG_DTYPE_F64) {
      memcpy(&values[i], data + i * sizeof values[i], sizeof values[i]);
    } else if (element_as_int(tensor, i, &integer)) {
      values[i] = (double)integer;
    } else {
      ITG_ONNX_REFUSE(importer, "%s must not be of type %s", what, itg_dtype_name(tensor->dtype));
    }
  }
  return ITG_OK;
}

static const itg_onnx_attribute *find_attribute(const itg_onnx_node *node, itg_span name) {
  for (size_t i = 0; i < node->attribute_count; i++) {
    const itg_span other = node->attributes[i].name;
    if (other.size == name.size && (name.size == 0 || memcmp(other.data, name.data, name.size) == 0))
      return &node->attributes[i];
  }
  return NULL;
}

const itg_onnx_attribute *itg_onnx_attribute_find(const itg_onnx_importer *importer, const char *name) {
  const itg_span wanted = {(const uint8_t *)name, strlen(name)};
  const itg_onnx_attribute *attribute = find_attribute(importer->node, wanted);
  // Within a function a reference leads to the calling node, and on from there; else to the function's default.
  for (const itg_onnx_call *call = importer->call; call && attribute && attribute->reference.size; call = call->outer) {
    const itg_onnx_attribute *given = find_attribute(call->node, attribute->reference);
    attribute = given ? given : find_attribute(call->defaults, attribute->reference);
  }
  return attribute && attribute->reference.size == 0 ? attribute : NULL;
}

// Files before IR version 2 left the type out; such attributes are taken at their word.
static itg_status check_type(const itg_onnx_importer *importer, const itg_onnx_attribute *attribute, const char *name,
                             uint64_t type) {
  if (attribute->type != type && attribute->type != ITG_ONNX_UNDEFINED)
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "attribute '%s' has the wrong type", name);
  return ITG_OK;
}

itg_status itg_onnx_get_int(const itg_onnx_importer *importer, const char *name, int64_t otherwise, int64_t *value) {
  const itg_onnx_attribute *attribute = itg_onnx_attribute_find(importer, name);
  *value = otherwise;
  if (!attribute) return ITG_OK;
  ITG_TRY(check_type(importer, attribute, name, ITG_ONNX_INT));
  *value = attribute->i;
  return ITG_OK;
}

itg_status itg_onnx_get_float(const itg_onnx_importer *importer, const char *name, double otherwise, double *value) {
  const itg_onnx_attribute *attribute = itg_onnx_attribute_find(importer, name);
  *value = otherwise;
  if (!attribute) return ITG_OK;
  ITG_TRY(check_type(importer, attribute, name, ITG_ONNX_FLOAT));
  *value = (double)attribute->f;
  return ITG_OK;
}

itg_span itg_onnx_get_string(const itg_onnx_importer *importer, const char *name) {
  const itg_onnx_attribute *attribute = itg_onnx_attribute_find(importer, name);
  return attribute ? attribute->bytes : (itg_span){0};
}

itg_status itg_onnx_get_ints(const itg_onnx_importer *importer, const char *name, int64_t *values, size_t capacity,
                             size_t *count) {
  const itg_onnx_attribute *attribute = itg_onnx_attribute_find(importer, name);
  *count = 0;
  if (!attribute) return ITG_OK;
  ITG_TRY(check_type(importer, attribute, name, ITG_ONNX_INTS));
  ITG_TRY(itg_onnx_attribute_ints(attribute, importer->diagnostic, values, capacity, count));
  if (*count > capacity)
    ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "attribute '%s' has more than %zu values", name, capacity);
  return ITG_OK;
}

itg_status itg_onnx_get_ints_or_input(const itg_onnx_importer *importer, const char *name, size_t index,
                                      int64_t *values, size_t capacity, size_t *count, bool *present) {
  *count = 0;
  *present = itg_onnx_attribute_find(importer, name) != NULL;
  if (*present) return itg_onnx_get_ints(importer, name, values, capacity, count);
  itg_tensor *tensor;
  ITG_TRY(itg_onnx_input(importer, index, &tensor));
  *present = tensor != NULL;
  return tensor ? itg_onnx_constant_ints(importer, tensor, name, values, capacity, count) : ITG_OK;
}

itg_status itg_onnx_axis(const itg_onnx_importer *importer, int64_t axis, int32_t rank, int32_t *out) {
  if (axis < -rank || axis >= rank)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "axis %lld is outside the %d dimensions", (long long)axis, (int)rank);
  *out = (int32_t)(axis < 0 ? axis + rank : axis);
  return ITG_OK;
}

itg_status itg_onnx_product(const itg_onnx_importer *importer, const itg_shape *shape, int begin, int end,
                            int64_t *out) {
  int64_t product = 1;
  for (int i = begin; i < end; i++) {
    if (!itg_checked_multiply_i64(product, shape->dims[i], &product))
      ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "%s", "the product of the dimensions overflows");
  }
  *out = product;
  return ITG_OK;
}
