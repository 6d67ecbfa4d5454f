// Builds small float graphs, takes them through calibrate, quantize and legalize, runs the integer program and compares it
// with the float interpreter on the same real inputs. For tests that link the whole compiler.
#ifndef ITG_TESTS_INTEGER_NET_H
#define ITG_TESTS_INTEGER_NET_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "container/container.h"
#include "graph/infer.h"
#include "graph/verify.h"
#include "intaglio/intaglio.h"
#include "interpret/interpret.h"
#include "lower/legalize.h"
#include "quantize/encodings.h"
#include "quantize/quantize.h"

// ---- numbers ----

static uint64_t net_random_state = 1;
static inline uint32_t net_random(void) { // SplitMix64
  uint64_t x = net_random_state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (uint32_t)(x >> 32);
}
static inline float net_uniform(float low, float high) {
  return low + (high - low) * (float)(net_random() >> 8) / (float)(1 << 24);
}

// Every fourth value is an end of the range, so that sums of several inputs reach their extremes.
static inline float net_extreme(float low, float high) {
  const uint32_t kind = net_random() & 7;
  return kind == 0 ? low : kind == 1 ? high : net_uniform(low, high);
}

// ---- building ----

static inline itg_graph *net_create(void) {
  itg_graph *graph;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  graph->stage = ITG_STAGE_CANONICAL;
  return graph;
}
static inline itg_shape net_shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  return itg_shape_of(rank, (const int64_t[]){a, b, c, d});
}
static inline itg_tensor *net_input(itg_graph *graph, const char *name, itg_dtype dtype, itg_shape shape) {
  itg_tensor *tensor = itg_graph_add_tensor(graph, name, dtype, &shape);
  assert_true(tensor && itg_graph_add_input(graph, tensor));
  return tensor;
}
static inline itg_tensor *net_constant(itg_graph *graph, itg_shape shape, float low, float high) {
  itg_tensor *tensor = itg_graph_add_constant(graph, "constant", ITG_DTYPE_F32, &shape, NULL);
  assert_non_null(tensor);
  size_t count;
  assert_true(itg_shape_count(&shape, &count));
  for (size_t i = 0; i < count; i++) ((float *)itg_tensor_writable(tensor))[i] = net_uniform(low, high);
  return tensor;
}
// Weights that s8 codes hold exactly: k/128 with |k| <= 127, every row reaching 127.
static inline itg_tensor *net_weight(itg_graph *graph, itg_shape shape) {
  itg_tensor *tensor = net_constant(graph, shape, 0, 0);
  float *values = itg_tensor_writable(tensor);
  size_t count;
  assert_true(itg_shape_count(&shape, &count));
  const size_t row = count / (size_t)shape.dims[0];
  for (size_t i = 0; i < count; i++)
    values[i] = (float)(i % row == 0 ? 127 : (int32_t)(net_random() % 255) - 127) / 128.0f;
  return tensor;
}
// A node with one output, whose shape is inferred unless `shape` is given.
static inline itg_tensor *net_node(itg_graph *graph, itg_op op, itg_attributes attributes, const itg_shape *shape,
                                   int32_t count, itg_tensor *const *inputs) {
  const itg_shape scalar = {0};
  itg_tensor *output = itg_graph_add_tensor(graph, itg_op_name((int)op), ITG_DTYPE_F32, shape ? shape : &scalar);
  itg_node *node = itg_graph_insert_node(graph, NULL, op, output->name, inputs, count, &output, 1);
  assert_non_null(node);
  node->attributes = attributes;
  itg_diagnostic why;
  if (itg_infer_node(node, &why) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  return output;
}
#define NET_NODE(graph, op, attributes, shape, ...)                                              \
  net_node(graph, op, attributes, shape, sizeof((itg_tensor *[]){__VA_ARGS__}) / sizeof(void *), \
           (itg_tensor *[]){__VA_ARGS__})
static const itg_attributes net_no_attributes;

// ---- samples ----

typedef struct net_samples {
  const itg_graph *graph;
  float low, high;  // Of float inputs.
  int64_t id_limit; // Integer inputs lie in [0, id_limit).
  uint64_t seed;
} net_samples;

static inline void net_fill(const net_samples *samples, size_t index, void *const *inputs) {
  net_random_state = samples->seed + index * 77777;
  for (int32_t i = 0; i < samples->graph->input_count; i++) {
    const itg_tensor *input = samples->graph->inputs[i];
    size_t count;
    assert_true(itg_shape_count(&input->shape, &count));
    for (size_t k = 0; k < count; k++) {
      if (input->dtype == ITG_DTYPE_F32)
        ((float *)inputs[i])[k] = net_extreme(samples->low, samples->high);
      else
        ((int64_t *)inputs[i])[k] = net_random() % samples->id_limit;
    }
  }
}
static inline itg_status net_read(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  net_fill(context, index, inputs);
  return ITG_OK;
}

// ---- the pipeline ----

typedef struct net_result { // Of net_compare.
  double largest_error;     // In output codes.
  double sqnr_db;
} net_result;

// Quantizes a clone of `graph`. The caller destroys both results.
static inline void net_quantize(const itg_graph *graph, const net_samples *samples, const itg_recipe *recipe,
                                int threads, itg_graph **quantized, itg_graph **legal) {
  itg_diagnostic why = {0};
  itg_graph *clone;
  itg_pool *pool;
  itg_statistics *statistics;
  assert_int_equal(itg_graph_clone(graph, &why, &clone), ITG_OK);
  assert_int_equal(itg_pool_create(threads, &why, &pool), ITG_OK);
  net_samples own = *samples;
  own.graph = clone;
  const itg_sample_source source = {&own, 8, net_read};
  const itg_equalization equalization = itg_recipe_equalization(recipe, NULL);
  if (itg_calibrate_and_equalize(clone, &equalization, &source, pool, NULL, NULL, &why, &statistics) != ITG_OK ||
      itg_quantize(clone, statistics, recipe, NULL, pool, &why) != ITG_OK ||
      itg_graph_verify(clone, ITG_STAGE_QUANTIZED, &why) != ITG_OK || itg_legalize(clone, NULL, &why, legal) != ITG_OK)
    fail_msg("%s: %s (%s:%d)", why.subject, why.message, why.origin_file, why.origin_line);
  itg_statistics_destroy(statistics);
  itg_pool_destroy(pool);
  *quantized = clone;
}

static inline void net_decode(const itg_tensor_info *info, const void *codes, float *values) {
  for (size_t k = 0; k < info->count; k++) {
    const int32_t code = info->dtype == ITG_DTYPE_U8 ? ((const uint8_t *)codes)[k] : ((const uint16_t *)codes)[k];
    values[k] = (float)((double)(code - info->zero_point) * info->scale);
  }
}

// Random input codes through the integer program; their real values through the float graph.
static inline net_result net_compare(const itg_graph *graph, const itg_graph *legal, int64_t id_limit, int runs) {
  itg_diagnostic why = {0};
  uint8_t *bytes;
  size_t size;
  itg_model *model;
  itg_session *session;
  itg_interpreter *interpreter;
  itg_interpreter_state *state;
  if (itg_container_encode(legal, NULL, 0, &why, &bytes, &size) != ITG_OK ||
      itg_model_open_memory(bytes, size, &why, &model) != ITG_OK ||
      itg_session_create(model, NULL, &why, &session) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  assert_int_equal(itg_interpreter_create(graph, &why, &interpreter), ITG_OK);
  assert_int_equal(itg_interpreter_state_create(interpreter, &why, &state), ITG_OK);
  net_result result = {0};
  double signal = 0, noise = 0;
  for (int run = 0; run < runs; run++) {
    void *inputs[8];
    net_random_state = 4242 + (uint64_t)run;
    for (int32_t i = 0; i < graph->input_count; i++) {
      const itg_tensor_info *info = itg_model_input(model, (size_t)i);
      const size_t width = info->dtype == ITG_DTYPE_S64 ? 8 : info->dtype == ITG_DTYPE_U16 ? 2 : 1;
      uint8_t *codes = malloc(info->count * width);
      for (size_t k = 0; k < info->count * width; k++) codes[k] = (uint8_t)net_random();
      for (size_t k = 0; width == 8 && k < info->count; k++) ((int64_t *)codes)[k] = net_random() % id_limit;
      assert_int_equal(itg_session_set_input_codes(session, (size_t)i, codes, info->count * width, &why), ITG_OK);
      inputs[i] = malloc(info->count * 8);
      if (width == 8)
        memcpy(inputs[i], codes, info->count * 8);
      else
        net_decode(info, codes, inputs[i]);
      free(codes);
    }
    assert_int_equal(itg_session_run(session, &why), ITG_OK);
    for (int32_t o = 0; o < graph->output_count; o++) {
      const itg_tensor_info *info = itg_model_output(model, (size_t)o);
      float *expected = malloc(info->count * sizeof(float)), *actual = malloc(info->count * sizeof(float));
      void *outputs[8] = {NULL};
      outputs[o] = expected;
      assert_int_equal(itg_interpreter_run(state, (const void *const *)inputs, outputs, NULL, NULL, &why), ITG_OK);
      assert_int_equal(itg_session_get_output(session, (size_t)o, actual, info->count, &why), ITG_OK);
      const double top = info->dtype == ITG_DTYPE_U8 ? 255 : 65535;
      const double low = (0 - info->zero_point) * info->scale, high = (top - info->zero_point) * info->scale;
      for (size_t k = 0; k < info->count; k++) {
        const double want = fmin(fmax((double)expected[k], low), high), got = (double)actual[k];
        result.largest_error = fmax(result.largest_error, fabs(want - got) / info->scale);
        signal += want * want;
        noise += (want - got) * (want - got);
      }
      free(expected);
      free(actual);
    }
    for (int32_t i = 0; i < graph->input_count; i++) free(inputs[i]);
  }
  result.sqnr_db = 10 * log10(signal / fmax(noise, 1e-300));
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  itg_session_destroy(session);
  itg_model_close(model);
  free(bytes);
  return result;
}

#endif
