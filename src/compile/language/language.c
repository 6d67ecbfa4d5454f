// From a checkpoint to a .itg that can be chatted with. The order of the steps is the order of `compile` below.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "compile/language/run.h"
#include "compile/provenance.h"
#include "compile/source.h"
#include "container/container.h"

enum {
  DEFAULT_CONTEXT = 2048,
  DEFAULT_BLOCK = 128,
  DEFAULT_SAMPLE = 512,
  DEFAULT_CALIBRATION = 16,
  DEFAULT_JUDGE = 64
};
static const double worst_ratio = 1.5; // Of the perplexities; beyond it the result counts as collapsed.

int itg_is_language_model(const char *path) { return itg_language_model_is(path); }

void itg_language_options_default(itg_language_options *options) {
  *options = (itg_language_options){.struct_size = sizeof *options, .weight_block = 32, .cache_bits = 8};
}

void itg_language_result_free(itg_language_result *result) {
  free(result->json);
  *result = (itg_language_result){0};
}

itg_status itg_language_progress(itg_language_run *run, const char *stage) {
  const itg_language_options *options = run->options;
  itg_checkpoint_release_pages(&run->model->checkpoint); // Of the segment in front.
  run->done++;
  if (options->progress && options->progress(options->progress_context, stage, run->done, run->total))
    ITG_FAIL(run->diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled during %s", stage);
  return ITG_OK;
}

static int or_default(int value, int standard) { return value > 0 ? value : standard; }

// What every conversation begins with: the marker of a message where the template has one, else the model's first token.
static void choose_prefix(itg_language_run *run) {
  static const char marker[] = "<|im_start|>";
  const itg_span token = {(const uint8_t *)marker, sizeof marker - 1};
  const char *template = run->model->chat_template;
  int32_t first = template && strstr(template, marker) ? itg_tokenizer_id_of_token(run->tokenizer, token) : -1;
  if (first < 0) first = run->config.bos;
  if (first < 0 || first >= run->config.vocabulary) return;
  run->config.prefix[0] = first;
  run->config.prefix_count = 1;
}

static itg_status open_model(itg_language_run *run, const char *path) {
  const itg_language_options *options = run->options;
  ITG_TRY(itg_language_model_open(path, run->diagnostic, &run->model));
  run->config = run->model->config;
  if (!run->model->tokenizer_json)
    ITG_FAIL(run->diagnostic, ITG_ERROR_FORMAT, path, "the model has no tokenizer (tokenizer.json)");
  ITG_TRY(itg_tokenizer_open((itg_span){(uint8_t *)run->model->tokenizer_json, run->model->tokenizer_size},
                             run->diagnostic, &run->tokenizer));
  choose_prefix(run);
  const int most = run->config.maximum_positions;
  int context = or_default(options->context_length, DEFAULT_CONTEXT);
  if (options->context_length > most)
    ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, NULL, "a context of %d; the model was trained for %d",
             options->context_length, most);
  if (context > most) context = most;
  int block = or_default(options->block_length, DEFAULT_BLOCK);
  if (block > context) block = context;
  run->config.context_length = context;
  run->config.prefill_length = block;
  return itg_language_recipe(options, &run->config, run->diagnostic, &run->recipe);
}

static itg_status check_lengths(const itg_language_run *run, const itg_language_samples *samples) {
  for (size_t i = 0; i < samples->count; i++) {
    if (samples->items[i].ids.count > (size_t)run->config.context_length)
      ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, NULL,
               "sample %zu has %zu tokens; the context to be compiled holds %d: give a longer context or a shorter "
               "sample",
               i + 1, samples->items[i].ids.count, (int)run->config.context_length);
  }
  return ITG_OK;
}

static itg_status read_samples(itg_language_run *run) {
  const itg_language_options *options = run->options;
  int longest = or_default(options->sample_length, DEFAULT_SAMPLE);
  if (longest > run->config.context_length) longest = run->config.context_length;
  itg_language_sample_options sampling = {.longest = (size_t)longest,
                                          .config = &run->config,
                                          .most = (size_t)or_default(options->calibration_limit, DEFAULT_CALIBRATION)};
  if (!options->calibration)
    ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, NULL, "no calibration text or conversations; give one of them");
  ITG_TRY(itg_language_samples_read(options->calibration, run->model, run->tokenizer, &sampling, run->diagnostic,
                                    &run->calibration));
  if (options->judge) {
    sampling.most = (size_t)or_default(options->judge_limit, DEFAULT_JUDGE);
    ITG_TRY(itg_language_samples_read(options->judge, run->model, run->tokenizer, &sampling, run->diagnostic,
                                      &run->judged));
  }
  ITG_TRY(check_lengths(run, &run->calibration));
  ITG_TRY(check_lengths(run, &run->judged));
  size_t first;
  itg_language_result *result = &run->result;
  result->judged_on_calibration = run->judged.count == 0;
  result->judge_count = itg_language_judging(run, &first)->count;
  result->calibration_count = run->calibration.count;
  for (size_t i = 0; i < run->calibration.count; i++) result->calibration_tokens += run->calibration.items[i].ids.count;
  const bool vision = run->config.vision.family != ITG_VISION_NONE;
  run->total = run->config.layers + 1 + (vision ? run->config.vision.layers + 2 : 0) + (int64_t)result->judge_count;
  return ITG_OK;
}

// ---- writing ----

typedef struct texts {
  char *config, *provenance, *accuracy;
  itg_metadata_section sections[6];
  size_t count;
} texts;

static void add_text(texts *t, const char *name, const char *text, size_t size) {
  if (text) t->sections[t->count++] = (itg_metadata_section){name, text, size, false};
}

static itg_status describe(itg_language_run *run, const char *path, texts *t) {
  char *recipe = itg_recipe_to_json(&run->recipe);
  ITG_TRY_MEMORY(recipe, run->diagnostic);
  uint64_t hash = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < run->model->checkpoint.file_count; i++) bytes += run->model->checkpoint.files[i].bytes.size;
  hash = itg_checkpoint_hash(&run->model->checkpoint);
  const itg_provenance provenance = {.source_name = itg_base_name(path),
                                     .source_hash = hash,
                                     .source_bytes = bytes,
                                     .recipe_json = recipe,
                                     .precision = run->recipe.precision,
                                     .calibration_count = run->calibration.count,
                                     .calibration_hash = run->calibration.hash};
  t->provenance = itg_provenance_json(&provenance);
  t->config = itg_language_config_to_json(&run->config);
  free(recipe);
  ITG_TRY_MEMORY(t->provenance && t->config, run->diagnostic);
  add_text(t, "provenance", t->provenance, strlen(t->provenance));
  add_text(t, "language", t->config, strlen(t->config));
  add_text(t, "tokenizer", run->model->tokenizer_json, run->model->tokenizer_size);
  const char *template = run->model->chat_template;
  add_text(t, "chat-template", template, template ? strlen(template) : 0);
  return ITG_OK;
}

static itg_status write_to(itg_output_file *file, const itg_language_run *run, const texts *t) {
  const itg_container_part parts[] = {
      {"decoder", run->decoder}, {"embedding", run->embedding}, {"vision", run->vision}};
  return itg_container_write_parts_to(file, parts, run->vision ? 3 : 2, t->sections, t->count, run->diagnostic);
}

static itg_status judge_draft(itg_output_file *draft, itg_language_run *run, const texts *t) {
  ITG_TRY(write_to(draft, run, t));
  const char *path = itg_output_file_flush(draft, run->diagnostic);
  return path ? itg_language_judge(run, path) : ITG_ERROR_IO;
}

static size_t constant_bytes(const itg_graph *graph) {
  size_t total = 0;
  for (size_t i = 0; i < graph->tensor_count; i++) {
    size_t bytes;
    const itg_tensor *tensor = graph->tensors[i];
    if (tensor && tensor->data && itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes)) total += bytes;
  }
  return total;
}

static void measure_parts(itg_language_run *run) {
  for (size_t i = 0; i < run->result.part_count; i++) {
    itg_language_part *part = &run->result.parts[i];
    const bool decoder = strcmp(part->role, "decoder") == 0, vision = strcmp(part->role, "vision") == 0;
    part->constant_bytes = constant_bytes(decoder ? run->decoder : vision ? run->vision : run->embedding);
    if (!decoder && !vision && run->deployed.count)
      part->constant_bytes -= (size_t)(run->deployed.count * run->deployed.width);
  }
}

// The program is judged from a file that never gets its name, and written again with the record of that.
static itg_status judge_and_write(itg_language_run *run, texts *t, const char *output) {
  itg_language_result *result = &run->result;
  const double start = itg_now();
  itg_output_file *file;
  ITG_TRY(itg_output_file_create(output, run->diagnostic, &file));
  itg_status status = judge_draft(file, run, t);
  itg_output_file_discard(file);
  ITG_TRY(status);
  result->judge_seconds = itg_now() - start;
  const double ratio = result->accuracy.perplexity_ratio;
  result->collapsed = !(ratio <= worst_ratio);
  if (result->collapsed && !run->options->allow_collapse)
    ITG_FAIL(run->diagnostic, ITG_ERROR_QUANTIZATION, NULL,
             "the result lost what the model could do: perplexity %.2f instead of %.2f. More or better calibration "
             "samples, a16w8, or smaller weight blocks may help; --allow-collapse writes it all the same",
             result->accuracy.integer_perplexity, result->accuracy.float_perplexity);
  t->accuracy = itg_language_record_json(run);
  ITG_TRY_MEMORY(t->accuracy, run->diagnostic);
  add_text(t, "accuracy", t->accuracy, strlen(t->accuracy));
  ITG_TRY(itg_output_file_create(output, run->diagnostic, &file));
  status = write_to(file, run, t);
  if (status == ITG_OK) return itg_output_file_commit(file, run->diagnostic);
  itg_output_file_discard(file);
  return status;
}

static itg_status compile(itg_language_run *run, const char *path, const char *output, texts *t) {
  const double start = itg_now();
  ITG_TRY(itg_pool_create(run->options->thread_count, run->diagnostic, &run->pool));
  ITG_TRY(open_model(run, path));
  ITG_TRY(read_samples(run));
  if (run->config.vision.family != ITG_VISION_NONE) ITG_TRY(itg_language_compile_vision(run));
  ITG_TRY(itg_language_compile_decoder(run));
  measure_parts(run);
  ITG_TRY(describe(run, path, t));
  ITG_TRY(judge_and_write(run, t, output));
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(output, run->diagnostic, &file));
  run->result.file_bytes = file.bytes.size;
  itg_mapped_file_close(&file);
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) run->result.peak_memory_bytes = (size_t)usage.ru_maxrss * 1024;
  run->result.total_seconds = itg_now() - start;
  run->result.json = itg_language_report_json(run, itg_base_name(path), itg_base_name(output));
  ITG_TRY_MEMORY(run->result.json, run->diagnostic);
  return ITG_OK;
}

static void release(itg_language_run *run) {
  itg_graph_destroy(run->embedding);
  itg_row_table_free(&run->deployed);
  itg_graph_destroy(run->decoder);
  itg_graph_destroy(run->vision);
  itg_row_table_free(&run->table);
  itg_stream_free(&run->text);
  itg_stream_free(&run->tiles);
  itg_language_samples_free(&run->calibration);
  itg_language_samples_free(&run->judged);
  itg_token_accuracy_free(&run->accuracy);
  itg_recipe_free(&run->recipe);
  itg_tokenizer_close(run->tokenizer);
  itg_language_model_close(run->model);
  itg_pool_destroy(run->pool);
}

itg_status itg_language_compile(const char *model, const itg_language_options *options, const char *output,
                                itg_diagnostic *diagnostic, itg_language_result *result) {
  itg_diagnostic unseen;
  itg_language_run run = {.options = options, .diagnostic = diagnostic ? diagnostic : &unseen};
  texts t = {0};
  const itg_status status = compile(&run, model, output, &t);
  free(t.config);
  free(t.provenance);
  free(t.accuracy);
  release(&run);
  if (result && status == ITG_OK) *result = run.result;
  if (!result || status != ITG_OK) itg_language_result_free(&run.result);
  return status;
}
