// Calibration and judging samples of language models: token ids, and the tiles of the pictures in them.
#ifndef ITG_COMPILE_LANGUAGE_SAMPLES_H
#define ITG_COMPILE_LANGUAGE_SAMPLES_H

#include "import/language/model.h"
#include "pipelines/vision_tiles.h"
#include "text/tokenizer.h"

// One sequence. `tiles` are its pictures in order.
typedef struct itg_language_sample {
  itg_token_ids ids;
  itg_vision_tiles *tiles; // malloc'ed
  size_t tile_sets;        // Pictures.
} itg_language_sample;

typedef struct itg_language_samples {
  itg_language_sample *items; // malloc'ed
  size_t count, capacity;
  uint64_t hash; // Of all ids and pixels, in order.
} itg_language_samples;
void itg_language_samples_free(itg_language_samples *samples);

typedef struct itg_language_sample_options {
  size_t longest;                    // Ids of a sample: texts are cut into windows of so many.
  size_t most;                       // Windows of a text, spread over it; samples of a list. 0: all.
  const itg_language_config *config; // Its prefix is put in front of samples that do not begin with it.
} itg_language_sample_options;

// Reads a text file (windows of its tokens) or a .json list of conversations (docs/FORMATS.md, "Samples of language models").
// Errors: IO, FORMAT, ARGUMENT (nothing in it, a conversation that is too long), those of pictures and tokens.
ITG_MUST_USE itg_status itg_language_samples_read(const char *path, const itg_language_model *model,
                                                  const itg_tokenizer *tokenizer,
                                                  const itg_language_sample_options *options,
                                                  itg_diagnostic *diagnostic, itg_language_samples *out);

#endif
