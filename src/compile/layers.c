// See layers.h. Of each sample:
//   1. the float twin runs, and the values of every tensor that the program has as well are kept (the reference);
//   2. the integer program runs: its values against the reference are the accumulated error;
//   3. the twin runs with each of these tensors replaced by its rounded reference, after its own value, which an exact
//      operation on rounded inputs would give, was kept;
//   4. the program runs with each output replaced by the rounded reference: what differs from 3 is the step's own error;
//   5. one after another, these errors are added to the twin's values, and the change of the outputs is what a step costs.
// So a rounding counts once, for the step that writes it, and the parts add up to about the whole.
#include "compile/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/map.h"
#include "compile/samples.h"
#include "compile/twin.h"
#include "run/convert.h"
#include "run/model.h"
#include "run/observe.h"

enum { MAX_SAMPLES = 4, MAX_INJECTED_SAMPLES = 2, MIN_INJECTIONS = 12, MAX_INJECTIONS = 96 };
static const size_t MAX_BYTES = (size_t)1 << 30; // Values kept of one sample.
static const double INJECTED_PRODUCTS = 1e11;    // Multiply-accumulates spent on step 5 a sample, roughly.

typedef struct layer { // A tensor that the twin and the program share.
  itg_tensor *tensor;  // Of the twin.
  const itg_encoding *encoding;
  size_t step, count, channels;
  float *reference, *local; // [count] of the sample under way; see 1 and 3, 4.
  double signal, error, local_error, loss;
  uint64_t values, saturated;
  double *sum, *squares; // [channels] of the reference.
  bool is_injected;      // `loss` was measured.
} layer;

typedef struct injection { // One run of the twin.
  double loss;
  itg_status status;
  itg_diagnostic diagnostic;
} injection;

typedef struct measurement {
  itg_twin twin;
  const itg_model *model;
  const itg_layers_options *options;
  itg_diagnostic *diagnostic;
  itg_arena arena;
  itg_session *session;
  itg_session_feed feed;
  void **rounded; // The inputs after a round trip through the program's codes.
  layer *layers;
  size_t count, injections;
  itg_map by_name; // Name of a program's tensor -> layer, once found.
  double total_loss;
} measurement;

// ---- what is measured ----

static bool is_measurable(const itg_tensor *program, const itg_tensor *twin) {
  return twin && twin->dtype == ITG_DTYPE_F32 && !twin->data && twin->producer && program->encoding &&
         program->encoding->count == 1 && (program->dtype == ITG_DTYPE_U8 || program->dtype == ITG_DTYPE_U16) &&
         itg_shape_equal(&program->shape, &twin->shape);
}

// Observer of the first run of the program: which steps have a tensor of the twin.
static void discover(void *context, size_t step, const itg_node *node, void *const *outputs) {
  (void)outputs;
  measurement *m = context;
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *program = node->outputs[i];
    itg_tensor *twin = program ? itg_graph_find(m->twin.graph, program->name) : NULL;
    size_t count;
    if (!program || !is_measurable(program, twin) || !itg_shape_count(&twin->shape, &count) || count == 0) continue;
    const int32_t rank = twin->shape.rank;
    m->layers[m->count++] = (layer){.tensor = twin,
                                    .encoding = program->encoding,
                                    .step = step,
                                    .count = count,
                                    .channels = rank ? (size_t)twin->shape.dims[rank - 1] : 1};
  }
}

static size_t output_capacity(const itg_graph *graph) {
  size_t count = 0;
  ITG_FOR_EACH_NODE(node, graph) count += (size_t)node->output_count;
  return count;
}

// Room for all layers; *fits is false when their values are too large to be kept.
static itg_status prepare_layers(measurement *m, size_t *bytes) {
  *bytes = 0;
  for (size_t i = 0; i < m->count; i++) {
    layer *at = &m->layers[i];
    size_t needed;
    if (!itg_checked_multiply(at->count, 2 * sizeof(float), &needed) || !itg_checked_add(*bytes, needed, bytes))
      *bytes = SIZE_MAX;
  }
  if (*bytes > MAX_BYTES) return ITG_OK;
  for (size_t i = 0; i < m->count; i++) {
    layer *at = &m->layers[i];
    at->reference = itg_arena_array(&m->arena, at->count, sizeof(float));
    at->local = itg_arena_array(&m->arena, at->count, sizeof(float));
    at->sum = itg_arena_array(&m->arena, at->channels, sizeof(double));
    at->squares = itg_arena_array(&m->arena, at->channels, sizeof(double));
    ITG_TRY_MEMORY(at->reference && at->local && at->sum && at->squares, m->diagnostic);
    at->tensor->index = (int64_t)i;
    const char *name = at->tensor->name;
    ITG_TRY_MEMORY(itg_map_set(&m->by_name, name, strlen(name), at), m->diagnostic);
  }
  return ITG_OK;
}

static layer *layer_of(const measurement *m, const itg_tensor *twin) {
  return twin->index >= 0 ? &m->layers[twin->index] : NULL;
}

// ---- 1 to 4 ----

static bool keep_reference(void *context, const itg_tensor *tensor, void *data) {
  layer *at = layer_of(context, tensor);
  if (at) memcpy(at->reference, data, at->count * sizeof(float));
  return true;
}

static bool keep_local(void *context, const itg_tensor *tensor, void *data) {
  layer *at = layer_of(context, tensor);
  if (!at) return true;
  float *values = data;
  memcpy(at->local, values, at->count * sizeof(float));
  const int32_t zero = at->encoding->zero_points ? at->encoding->zero_points[0] : 0;
  const int32_t low = itg_code_min(at->encoding->storage), high = itg_code_max(at->encoding->storage);
  for (size_t i = 0; i < at->count; i++)
    values[i] = itg_decode(itg_encode(at->reference[i], at->encoding->scales[0], zero, low, high),
                           at->encoding->scales[0], zero);
  return true;
}

static int32_t code_at(const void *codes, itg_dtype storage, size_t i) {
  return storage == ITG_DTYPE_U8 ? ((const uint8_t *)codes)[i] : ((const uint16_t *)codes)[i];
}

static void compare_accumulated(void *context, size_t step, const itg_node *node, void *const *outputs) {
  (void)step;
  const measurement *m = context;
  for (int32_t o = 0; o < node->output_count; o++) {
    const char *name = node->outputs[o]->name;
    layer *at = itg_map_get(&m->by_name, name, strlen(name));
    if (!at) continue;
    const double scale = at->encoding->scales[0];
    const int32_t zero = at->encoding->zero_points ? at->encoding->zero_points[0] : 0;
    const double low = (itg_code_min(at->encoding->storage) - zero - 0.5) * scale;
    const double high = (itg_code_max(at->encoding->storage) - zero + 0.5) * scale;
    for (size_t i = 0, c = 0; i < at->count; i++) {
      const double expected = (double)at->reference[i];
      const double difference = (code_at(outputs[o], at->encoding->storage, i) - zero) * scale - expected;
      at->signal += expected * expected;
      at->error += difference * difference;
      at->saturated += expected < low || expected > high;
      at->sum[c] += expected;
      at->squares[c] += expected * expected;
      if (++c == at->channels) c = 0;
    }
    at->values += at->count;
  }
}

static void compare_local(void *context, size_t step, const itg_node *node, void *const *outputs) {
  (void)step;
  const measurement *m = context;
  for (int32_t o = 0; o < node->output_count; o++) {
    const char *name = node->outputs[o]->name;
    layer *at = itg_map_get(&m->by_name, name, strlen(name));
    if (!at) continue;
    const double scale = at->encoding->scales[0];
    const int32_t zero = at->encoding->zero_points ? at->encoding->zero_points[0] : 0;
    for (size_t i = 0; i < at->count; i++) {
      const double value = (code_at(outputs[o], at->encoding->storage, i) - zero) * scale;
      at->local[i] = (float)(value - (double)at->local[i]);
      at->local_error += (double)at->local[i] * (double)at->local[i];
    }
    itg_encode_array(at->reference, at->count, at->encoding->storage, scale, zero, outputs[o]);
  }
}

static itg_status read_sample(measurement *m, size_t index) {
  itg_twin *twin = &m->twin;
  ITG_TRY(itg_twin_read(twin, &m->options->samples, index, m->diagnostic));
  for (size_t i = 0; i < m->feed.count; i++) {
    const itg_tensor_info *info = &twin->inputs[i], *program = itg_model_input(m->model, i);
    const size_t bytes = info->count * itg_dtype_size(info->dtype);
    if (bytes) memcpy(m->rounded[i], twin->own[i], bytes);
    if (info->dtype != ITG_DTYPE_F32 || (program->dtype != ITG_DTYPE_U8 && program->dtype != ITG_DTYPE_U16)) continue;
    float *values = m->rounded[i];
    for (size_t k = 0; k < info->count; k++)
      values[k] = itg_decode(itg_encode(values[k], program->scale, program->zero_point, itg_code_min(program->dtype),
                                        itg_code_max(program->dtype)),
                             program->scale, program->zero_point);
  }
  return itg_session_feed_set(&m->feed, m->session, twin->values, m->diagnostic);
}

static itg_status whole_loss(measurement *m) {
  float **outputs = m->twin.lanes[0].outputs;
  for (int32_t o = 0; o < m->twin.graph->output_count; o++) {
    size_t count = 0;
    if (!outputs[o] || !itg_shape_count(&m->twin.graph->outputs[o]->shape, &count)) continue;
    ITG_TRY(itg_session_get_output(m->session, (size_t)o, outputs[o], count, m->diagnostic));
  }
  m->total_loss += itg_twin_loss(&m->twin, outputs);
  return ITG_OK;
}

// ---- 5 ----

static bool inject(void *context, const itg_tensor *tensor, void *data) {
  const layer *at = context;
  float *values = data;
  if (tensor != at->tensor) return true;
  for (size_t i = 0; i < at->count; i++) values[i] += at->local[i];
  return true;
}

typedef struct injection_batch {
  const itg_twin *twin;
  layer **layers;
  injection *injections; // One a lane.
} injection_batch;

static void run_injection(void *context, size_t index) {
  const injection_batch *batch = context;
  const itg_twin_lane *lane = &batch->twin->lanes[index];
  injection *at = &batch->injections[index];
  at->status = itg_interpreter_run_edited(lane->state, (const void *const *)batch->twin->own,
                                          (void *const *)lane->outputs, inject, batch->layers[index], &at->diagnostic);
  if (at->status == ITG_OK) at->loss = itg_twin_loss(batch->twin, lane->outputs);
}

static int by_local_loss(const void *a, const void *b) {
  const layer *x = *(layer *const *)a, *y = *(layer *const *)b;
  const double p = x->signal > 0 ? x->local_error / x->signal : 0, q = y->signal > 0 ? y->local_error / y->signal : 0;
  return p != q ? (p < q ? 1 : -1) : (x > y) - (x < y);
}

static itg_status inject_all(measurement *m, size_t sample) {
  layer **order = itg_arena_array(&m->arena, m->count, sizeof order[0]);
  const size_t lane_count = m->twin.lane_count;
  injection *injections = itg_arena_array(&m->arena, lane_count, sizeof injections[0]);
  ITG_TRY_MEMORY(order && injections, m->diagnostic);
  size_t count = 0;
  for (size_t i = 0; i < m->count; i++) {
    // The first sample chooses.
    if (m->layers[i].local_error > 0 && (sample == 0 || m->layers[i].is_injected)) order[count++] = &m->layers[i];
  }
  qsort(order, count, sizeof order[0], by_local_loss);
  if (count > m->injections) count = m->injections;
  for (size_t first = 0; first < count; first += lane_count) {
    injection_batch batch = {&m->twin, order + first, injections};
    const size_t rest = count - first, here = rest < lane_count ? rest : lane_count;
    itg_parallel_for(m->options->pool, here, run_injection, &batch);
    for (size_t k = 0; k < here; k++) {
      if (injections[k].status != ITG_OK && m->diagnostic) *m->diagnostic = injections[k].diagnostic;
      ITG_TRY(injections[k].status);
      order[first + k]->loss += injections[k].loss;
      order[first + k]->is_injected = true;
    }
  }
  return ITG_OK;
}

// ---- the frame ----

static itg_status prepare(measurement *m) {
  const itg_twin *twin = &m->twin;
  const size_t count = (size_t)twin->graph->input_count;
  m->rounded = itg_arena_array(&m->arena, count, sizeof *m->rounded);
  ITG_TRY_MEMORY(m->rounded, m->diagnostic);
  for (size_t i = 0; i < count; i++) {
    m->rounded[i] = itg_arena_allocate(&m->arena, twin->inputs[i].count * itg_dtype_size(twin->inputs[i].dtype));
    ITG_TRY_MEMORY(m->rounded[i], m->diagnostic);
  }
  ITG_TRY(itg_session_feed_create(twin->inputs, count, m->model, &m->arena, m->diagnostic, &m->feed));
  itg_session_options options;
  itg_session_options_default(&options);
  options.thread_count = 1;
  ITG_TRY(itg_session_create(m->model, &options, m->diagnostic, &m->session));
  m->layers = itg_arena_array(&m->arena, output_capacity(m->model->container.graph), sizeof *m->layers);
  ITG_TRY_MEMORY(m->layers, m->diagnostic);
  for (size_t i = 0; i < twin->graph->tensor_count; i++) {
    if (twin->graph->tensors[i]) twin->graph->tensors[i]->index = -1;
  }
  int64_t products = 1;
  for (size_t i = 0; i < itg_session_step_count(m->session); i++) {
    itg_step_info step;
    ITG_TRY(itg_session_step(m->session, i, &step));
    products += step.multiply_accumulates;
  }
  m->injections = (size_t)fmin(fmax(INJECTED_PRODUCTS / (double)products, MIN_INJECTIONS), MAX_INJECTIONS);
  return ITG_OK;
}

static itg_status measure_sample(measurement *m, size_t number, size_t index) {
  ITG_TRY(read_sample(m, index));
  ITG_TRY(itg_twin_run_reference(&m->twin, keep_reference, m, m->diagnostic));
  ITG_TRY(itg_session_run_observed(m->session, compare_accumulated, m, m->diagnostic));
  if (number < MAX_INJECTED_SAMPLES) ITG_TRY(whole_loss(m));
  ITG_TRY(itg_interpreter_run_edited(m->twin.lanes[0].state, (const void *const *)m->rounded, NULL, keep_local, m,
                                     m->diagnostic));
  ITG_TRY(itg_session_run_observed(m->session, compare_local, m, m->diagnostic));
  return number < MAX_INJECTED_SAMPLES ? inject_all(m, number) : ITG_OK;
}

static double decibels(double signal, double error) {
  return error > 0 ? signal > 0 ? 10 * log10(signal / error) : NAN : INFINITY;
}

// The most output codes that one input code moves, over the channels of an affine.
static double affine_gain(const itg_tensor *output) {
  const itg_node *node = output->producer;
  const bool is_second = node->op == ITG_OP_ADD_AFFINE && node->output_count > 1 && node->outputs[1] == output;
  if (node->op != ITG_OP_AFFINE && !is_second) return NAN;
  const itg_encoding *in = (is_second ? node->outputs[0] : node->inputs[0])->encoding, *out = output->encoding;
  const itg_tensor *gains = node->inputs[is_second ? 2 : 1];
  size_t count;
  if (!in || !out || !gains->data || gains->dtype != ITG_DTYPE_F32 || !itg_shape_count(&gains->shape, &count))
    return NAN;
  double most = 0;
  for (size_t i = 0; i < count; i++) {
    float gain;
    memcpy(&gain, (const char *)gains->data + i * sizeof gain, sizeof gain); // Mapped data may be unaligned.
    most = fmax(most, fabs((double)gain));
  }
  return most * in->scales[0] / out->scales[0];
}

static size_t dead_channels(const layer *at) {
  const double rows = (double)at->values / (double)at->channels, smallest = at->encoding->scales[0] / sqrt(12);
  size_t dead = 0;
  for (size_t c = 0; c < at->channels; c++) {
    const double mean = at->sum[c] / rows, variance = at->squares[c] / rows - mean * mean;
    dead += variance > 1e-12 * at->squares[c] / rows && sqrt(fmax(variance, 0)) < smallest;
  }
  return dead;
}

// A step with two tensors gets the worse numbers of the two.
static void describe(const measurement *m, itg_report_layer *layers, size_t layer_count, itg_layers_result *result) {
  double sum = 0;
  for (size_t i = 0; i < m->count; i++) sum += m->layers[i].loss;
  for (size_t i = 0; i < m->count; i++) {
    const layer *at = &m->layers[i];
    if (at->step >= layer_count) continue;
    itg_layer_loss *loss = &layers[at->step].loss;
    loss->local_db = fmin(loss->local_db, decibels(at->signal, at->local_error)); // fmin passes over NaN.
    loss->accumulated_db = fmin(loss->accumulated_db, decibels(at->signal, at->error));
    loss->saturated = fmax(loss->saturated, (double)at->saturated / (double)at->values);
    loss->gain = fmax(loss->gain, affine_gain(at->tensor));
    if (at->is_injected && sum > 0) loss->share = (isnan(loss->share) ? 0 : loss->share) + at->loss / sum;
    const size_t dead = dead_channels(at);
    if (loss->channels > 0 && dead <= loss->dead_channels) continue;
    loss->channels = at->channels;
    loss->dead_channels = dead;
  }
  result->explained = m->total_loss > 0 ? sum / m->total_loss : NAN;
}

static itg_status run(measurement *m, itg_graph *twin, itg_report_layer *layers, size_t layer_count,
                      itg_layers_result *result) {
  const itg_layers_options *options = m->options;
  ITG_TRY(itg_twin_open(twin, options->pool, m->diagnostic, &m->twin));
  ITG_TRY(prepare(m));
  ITG_TRY(read_sample(m, 0));
  ITG_TRY(itg_session_run_observed(m->session, discover, m, m->diagnostic));
  size_t bytes = 0;
  ITG_TRY(prepare_layers(m, &bytes));
  if (bytes > MAX_BYTES) {
    snprintf(result->reason, sizeof result->reason, "the values of one sample need %zu MiB, more than the %zu allowed",
             bytes >> 20, MAX_BYTES >> 20);
    return ITG_OK;
  }
  const size_t all = options->samples.count, count = all < MAX_SAMPLES ? all : MAX_SAMPLES;
  for (size_t i = 0; i <= count; i++) {
    if (options->progress &&
        options->progress(options->progress_context, "measuring layers", (long long)i, (long long)count))
      ITG_FAIL(m->diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled while measuring layers");
    if (i < count) ITG_TRY(measure_sample(m, i, i * all / count));
  }
  result->samples = count;
  describe(m, layers, layer_count, result);
  return ITG_OK;
}

itg_status itg_layers_measure(itg_graph *twin, const itg_model *model, const itg_layers_options *options,
                              itg_diagnostic *diagnostic, itg_report_layer *layers, size_t layer_count,
                              itg_layers_result *out) {
  measurement m = {.model = model, .options = options, .diagnostic = diagnostic};
  itg_layers_result result = {.explained = NAN};
  const itg_status status = run(&m, twin, layers, layer_count, &result);
  itg_twin_close(&m.twin);
  itg_session_destroy(m.session);
  itg_map_free(&m.by_name);
  itg_arena_free(&m.arena);
  if (status == ITG_OK) *out = result;
  return status;
}
