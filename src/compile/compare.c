// A compiled file against its float model on given samples. See include/intaglio/compiler.h.
#include <stdlib.h>
#include <sys/resource.h>

#include "base/file.h"
#include "compile/ablate.h"
#include "compile/judge.h"
#include "compile/provenance.h"
#include "compile/source.h"
#include "container/container.h"

typedef struct compare_run {
  itg_mapped_file file;
  itg_container container; // For the layers of the report.
  itg_model *model;
  itg_pool *pool;
  itg_graph *canonical; // For ablation.
  itg_recipe recipe;
  itg_judgement *judgement; // Becomes itg_comparison.memory.
} compare_run;

static itg_status describe(const compare_run *run, const char *compiled, const itg_float_network *network,
                           const itg_compare_options *options, itg_diagnostic *diagnostic, itg_comparison *out) {
  itg_judgement *judgement = run->judgement;
  struct rusage usage = {0};
  const int known = getrusage(RUSAGE_SELF, &usage) == 0;
  itg_report report = {.command = "compare",
                       .compiled = itg_base_name(compiled),
                       .file_bytes = run->file.bytes.size,
                       .peak_memory_bytes = known ? (size_t)usage.ru_maxrss * 1024 : 0,
                       .judge_count = options->samples.count};
  report.source = itg_float_network_source(network, &report.source_bytes);
  itg_judgement_describe(judgement, &report);
  if (options->report) ITG_TRY(itg_report_write_html(&report, options->report, diagnostic));
  itg_output_accuracy *outputs = itg_arena_array(&judgement->arena, judgement->output_count, sizeof *outputs);
  char *json = itg_report_json(&report);
  if (!outputs || !json) {
    free(json);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  for (size_t i = 0; i < judgement->output_count; i++) outputs[i] = judgement->outputs[i].summary;
  *out = (itg_comparison){.output_count = judgement->output_count,
                          .outputs = outputs,
                          .json = json,
                          .float_milliseconds = judgement->float_milliseconds,
                          .integer_milliseconds = judgement->integer_milliseconds,
                          .collapsed = judgement->collapsed,
                          .ablation = judgement->ablation,
                          .ablation_count = judgement->ablation_count,
                          .memory = judgement};
  return ITG_OK;
}

static itg_status ablate(compare_run *run, const itg_float_network *network, const itg_compare_options *options,
                         itg_diagnostic *diagnostic) {
  if (options->calibration.count == 0 || !options->calibration.read)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "ablation builds programs again and needs calibration samples");
  size_t size = 0;
  const char *provenance = itg_model_metadata(run->model, "provenance", &size);
  itg_ablate_options ablate_options = {
      .build = {.pool = run->pool,
                .calibration = options->calibration,
                .progress = options->progress,
                .progress_context = options->progress_context},
      .judge = options->samples,
  };
  ITG_TRY(itg_provenance_read(provenance, size, diagnostic, &run->recipe, &ablate_options.build.target));
  ITG_TRY(itg_graph_clone(itg_float_network_graph(network), diagnostic, &run->canonical));
  ITG_TRY(itg_build_widen_ends(run->canonical, diagnostic));
  return itg_ablate(run->canonical, network, &run->recipe, &ablate_options, &run->judgement->arena, diagnostic,
                    &run->judgement->ablation, &run->judgement->ablation_count);
}

static itg_status compare(compare_run *run, const char *compiled, const itg_float_network *network,
                          const itg_compare_options *options, itg_diagnostic *diagnostic, itg_comparison *out) {
  if (options->samples.count == 0 || !options->samples.read)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "no samples to compare on; give at least one");
  run->judgement = calloc(1, sizeof *run->judgement);
  ITG_TRY_MEMORY(run->judgement, diagnostic);
  ITG_TRY(itg_model_open(compiled, diagnostic, &run->model));
  ITG_TRY(itg_mapped_file_open(compiled, diagnostic, &run->file));
  ITG_TRY(itg_container_read(run->file.bytes, diagnostic, &run->container));
  // The vendor's library serves one session at a time.
  const bool is_cpu = !options->backend || strcmp(options->backend, "cpu") == 0;
  ITG_TRY(itg_pool_create(is_cpu ? options->thread_count : 1, diagnostic, &run->pool));
  const itg_judge_options judge_options = {.samples = options->samples,
                                           .cpu = options->cpu,
                                           .backend = options->backend,
                                           .target = options->target,
                                           .qnn_directory = options->qnn_directory,
                                           .pool = run->pool,
                                           .progress = options->progress,
                                           .progress_context = options->progress_context};
  ITG_TRY(itg_judge(network, run->model, run->container.graph, &judge_options, diagnostic, run->judgement));
  if (options->ablate) ITG_TRY(ablate(run, network, options, diagnostic));
  return describe(run, compiled, network, options, diagnostic, out);
}

static void free_judgement(itg_judgement *judgement) {
  if (judgement) itg_judgement_free(judgement);
  free(judgement);
}

itg_status itg_compare(const char *compiled, const itg_float_network *network, const itg_compare_options *options,
                       itg_diagnostic *diagnostic, itg_comparison *out) {
  compare_run run = {0};
  const itg_status status = compare(&run, compiled, network, options, diagnostic, out);
  itg_pool_destroy(run.pool);
  itg_graph_destroy(run.canonical);
  itg_recipe_free(&run.recipe);
  itg_model_close(run.model);
  itg_container_free(&run.container);
  itg_mapped_file_close(&run.file);
  if (status != ITG_OK) free_judgement(run.judgement);
  return status;
}

void itg_comparison_free(itg_comparison *comparison) {
  free(comparison->json);
  free_judgement(comparison->memory);
  *comparison = (itg_comparison){0};
}
