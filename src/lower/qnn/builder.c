// Tensors, parameters and nodes of a QNN graph. See builder.h.
#include "lower/qnn/builder.h"

#include <stdio.h>
#include <string.h>

#include "lower/qnn/prepare.h"

uint32_t itg_qnn_type_of(itg_dtype dtype) {
  switch (dtype) {
  case ITG_DTYPE_U8: return ITG_QNN_TYPE_U8;
  case ITG_DTYPE_U16: return ITG_QNN_TYPE_U16;
  case ITG_DTYPE_S8: return ITG_QNN_TYPE_S8;
  case ITG_DTYPE_S32: return ITG_QNN_TYPE_S32_INTEGER;
  case ITG_DTYPE_BOOL: return ITG_QNN_TYPE_BOOL;
  default: return 0;
  }
}

static itg_status make_dims(itg_qnn_builder *b, const itg_tensor *tensor, uint32_t *rank, uint32_t **dims) {
  // A scalar is a vector of one for the vendor.
  *rank = tensor->shape.rank ? (uint32_t)tensor->shape.rank : 1;
  *dims = itg_arena_array(&b->arena, *rank, sizeof **dims);
  ITG_TRY_MEMORY(*dims, b->diagnostic);
  (*dims)[0] = 1;
  for (int32_t i = 0; i < tensor->shape.rank; i++) {
    if (tensor->shape.dims[i] <= 0 || tensor->shape.dims[i] > INT32_MAX)
      ITG_FAIL(b->diagnostic, ITG_ERROR_UNSUPPORTED, tensor->name, "dimension %d does not fit the NPU's 32-bit sizes",
               i);
    (*dims)[i] = (uint32_t)tensor->shape.dims[i];
  }
  return ITG_OK;
}

static void set_scale(itg_qnn_tensor *tensor, double scale, int32_t zero_point) {
  tensor->v1.quantization.definition = ITG_QNN_ENCODING_DEFINED;
  tensor->v1.quantization.encoding = ITG_QNN_ENCODING_SCALE_OFFSET;
  tensor->v1.quantization.scale_offset = (itg_qnn_scale_offset){(float)scale, -zero_point};
}

static void set_unquantized(itg_qnn_tensor *tensor) {
  tensor->v1.quantization.definition = ITG_QNN_UNDEFINED;
  tensor->v1.quantization.encoding = ITG_QNN_UNDEFINED;
}

static itg_status create(itg_qnn_builder *b, itg_qnn_tensor *tensor) {
  tensor->version = 1;
  if (b->is_survey) return ITG_OK;
  return itg_qnn_check(b->library->functions->tensor_create_graph_tensor(b->graph, tensor), "tensorCreateGraphTensor",
                       tensor->v1.name, b->diagnostic);
}

itg_status itg_qnn_activation(itg_qnn_builder *b, const itg_tensor *source, itg_qnn_tensor *out) {
  itg_qnn_tensor *known = itg_map_get(&b->tensors, source->name, strlen(source->name));
  if (known) {
    *out = *known;
    return ITG_OK;
  }
  itg_qnn_tensor *tensor = itg_arena_allocate(&b->arena, sizeof *tensor);
  ITG_TRY_MEMORY(tensor, b->diagnostic);
  tensor->v1.name = source->name;
  const size_t length = strlen(source->name);
  const bool enters = itg_map_get(&b->inputs, source->name, length) != NULL;
  const bool leaves = itg_map_get(&b->outputs, source->name, length) != NULL;
  tensor->v1.type = enters ? ITG_QNN_TENSOR_APP_WRITE : leaves ? ITG_QNN_TENSOR_APP_READ : ITG_QNN_TENSOR_NATIVE;
  if (enters || leaves) {
    char *name = itg_arena_allocate(&b->arena, length + sizeof ITG_QNN_CODES_SUFFIX);
    ITG_TRY_MEMORY(name, b->diagnostic);
    sprintf(name, "%s" ITG_QNN_CODES_SUFFIX, source->name);
    tensor->v1.name = name;
  }
  tensor->v1.data_type = itg_qnn_type_of(source->dtype);
  if (!tensor->v1.data_type || (!source->encoding && source->dtype != ITG_DTYPE_S32 && source->dtype != ITG_DTYPE_BOOL))
    ITG_FAIL(b->diagnostic, ITG_ERROR_UNSUPPORTED, source->name, "%s tensors have no place in the NPU's graph",
             itg_dtype_name(source->dtype));
  ITG_TRY(make_dims(b, source, &tensor->v1.rank, &tensor->v1.dims));
  if (source->data) {
    size_t bytes;
    if (!itg_shape_bytes(&source->shape, source->dtype, &bytes) || bytes > UINT32_MAX)
      ITG_FAIL(b->diagnostic, ITG_ERROR_LIMIT, source->name, "the constant is larger than the NPU's interface takes");
    tensor->v1.type = ITG_QNN_TENSOR_STATIC;
    tensor->v1.buffer = (itg_qnn_buffer){(void *)source->data, (uint32_t)bytes};
  }
  if (source->encoding)
    set_scale(tensor, source->encoding->scales[0],
              source->encoding->zero_points ? source->encoding->zero_points[0] : 0);
  else
    set_unquantized(tensor);
  ITG_TRY(create(b, tensor));
  ITG_TRY_MEMORY(itg_map_set(&b->tensors, source->name, length, tensor), b->diagnostic);
  *out = *tensor;
  return ITG_OK;
}

static char *fresh_name(itg_qnn_builder *b, const char *base) {
  char *name = itg_arena_allocate(&b->arena, strlen(base) + 24);
  if (name) sprintf(name, "%s/itg%llu", base, (unsigned long long)b->next_id++);
  return name;
}

itg_status itg_qnn_helper(itg_qnn_builder *b, const itg_tensor *like, uint32_t type, double scale, int32_t zero_point,
                          uint32_t rank, const uint32_t *dims, itg_qnn_tensor *out) {
  itg_qnn_tensor tensor = {0};
  tensor.v1.name = fresh_name(b, like->name);
  tensor.v1.type = ITG_QNN_TENSOR_NATIVE;
  tensor.v1.data_type = type;
  tensor.v1.rank = rank;
  tensor.v1.dims = itg_arena_copy(&b->arena, dims, rank * sizeof dims[0]);
  ITG_TRY_MEMORY(tensor.v1.name && tensor.v1.dims, b->diagnostic);
  set_scale(&tensor, scale, zero_point);
  ITG_TRY(create(b, &tensor));
  *out = tensor;
  return ITG_OK;
}

itg_status itg_qnn_constant(itg_qnn_builder *b, uint32_t type, uint32_t rank, const uint32_t *dims, const void *data,
                            size_t bytes, int32_t axis, int64_t count, const double *scales, int32_t zero_point,
                            itg_qnn_tensor *out) {
  if (bytes > UINT32_MAX || count > UINT32_MAX)
    ITG_FAIL(b->diagnostic, ITG_ERROR_LIMIT, NULL, "a constant of %zu bytes is larger than the NPU's interface takes",
             bytes);
  itg_qnn_tensor tensor = {0};
  tensor.v1.name = fresh_name(b, "constant");
  tensor.v1.type = ITG_QNN_TENSOR_STATIC;
  tensor.v1.data_type = type;
  tensor.v1.rank = rank;
  tensor.v1.dims = itg_arena_copy(&b->arena, dims, rank * sizeof dims[0]);
  ITG_TRY_MEMORY(tensor.v1.name && tensor.v1.dims, b->diagnostic);
  if (!scales) {
    set_unquantized(&tensor);
  } else if (count == 1) {
    set_scale(&tensor, scales[0], zero_point);
  } else {
    itg_qnn_scale_offset *entries = itg_arena_array(&b->arena, (size_t)count, sizeof entries[0]);
    ITG_TRY_MEMORY(entries, b->diagnostic);
    for (int64_t i = 0; i < count; i++) entries[i] = (itg_qnn_scale_offset){(float)scales[i], -zero_point};
    tensor.v1.quantization.definition = ITG_QNN_ENCODING_DEFINED;
    tensor.v1.quantization.encoding = ITG_QNN_ENCODING_AXIS;
    tensor.v1.quantization.axis = (itg_qnn_axis_encoding){axis, (uint32_t)count, entries};
  }
  tensor.v1.buffer = (itg_qnn_buffer){(void *)data, (uint32_t)bytes};
  ITG_TRY(create(b, &tensor));
  *out = tensor;
  return ITG_OK;
}

static itg_qnn_parameter *add_scalar(itg_qnn_parameters *p, const char *name, uint32_t type) {
  itg_qnn_parameter *item = &p->items[p->count++];
  *item = (itg_qnn_parameter){.kind = ITG_QNN_PARAMETER_SCALAR, .name = name};
  item->scalar.data_type = type;
  return item;
}

void itg_qnn_set_u32(itg_qnn_parameters *p, const char *name, uint32_t value) {
  add_scalar(p, name, ITG_QNN_TYPE_U32_INTEGER)->scalar.u32 = value;
}
void itg_qnn_set_s32(itg_qnn_parameters *p, const char *name, int32_t value) {
  add_scalar(p, name, ITG_QNN_TYPE_S32_INTEGER)->scalar.s32 = value;
}
void itg_qnn_set_f32(itg_qnn_parameters *p, const char *name, float value) {
  add_scalar(p, name, ITG_QNN_TYPE_F32)->scalar.f32 = value;
}
void itg_qnn_set_bool(itg_qnn_parameters *p, const char *name, bool value) {
  add_scalar(p, name, ITG_QNN_TYPE_BOOL)->scalar.boolean = value;
}

itg_status itg_qnn_set_array(itg_qnn_builder *b, itg_qnn_parameters *p, const char *name, uint32_t type, uint32_t rows,
                             uint32_t columns, const uint32_t *values) {
  const uint32_t dims[2] = {rows, columns};
  const size_t count = (size_t)rows * (columns ? columns : 1);
  const void *copy = itg_arena_copy(&b->arena, values, count * sizeof values[0]);
  ITG_TRY_MEMORY(copy, b->diagnostic);
  itg_qnn_parameter *item = &p->items[p->count];
  *item = (itg_qnn_parameter){.kind = ITG_QNN_PARAMETER_TENSOR, .name = name};
  ITG_TRY(
      itg_qnn_constant(b, type, columns ? 2 : 1, dims, copy, count * sizeof values[0], 0, 0, NULL, 0, &item->tensor));
  p->count++;
  return ITG_OK;
}

itg_status itg_qnn_add(itg_qnn_builder *b, const itg_node *node, const char *type, itg_qnn_parameters *parameters,
                       itg_qnn_tensor *inputs, uint32_t input_count, itg_qnn_tensor *output) {
  itg_qnn_op op = {.version = 1};
  op.v1.name = fresh_name(b, node->name);
  ITG_TRY_MEMORY(op.v1.name, b->diagnostic);
  op.v1.package = "qti.aisw";
  op.v1.type = type;
  op.v1.parameter_count = parameters ? parameters->count : 0;
  op.v1.parameters = parameters ? parameters->items : NULL;
  op.v1.input_count = input_count;
  op.v1.inputs = inputs;
  op.v1.output_count = 1;
  op.v1.outputs = output;
  char words[200];
  itg_qnn_take_log(words, sizeof words);
  // The validator is the only gate: some combinations that it rejects build anyway and compute garbage.
  if (b->library->functions->backend_validate_op(b->library->backend, op) != 0) {
    itg_qnn_take_log(words, sizeof words);
    ITG_FAIL(b->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s does not take this %s: %s",
             b->target ? b->target->name : "the NPU", type, words);
  }
  b->op_count++;
  if (b->is_survey) return ITG_OK;
  ITG_TRY(
      itg_qnn_check(b->library->functions->graph_add_node(b->graph, op), "graphAddNode", node->name, b->diagnostic));
  return ITG_OK;
}
