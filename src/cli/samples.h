// Data of the user as samples of a network: a folder of pictures, photographs of faces, or .npy files.
#ifndef ITG_CLI_SAMPLES_H
#define ITG_CLI_SAMPLES_H

#include "cli/commands.h"
#include "cli/faces.h"
#include "cli/lines.h"
#include "cli/progress.h"
#include "intaglio/compiler.h"
#include "intaglio/pipelines.h"

typedef struct cli_sample_options {
  const itg_tensor_info *const *inputs; // Of the network that will read the samples.
  size_t input_count;
  const itg_preprocess *preprocess; // For pictures; NULL: none given.
  cli_faces *faces;                 // Not NULL: pictures are photographs of faces.
  bool all_faces;                   // Every face of a photograph, not only the most certain.
  cli_lines *lines;                 // Not NULL: pictures show text.
  const itg_clip_text *texts;       // Not NULL: the samples are texts.
  const char *identities;           // "folder" (also for NULL), "prefix" or "none".
  size_t limit;                     // At most so many samples, spread evenly; 0: all.
  cli_progress *progress;
} cli_sample_options;

typedef struct cli_samples cli_samples; // One thread at a time.

// `specs`: each "DIR", "PICTURE", "FILE.npy" (networks with one input) or "INPUT=FILE.npy"; with `texts` also files of one
// text a line. Pictures may be mixed with pictures, arrays not with anything else; a .npy file holds one sample a row. `options` and what it points to must outlive
// the samples. Errors: ARGUMENT, IO, FORMAT, SHAPE; each names the file.
ITG_MUST_USE itg_status cli_samples_open(const char *const *specs, size_t count, const cli_sample_options *options,
                                         itg_diagnostic *diagnostic, cli_samples **out);
void cli_samples_close(cli_samples *samples);
// All samples from `first`, every `step`-th; valid while `samples` and `view` (filled here) are.
typedef struct cli_sample_view {
  cli_samples *samples;
  size_t first, step;
} cli_sample_view;
itg_samples cli_samples_view(cli_samples *samples, size_t first, size_t step, cli_sample_view *view);

#endif
