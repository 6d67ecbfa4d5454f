// See source.h.
#include "cli/source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "cli/files.h"

static bool any_pictures(const char *const *specs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct stat info;
    const size_t length = strlen(specs[i]);
    if (stat(specs[i], &info) == 0 && S_ISDIR(info.st_mode)) return true;
    if (!strchr(specs[i], '=') && !(length > 4 && strcmp(specs[i] + length - 4, ".npy") == 0)) return true;
  }
  return false;
}

static bool contains(const char *text, size_t size, const char *word) {
  return text && memmem(text, size, word, strlen(word)) != NULL;
}

// The preprocessing that a kind of network has by itself; NULL for plain images.
static itg_status preprocess_of_kind(const char *kind, const char *model, const cli_source *source, char path[4096],
                                     itg_diagnostic *diagnostic, const char **out) {
  const itg_shape *shape = &source->inputs[0]->shape;
  if (strcmp(kind, "image") == 0) {
    *out = NULL;
  } else if (strcmp(kind, "face-detection") == 0) { // The faceplugin detector has a size of its own.
    const bool faceplugin = shape->rank == 4 && shape->dims[2] == 240 && shape->dims[3] == 320;
    *out = faceplugin ? "faceplugin-detector" : "scrfd";
  } else if (strcmp(kind, "ocr-detection") == 0) {
    *out = "ppocr-detection";
  } else if (strcmp(kind, "clip-visual") == 0) {
    ITG_TRY(cli_beside(model, "preprocess_cfg.json", diagnostic, path, 4096));
    *out = path;
  } else {
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, kind,
             "no such --kind; there are image, face-detection, face-recognition, clip-visual, clip-textual, "
             "ocr-detection and ocr-recognition");
  }
  return ITG_OK;
}

// The text encoder's own folder.
static itg_status open_texts(const char *model, itg_diagnostic *diagnostic, itg_clip_text **out) {
  char path[4096];
  ITG_TRY(cli_beside(model, ".", diagnostic, path, sizeof path));
  return itg_clip_text_open(path, diagnostic, out);
}

static itg_status choose(const cli_arguments *arguments, const char *model, const char *stored, size_t stored_size,
                         bool pictures, itg_diagnostic *diagnostic, cli_source *source) {
  const char *kind = cli_get(arguments, "kind"), *preprocess = cli_get(arguments, "preprocess");
  const char *identities = cli_get(arguments, "identities");
  const bool stored_faces = contains(stored, stored_size, "\"face-recognition\"");
  if (!kind) kind = stored_faces && !preprocess ? "face-recognition" : "image";
  const bool faces = strcmp(kind, "face-recognition") == 0, lines = strcmp(kind, "ocr-recognition") == 0;
  const bool texts = strcmp(kind, "clip-textual") == 0;
  if ((faces || lines || texts) && preprocess)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, preprocess, "--kind %s has its own preprocessing; leave --preprocess out",
             kind);
  if (identities && strcmp(identities, "folder") != 0 && strcmp(identities, "prefix") != 0 &&
      strcmp(identities, "none") != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, identities, "--identities is folder, prefix or none");
  char path[4096];
  source->options.identities = identities;
  int limit = 0;
  if (!cli_get_integer(arguments, "limit", 1, 1000000000, &limit))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "see intaglio %s --help", arguments->command->name);
  source->options.limit = (size_t)limit;
  source->options.all_faces = cli_has(arguments, "all-faces");
  if (faces && pictures) ITG_TRY(cli_faces_open(cli_get(arguments, "face-models"), model, diagnostic, &source->faces));
  if (lines && pictures) ITG_TRY(cli_lines_open(cli_get(arguments, "text-models"), model, diagnostic, &source->lines));
  if (texts) ITG_TRY(open_texts(model, diagnostic, &source->texts));
  if (faces || lines || texts) return ITG_OK;
  if (!preprocess) ITG_TRY(preprocess_of_kind(kind, model, source, path, diagnostic, &preprocess));
  if (preprocess) return itg_preprocess_open(preprocess, diagnostic, &source->preprocess);
  if (stored && !stored_faces) return itg_preprocess_from_json(stored, stored_size, diagnostic, &source->preprocess);
  return ITG_OK;
}

itg_status cli_source_open(const cli_arguments *arguments, cli_inputs inputs, const char *model, const char *stored,
                           size_t stored_size, const char *const *specs, size_t spec_count, itg_diagnostic *diagnostic,
                           cli_source *out) {
  *out = (cli_source){.progress.quiet = cli_has(arguments, "quiet")};
  out->inputs = calloc(inputs.count + 1, sizeof *out->inputs);
  ITG_TRY_MEMORY(out->inputs, diagnostic);
  for (size_t i = 0; i < inputs.count; i++) out->inputs[i] = inputs.get(inputs.network, i);
  const itg_status status =
      choose(arguments, model, stored, stored_size, any_pictures(specs, spec_count), diagnostic, out);
  if (status != ITG_OK) {
    cli_source_close(out);
    return status;
  }
  out->options.inputs = out->inputs;
  out->options.input_count = inputs.count;
  out->options.preprocess = out->preprocess;
  out->options.faces = out->faces;
  out->options.lines = out->lines;
  out->options.texts = out->texts;
  out->options.progress = &out->progress;
  return ITG_OK;
}

void cli_source_close(cli_source *source) {
  cli_faces_close(source->faces);
  cli_lines_close(source->lines);
  itg_clip_text_close(source->texts);
  itg_preprocess_close(source->preprocess);
  free(source->inputs);
  source->faces = NULL;
  source->lines = NULL;
  source->texts = NULL;
  source->preprocess = NULL;
  source->inputs = NULL;
}

const char *cli_source_preprocessing(const cli_source *source) {
  if (source->faces) return cli_faces_preprocessing(source->faces);
  return source->preprocess ? itg_preprocess_json(source->preprocess) : NULL;
}

static void print_number(FILE *stream, int width, int digits, double value) {
  if (isnan(value))
    fprintf(stream, " %*s", width, "-");
  else if (isinf(value))
    fprintf(stream, " %*s", width, "exact");
  else
    fprintf(stream, " %*.*f", width, digits, value);
}

void cli_print_accuracy(FILE *stream, const itg_output_accuracy *outputs, size_t count) {
  fprintf(stream, "%-20s %8s %8s %8s %8s %8s %8s\n", "integer against float", "cosine", "min", "centred", "spread",
          "SQNR dB", "pairs");
  for (size_t i = 0; i < count; i++) {
    const itg_output_accuracy *output = &outputs[i];
    fprintf(stream, "  %-19s", output->name);
    print_number(stream, 8, 5, output->cosine_mean);
    print_number(stream, 8, 5, output->cosine_min);
    print_number(stream, 8, 5, output->centred_cosine_mean);
    print_number(stream, 8, 3, output->spread_ratio);
    print_number(stream, 8, 1, output->sqnr_db);
    print_number(stream, 8, 5, output->pair_agreement);
    fputc('\n', stream);
  }
  for (size_t i = 0; i < count; i++) {
    const itg_output_accuracy *output = &outputs[i];
    if (isnan(output->retrieval_overlap)) continue;
    fprintf(stream,
            "  %s: %.1f %% of the nearest %zu neighbours kept, similarities shifted by %+.4f, lengths %.3f of float\n",
            output->name, 100 * output->retrieval_overlap, output->retrieval_neighbours, output->pair_shift,
            output->norm_ratio);
  }
  for (size_t i = 0; i < count; i++) {
    const itg_output_accuracy *output = &outputs[i];
    if (isnan(output->float_margin)) continue;
    fprintf(stream,
            "  %s: lowest same - highest different %+.4f (float %+.4f), pairs told right %.2f %% (float %.2f %%)\n",
            output->name, output->integer_margin, output->float_margin, 100 * output->integer_verification,
            100 * output->float_verification);
  }
  for (size_t i = 0; i < count; i++) {
    if (outputs[i].cosine_mean < 0.95)
      fprintf(stream, "  note: %s is far from float; try -p a16w8, or more and better calibration samples\n",
              outputs[i].name);
  }
}

void cli_print_ablation(FILE *stream, const itg_ablation *rows, size_t count) {
  if (count == 0) return;
  fprintf(stream, "%-26s %8s %8s %10s\n", "without", "cosine", "min", "it buys");
  for (size_t i = 0; i < count; i++) {
    const itg_ablation *row = &rows[i];
    fprintf(stream, "  %-24s", i == 0 ? "nothing: the program" : i + 1 == count ? "all of them" : row->method);
    print_number(stream, 8, 5, row->cosine_mean);
    print_number(stream, 8, 5, row->cosine_min);
    if (row->failure)
      fprintf(stream, "  no program without it: %s", row->failure);
    else if (i > 0 && row->bought_db == 0)
      fprintf(stream, "    nothing");
    else if (i > 0)
      fprintf(stream, " %+7.2f dB", row->bought_db);
    fputc('\n', stream);
  }
}

itg_source_options cli_source_options(const cli_arguments *arguments, const char ***shapes) {
  itg_source_options options = {.struct_size = sizeof options};
  *shapes = cli_get_all(arguments, "shape", &options.shape_count);
  options.shapes = *shapes;
  return options;
}

bool cli_is_compiled(const char *path) {
  static const unsigned char magic[4] = {0x89, 0x49, 0x54, 0x47}; // "ITG" after a byte that is not ASCII.
  char start[4];
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false; // Opening a pipe would wait for a writer.
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  const bool compiled = fread(start, 1, sizeof start, file) == sizeof start && memcmp(start, magic, sizeof magic) == 0;
  fclose(file);
  return compiled;
}

void cli_print_placement(FILE *stream, const itg_placement *placement) {
  const double mib = 1 << 20;
  const size_t on_cpu = placement->node_count - placement->npu_node_count;
  fprintf(stream, "npu     %s: %zu of %zu nodes on the NPU", placement->target, placement->npu_node_count,
          placement->node_count);
  if (placement->operation_count) fprintf(stream, " as %zu operations", placement->operation_count);
  if (placement->context_bytes)
    fprintf(stream, "; context %.2f MiB, prepared in %.2f s with %.0f MiB", (double)placement->context_bytes / mib,
            placement->prepare_seconds, (double)placement->prepare_peak_bytes / mib);
  fprintf(stream, " (library %s)\n", placement->build);
  size_t before = 0, behind = 0;
  for (size_t i = 0; i < on_cpu; i++) {
    const itg_cpu_node *node = &placement->cpu_nodes[i];
    before += node->is_follower && !node->is_behind;
    behind += node->is_follower && node->is_behind;
    if (node->is_follower) continue;
    fprintf(stream, "        on the CPU, %s: %s (%s): %s\n", node->is_behind ? "behind" : "before", node->name,
            node->op, node->reason);
  }
  if (before) fprintf(stream, "        on the CPU, before: %zu more nodes that these need\n", before);
  if (behind) fprintf(stream, "        on the CPU, behind: %zu more nodes that need these\n", behind);
}
