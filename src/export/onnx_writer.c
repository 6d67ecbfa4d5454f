// See onnx_writer.h. Field numbers are those of onnx.proto3.
#include "export/onnx_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tensor/dtype.h"

enum { IR_VERSION = 10, WIRE_FIXED32 = 5, WIRE_BYTES = 2 };

static void put(itg_onnx_writer_bytes *out, const void *data, size_t size) {
  if (out->failed || size == 0) return;
  if (size > out->capacity - out->size) {
    const size_t wanted = 2 * (out->size + size) + 64;
    uint8_t *grown = wanted > size ? realloc(out->data, wanted) : NULL;
    if (!grown) {
      out->failed = true;
      return;
    }
    out->data = grown;
    out->capacity = wanted;
  }
  memcpy(out->data + out->size, data, size);
  out->size += size;
}

static void put_varint(itg_onnx_writer_bytes *out, uint64_t value) {
  uint8_t bytes[10];
  size_t count = 0;
  do {
    bytes[count++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value);
  put(out, bytes, count);
}

static void put_integer(itg_onnx_writer_bytes *out, int field, int64_t value) {
  put_varint(out, (uint64_t)field << 3);
  put_varint(out, (uint64_t)value);
}

static void put_blob(itg_onnx_writer_bytes *out, int field, const void *data, size_t size) {
  put_varint(out, (uint64_t)field << 3 | WIRE_BYTES);
  put_varint(out, size);
  put(out, data, size);
}

static void put_text(itg_onnx_writer_bytes *out, int field, const char *text) {
  put_blob(out, field, text, strlen(text));
}

// Appends a message and empties it.
static void put_message(itg_onnx_writer_bytes *out, int field, itg_onnx_writer_bytes *message) {
  put_blob(out, field, message->data, message->size);
  out->failed |= message->failed;
  free(message->data);
  *message = (itg_onnx_writer_bytes){0};
}

int itg_onnx_writer_type(itg_dtype dtype) {
  switch (dtype) {
  case ITG_DTYPE_F32: return 1;
  case ITG_DTYPE_U8: return 2;
  case ITG_DTYPE_S8: return 3;
  case ITG_DTYPE_U16: return 4;
  case ITG_DTYPE_S16: return 5;
  case ITG_DTYPE_S32: return 6;
  case ITG_DTYPE_S64: return 7;
  case ITG_DTYPE_BOOL: return 9;
  default: return 0;
  }
}

static void put_value(itg_onnx_writer_bytes *graph, int field, const char *name, itg_dtype dtype,
                      const itg_shape *shape) {
  itg_onnx_writer_bytes value = {0}, type = {0}, tensor = {0}, dims = {0};
  for (int32_t i = 0; i < shape->rank; i++) {
    itg_onnx_writer_bytes dim = {0};
    put_integer(&dim, 1, shape->dims[i]); // dim_value
    put_message(&dims, 1, &dim);          // dim
  }
  put_integer(&tensor, 1, itg_onnx_writer_type(dtype)); // elem_type
  put_message(&tensor, 2, &dims);                       // shape
  put_message(&type, 1, &tensor);                       // tensor_type
  put_text(&value, 1, name);
  put_message(&value, 2, &type);
  put_message(graph, field, &value);
}

void itg_onnx_writer_input(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape) {
  put_value(&model->graph, 11, name, dtype, shape);
}
void itg_onnx_writer_output(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape) {
  put_value(&model->graph, 12, name, dtype, shape);
}

void itg_onnx_writer_value(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape) {
  put_value(&model->graph, 13, name, dtype, shape);
}

void itg_onnx_writer_constant(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape,
                              const void *data, size_t bytes) {
  itg_onnx_writer_bytes tensor = {0};
  for (int32_t i = 0; i < shape->rank; i++) put_integer(&tensor, 1, shape->dims[i]); // dims
  put_integer(&tensor, 2, itg_onnx_writer_type(dtype));                              // data_type
  put_text(&tensor, 8, name);
  put_blob(&tensor, 9, data, bytes); // raw_data
  put_message(&model->graph, 5, &tensor);
}

void itg_onnx_writer_encoding(itg_onnx_writer *model, const char *scale_name, const char *zero_name, itg_dtype dtype,
                              double scale, int32_t zero_point) {
  const itg_shape scalar = {0};
  const float single = (float)scale;
  const uint8_t code8 = (uint8_t)zero_point;
  const uint16_t code16 = (uint16_t)zero_point;
  const bool is_wide = itg_dtype_size(dtype) == 2;
  itg_onnx_writer_constant(model, scale_name, ITG_DTYPE_F32, &scalar, &single, sizeof single);
  itg_onnx_writer_constant(model, zero_name, dtype, &scalar, is_wide ? (const void *)&code16 : (const void *)&code8,
                           is_wide ? sizeof code16 : sizeof code8);
}

static void put_attribute(itg_onnx_writer_attributes *attributes, itg_onnx_writer_bytes *attribute, const char *name,
                          int type) {
  put_text(attribute, 1, name);
  put_integer(attribute, 20, type);
  put_message(&attributes->bytes, 5, attribute);
}

void itg_onnx_writer_set_integer(itg_onnx_writer_attributes *attributes, const char *name, int64_t value) {
  itg_onnx_writer_bytes attribute = {0};
  put_integer(&attribute, 3, value);
  put_attribute(attributes, &attribute, name, 2);
}

void itg_onnx_writer_set_integers(itg_onnx_writer_attributes *attributes, const char *name, int count,
                                  const int64_t *values) {
  itg_onnx_writer_bytes attribute = {0};
  for (int i = 0; i < count; i++) put_integer(&attribute, 8, values[i]);
  put_attribute(attributes, &attribute, name, 7);
}

void itg_onnx_writer_set_float(itg_onnx_writer_attributes *attributes, const char *name, float value) {
  itg_onnx_writer_bytes attribute = {0};
  put_varint(&attribute, 2 << 3 | WIRE_FIXED32);
  put(&attribute, &value, sizeof value);
  put_attribute(attributes, &attribute, name, 1);
}

void itg_onnx_writer_set_string(itg_onnx_writer_attributes *attributes, const char *name, const void *text,
                                size_t size) {
  itg_onnx_writer_bytes attribute = {0};
  put_blob(&attribute, 4, text, size);
  put_attribute(attributes, &attribute, name, 3);
}

void itg_onnx_writer_node(itg_onnx_writer *model, const char *type, const char *domain, const char *name,
                          const char *const *inputs, size_t input_count, const char *const *outputs,
                          size_t output_count, itg_onnx_writer_attributes *attributes) {
  itg_onnx_writer_bytes node = {0};
  for (size_t i = 0; i < input_count; i++) put_text(&node, 1, inputs[i]);
  for (size_t i = 0; i < output_count; i++) put_text(&node, 2, outputs[i]);
  put_text(&node, 3, name);
  put_text(&node, 4, type);
  if (attributes) {
    put(&node, attributes->bytes.data, attributes->bytes.size);
    node.failed |= attributes->bytes.failed;
    free(attributes->bytes.data);
    *attributes = (itg_onnx_writer_attributes){0};
  }
  if (domain) put_text(&node, 7, domain);
  put_message(&model->graph, 1, &node);
}

static void put_opset(itg_onnx_writer_bytes *model, const char *domain, int64_t version) {
  itg_onnx_writer_bytes opset = {0};
  if (domain) put_text(&opset, 1, domain);
  put_integer(&opset, 2, version);
  put_message(model, 8, &opset);
}

itg_status itg_onnx_writer_finish(itg_onnx_writer *model, int opset, const char *path, itg_diagnostic *diagnostic) {
  itg_onnx_writer_bytes file = {0};
  put_text(&model->graph, 2, "intaglio");
  put_integer(&file, 1, IR_VERSION);
  put_text(&file, 2, "intaglio");
  put_text(&file, 3, ITG_VERSION);
  put_message(&file, 7, &model->graph);
  put_opset(&file, NULL, opset);
  put_opset(&file, "com.microsoft", 1);
  itg_status status = ITG_OK;
  if (file.failed)
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory for the ONNX file");
  else if (file.size > INT32_MAX)
    status = itg_fail(diagnostic, ITG_ERROR_LIMIT, path, __FILE__, __LINE__,
                      "the ONNX file would have %zu bytes; a protobuf message holds less than 2 GiB", file.size);
  else
    status = itg_write_file(path, file.data, file.size, diagnostic);
  free(file.data);
  return status;
}

void itg_onnx_writer_discard(itg_onnx_writer *model) {
  free(model->graph.data);
  *model = (itg_onnx_writer){0};
}
