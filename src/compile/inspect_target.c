// What would run where on an NPU, without writing anything: every node is shown to the vendor's validator.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "compile/build.h"
#include "compile/source.h"
#include "compile/targets.h"
#include "container/container.h"
#include "container/format.h"
#include "passes/passes.h"
#include "report/report.h"

// ---- a float model gets made-up samples: ranges do not matter here, shapes and operations do ----

typedef struct made_up {
  const itg_graph *graph;
  uint64_t state;
} made_up;

static float next_value(made_up *m) { // About [-2, 2], from SplitMix64.
  uint64_t x = m->state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (float)(x >> 40) / (float)(1 << 22) - 2;
}

static itg_status read_made_up(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  made_up *m = context;
  m->state = index + 1;
  for (int32_t i = 0; i < m->graph->input_count; i++) {
    const itg_tensor *input = m->graph->inputs[i];
    size_t count, bytes;
    if (!itg_shape_count(&input->shape, &count) || !itg_shape_bytes(&input->shape, input->dtype, &bytes))
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, input->name, "the input is too large");
    if (!itg_dtype_is_float(input->dtype)) { // Numbers of rows, masks: 1 is valid almost everywhere.
      memset(inputs[i], 0, bytes);
      for (size_t k = 0; k < count; k++) ((uint8_t *)inputs[i])[k * itg_dtype_size(input->dtype)] = 1;
      continue;
    }
    for (size_t k = 0; k < count; k++) ((float *)inputs[i])[k] = next_value(m);
  }
  return ITG_OK;
}

typedef struct work {
  itg_graph *imported, *legal; // `legal` borrows from `built` or the container.
  itg_mapped_file file;
  itg_pool *pool;
  itg_recipe recipe;
  itg_calibrated calibrated;
  itg_built built;
} work;

static itg_status build(work *w, const char *path, const itg_source_options *options, const char *precision,
                        const itg_target *target, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_source_import(path, options, NULL, diagnostic, &w->imported));
  ITG_TRY(itg_passes_run(w->imported, NULL, NULL, diagnostic));
  ITG_TRY(itg_build_widen_ends(w->imported, diagnostic));
  ITG_TRY(itg_recipe_builtin(precision ? precision : "a8w8+s16", diagnostic, &w->recipe));
  ITG_TRY(itg_pool_create(0, diagnostic, &w->pool));
  made_up samples = {.graph = w->imported};
  const itg_build_options build_options = {
      .target = target, .pool = w->pool, .calibration = {.context = &samples, .count = 1, .read = read_made_up}};
  ITG_TRY(itg_build_calibrate(w->imported, &w->recipe, &build_options, diagnostic, &w->calibrated));
  ITG_TRY(itg_build_program(&w->calibrated, &w->recipe, &build_options, diagnostic, &w->built));
  w->legal = w->built.legal;
  return ITG_OK;
}

static itg_status read_compiled(work *w, itg_diagnostic *diagnostic) {
  itg_container container;
  ITG_TRY(itg_container_read(w->file.bytes, diagnostic, &container));
  w->legal = w->imported = container.graph; // Owned as the imported graph.
  return ITG_OK;
}

// A partition of a graph that has nothing for the NPU: every node on the CPU.
static itg_status nothing_left(const itg_graph *graph, const itg_qnn_blob *blob, itg_diagnostic *diagnostic,
                               itg_qnn_partition *out) {
  itg_qnn_partition part = {.node_count = (size_t)graph->node_count};
  part.places = itg_arena_array(&part.arena, part.node_count, sizeof part.places[0]);
  part.reasons = itg_arena_array(&part.arena, part.node_count, sizeof part.reasons[0]);
  part.refused = itg_arena_array(&part.arena, part.node_count, sizeof part.refused[0]);
  if (!part.places || !part.reasons || !part.refused) {
    itg_qnn_partition_free(&part);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  const char *at = blob->refusals;
  for (size_t i = 0; i < part.node_count; i++, at += strlen(at) + 1) {
    part.places[i] = ITG_QNN_BEFORE;
    part.refused[i] = at[0] != 0;
    part.reasons[i] = at[0] ? at : "nothing that multiplies is left for the NPU";
  }
  *out = part;
  return ITG_OK;
}

static itg_status survey(const itg_graph *legal, const itg_target *target, const char *directory,
                         itg_diagnostic *diagnostic, itg_placement_report *out, itg_arena *arena) {
  const itg_qnn_prepare_options options = {.directory = directory, .survey_only = true};
  itg_qnn_blob blob = {0};
  itg_qnn_partition part = {0};
  const double start = itg_now();
  ITG_TRY(itg_qnn_prepare_isolated(legal, target, &options, diagnostic, &blob));
  const double seconds = itg_now() - start;
  itg_diagnostic why = {0};
  itg_status status = itg_qnn_blob_partition(&blob, legal, &why, &part);
  if (status == ITG_ERROR_UNSUPPORTED)
    status = nothing_left(legal, &blob, diagnostic, &part);
  else if (status != ITG_OK && diagnostic)
    *diagnostic = why;
  if (status == ITG_OK)
    status = itg_placement_describe(legal, target, &blob, &part, arena, diagnostic, &out->placement);
  out->placement.prepare_seconds = seconds;
  itg_qnn_partition_free(&part);
  itg_qnn_blob_free(&blob);
  return status;
}

itg_status itg_inspect_placement(const char *path, const itg_source_options *source, const char *precision,
                                 const char *target, const char *qnn_directory, itg_diagnostic *diagnostic,
                                 itg_placement_report *out) {
  const itg_target *chip = NULL;
  ITG_TRY(itg_target_find(target, diagnostic, &chip));
  itg_placement_report report = {0};
  itg_arena *arena = calloc(1, sizeof *arena);
  ITG_TRY_MEMORY(arena, diagnostic);
  report.memory = arena;
  work w = {0};
  itg_status status = itg_mapped_file_open(path, diagnostic, &w.file);
  const size_t magic = sizeof ITG_FILE_MAGIC - 1;
  const bool is_compiled =
      status == ITG_OK && w.file.bytes.size >= magic && memcmp(w.file.bytes.data, ITG_FILE_MAGIC, magic) == 0;
  if (status == ITG_OK)
    status = is_compiled ? read_compiled(&w, diagnostic) : build(&w, path, source, precision, chip, diagnostic);
  if (status == ITG_OK) status = survey(w.legal, chip, qnn_directory, diagnostic, &report, arena);
  itg_built_free(&w.built);
  itg_calibrated_free(&w.calibrated);
  itg_recipe_free(&w.recipe);
  itg_pool_destroy(w.pool);
  itg_graph_destroy(w.imported);
  itg_mapped_file_close(&w.file);
  if (status == ITG_OK && !(report.json = itg_report_placement_json(&report.placement, 1)))
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (status != ITG_OK) {
    itg_placement_report_free(&report);
    return status;
  }
  *out = report;
  return ITG_OK;
}

void itg_placement_report_free(itg_placement_report *report) {
  if (report->memory) itg_arena_free(report->memory);
  free(report->memory);
  free(report->json);
  *report = (itg_placement_report){0};
}
