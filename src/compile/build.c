// See build.h. The order of the stages is the order of the functions below.
#include "compile/build.h"

#include "adapt/adapt.h"
#include "compile/samples.h"
#include "compile/source.h"
#include "lower/legalize.h"
#include "passes/list.h"
#include "quantize/quantize.h"

// A compiled program takes and gives floats, whatever their width in the model. The passes widened what lies between the
// half-precision inputs and outputs; here these become float32 too, and the Casts beside them go.
itg_status itg_build_widen_ends(itg_graph *graph, itg_diagnostic *diagnostic) {
  bool changed = false;
  for (size_t i = 0; i < (size_t)graph->tensor_count; i++) {
    itg_tensor *tensor = graph->tensors[i];
    if (tensor->data || (tensor->dtype != ITG_DTYPE_F16 && tensor->dtype != ITG_DTYPE_BF16)) continue;
    tensor->dtype = ITG_DTYPE_F32;
    changed = true;
  }
  if (!changed) return ITG_OK;
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op != ITG_OP_CAST || node->outputs[0]->dtype != ITG_DTYPE_F32) continue;
    node->attributes.cast.to = ITG_DTYPE_F32;
    if (node->inputs[0]->dtype == ITG_DTYPE_F32) node->op = ITG_OP_IDENTITY;
  }
  return itg_pass_eliminate(graph, &changed, diagnostic);
}

static void show(const itg_build_options *options, const char *stage, const itg_graph *graph) {
  if (options->show) options->show(options->show_context, stage, graph);
}

static itg_status calibrate(itg_calibrated *result, const itg_recipe *recipe, const itg_build_options *options,
                            itg_diagnostic *diagnostic) {
  itg_graph *graph = result->graph;
  itg_calibration_feed *feed = itg_arena_allocate(&result->arena, sizeof *feed);
  ITG_TRY_MEMORY(feed, diagnostic);
  *feed = (itg_calibration_feed){.samples = options->calibration, .input_count = (size_t)graph->input_count};
  itg_tensor_info *infos;
  ITG_TRY(itg_source_infos(graph, graph->inputs, graph->input_count, diagnostic, &infos));
  feed->infos = infos;
  ITG_TRY(itg_sample_buffers(feed->infos, feed->input_count, &result->arena, diagnostic, &feed->values));
  const itg_sample_source source = {feed, options->calibration.count, itg_calibration_feed_read};
  const itg_equalization equalization = itg_recipe_equalization(recipe, options->target);
  ITG_TRY(itg_calibrate_and_equalize(graph, &equalization, &source, options->pool, options->progress,
                                     options->progress_context, diagnostic, &result->statistics));
  graph->stage = ITG_STAGE_CALIBRATED;
  result->hash = feed->hash;
  return ITG_OK;
}

static itg_status adapt_and_calibrate(itg_calibrated *result, const itg_graph *canonical, const itg_recipe *recipe,
                                      const itg_build_options *options, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_graph_clone(canonical, diagnostic, &result->graph));
  ITG_TRY(itg_adapt_run(result->graph, options->target, diagnostic));
  show(options, "adapt", result->graph);
  return calibrate(result, recipe, options, diagnostic);
}

itg_status itg_build_calibrate(const itg_graph *canonical, const itg_recipe *recipe, const itg_build_options *options,
                               itg_diagnostic *diagnostic, itg_calibrated *out) {
  itg_calibrated result = {0};
  const itg_status status = adapt_and_calibrate(&result, canonical, recipe, options, diagnostic);
  if (status != ITG_OK) {
    itg_calibrated_free(&result);
    return status;
  }
  *out = result;
  return ITG_OK;
}

void itg_calibrated_free(itg_calibrated *calibrated) {
  itg_statistics_destroy(calibrated->statistics);
  itg_graph_destroy(calibrated->graph);
  itg_arena_free(&calibrated->arena);
  *calibrated = (itg_calibrated){0};
}

static itg_status quantize_and_legalize(itg_built *result, const itg_calibrated *calibrated, const itg_recipe *recipe,
                                        const itg_build_options *options, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_graph_clone(calibrated->graph, diagnostic, &result->quantized));
  ITG_TRY(itg_statistics_of_clone(calibrated->statistics, result->quantized, diagnostic, &result->statistics));
  ITG_TRY(itg_quantize_with_twin(result->quantized, result->statistics, recipe, options->target, options->pool,
                                 diagnostic, &result->twin));
  show(options, "quantize", result->quantized);
  ITG_TRY(itg_legalize(result->quantized, options->target, diagnostic, &result->legal));
  show(options, "legalize", result->legal);
  return ITG_OK;
}

itg_status itg_build_program(const itg_calibrated *calibrated, const itg_recipe *recipe,
                             const itg_build_options *options, itg_diagnostic *diagnostic, itg_built *out) {
  itg_built result = {0};
  const itg_status status = quantize_and_legalize(&result, calibrated, recipe, options, diagnostic);
  if (status != ITG_OK) {
    itg_built_free(&result);
    return status;
  }
  *out = result;
  return ITG_OK;
}

void itg_built_free(itg_built *built) {
  itg_graph_destroy(built->legal);
  itg_graph_destroy(built->twin);
  itg_statistics_destroy(built->statistics);
  itg_graph_destroy(built->quantized);
  *built = (itg_built){0};
}
