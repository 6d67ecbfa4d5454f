// See sensitivity.h.
#include "compile/sensitivity.h"

#include <string.h>

typedef struct rounding_run { // One lane.
  const itg_choice *choice;
  void **inputs; // What the twin gets; changed are the own copies of inputs to be rounded.
  void **copies;
  double loss;
  itg_status status;
  itg_diagnostic diagnostic;
} rounding_run;

typedef struct rounding_batch {
  const itg_twin *twin;
  rounding_run *runs;
} rounding_batch;

static void round_values(const itg_tensor *tensor, const itg_encoding *encoding, float *values) {
  size_t count = 0;
  if (!itg_shape_count(&tensor->shape, &count)) return;
  const int32_t zero = encoding->zero_points ? encoding->zero_points[0] : 0;
  const int32_t low = itg_code_min(encoding->storage), high = itg_code_max(encoding->storage);
  for (size_t i = 0; i < count; i++)
    values[i] = itg_decode(itg_encode(values[i], encoding->scales[0], zero, low, high), encoding->scales[0], zero);
}

static bool round_tensor(void *context, const itg_tensor *tensor, void *data) {
  const itg_choice *choice = ((const rounding_run *)context)->choice;
  for (size_t t = 0; t < choice->tensor_count; t++) {
    if (choice->tensors[t] == tensor) round_values(tensor, choice->encodings[t], data);
  }
  return true;
}

static void set_inputs(const itg_twin *twin, const rounding_run *run) {
  const itg_graph *graph = twin->graph;
  for (int32_t i = 0; i < graph->input_count; i++) {
    run->inputs[i] = twin->own[i];
    if (graph->inputs[i] != run->choice->input) continue;
    memcpy(run->copies[i], twin->own[i], twin->inputs[i].count * sizeof(float));
    round_values(graph->inputs[i], run->choice->encodings[0], run->copies[i]);
    run->inputs[i] = run->copies[i];
  }
}

static itg_status prepare_inputs(itg_twin *twin, rounding_run *run, itg_diagnostic *diagnostic) {
  const size_t count = (size_t)twin->graph->input_count;
  run->inputs = itg_arena_array(&twin->arena, count, sizeof *run->inputs);
  run->copies = itg_arena_array(&twin->arena, count, sizeof *run->copies);
  ITG_TRY_MEMORY(run->inputs && run->copies, diagnostic);
  for (size_t i = 0; i < count; i++) {
    run->copies[i] = itg_arena_allocate(&twin->arena, twin->inputs[i].count * itg_dtype_size(twin->inputs[i].dtype));
    ITG_TRY_MEMORY(run->copies[i], diagnostic);
  }
  return ITG_OK;
}

static void run_rounded(void *context, size_t index) {
  const rounding_batch *batch = context;
  const itg_twin_lane *lane = &batch->twin->lanes[index];
  rounding_run *run = &batch->runs[index];
  set_inputs(batch->twin, run);
  run->status = itg_interpreter_run_edited(lane->state, (const void *const *)run->inputs, (void *const *)lane->outputs,
                                           round_tensor, run, &run->diagnostic);
  if (run->status == ITG_OK) run->loss = itg_twin_loss(batch->twin, lane->outputs);
}

static itg_status tell_progress(itg_progress_function progress, void *context, size_t done, size_t total,
                                itg_diagnostic *diagnostic) {
  if (progress && progress(context, "measuring sensitivity", (long long)done, (long long)total))
    ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled while measuring sensitivity");
  return ITG_OK;
}

itg_status itg_sensitivity_measure(itg_twin *twin, const itg_samples *samples, size_t sample_count, itg_pool *pool,
                                   itg_progress_function progress, void *progress_context, itg_diagnostic *diagnostic,
                                   itg_choice *choices, size_t count) {
  rounding_batch batch = {twin, itg_arena_array(&twin->arena, twin->lane_count, sizeof *batch.runs)};
  ITG_TRY_MEMORY(batch.runs, diagnostic);
  for (size_t k = 0; k < twin->lane_count; k++) ITG_TRY(prepare_inputs(twin, &batch.runs[k], diagnostic));
  for (size_t i = 0; i < count; i++) choices[i].loss = 0;
  for (size_t s = 0; s < sample_count; s++) {
    ITG_TRY(itg_twin_read(twin, samples, s * samples->count / sample_count, diagnostic));
    ITG_TRY(itg_twin_run_reference(twin, NULL, NULL, diagnostic));
    for (size_t first = 0; first < count; first += twin->lane_count) {
      const size_t rest = count - first, here = rest < twin->lane_count ? rest : twin->lane_count;
      ITG_TRY(tell_progress(progress, progress_context, s * count + first, sample_count * count, diagnostic));
      for (size_t k = 0; k < here; k++) batch.runs[k].choice = &choices[first + k];
      itg_parallel_for(pool, here, run_rounded, &batch);
      for (size_t k = 0; k < here; k++) {
        if (batch.runs[k].status != ITG_OK && diagnostic) *diagnostic = batch.runs[k].diagnostic;
        ITG_TRY(batch.runs[k].status);
        choices[first + k].loss += batch.runs[k].loss / (double)sample_count;
      }
    }
  }
  return tell_progress(progress, progress_context, sample_count * count, sample_count * count, diagnostic);
}
