// A tiny encoder of ONNX files for tests of the importer: also what no exporter writes.
#ifndef ITG_TESTS_SUPPORT_ONNX_BYTES_H
#define ITG_TESTS_SUPPORT_ONNX_BYTES_H

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "support/protobuf_bytes.h"

// ValueInfoProto; a negative dimension -k is unknown and named "d<k>". rank < 0: no shape at all.
static inline onnx_bytes onnx_value(const char *name, int type, int rank, const int64_t *dims) {
  onnx_bytes shape = {0}, tensor = {0}, holder = {0}, value = {0};
  for (int i = 0; i < rank; i++) {
    onnx_bytes dim = {0};
    char text[3] = {'d', (char)('0' - dims[i] % 10), 0};
    if (dims[i] >= 0)
      onnx_int(&dim, 1, dims[i]);
    else
      onnx_text(&dim, 2, text);
    onnx_message(&shape, 1, dim);
  }
  onnx_int(&tensor, 1, type);
  if (rank >= 0)
    onnx_message(&tensor, 2, shape);
  else
    free(shape.data);
  onnx_message(&holder, 1, tensor);
  onnx_text(&value, 1, name);
  onnx_message(&value, 2, holder);
  return value;
}

// TensorProto without values.
static inline onnx_bytes onnx_tensor_head(const char *name, int type, int rank, const int64_t *dims) {
  onnx_bytes tensor = {0};
  for (int i = 0; i < rank; i++) onnx_int(&tensor, 1, dims[i]);
  onnx_int(&tensor, 2, type);
  if (name) onnx_text(&tensor, 8, name);
  return tensor;
}
static inline onnx_bytes onnx_raw_tensor(const char *name, int type, int rank, const int64_t *dims, const void *data,
                                         size_t size) {
  onnx_bytes tensor = onnx_tensor_head(name, type, rank, dims);
  onnx_blob(&tensor, 9, data, size);
  return tensor;
}

// NodeProto; `inputs` and `outputs` are names separated by commas.
static inline void onnx_names(onnx_bytes *node, uint32_t field, const char *names) {
  while (*names) {
    const size_t length = strcspn(names, ",");
    onnx_blob(node, field, names, length);
    names += length + (names[length] == ',');
  }
}
static inline onnx_bytes onnx_node(const char *op, const char *name, const char *inputs, const char *outputs) {
  onnx_bytes node = {0};
  onnx_names(&node, 1, inputs);
  onnx_names(&node, 2, outputs);
  if (name) onnx_text(&node, 3, name);
  onnx_text(&node, 4, op);
  return node;
}
static inline void onnx_attribute_int(onnx_bytes *node, const char *name, int64_t value) {
  onnx_bytes attribute = {0};
  onnx_text(&attribute, 1, name);
  onnx_int(&attribute, 3, value);
  onnx_int(&attribute, 20, 2);
  onnx_message(node, 5, attribute);
}
static inline void onnx_attribute_ints(onnx_bytes *node, const char *name, int count, const int64_t *values) {
  onnx_bytes attribute = {0};
  onnx_text(&attribute, 1, name);
  for (int i = 0; i < count; i++) onnx_int(&attribute, 8, values[i]);
  onnx_int(&attribute, 20, 7);
  onnx_message(node, 5, attribute);
}
static inline void onnx_attribute_text(onnx_bytes *node, const char *name, const char *value) {
  onnx_bytes attribute = {0};
  onnx_text(&attribute, 1, name);
  onnx_text(&attribute, 4, value);
  onnx_int(&attribute, 20, 3);
  onnx_message(node, 5, attribute);
}
static inline void onnx_attribute_graph(onnx_bytes *node, const char *name, onnx_bytes graph) {
  onnx_bytes attribute = {0};
  onnx_text(&attribute, 1, name);
  onnx_message(&attribute, 6, graph);
  onnx_int(&attribute, 20, 5);
  onnx_message(node, 5, attribute);
}

// ModelProto; the graph comes last, so that no proper prefix of the file is a valid model.
static inline onnx_bytes onnx_model(int64_t opset, onnx_bytes graph) {
  onnx_bytes model = {0}, import = {0};
  onnx_int(&model, 1, 8);
  onnx_int(&import, 2, opset);
  onnx_message(&model, 8, import);
  onnx_message(&model, 7, graph);
  return model;
}
static inline itg_span onnx_span(onnx_bytes bytes) { return (itg_span){bytes.data, bytes.size}; }

#endif
