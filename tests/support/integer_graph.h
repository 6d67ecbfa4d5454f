// Small LEGAL graphs built by hand, with pseudo-random but fixed constants; for tests of the container, plan and session.
#ifndef ITG_TESTS_SUPPORT_INTEGER_GRAPH_H
#define ITG_TESTS_SUPPORT_INTEGER_GRAPH_H

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "graph/graph.h"
#include "graph/integer_ops.h"
#include "tensor/multiplier.h"

typedef struct builder {
  itg_graph *graph; // NULL after a failed allocation of the builder itself.
  uint32_t seed;
} builder;

static inline uint32_t builder_random(builder *b) {
  b->seed = b->seed * 1664525u + 1013904223u;
  return b->seed >> 8;
}

static inline itg_encoding *builder_encoding(builder *b, itg_dtype storage, double scale, int32_t zero) {
  itg_encoding *encoding = itg_arena_allocate(&b->graph->arena, sizeof *encoding);
  double *scales = itg_arena_allocate(&b->graph->arena, sizeof *scales);
  int32_t *zeros = itg_arena_allocate(&b->graph->arena, sizeof *zeros);
  *scales = scale;
  *zeros = zero;
  *encoding = (itg_encoding){.storage = storage, .axis = -1, .count = 1, .scales = scales, .zero_points = zeros};
  return encoding;
}

static inline itg_tensor *builder_activation(builder *b, const char *name, itg_dtype dtype, double scale, int32_t zero,
                                             itg_shape shape) {
  itg_tensor *tensor = itg_graph_add_tensor(b->graph, name, dtype, &shape);
  tensor->encoding = builder_encoding(b, dtype, scale, zero);
  return tensor;
}

#define SHAPE(...) \
  itg_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static inline itg_tensor *builder_weights(builder *b, itg_shape shape, int magnitude) {
  itg_tensor *tensor = itg_graph_add_constant(b->graph, "weight", ITG_DTYPE_S8, &shape, NULL);
  size_t count = 0;
  if (!itg_shape_count(&shape, &count)) abort();
  int8_t *data = itg_tensor_writable(tensor);
  for (size_t i = 0; i < count; i++)
    data[i] = (int8_t)((int)(builder_random(b) % (uint32_t)(2 * magnitude + 1)) - magnitude);
  return tensor;
}

static inline itg_tensor *builder_vector(builder *b, const char *name, int64_t count, int32_t low, int32_t high) {
  itg_tensor *tensor = itg_graph_add_constant(b->graph, name, ITG_DTYPE_S32, &(itg_shape){1, {count}}, NULL);
  int32_t *data = itg_tensor_writable(tensor);
  for (int64_t i = 0; i < count; i++)
    data[i] = low + (int32_t)(builder_random(b) % (uint32_t)((int64_t)high - low + 1));
  return tensor;
}

static inline itg_node *builder_node(builder *b, itg_op op, const char *name, int count, itg_tensor *const *inputs,
                                     itg_tensor *output) {
  return itg_graph_insert_node(b->graph, NULL, op, name, inputs, count, &output, 1);
}

// Bias, multipliers (about `factor`) and shifts of `channels` outputs into operands[2..4].
static inline void builder_requantization(builder *b, int64_t channels, double factor, itg_tensor **operands) {
  operands[ITG_Q_CONV_BIAS] = builder_vector(b, "bias", channels, -500, 500);
  operands[ITG_Q_CONV_MULTIPLIER] = builder_vector(b, "multiplier", channels, 0, 0);
  operands[ITG_Q_CONV_SHIFT] = builder_vector(b, "shift", channels, 0, 0);
  for (int64_t i = 0; i < channels; i++) {
    if (!itg_multiplier_from_double(factor * (1.0 + (builder_random(b) % 100) / 200.0),
                                    (int32_t *)operands[ITG_Q_CONV_MULTIPLIER]->data + i,
                                    (int32_t *)operands[ITG_Q_CONV_SHIFT]->data + i))
      abort();
  }
}

static inline int64_t builder_bound(const itg_tensor *x, const itg_tensor *weight, const itg_tensor *bias) {
  size_t count = 0;
  if (!itg_shape_count(&weight->shape, &count)) abort();
  const int64_t channels = bias->shape.dims[0], row = (int64_t)count / channels;
  const int64_t zero = x->encoding->zero_points[0], top = itg_code_max(x->dtype);
  int64_t bound = 0;
  for (int64_t o = 0; o < channels; o++) {
    int64_t sum = 0;
    for (int64_t i = 0; i < row; i++) sum += abs(((const int8_t *)weight->data)[o * row + i]);
    bound = itg_max_i64(bound, sum * itg_max_i64(zero, top - zero) + abs(((const int32_t *)bias->data)[o]));
  }
  return bound;
}

// A square convolution with padding k/2.
static inline itg_node *builder_conv(builder *b, const char *name, itg_tensor *x, itg_tensor *out, int kernel,
                                     int stride, int group, double factor) {
  const int64_t channels = out->shape.dims[3];
  itg_tensor *operands[5] = {x, builder_weights(b, SHAPE(channels, kernel, kernel, x->shape.dims[3] / group), 40)};
  builder_requantization(b, channels, factor, operands);
  itg_node *node = builder_node(b, ITG_OP_Q_CONV, name, 5, operands, out);
  itg_q_conv_attributes *conv = &node->attributes.q_conv;
  const int32_t pad = kernel / 2;
  conv->window = (itg_window){2, {kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}};
  conv->group = group;
  conv->high = itg_code_max(out->dtype);
  conv->bound = builder_bound(x, operands[1], operands[2]);
  conv->pair_sums_fit = 1; // 255 * 80 stays below 2^15.
  return node;
}

static inline itg_node *builder_fully_connected(builder *b, const char *name, itg_tensor *x, itg_tensor *out,
                                                double factor) {
  const int64_t outputs = out->shape.dims[out->shape.rank - 1];
  itg_tensor *operands[5] = {x, builder_weights(b, SHAPE(outputs, x->shape.dims[x->shape.rank - 1]), 60)};
  builder_requantization(b, outputs, factor, operands);
  itg_node *node = builder_node(b, ITG_OP_Q_FULLY_CONNECTED, name, 5, operands, out);
  node->attributes.q_conv.high = itg_code_max(out->dtype);
  node->attributes.q_conv.bound = builder_bound(x, operands[1], operands[2]);
  return node;
}

static inline itg_node *builder_add(builder *b, const char *name, itg_tensor *x, itg_tensor *y, itg_tensor *out) {
  itg_node *node = builder_node(b, ITG_OP_Q_ADD, name, 2, (itg_tensor *[]){x, y}, out);
  node->attributes.q_add = (itg_q_add_attributes){700000, 400000, 20, 0, itg_code_max(out->dtype), 0, 0};
  return node;
}

// u8 to u8 through 256 entries: a fixed permutation of the codes.
static inline itg_node *builder_table(builder *b, const char *name, itg_tensor *x, itg_tensor *out) {
  uint8_t entries[256];
  for (int i = 0; i < 256; i++) entries[i] = (uint8_t)(i * 7 + 3);
  itg_tensor *table = itg_graph_add_constant(b->graph, "table", ITG_DTYPE_U8, &(itg_shape){1, {256}}, entries);
  itg_node *node = builder_node(b, ITG_OP_Q_TABLE, name, 2, (itg_tensor *[]){x, table}, out);
  node->attributes.q_table.high = 255;
  return node;
}

// image u8 [1,6,6,3] -> conv3x3 -> + conv1x1 of the image -> table -> reshape -> fully connected -> code u16 [1,5],
// and the sum itself as a second output.
static inline itg_graph *builder_small_graph(void) {
  builder b = {.seed = 7};
  if (itg_graph_create(NULL, &b.graph) != ITG_OK) return NULL;
  b.graph->name = "small";
  itg_tensor *image = builder_activation(&b, "image", ITG_DTYPE_U8, 0.02, 120, SHAPE(1, 6, 6, 3));
  itg_tensor *left = builder_activation(&b, "left", ITG_DTYPE_U8, 0.05, 90, SHAPE(1, 6, 6, 4));
  itg_tensor *right = builder_activation(&b, "right", ITG_DTYPE_U8, 0.03, 30, SHAPE(1, 6, 6, 4));
  itg_tensor *sum = builder_activation(&b, "sum", ITG_DTYPE_U8, 0.06, 77, SHAPE(1, 6, 6, 4));
  itg_tensor *curve = builder_activation(&b, "curve", ITG_DTYPE_U8, 0.04, 11, SHAPE(1, 6, 6, 4));
  itg_tensor *flat = builder_activation(&b, "flat", ITG_DTYPE_U8, 0.04, 11, SHAPE(1, 144));
  itg_tensor *code = builder_activation(&b, "code", ITG_DTYPE_U16, 0.001, 30000, SHAPE(1, 5));
  if (!itg_graph_add_input(b.graph, image)) abort();
  builder_conv(&b, "conv", image, left, 3, 1, 1, 0.004);
  builder_conv(&b, "skip", image, right, 1, 1, 1, 0.02);
  builder_add(&b, "add", left, right, sum);
  builder_table(&b, "curve", sum, curve);
  builder_node(&b, ITG_OP_RESHAPE, "flatten", 1, &curve, flat);
  builder_fully_connected(&b, "embed", flat, code, 0.05);
  if (!itg_graph_add_output(b.graph, code) || !itg_graph_add_output(b.graph, sum)) abort();
  b.graph->stage = ITG_STAGE_LEGAL;
  return b.graph;
}

#endif
