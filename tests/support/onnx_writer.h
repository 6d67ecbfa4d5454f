// Writes small ONNX models for tests: just enough protobuf (onnx.proto3: field numbers in the comments).
#ifndef ITG_TESTS_ONNX_WRITER_H
#define ITG_TESTS_ONNX_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/protobuf_bytes.h"

// ValueInfoProto: 11 graph input, 12 graph output. `elements` is a TensorProto.DataType.
static inline void onnx_typed_value(onnx_bytes *graph, uint32_t field, const char *name, int64_t elements, int rank,
                                    const int64_t *dims) {
  onnx_bytes value = {0}, type = {0}, tensor = {0}, shape = {0};
  for (int i = 0; i < rank; i++) {
    onnx_bytes dim = {0};
    onnx_int(&dim, 1, dims[i]);   // dim_value
    onnx_message(&shape, 1, dim); // dim
  }
  onnx_int(&tensor, 1, elements);  // elem_type
  onnx_message(&tensor, 2, shape); // shape
  onnx_message(&type, 1, tensor);  // tensor_type
  onnx_text(&value, 1, name);      // name
  onnx_message(&value, 2, type);   // type
  onnx_message(graph, field, value);
}
static inline void onnx_value(onnx_bytes *graph, uint32_t field, const char *name, int rank, const int64_t *dims) {
  onnx_typed_value(graph, field, name, 1, rank, dims); // FLOAT
}
// Initializer (5) of elements of `size` bytes.
static inline void onnx_typed_weights(onnx_bytes *graph, const char *name, int64_t elements, size_t size, int rank,
                                      const int64_t *dims, const void *values) {
  onnx_bytes tensor = {0};
  size_t count = 1;
  for (int i = 0; i < rank; i++) {
    onnx_int(&tensor, 1, dims[i]); // dims
    count *= (size_t)dims[i];
  }
  onnx_int(&tensor, 2, elements); // data_type
  onnx_text(&tensor, 8, name);
  onnx_blob(&tensor, 9, values, count * size); // raw_data
  onnx_message(graph, 5, tensor);
}
static inline void onnx_weights(onnx_bytes *graph, const char *name, int rank, const int64_t *dims,
                                const float *values) {
  onnx_typed_weights(graph, name, 1, sizeof *values, rank, dims, values); // FLOAT
}
// Attribute (5 of a node) of integers.
static inline void onnx_integers(onnx_bytes *node, const char *name, int count, const int64_t *values) {
  onnx_bytes attribute = {0};
  onnx_text(&attribute, 1, name);
  for (int i = 0; i < count; i++) onnx_int(&attribute, 8, values[i]); // ints
  onnx_int(&attribute, 20, 7);                                        // type INTS
  onnx_message(node, 5, attribute);
}
// NodeProto (1) with up to three inputs (NULL: absent) and one output; `attributes` is emptied, may be NULL.
static inline void onnx_node(onnx_bytes *graph, const char *op, const char *name, const char *const inputs[3],
                             const char *output, onnx_bytes *attributes) {
  onnx_bytes node = {0};
  for (int i = 0; i < 3 && inputs[i]; i++) onnx_text(&node, 1, inputs[i]);
  onnx_text(&node, 2, output);
  onnx_text(&node, 3, name);
  onnx_text(&node, 4, op);
  if (attributes) {
    onnx_put(&node, attributes->data, attributes->size);
    free(attributes->data);
  }
  onnx_message(graph, 1, node);
}
static inline onnx_bytes onnx_model(onnx_bytes graph) {
  onnx_bytes model = {0}, opset = {0};
  onnx_int(&model, 1, 8); // ir_version
  onnx_text(&graph, 2, "test");
  onnx_message(&model, 7, graph);
  onnx_int(&opset, 2, 13); // version
  onnx_message(&model, 8, opset);
  return model;
}

static inline float onnx_random(uint32_t *state) { // [-1, 1)
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-23f - 1;
}

// A small embedder: x [1,3,side,side] -> Conv 3x3 (8 channels) -> Relu -> Conv 3x3 stride 2 -> Relu -> GlobalAveragePool ->
// Flatten -> Gemm -> y [1,16]. `unsupported` adds a node of an unknown kind at the end.
static inline onnx_bytes onnx_small_embedder(int64_t side, const char *unsupported) {
  static float weights[8 * 8 * 9];
  onnx_bytes graph = {0}, attributes = {0};
  uint32_t state = 7;
  const int64_t input[] = {1, 3, side, side}, output[] = {1, 16}, bias[] = {8}, pads[] = {1, 1, 1, 1},
                stride[] = {2, 2};
  const int64_t first[] = {8, 3, 3, 3}, second[] = {8, 8, 3, 3}, last[] = {8, 16};
  onnx_integers(&attributes, "pads", 4, pads);
  onnx_node(&graph, "Conv", "conv1", (const char *const[3]){"x", "w1", "b1"}, "c1", &attributes);
  onnx_node(&graph, "Relu", "relu1", (const char *const[3]){"c1"}, "r1", NULL);
  attributes = (onnx_bytes){0};
  onnx_integers(&attributes, "pads", 4, pads);
  onnx_integers(&attributes, "strides", 2, stride);
  onnx_node(&graph, "Conv", "conv2", (const char *const[3]){"r1", "w2", NULL}, "c2", &attributes);
  onnx_node(&graph, "Relu", "relu2", (const char *const[3]){"c2"}, "r2", NULL);
  onnx_node(&graph, "GlobalAveragePool", "pool", (const char *const[3]){"r2"}, "p", NULL);
  onnx_node(&graph, "Flatten", "flatten", (const char *const[3]){"p"}, "f", NULL);
  onnx_node(&graph, "Gemm", "gemm", (const char *const[3]){"f", "w3", NULL}, unsupported ? "g" : "y", NULL);
  if (unsupported) onnx_node(&graph, unsupported, "odd one", (const char *const[3]){"g"}, "y", NULL);
  for (size_t i = 0; i < 8 * 8 * 9; i++) weights[i] = 0.3f * onnx_random(&state);
  onnx_weights(&graph, "w1", 4, first, weights);
  onnx_weights(&graph, "w2", 4, second, weights);
  onnx_weights(&graph, "w3", 2, last, weights + 100);
  onnx_weights(&graph, "b1", 1, bias, weights + 300);
  onnx_value(&graph, 11, "x", 4, input);
  onnx_value(&graph, 12, "y", 2, output);
  return onnx_model(graph);
}

// A network that 8-bit activations destroy: the first channel is a thousand times larger than the seven that count.
// The Abs keeps the compiler from making the channels equally loud, which would save it.
// x [1,3,side,side] -> Conv 1x1 -> Abs -> Conv 1x1 (does not read the first channel) -> GlobalAveragePool -> y [1,8,1,1].
static inline onnx_bytes onnx_fragile_network(int64_t side) {
  float first[8 * 3], second[8 * 8];
  onnx_bytes graph = {0};
  uint32_t state = 5;
  const int64_t input[] = {1, 3, side, side}, output[] = {1, 8, 1, 1};
  const int64_t first_dims[] = {8, 3, 1, 1}, second_dims[] = {8, 8, 1, 1};
  for (int i = 0; i < 8 * 3; i++) first[i] = onnx_random(&state) * (i < 3 ? 1000.0f : 1.0f);
  for (int i = 0; i < 8 * 8; i++) second[i] = i % 8 == 0 ? 0.0f : onnx_random(&state);
  onnx_node(&graph, "Conv", "conv1", (const char *const[3]){"x", "w1"}, "c1", NULL);
  onnx_node(&graph, "Abs", "abs", (const char *const[3]){"c1"}, "a1", NULL);
  onnx_node(&graph, "Conv", "conv2", (const char *const[3]){"a1", "w2"}, "c2", NULL);
  onnx_node(&graph, "GlobalAveragePool", "pool", (const char *const[3]){"c2"}, "y", NULL);
  onnx_weights(&graph, "w1", 4, first_dims, first);
  onnx_weights(&graph, "w2", 4, second_dims, second);
  onnx_value(&graph, 11, "x", 4, input);
  onnx_value(&graph, 12, "y", 4, output);
  return onnx_model(graph);
}

static inline void onnx_write_file(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

#endif
