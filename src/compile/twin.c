// See twin.h.
#include "compile/twin.h"

#include <math.h>

#include "compile/float_network.h"
#include "compile/samples.h"
#include "compile/source.h"

static bool is_float_output(const itg_graph *graph, int32_t i) { return graph->outputs[i]->dtype == ITG_DTYPE_F32; }

static itg_status prepare_outputs(itg_twin *twin, itg_diagnostic *diagnostic, float ***out) {
  const itg_graph *graph = twin->graph;
  float **outputs = itg_arena_array(&twin->arena, (size_t)graph->output_count, sizeof *outputs);
  ITG_TRY_MEMORY(outputs, diagnostic);
  for (int32_t o = 0; o < graph->output_count; o++) {
    size_t bytes;
    if (!is_float_output(graph, o) || !itg_shape_bytes(&graph->outputs[o]->shape, ITG_DTYPE_F32, &bytes)) continue;
    outputs[o] = itg_arena_allocate(&twin->arena, bytes);
    ITG_TRY_MEMORY(outputs[o], diagnostic);
  }
  *out = outputs;
  return ITG_OK;
}

itg_status itg_twin_open(itg_graph *graph, itg_pool *pool, itg_diagnostic *diagnostic, itg_twin *out) {
  *out = (itg_twin){.graph = graph};
  itg_twin *twin = out;
  const size_t inputs = (size_t)graph->input_count;
  ITG_TRY(itg_interpreter_create_editable(graph, diagnostic, &twin->interpreter));
  ITG_TRY(itg_source_infos(graph, graph->inputs, graph->input_count, diagnostic, &twin->inputs));
  ITG_TRY(itg_sample_buffers(twin->inputs, inputs, &twin->arena, diagnostic, &twin->values));
  twin->own = itg_arena_array(&twin->arena, inputs, sizeof *twin->own);
  ITG_TRY_MEMORY(twin->own, diagnostic);
  for (size_t i = 0; i < inputs; i++) {
    const size_t bytes = twin->inputs[i].count * itg_dtype_size(twin->inputs[i].dtype);
    twin->own[i] = itg_arena_allocate(&twin->arena, bytes);
    ITG_TRY_MEMORY(twin->own[i], diagnostic);
  }
  const size_t count = (size_t)itg_pool_thread_count(pool);
  twin->lanes = itg_arena_array(&twin->arena, count, sizeof *twin->lanes);
  ITG_TRY_MEMORY(twin->lanes, diagnostic);
  twin->lane_count = count;
  for (size_t k = 0; k < count; k++) {
    ITG_TRY(prepare_outputs(twin, diagnostic, &twin->lanes[k].outputs));
    ITG_TRY(itg_interpreter_state_create(twin->interpreter, diagnostic, &twin->lanes[k].state));
  }
  return prepare_outputs(twin, diagnostic, &twin->reference);
}

void itg_twin_close(itg_twin *twin) {
  for (size_t k = 0; k < twin->lane_count; k++) itg_interpreter_state_destroy(twin->lanes[k].state);
  itg_interpreter_destroy(twin->interpreter);
  itg_arena_free(&twin->arena);
  *twin = (itg_twin){0};
}

itg_status itg_twin_read(itg_twin *twin, const itg_samples *samples, size_t index, itg_diagnostic *diagnostic) {
  ITG_TRY(samples->read(samples->context, index, twin->values, diagnostic));
  for (int32_t i = 0; i < twin->graph->input_count; i++)
    itg_from_public(twin->inputs[i].dtype, twin->values[i], twin->own[i], twin->inputs[i].count);
  return ITG_OK;
}

itg_status itg_twin_run_reference(itg_twin *twin, itg_interpreter_editor editor, void *context,
                                  itg_diagnostic *diagnostic) {
  return itg_interpreter_run_edited(twin->lanes[0].state, (const void *const *)twin->own,
                                    (void *const *)twin->reference, editor, context, diagnostic);
}

double itg_twin_loss(const itg_twin *twin, float *const *outputs) {
  const itg_graph *graph = twin->graph;
  double loss = 0;
  for (int32_t o = 0; o < graph->output_count; o++) {
    size_t count = 0;
    double signal = 0, error = 0;
    if (!is_float_output(graph, o) || !itg_shape_count(&graph->outputs[o]->shape, &count)) continue;
    for (size_t i = 0; i < count; i++) {
      const double expected = (double)twin->reference[o][i], difference = (double)outputs[o][i] - expected;
      if (!isfinite(expected) || !isfinite(difference)) continue;
      signal += expected * expected;
      error += difference * difference;
    }
    if (signal > 0) loss += error / signal / graph->output_count;
  }
  return loss;
}
