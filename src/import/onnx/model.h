// The messages of onnx.proto as spans of the file: models, graphs, nodes, attributes, value descriptions.
#ifndef ITG_IMPORT_ONNX_MODEL_H
#define ITG_IMPORT_ONNX_MODEL_H

#include "import/onnx/tensor.h"
#include "import/onnx/wire.h"

// A growing list. Free with itg_onnx_spans_free.
typedef struct itg_onnx_spans {
  itg_span *items;
  size_t count, capacity;
} itg_onnx_spans;
bool itg_onnx_spans_add(itg_onnx_spans *list, itg_span span); // false without memory
void itg_onnx_spans_free(itg_onnx_spans *list);

typedef struct itg_onnx_graph { // GraphProto
  itg_span name;
  itg_onnx_spans nodes, initializers, inputs, outputs, value_infos;
} itg_onnx_graph;
ITG_MUST_USE itg_status itg_onnx_graph_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                             itg_onnx_graph *out);
void itg_onnx_graph_free(itg_onnx_graph *graph);

typedef struct itg_onnx_model { // ModelProto
  int64_t ir_version;
  int64_t opset;            // Of the default domain.
  itg_span graph;           // The message.
  itg_onnx_spans functions; // Model-local functions: FunctionProto.
  itg_onnx_spans metadata;  // StringStringEntryProto.
} itg_onnx_model;
// Errors: FORMAT, VERSION (opset). The two lists need itg_onnx_spans_free.
ITG_MUST_USE itg_status itg_onnx_model_parse(itg_span file, itg_diagnostic *diagnostic, itg_onnx_model *out);

enum { // AttributeProto.AttributeType
  ITG_ONNX_UNDEFINED = 0,
  ITG_ONNX_FLOAT = 1,
  ITG_ONNX_INT = 2,
  ITG_ONNX_STRING = 3,
  ITG_ONNX_TENSOR = 4,
  ITG_ONNX_GRAPH = 5,
  ITG_ONNX_FLOATS = 6,
  ITG_ONNX_INTS = 7,
};
typedef struct itg_onnx_attribute {
  itg_span name;
  itg_span message;   // Lists are decoded from here when they are needed.
  itg_span bytes;     // STRING, TENSOR, GRAPH
  itg_span reference; // Within a function: the attribute of the calling node that gives the value. Else empty.
  uint64_t type;
  int64_t i;
  float f;
} itg_onnx_attribute;

// A node; its buffers are reused by the next parse. Starts as zeroes.
typedef struct itg_onnx_node {
  itg_span name, op_type, domain;
  itg_onnx_spans inputs, outputs;
  itg_onnx_attribute *attributes;
  size_t attribute_count, attribute_capacity;
} itg_onnx_node;
ITG_MUST_USE itg_status itg_onnx_node_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                            itg_onnx_node *node);
void itg_onnx_node_free(itg_onnx_node *node);
// FunctionProto: a sub-graph with parameters, defined inside the model.
typedef struct itg_onnx_function {
  itg_onnx_spans inputs, outputs;
  itg_onnx_graph body;    // Nodes only.
  itg_onnx_node defaults; // Its attributes are the default values.
  int64_t opset;          // 0: not given.
} itg_onnx_function;
ITG_MUST_USE itg_status itg_onnx_function_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                                itg_onnx_function *out);
void itg_onnx_function_free(itg_onnx_function *function);
// "domain:name" of an operation, cut where it is long; the length.
size_t itg_onnx_operation_key(itg_span domain, itg_span name, char *key, size_t size);
// "domain:name" of a function, written to `key` (NUL-terminated, cut where it is long); its length.
ITG_MUST_USE itg_status itg_onnx_function_key(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                              char *key, size_t size, size_t *length);
// Decodes a list attribute into values[capacity]; *count is the full length. Errors: FORMAT.
ITG_MUST_USE itg_status itg_onnx_attribute_ints(const itg_onnx_attribute *attribute, itg_diagnostic *diagnostic,
                                                int64_t *values, size_t capacity, size_t *count);
ITG_MUST_USE itg_status itg_onnx_attribute_floats(const itg_onnx_attribute *attribute, itg_diagnostic *diagnostic,
                                                  float *values, size_t capacity, size_t *count);

typedef struct itg_onnx_value_info { // ValueInfoProto
  itg_span name;
  bool is_tensor, has_shape;
  uint64_t data_type;
  int32_t rank;
  int64_t dims[ITG_MAX_RANK];    // -1: unknown
  itg_span params[ITG_MAX_RANK]; // dim_param of unknown dimensions
} itg_onnx_value_info;
ITG_MUST_USE itg_status itg_onnx_value_info_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                                  itg_onnx_value_info *out);

#endif
