// Building small float graphs in tests, running them, and comparing a graph with its rewritten copy.
#ifndef ITG_TESTS_FLOAT_GRAPH_H
#define ITG_TESTS_FLOAT_GRAPH_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "interpret/interpret.h"

static uint64_t random_state = 1;

static inline uint32_t random_bits(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33);
}
// In [low, high].
static inline int random_int(int low, int high) { return low + (int)(random_bits() % (unsigned)(high - low + 1)); }
static inline bool random_bool(void) { return random_bits() & 1; }
static inline float random_float(double low, double high) {
  return (float)(low + (high - low) * ((double)random_bits() / 2147483648.0));
}

static inline itg_graph *new_graph(void) {
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  return graph;
}

#define DIMS(...) \
  itg_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static inline itg_tensor *add_input(itg_graph *graph, const char *name, itg_shape shape) {
  itg_tensor *tensor = itg_graph_add_tensor(graph, name, ITG_DTYPE_F32, &shape);
  assert_true(itg_graph_add_input(graph, tensor));
  return tensor;
}

static inline itg_tensor *add_random(itg_graph *graph, itg_shape shape, double low, double high) {
  size_t count;
  assert_true(itg_shape_count(&shape, &count));
  itg_tensor *tensor = itg_graph_add_constant(graph, "c", ITG_DTYPE_F32, &shape, NULL);
  for (size_t i = 0; i < count; i++) ((float *)itg_tensor_writable(tensor))[i] = random_float(low, high);
  return tensor;
}

static inline itg_tensor *add_scalar(itg_graph *graph, double value) {
  const itg_shape shape = random_bool() ? (itg_shape){0} : DIMS(1);
  const float data = (float)value;
  return itg_graph_add_constant(graph, "s", ITG_DTYPE_F32, &shape, &data);
}

static inline itg_tensor *add_indices(itg_graph *graph, int count, int limit) {
  itg_shape shape = DIMS(count);
  if (count == 0) shape = (itg_shape){0};
  itg_tensor *tensor = itg_graph_add_constant(graph, "i", ITG_DTYPE_S64, &shape, NULL);
  for (int i = 0; i < (count ? count : 1); i++) ((int64_t *)itg_tensor_writable(tensor))[i] = random_int(0, limit - 1);
  return tensor;
}

// Appends a node; `shape` is needed for operations whose output shape the builder decides. Attributes are copied.
static inline itg_tensor *add_shaped(itg_graph *graph, itg_op op, const itg_attributes *attributes,
                                     const itg_shape *shape, int count, itg_tensor *const *inputs) {
  const itg_shape placeholder = {0};
  itg_tensor *y = itg_graph_add_tensor(graph, itg_op_name((int)op), ITG_DTYPE_F32, shape ? shape : &placeholder);
  itg_node *node = itg_graph_insert_node(graph, NULL, op, y->name, inputs, count, &y, 1);
  if (attributes) node->attributes = *attributes;
  itg_diagnostic diagnostic = {0};
  if (itg_infer_node(node, &diagnostic) != ITG_OK) fail_msg("%s: %s", diagnostic.subject, diagnostic.message);
  return y;
}
#define ADD_NODE(graph, op, attributes, ...)                                                                   \
  add_shaped((graph), (op), (attributes), NULL, (int)(sizeof((itg_tensor *[]){__VA_ARGS__}) / sizeof(void *)), \
             (itg_tensor *[]){__VA_ARGS__})

static inline itg_tensor *add_reshape(itg_graph *graph, itg_tensor *x, itg_shape shape) {
  return add_shaped(graph, ITG_OP_RESHAPE, NULL, &shape, 1, &x);
}

static inline itg_tensor *add_transpose(itg_graph *graph, itg_tensor *x, const int *permutation) {
  itg_attributes attributes = {0};
  for (int i = 0; i < x->shape.rank; i++) attributes.permutation.permutation[i] = permutation[i];
  return ADD_NODE(graph, ITG_OP_TRANSPOSE, &attributes, x);
}

// [C] parameters with channel axis `axis`; shifts are large, so that wrong borders show.
static inline itg_tensor *add_batch_norm(itg_graph *graph, itg_tensor *x, int axis) {
  const itg_shape shape = DIMS(x->shape.dims[axis]);
  itg_attributes attributes = {.norm = {.epsilon = 1e-5, .axis = axis}};
  return ADD_NODE(graph, ITG_OP_BATCH_NORM, &attributes, x, add_random(graph, shape, -1.5, 1.5),
                  add_random(graph, shape, -3, 3), add_random(graph, shape, -1, 1), add_random(graph, shape, 0.2, 2));
}

// A random window over `rank` dimensions that fits `in`.
static inline itg_window random_window(int rank, const int64_t *in, bool is_pool) {
  itg_window window = {.rank = rank};
  for (int i = 0; i < rank; i++) {
    do {
      window.kernel[i] = random_int(1, 3);
      window.stride[i] = random_int(1, 3);
      window.dilation[i] = is_pool ? 1 : random_int(1, 2);
      const int extent = (window.kernel[i] - 1) * window.dilation[i] + 1;
      window.pad_begin[i] = random_int(0, is_pool ? extent - 1 : 2);
      window.pad_end[i] = random_int(0, is_pool ? extent - 1 : 2);
    } while (in[i] + window.pad_begin[i] + window.pad_end[i] < (window.kernel[i] - 1) * window.dilation[i] + 1);
  }
  return window;
}

// A convolution over [N,C,..] with random geometry.
static inline itg_tensor *add_random_conv(itg_graph *graph, itg_tensor *x) {
  const int rank = x->shape.rank - 2, channels = (int)x->shape.dims[1];
  int group = random_int(0, 3) == 0 ? channels : random_int(0, 2) == 0 && channels % 2 == 0 ? 2 : 1;
  const int out = group * random_int(1, group > 2 ? 1 : 4);
  itg_attributes attributes = {.conv = {.window = random_window(rank, &x->shape.dims[2], false), .group = group}};
  itg_shape weight = {.rank = rank + 2, .dims = {out, channels / group}};
  int64_t taps = weight.dims[1];
  for (int i = 0; i < rank; i++) taps *= weight.dims[i + 2] = attributes.conv.window.kernel[i];
  const double bound = 1.7 / sqrt((double)taps);
  itg_tensor *inputs[3] = {x, add_random(graph, weight, -bound, bound), NULL};
  if (random_bool()) inputs[2] = add_random(graph, DIMS(out), -1, 1);
  return add_shaped(graph, ITG_OP_CONV, &attributes, NULL, inputs[2] ? 3 : 2, inputs);
}

// Runs a graph on inputs that depend only on `seed`; returns malloc'ed outputs as one array of floats.
static inline float *run_graph(const itg_graph *graph, uint64_t seed, size_t *count) {
  itg_diagnostic diagnostic = {0};
  itg_interpreter *interpreter = NULL;
  itg_interpreter_state *state = NULL;
  const void **inputs = calloc((size_t)graph->input_count + 1, sizeof *inputs);
  void **outputs = calloc((size_t)graph->output_count + 1, sizeof *outputs);
  random_state = seed;
  for (int i = 0; i < graph->input_count; i++) {
    size_t elements, bytes;
    assert_true(itg_shape_count(&graph->inputs[i]->shape, &elements) &&
                itg_shape_bytes(&graph->inputs[i]->shape, graph->inputs[i]->dtype, &bytes));
    void *data = calloc(bytes + 1, 1);
    for (size_t e = 0; e < elements; e++) {
      switch (graph->inputs[i]->dtype) {
      case ITG_DTYPE_F32: ((float *)data)[e] = random_float(-1, 1); break;
      case ITG_DTYPE_S64: ((int64_t *)data)[e] = random_int(0, 1); break;
      case ITG_DTYPE_S32: ((int32_t *)data)[e] = random_int(0, 1); break;
      default: ((uint8_t *)data)[e % bytes] = (uint8_t)random_int(0, 1); break;
      }
    }
    inputs[i] = data;
  }
  *count = 0;
  for (int i = 0; i < graph->output_count; i++) {
    size_t elements;
    assert_true(itg_shape_count(&graph->outputs[i]->shape, &elements));
    *count += elements;
  }
  float *result = calloc(*count + 1, sizeof *result);
  for (size_t i = 0, at = 0, elements; i < (size_t)graph->output_count; i++, at += elements) {
    assert_int_equal(graph->outputs[i]->dtype, ITG_DTYPE_F32);
    assert_true(itg_shape_count(&graph->outputs[i]->shape, &elements));
    outputs[i] = result + at;
  }
  itg_status status = itg_interpreter_create(graph, &diagnostic, &interpreter);
  if (status == ITG_OK) status = itg_interpreter_state_create(interpreter, &diagnostic, &state);
  if (status == ITG_OK) status = itg_interpreter_run(state, inputs, outputs, NULL, NULL, &diagnostic);
  if (status != ITG_OK) {
    itg_graph_print(graph, stderr);
    fail_msg("%s: %s", diagnostic.subject, diagnostic.message);
  }
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  for (int i = 0; i < graph->input_count; i++) free((void *)inputs[i]);
  free(inputs);
  free(outputs);
  return result;
}

// Largest difference over the largest magnitude (or 1/100: results near zero are differences of larger numbers).
static inline double relative_difference(const float *a, const float *b, size_t count) {
  double worst = 0, largest = 1e-2;
  for (size_t i = 0; i < count; i++) {
    if (isnan(a[i]) != isnan(b[i])) return INFINITY;
    if (isfinite(a[i])) largest = fmax(largest, fabs((double)a[i]));
    if (isnan(a[i]) || a[i] == b[i]) continue;
    worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
  }
  return worst / largest;
}

// Fails unless both graphs give the same outputs (names, shapes, values within `tolerance`).
static inline void assert_graphs_equal(const itg_graph *before, const itg_graph *after, double tolerance) {
  assert_int_equal(before->output_count, after->output_count);
  assert_int_equal(before->input_count, after->input_count);
  for (int i = 0; i < before->output_count; i++) {
    assert_string_equal(before->outputs[i]->name, after->outputs[i]->name);
    assert_true(itg_shape_equal(&before->outputs[i]->shape, &after->outputs[i]->shape));
  }
  for (int i = 0; i < before->input_count; i++) {
    assert_string_equal(before->inputs[i]->name, after->inputs[i]->name);
    assert_true(itg_shape_equal(&before->inputs[i]->shape, &after->inputs[i]->shape));
  }
  size_t count, other;
  float *a = run_graph(before, 7, &count), *b = run_graph(after, 7, &other);
  assert_int_equal(count, other);
  for (size_t i = 0, at = 0, elements; i < (size_t)before->output_count; i++, at += elements) {
    assert_true(itg_shape_count(&before->outputs[i]->shape, &elements));
    const double difference = relative_difference(a + at, b + at, elements);
    if (difference <= tolerance) continue;
    itg_graph_print(before, stderr);
    itg_graph_print(after, stderr);
    fail_msg("%s: relative difference %g", before->outputs[i]->name, difference);
  }
  free(a);
  free(b);
}

static inline int count_op(const itg_graph *graph, itg_op op) {
  int count = 0;
  ITG_FOR_EACH_NODE(node, graph) count += node->op == op;
  return count;
}

#endif
