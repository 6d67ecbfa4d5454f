// The compiler: source model + samples -> .itg. The order of the stages is the order of the functions below.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "compile/ablate.h"
#include "compile/build.h"
#include "compile/choose_methods.h"
#include "compile/float_network.h"
#include "compile/judge.h"
#include "compile/layers.h"
#include "compile/mixed_precision.h"
#include "compile/provenance.h"
#include "compile/samples.h"
#include "compile/source.h"
#include "compile/targets.h"
#include "container/container.h"
#include "graph/print.h"
#include "passes/list.h"
#include "passes/passes.h"

struct itg_compiler {
  char *path;
  itg_graph *imported; // Stage IMPORTED; never edited.
  itg_tensor_info *inputs;
  double import_seconds;
  size_t node_count;
  // Of the last compile; freed by the next.
  itg_judgement judgement;
  itg_output_accuracy *outputs;
  itg_compile_targets targets;
  char *json;
  char loss_summary[256];
};

// What one compile builds; everything is released at the end, whatever happened.
typedef struct compile_run {
  itg_compiler *compiler;
  const itg_compile_options *options;
  itg_diagnostic *diagnostic;
  itg_pool *pool;
  itg_float_network *network; // Canonical float graph: the oracle.
  itg_graph *canonical;       // Its graph; owned by it.
  itg_build_options build;
  itg_calibrated calibrated;
  itg_built built;
  itg_recipe recipe;
  bool is_mixed; // The recipe's rules are searched.
  itg_report_mixed mixed;
  itg_sample_cut calibrating, selecting;
  uint8_t *bytes; // The file without its accuracy record, for the judge.
  itg_model *model;
  itg_metadata_section sections[5 + ITG_MAX_TARGETS];
  size_t section_count;
  char *provenance, *accuracy, *recipe_json, *placement;
  size_t source_bytes, file_bytes;
  double start, passes_seconds, calibrate_seconds, quantize_seconds, judge_seconds;
} compile_run;

itg_status itg_compiler_open(const char *path, const itg_source_options *options, itg_diagnostic *diagnostic,
                             itg_compiler **out) {
  const double start = itg_now();
  itg_compiler *compiler = calloc(1, sizeof *compiler);
  ITG_TRY_MEMORY(compiler, diagnostic);
  itg_status status = ITG_OK;
  if (!(compiler->path = strdup(path)))
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (status == ITG_OK) status = itg_source_import(path, options, NULL, diagnostic, &compiler->imported);
  if (status == ITG_OK)
    status = itg_source_infos(compiler->imported, compiler->imported->inputs, compiler->imported->input_count,
                              diagnostic, &compiler->inputs);
  if (status != ITG_OK) {
    itg_compiler_close(compiler);
    return status;
  }
  compiler->node_count = (size_t)compiler->imported->node_count;
  compiler->import_seconds = itg_now() - start;
  *out = compiler;
  return ITG_OK;
}

static void forget_result(itg_compiler *compiler) {
  itg_judgement_free(&compiler->judgement);
  itg_targets_free(&compiler->targets);
  free(compiler->outputs);
  free(compiler->json);
  compiler->outputs = NULL;
  compiler->json = NULL;
}

void itg_compiler_close(itg_compiler *compiler) {
  if (!compiler) return;
  forget_result(compiler);
  itg_graph_destroy(compiler->imported);
  free(compiler->path);
  free(compiler);
}

size_t itg_compiler_input_count(const itg_compiler *compiler) { return (size_t)compiler->imported->input_count; }
const itg_tensor_info *itg_compiler_input(const itg_compiler *compiler, size_t index) {
  return index < itg_compiler_input_count(compiler) ? &compiler->inputs[index] : NULL;
}

static itg_status report_progress(compile_run *run, const char *stage, long long done, long long total) {
  const itg_compile_options *options = run->options;
  if (options->progress && options->progress(options->progress_context, stage, done, total))
    ITG_FAIL(run->diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled during %s", stage);
  return ITG_OK;
}

static void dump_pass(void *context, const char *pass, const itg_graph *graph) {
  const itg_compile_options *options = context;
  if (strcmp(options->dump_after, "all") != 0 && strcmp(options->dump_after, pass) != 0) return;
  fprintf(options->dump, "# after %s\n", pass);
  itg_graph_print(graph, options->dump);
}

// Finds an output that cannot be written before the work is done, not after.
static itg_status check_writable(const char *path, itg_diagnostic *diagnostic) {
  itg_output_file *file;
  ITG_TRY(itg_output_file_create(path, diagnostic, &file));
  itg_output_file_discard(file);
  return ITG_OK;
}

static itg_status check_options(const compile_run *run) {
  const itg_compile_options *options = run->options;
  if (options->calibration.count == 0 || !options->calibration.read)
    ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, NULL, "no calibration samples; give at least one");
  if (!options->dump_after) return ITG_OK;
  if (!options->dump) ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, NULL, "dump_after needs a stream to print to");
  size_t count;
  const itg_pass *passes = itg_pass_list(&count);
  bool known = strcmp(options->dump_after, "all") == 0;
  char names[300] = "all";
  static const char *const stages[] = {"adapt", "quantize", "legalize"};
  for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
    known |= strcmp(options->dump_after, stages[i]) == 0;
    const size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, ", %s", stages[i]);
  }
  for (size_t i = 0; i < count; i++) {
    known |= strcmp(options->dump_after, passes[i].name) == 0;
    const size_t length = strlen(names);
    snprintf(names + length, sizeof names - length, ", %s", passes[i].name);
  }
  if (!known)
    ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, options->dump_after, "no pass of this name; there are %s", names);
  return ITG_OK;
}

static itg_status read_recipe(compile_run *run) {
  const itg_compile_options *options = run->options;
  if (!options->recipe) {
    const char *precision = options->precision ? options->precision : "a8w8+s16";
    run->is_mixed = strcmp(precision, "mixed") == 0;
    ITG_TRY(itg_recipe_builtin(run->is_mixed ? "a8w8+s16" : precision, run->diagnostic, &run->recipe));
  } else {
    itg_mapped_file file;
    ITG_TRY(itg_mapped_file_open(options->recipe, run->diagnostic, &file));
    const itg_status status = itg_recipe_parse(file.bytes, run->diagnostic, &run->recipe);
    itg_mapped_file_close(&file);
    ITG_TRY(itg_in_file(run->diagnostic, status, options->recipe));
  }
  if (options->budget && !run->is_mixed)
    ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, options->budget, "a budget belongs to the precision mixed");
  return ITG_OK;
}

static itg_status rewrite(compile_run *run) {
  const itg_compile_options *options = run->options;
  const double start = itg_now();
  itg_graph *canonical = NULL;
  ITG_TRY(itg_graph_clone(run->compiler->imported, run->diagnostic, &canonical));
  itg_status status =
      itg_passes_run(canonical, options->dump_after ? dump_pass : NULL, (void *)options, run->diagnostic);
  if (status == ITG_OK) status = itg_build_widen_ends(canonical, run->diagnostic);
  if (status != ITG_OK) {
    itg_graph_destroy(canonical);
    return status;
  }
  run->canonical = canonical;
  itg_graph_release_pages(run->compiler->imported); // Most weights were copied into other layouts.
  ITG_TRY(itg_float_network_from_graph(canonical, run->diagnostic, &run->network));
  run->passes_seconds = itg_now() - start;
  return ITG_OK;
}

// What is chosen is chosen on samples that neither calibrate nor judge.
static itg_status search_recipe(compile_run *run) {
  const itg_samples *all = &run->options->calibration;
  itg_mixed_options options = {.build = run->build, .selection = itg_samples_cut(all, true, &run->selecting)};
  ITG_TRY(itg_budget_parse(run->options->budget, run->diagnostic, &options.budget));
  ITG_TRY(itg_mixed_precision(run->network, &run->calibrated, &options, run->diagnostic, &run->recipe, &run->mixed));
  run->mixed.selected_on_calibration = all->count < ITG_MIN_SAMPLES_TO_CUT;
  return ITG_OK;
}

static itg_status build(compile_run *run) {
  const itg_compile_options *options = run->options;
  const double start = itg_now();
  run->build = (itg_build_options){.target = run->compiler->targets.strictest,
                                   .pool = run->pool,
                                   .calibration = options->calibration,
                                   .show = options->dump_after ? dump_pass : NULL,
                                   .show_context = (void *)options,
                                   .progress = options->progress,
                                   .progress_context = options->progress_context};
  if (run->is_mixed) run->build.calibration = itg_samples_cut(&options->calibration, false, &run->calibrating);
  // A recipe that was given is followed to the letter.
  if (!options->recipe) {
    ITG_TRY(itg_choose_methods(run->canonical, run->network, &run->build, &run->recipe, run->diagnostic));
    // The search for mixed precision builds too many programs for it.
    if (!run->is_mixed) itg_choose_weight_method(run->canonical, run->build.calibration.count, &run->recipe);
  }
  ITG_TRY(itg_build_calibrate(run->canonical, &run->recipe, &run->build, run->diagnostic, &run->calibrated));
  run->calibrate_seconds = itg_now() - start;
  if (run->is_mixed) ITG_TRY(search_recipe(run));
  run->recipe_json = itg_recipe_to_json(&run->recipe);
  ITG_TRY_MEMORY(run->recipe_json, run->diagnostic);
  ITG_TRY(report_progress(run, "quantizing", 0, 0));
  ITG_TRY(itg_build_program(&run->calibrated, &run->recipe, &run->build, run->diagnostic, &run->built));
  run->quantize_seconds = itg_now() - start - run->calibrate_seconds;
  return ITG_OK;
}

static void add_section(compile_run *run, const char *name, const char *text) {
  run->sections[run->section_count++] = (itg_metadata_section){name, text, strlen(text), false};
}

static itg_status describe_origin(compile_run *run) {
  itg_provenance provenance = {.source_name = itg_base_name(run->compiler->path),
                               .recipe_json = run->recipe_json,
                               .precision = run->recipe.precision ? run->recipe.precision : "",
                               .target =
                                   run->compiler->targets.strictest ? run->compiler->targets.strictest->name : NULL,
                               .calibration_count = run->build.calibration.count,
                               .calibration_hash = run->calibrated.hash};
  ITG_TRY(itg_hash_file(run->compiler->path, run->diagnostic, &provenance.source_bytes, &provenance.source_hash));
  run->source_bytes = provenance.source_bytes;
  run->provenance = itg_provenance_json(&provenance);
  ITG_TRY_MEMORY(run->provenance, run->diagnostic);
  add_section(run, "provenance", run->provenance);
  const char *texts = run->compiler->imported->source_metadata;
  if (texts) add_section(run, "source", texts);
  if (run->options->preprocessing) add_section(run, "preprocessing", run->options->preprocessing);
  return ITG_OK;
}

static itg_status measure_layers(compile_run *run) {
  const itg_compile_options *options = run->options;
  itg_judgement *judgement = &run->compiler->judgement;
  const itg_layers_options layers_options = {.samples = options->judge.count ? options->judge : options->calibration,
                                             .pool = run->pool,
                                             .progress = options->progress,
                                             .progress_context = options->progress_context};
  return itg_layers_measure(run->built.twin, run->model, &layers_options, run->diagnostic, judgement->layers,
                            judgement->layer_count, &judgement->layers_result);
}

// Names of outputs are borrowed from the float network, which goes before the judgement does.
static itg_status keep_output_names(itg_judgement *judgement, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < judgement->output_count; i++) {
    const char **name = &judgement->outputs[i].summary.name;
    *name = itg_arena_string(&judgement->arena, *name, strlen(*name));
    ITG_TRY_MEMORY(*name, diagnostic);
  }
  return ITG_OK;
}

// The integer program is judged from the very bytes that will be written, only without the record of the judgement.
static itg_status judge(compile_run *run) {
  const itg_compile_options *options = run->options;
  const double start = itg_now();
  size_t size;
  ITG_TRY(
      itg_container_encode(run->built.legal, run->sections, run->section_count, run->diagnostic, &run->bytes, &size));
  ITG_TRY(itg_model_open_memory(run->bytes, size, run->diagnostic, &run->model));
  const itg_judge_options judge_options = {.samples = options->judge.count ? options->judge : options->calibration,
                                           .pool = run->pool,
                                           .progress = options->progress,
                                           .progress_context = options->progress_context};
  ITG_TRY(itg_judge(run->network, run->model, run->built.legal, &judge_options, run->diagnostic,
                    &run->compiler->judgement));
  ITG_TRY(keep_output_names(&run->compiler->judgement, run->diagnostic));
  ITG_TRY(measure_layers(run));
  itg_model_close(run->model);
  run->model = NULL;
  run->judge_seconds = itg_now() - start;
  return ITG_OK;
}

static itg_status ablate(compile_run *run) {
  const itg_compile_options *options = run->options;
  itg_judgement *judgement = &run->compiler->judgement;
  if (!options->ablate) return ITG_OK;
  const itg_ablate_options ablate_options = {.build = run->build,
                                             .judge = options->judge.count ? options->judge : options->calibration};
  return itg_ablate(run->canonical, run->network, &run->recipe, &ablate_options, &judgement->arena, run->diagnostic,
                    &judgement->ablation, &judgement->ablation_count);
}

// Frees all but the integer program, before work that needs memory of its own.
static void free_float(compile_run *run) {
  free(run->bytes);
  run->bytes = NULL;
  itg_graph *legal = run->built.legal;
  run->built.legal = NULL;
  itg_built_free(&run->built); // Before what they borrow from: the calibrated graph and the network's.
  run->built.legal = legal;
  itg_calibrated_free(&run->calibrated);
  itg_float_network_close(run->network);
  run->network = NULL;
  run->canonical = NULL;
  itg_memory_trim();
}

static size_t peak_memory(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

enum { PHASES = 6 };

// The report borrows from the run and from `phases`.
static itg_report describe(const compile_run *run, const char *output, itg_report_phase phases[PHASES]) {
  const itg_compile_options *options = run->options;
  const double total = run->compiler->import_seconds + itg_now() - run->start;
  const itg_report_phase list[PHASES] = {
      {"import", run->compiler->import_seconds}, {"passes", run->passes_seconds}, {"calibrate", run->calibrate_seconds},
      {"quantize", run->quantize_seconds},       {"judge", run->judge_seconds},   {"total", total}};
  memcpy(phases, list, sizeof list);
  itg_report report = {.command = "compile",
                       .source = itg_base_name(run->compiler->path),
                       .compiled = itg_base_name(output),
                       .precision = run->is_mixed ? "mixed" : run->recipe.precision,
                       .mixed = run->is_mixed ? &run->mixed : NULL,
                       .source_bytes = run->source_bytes,
                       .file_bytes = run->file_bytes,
                       .peak_memory_bytes = peak_memory(),
                       .calibration_count = run->build.calibration.count,
                       .judge_count = options->judge.count ? options->judge.count : options->calibration.count,
                       .judged_on_calibration = options->judge.count == 0,
                       .phases = phases,
                       .phase_count = PHASES};
  report.placements = run->compiler->targets.placements;
  report.placement_count = run->compiler->targets.count;
  itg_judgement_describe(&run->compiler->judgement, &report);
  return report;
}

// Everything that the file will hold besides the graph, and its size.
static itg_status complete_sections(compile_run *run, const char *output) {
  itg_report_phase phases[PHASES];
  const itg_report report = describe(run, output, phases);
  run->accuracy = itg_report_accuracy_json(&report);
  ITG_TRY_MEMORY(run->accuracy, run->diagnostic);
  add_section(run, "accuracy", run->accuracy);
  free_float(run);
  ITG_TRY(itg_targets_prepare(&run->compiler->targets, run->built.legal, run->options, run->diagnostic));
  if (run->compiler->targets.count) {
    run->placement = itg_report_placement_json(run->compiler->targets.placements, run->compiler->targets.count);
    ITG_TRY_MEMORY(run->placement, run->diagnostic);
    add_section(run, "placement", run->placement);
  }
  itg_targets_sections(&run->compiler->targets, run->sections + run->section_count);
  run->section_count += run->compiler->targets.count;
  return itg_container_measure(run->built.legal, run->sections, run->section_count, run->diagnostic, &run->file_bytes);
}

static itg_status fill_result(compile_run *run, const char *output, itg_compile_result *result) {
  itg_compiler *compiler = run->compiler;
  itg_judgement *judgement = &compiler->judgement;
  itg_report_phase phases[PHASES];
  const itg_report report = describe(run, output, phases);
  if (run->options->report) ITG_TRY(itg_report_write_html(&report, run->options->report, run->diagnostic));
  if (!result) return ITG_OK;
  compiler->json = itg_report_json(&report);
  compiler->outputs = calloc(judgement->output_count + 1, sizeof *compiler->outputs);
  ITG_TRY_MEMORY(compiler->json && compiler->outputs, run->diagnostic);
  for (size_t i = 0; i < judgement->output_count; i++) {
    compiler->outputs[i] = judgement->outputs[i].summary;
  }
  itg_report_loss_sentence(&report, compiler->loss_summary, sizeof compiler->loss_summary);
  *result = (itg_compile_result){.output_count = judgement->output_count,
                                 .outputs = compiler->outputs,
                                 .json = compiler->json,
                                 .loss_summary = compiler->loss_summary,
                                 .ablation = judgement->ablation,
                                 .ablation_count = judgement->ablation_count,
                                 .import_seconds = compiler->import_seconds + run->passes_seconds,
                                 .calibrate_seconds = run->calibrate_seconds,
                                 .quantize_seconds = run->quantize_seconds,
                                 .judge_seconds = run->judge_seconds,
                                 .total_seconds = phases[PHASES - 1].seconds,
                                 .float_milliseconds = judgement->float_milliseconds,
                                 .integer_milliseconds = judgement->integer_milliseconds,
                                 .source_bytes = run->source_bytes,
                                 .file_bytes = run->file_bytes,
                                 .workspace_bytes = judgement->workspace_bytes,
                                 .peak_memory_bytes = report.peak_memory_bytes,
                                 .node_count = compiler->node_count,
                                 .step_count = judgement->layer_count,
                                 .calibration_count = report.calibration_count,
                                 .judge_count = report.judge_count,
                                 .judged_on_calibration = report.judged_on_calibration,
                                 .collapsed = judgement->collapsed,
                                 .placement_count = compiler->targets.count,
                                 .placements = compiler->targets.placements};
  return ITG_OK;
}

// The reason, where it comes from, and what to try next.
static itg_status refuse(const compile_run *run) {
  const itg_judgement *judgement = &run->compiler->judgement;
  itg_report report = {0};
  char where[200];
  itg_judgement_describe(judgement, &report);
  itg_report_loss_sentence(&report, where, sizeof where);
  const bool is_wide = itg_recipe_operand_bits(&run->recipe) == 16;
  ITG_FAIL(run->diagnostic, ITG_ERROR_QUANTIZATION, run->compiler->path,
           "the result collapsed: %s%s%s; try %s, more or better calibration samples, or allow a collapsed result",
           judgement->reason, *where ? "; loss: " : "", where,
           is_wide ? "a recipe that leaves out what hurts" : "a higher precision (a16w8)");
}

static itg_status compile(compile_run *run, const char *output, itg_compile_result *result) {
  ITG_TRY(check_options(run));
  ITG_TRY(itg_targets_find(run->options, run->diagnostic, &run->compiler->targets));
  ITG_TRY(check_writable(output, run->diagnostic));
  if (run->options->report) ITG_TRY(check_writable(run->options->report, run->diagnostic));
  if (run->options->recipe_output) ITG_TRY(check_writable(run->options->recipe_output, run->diagnostic));
  ITG_TRY(itg_pool_create(run->options->thread_count, run->diagnostic, &run->pool));
  ITG_TRY(read_recipe(run));
  ITG_TRY(rewrite(run));
  ITG_TRY(build(run));
  ITG_TRY(describe_origin(run));
  ITG_TRY(judge(run));
  ITG_TRY(ablate(run));
  const itg_judgement *judgement = &run->compiler->judgement;
  const bool refused = judgement->collapsed && !run->options->allow_collapse;
  if (!refused) {
    ITG_TRY(report_progress(run, "writing", 0, 0));
    ITG_TRY(complete_sections(run, output));
  }
  ITG_TRY(fill_result(run, output, result));
  if (refused) return refuse(run);
  const char *recipe_output = run->options->recipe_output;
  if (recipe_output)
    ITG_TRY(itg_write_file(recipe_output, run->recipe_json, strlen(run->recipe_json), run->diagnostic));
  // Last, so that whatever fails leaves no file.
  return itg_container_write(output, run->built.legal, run->sections, run->section_count, run->diagnostic);
}

itg_status itg_compiler_compile(itg_compiler *compiler, const itg_compile_options *options, const char *output,
                                itg_diagnostic *diagnostic, itg_compile_result *result) {
  forget_result(compiler);
  compile_run run = {.compiler = compiler, .options = options, .diagnostic = diagnostic, .start = itg_now()};
  const itg_status status = compile(&run, output, result);
  itg_model_close(run.model);
  free_float(&run);
  itg_built_free(&run.built);
  itg_pool_destroy(run.pool);
  itg_recipe_free(&run.recipe);
  free(run.provenance);
  free(run.accuracy);
  free(run.recipe_json);
  free(run.placement);
  itg_targets_free_contexts(&compiler->targets); // The placements stay for the result.
  return status;
}
