// What several commands do alike: which preprocessing and which samples, tables of results.
#ifndef ITG_CLI_SOURCE_H
#define ITG_CLI_SOURCE_H

#include "cli/samples.h"

// How data becomes samples, by the options --kind, --preprocess, --face-models, --identities, --quiet.
typedef struct cli_source {
  cli_progress progress;
  const itg_tensor_info **inputs; // malloc'ed list.
  itg_preprocess *preprocess;
  cli_faces *faces;
  cli_lines *lines;
  itg_clip_text *texts;
  cli_sample_options options;
} cli_source;

// Describes where the inputs of a network are found.
typedef struct cli_inputs {
  const void *network;
  size_t count;
  const itg_tensor_info *(*get)(const void *network, size_t index);
} cli_inputs;

// `stored`: the "preprocessing" section of a compiled file, or NULL; options given by the user win. `specs`: the data that
// will be opened; the models that find faces are only loaded for pictures. `model`: path beside which they are looked for.
ITG_MUST_USE itg_status cli_source_open(const cli_arguments *arguments, cli_inputs inputs, const char *model,
                                        const char *stored, size_t stored_size, const char *const *specs,
                                        size_t spec_count, itg_diagnostic *diagnostic, cli_source *out);
void cli_source_close(cli_source *source);
// What to store in a compiled file, or NULL.
const char *cli_source_preprocessing(const cli_source *source);

// The accuracy table of compile and compare.
void cli_print_accuracy(FILE *stream, const itg_output_accuracy *outputs, size_t count);
// What each method bought; nothing without rows.
void cli_print_ablation(FILE *stream, const itg_ablation *rows, size_t count);
// What runs where on one NPU; every node on the CPU with its reason.
void cli_print_placement(FILE *stream, const itg_placement *placement);
// Source options by --shape; free `*shapes` afterwards.
itg_source_options cli_source_options(const cli_arguments *arguments, const char ***shapes);
bool cli_is_compiled(const char *path); // By the file's first bytes.

#endif
