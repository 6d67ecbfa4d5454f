// Hand-built graphs for the interpreter's tests: one node, constant or variable inputs, values as plain arrays.
#ifndef ITG_TESTS_INTERPRET_SUPPORT_H
#define ITG_TESTS_INTERPRET_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "interpret/interpret.h"

#define DIMS(...) \
  itg_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
#define SCALAR ((itg_shape){.rank = 0})

// One input of a node under test; data NULL: absent.
typedef struct test_value {
  itg_dtype dtype;
  itg_shape shape;
  const void *data;
} test_value;
#define F32(shape_value, ...)                                   \
  {                                                             \
    ITG_DTYPE_F32, shape_value, (const float[]) { __VA_ARGS__ } \
  }
#define S64(shape_value, ...)                                     \
  {                                                               \
    ITG_DTYPE_S64, shape_value, (const int64_t[]) { __VA_ARGS__ } \
  }
#define S32(shape_value, ...)                                     \
  {                                                               \
    ITG_DTYPE_S32, shape_value, (const int32_t[]) { __VA_ARGS__ } \
  }
#define U8(shape_value, ...)                                     \
  {                                                              \
    ITG_DTYPE_U8, shape_value, (const uint8_t[]) { __VA_ARGS__ } \
  }
#define S8(shape_value, ...)                                    \
  {                                                             \
    ITG_DTYPE_S8, shape_value, (const int8_t[]) { __VA_ARGS__ } \
  }
#define BOOLS(shape_value, ...)                                    \
  {                                                                \
    ITG_DTYPE_BOOL, shape_value, (const uint8_t[]) { __VA_ARGS__ } \
  }

// Runs one node twice: through itg_interpret_node, and as a graph whose inputs are graph inputs; both must agree to the
// bit. outputs[i] receives output i. Returns the status of the first way.
static inline itg_status test_run_node(itg_op op, const itg_attributes *attributes, const test_value *inputs,
                                       int32_t input_count, const itg_dtype *dtypes, const itg_shape *shapes,
                                       void *const *outputs, int32_t output_count) {
  itg_status statuses[2];
  void *seconds[4] = {NULL};
  size_t bytes[4] = {0};
  assert_true(output_count <= 4);
  for (int way = 0; way < 2; way++) {
    itg_graph *graph = NULL;
    assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
    itg_tensor *in[16] = {NULL}, *out[4] = {NULL};
    const void *data[16];
    int32_t variables = 0;
    for (int32_t i = 0; i < input_count; i++) {
      if (!inputs[i].data) continue;
      in[i] = way == 0 ? itg_graph_add_constant(graph, NULL, inputs[i].dtype, &inputs[i].shape, inputs[i].data)
                       : itg_graph_add_tensor(graph, NULL, inputs[i].dtype, &inputs[i].shape);
      assert_non_null(in[i]);
      if (way == 0) continue;
      assert_true(itg_graph_add_input(graph, in[i]));
      data[variables++] = inputs[i].data;
    }
    for (int32_t i = 0; i < output_count; i++) {
      out[i] = itg_graph_add_tensor(graph, NULL, dtypes[i], &shapes[i]);
      assert_true(out[i] && itg_graph_add_output(graph, out[i]));
      assert_true(itg_shape_bytes(&shapes[i], dtypes[i], &bytes[i]));
    }
    itg_node *node = itg_graph_insert_node(graph, NULL, op, "node", in, input_count, out, output_count);
    assert_non_null(node);
    if (attributes) node->attributes = *attributes;
    itg_diagnostic diagnostic = {0};
    if (way == 0) {
      statuses[way] = itg_interpret_node(node, outputs, &diagnostic);
    } else {
      itg_interpreter *interpreter = NULL;
      itg_interpreter_state *state = NULL;
      statuses[way] = itg_interpreter_create(graph, &diagnostic, &interpreter);
      if (statuses[way] == ITG_OK) statuses[way] = itg_interpreter_state_create(interpreter, &diagnostic, &state);
      for (int32_t i = 0; i < output_count; i++) seconds[i] = malloc(bytes[i] + 1);
      if (statuses[way] == ITG_OK) statuses[way] = itg_interpreter_run(state, data, seconds, NULL, NULL, &diagnostic);
      itg_interpreter_state_destroy(state);
      itg_interpreter_destroy(interpreter);
    }
    if (statuses[way] != ITG_OK) assert_true(diagnostic.message[0] != 0);
    itg_graph_destroy(graph);
  }
  assert_int_equal(statuses[0], statuses[1]);
  for (int32_t i = 0; i < output_count; i++) {
    if (statuses[0] == ITG_OK) assert_memory_equal(outputs[i], seconds[i], bytes[i]);
    free(seconds[i]);
  }
  return statuses[0];
}

// The common case: one f32 output.
static inline void test_f32(itg_op op, const itg_attributes *attributes, const test_value *inputs, int32_t input_count,
                            itg_shape shape, float *out) {
  assert_int_equal(test_run_node(op, attributes, inputs, input_count, (const itg_dtype[]){ITG_DTYPE_F32}, &shape,
                                 (void *const[]){out}, 1),
                   ITG_OK);
}

// |a - b| <= tolerance * max(1, |b|) for all; equal infinities and NaNs pass.
static inline void assert_close(const float *a, const float *b, size_t count, double tolerance) {
  for (size_t i = 0; i < count; i++) {
    if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
    const double bound = tolerance * fmax(1.0, fabs((double)b[i]));
    if (!(fabs((double)a[i] - (double)b[i]) <= bound)) fail_msg("element %zu: %.9g, expected %.9g", i, a[i], b[i]);
  }
}

// A small deterministic generator for test data.
static inline uint32_t test_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}
static inline float test_random_float(uint64_t *state) { return (float)test_random(state) / 1073741824.0f - 1.0f; }
static inline float *test_random_floats(uint64_t *state, size_t count) {
  float *values = malloc((count + 1) * sizeof *values);
  assert_non_null(values);
  for (size_t i = 0; i < count; i++) values[i] = test_random_float(state);
  return values;
}

#endif
