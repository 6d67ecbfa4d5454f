// A real model through the whole compiler in memory, judged against its float graph on held-out samples.
#ifndef ITG_TESTS_MEASURE_H
#define ITG_TESTS_MEASURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapt/adapt.h"
#include "container/container.h"
#include "import/import.h"
#include "intaglio/intaglio.h"
#include "interpret/interpret.h"
#include "lower/legalize.h"
#include "passes/passes.h"
#include "quantize/quantize.h"
#include "tensor/npy.h"

enum { MEASURE_MAX_INPUTS = 4, MEASURE_MAX_OUTPUTS = 32 };

// Samples: row i of each input's array is sample i; even rows calibrate, odd rows judge.
typedef struct measure_data {
  itg_npy arrays[MEASURE_MAX_INPUTS];
  const char *names[MEASURE_MAX_INPUTS]; // Of inputs whose shape the model leaves open; else NULL.
  int32_t input_count;
  size_t count; // Samples.
} measure_data;

typedef struct measure_output {
  const char *name; // Lives as long as the graph.
  double cosine_mean, cosine_min, sqnr_db;
  size_t size;
  float *expected, *actual; // [judged][size]
} measure_output;

typedef struct measure_result {
  size_t judged, output_count;
  measure_output outputs[MEASURE_MAX_OUTPUTS];
  double calibrate_seconds, quantize_seconds, legalize_seconds;
  size_t file_bytes;
  itg_graph *graph; // Canonical float graph.
} measure_result;

static inline double measure_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void measure_row(const measure_data *data, int32_t input, size_t row, void *out) {
  const itg_npy *array = &data->arrays[input];
  const size_t bytes = array->count / data->count * itg_dtype_size(array->dtype);
  memcpy(out, array->values + row * bytes, bytes);
}

static inline itg_status measure_read(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const measure_data *data = context;
  for (int32_t i = 0; i < data->input_count; i++) measure_row(data, i, 2 * index, inputs[i]);
  return ITG_OK;
}

static inline void measure_finish(measure_output *output, size_t judged) {
  double signal = 0, noise = 0, sum = 0, lowest = 1;
  for (size_t s = 0; s < judged; s++) {
    double dot = 0, a2 = 0, b2 = 0;
    for (size_t k = 0; k < output->size; k++) {
      const double a = (double)output->expected[s * output->size + k], b = (double)output->actual[s * output->size + k];
      dot += a * b;
      a2 += a * a;
      b2 += b * b;
      noise += (a - b) * (a - b);
    }
    signal += a2;
    const double cosine = dot / sqrt(fmax(a2 * b2, 1e-300));
    sum += cosine;
    lowest = fmin(lowest, cosine);
  }
  output->cosine_mean = sum / (double)judged;
  output->cosine_min = lowest;
  output->sqnr_db = 10 * log10(signal / fmax(noise, 1e-300));
}

static inline itg_status measure_judge(const itg_graph *graph, itg_session *session, const itg_model *model,
                                       const measure_data *data, itg_diagnostic *why, measure_result *result) {
  itg_interpreter *interpreter;
  itg_interpreter_state *state;
  itg_status status = itg_interpreter_create(graph, why, &interpreter);
  if (status != ITG_OK) return status;
  status = itg_interpreter_state_create(interpreter, why, &state);
  if (status != ITG_OK) return status;
  result->judged = data->count / 2;
  result->output_count = (size_t)graph->output_count;
  for (size_t o = 0; o < result->output_count; o++) {
    const itg_tensor_info *info = itg_model_output(model, o);
    measure_output *output = &result->outputs[o];
    output->name = graph->outputs[o]->name;
    output->size = info->count;
    output->expected = calloc(result->judged * info->count, sizeof(float));
    output->actual = calloc(result->judged * info->count, sizeof(float));
  }
  void *inputs[MEASURE_MAX_INPUTS] = {NULL};
  for (int32_t i = 0; i < data->input_count; i++)
    inputs[i] = malloc(data->arrays[i].count / data->count * itg_dtype_size(data->arrays[i].dtype));
  for (size_t s = 0; s < result->judged && status == ITG_OK; s++) {
    void *outputs[MEASURE_MAX_OUTPUTS];
    for (int32_t i = 0; i < data->input_count; i++) {
      measure_row(data, i, 2 * s + 1, inputs[i]);
      const size_t count = data->arrays[i].count / data->count;
      float *values = malloc(count * sizeof(float));
      status = itg_npy_floats(&data->arrays[i], (2 * s + 1) * count, count, why, values);
      if (status == ITG_OK) status = itg_session_set_input(session, (size_t)i, values, count, why);
      free(values);
      if (status != ITG_OK) break;
    }
    for (size_t o = 0; o < result->output_count; o++)
      outputs[o] = result->outputs[o].expected + s * result->outputs[o].size;
    if (status == ITG_OK) status = itg_interpreter_run(state, (const void *const *)inputs, outputs, NULL, NULL, why);
    if (status == ITG_OK) status = itg_session_run(session, why);
    for (size_t o = 0; o < result->output_count && status == ITG_OK; o++)
      status = itg_session_get_output(session, o, result->outputs[o].actual + s * result->outputs[o].size,
                                      result->outputs[o].size, why);
  }
  for (int32_t i = 0; i < data->input_count; i++) free(inputs[i]);
  for (size_t o = 0; o < result->output_count; o++) measure_finish(&result->outputs[o], result->judged);
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  return status;
}

static inline void measure_free(measure_result *result) {
  for (size_t o = 0; o < result->output_count; o++) {
    free(result->outputs[o].expected);
    free(result->outputs[o].actual);
  }
  itg_graph_destroy(result->graph);
}

// Compiles `path` with the even samples and judges with the odd ones. Input shapes come from the arrays (row shape).
static inline itg_status measure_model(const char *path, const itg_recipe *recipe, const measure_data *data,
                                       int threads, itg_diagnostic *why, measure_result *result) {
  memset(result, 0, sizeof *result);
  itg_import_options options = {.batch_is_one = true};
  itg_import_shape shapes[MEASURE_MAX_INPUTS];
  for (int32_t i = 0; i < data->input_count; i++) {
    if (!data->names[i]) continue;
    itg_import_shape *shape = &shapes[options.shape_count++];
    *shape = (itg_import_shape){.input = data->names[i], .shape = data->arrays[i].shape};
    shape->shape.dims[0] = 1;
  }
  options.shapes = shapes;
  itg_graph *graph;
  itg_status status = itg_import_onnx(path, &options, NULL, why, &graph);
  if (status != ITG_OK) return status;
  result->graph = graph;
  itg_graph *clone, *legal;
  itg_pool *pool;
  itg_statistics *statistics;
  if ((status = itg_passes_run(graph, NULL, NULL, why)) != ITG_OK) return status;
  if ((status = itg_graph_clone(graph, why, &clone)) != ITG_OK) return status;
  if ((status = itg_adapt_run(clone, NULL, why)) != ITG_OK) return status;
  if ((status = itg_pool_create(threads, why, &pool)) != ITG_OK) return status;
  const itg_sample_source source = {(void *)data, (data->count + 1) / 2, measure_read};
  double begin = measure_now();
  const itg_equalization equalization = itg_recipe_equalization(recipe, NULL);
  if ((status = itg_calibrate_and_equalize(clone, &equalization, &source, pool, NULL, NULL, why, &statistics)) !=
      ITG_OK)
    return status;
  result->calibrate_seconds = measure_now() - begin;
  begin = measure_now();
  if ((status = itg_quantize(clone, statistics, recipe, NULL, pool, why)) != ITG_OK) return status;
  result->quantize_seconds = measure_now() - begin;
  begin = measure_now();
  if ((status = itg_legalize(clone, NULL, why, &legal)) != ITG_OK) return status;
  result->legalize_seconds = measure_now() - begin;
  uint8_t *bytes;
  itg_model *model;
  itg_session *session;
  if ((status = itg_container_encode(legal, NULL, 0, why, &bytes, &result->file_bytes)) != ITG_OK) return status;
  if ((status = itg_model_open_memory(bytes, result->file_bytes, why, &model)) != ITG_OK) return status;
  if ((status = itg_session_create(model, NULL, why, &session)) != ITG_OK) return status;
  status = measure_judge(graph, session, model, data, why, result);
  itg_session_destroy(session);
  itg_model_close(model);
  free(bytes);
  itg_statistics_destroy(statistics);
  itg_pool_destroy(pool);
  itg_graph_destroy(legal);
  itg_graph_destroy(clone);
  return status;
}

#endif
