// What the steps of one language compile share. See language.c for their order.
#ifndef ITG_COMPILE_LANGUAGE_RUN_H
#define ITG_COMPILE_LANGUAGE_RUN_H

#include "compile/language/embedding.h"
#include "compile/language/perplexity.h"
#include "compile/language/samples.h"
#include "compile/language/segment.h"
#include "intaglio/compiler.h"

typedef struct itg_language_run {
  const itg_language_options *options;
  itg_diagnostic *diagnostic;
  itg_language_model *model;
  itg_language_config config; // With the lengths of the compiled graphs.
  itg_tokenizer *tokenizer;
  itg_pool *pool;
  itg_recipe recipe;
  itg_language_samples calibration, judged; // `judged` is empty when the calibration samples judge.
  itg_row_table table;                      // What the decoder is calibrated with.
  itg_stream text;                          // Calibration samples, then judged ones.
  itg_stream tiles;                         // All tiles of the calibration samples, then those of the judged ones.
  itg_graph *vision, *decoder, *embedding;
  itg_row_table deployed; // What the embedding part holds; borrows from the decoder where that has the same rows.
  itg_token_accuracy accuracy;
  itg_language_result result;
  int64_t done, total; // Segments, for the progress.
} itg_language_run;

// Tells the progress function about the next segment. Errors: CANCELLED.
ITG_MUST_USE itg_status itg_language_progress(itg_language_run *run, const char *stage);

// vision.c: compiles the encoder on the tiles and leaves the features of each in the stream.
ITG_MUST_USE itg_status itg_language_compile_vision(itg_language_run *run);
// decoder.c: embeds the samples (with the features in place of image tokens) and compiles the decoder; judged samples end as
// the float output of the last layer. Then the token embedding.
ITG_MUST_USE itg_status itg_language_compile_decoder(itg_language_run *run);
// judge.c: runs the judged samples through the compiled file and fills result.accuracy.
ITG_MUST_USE itg_status itg_language_judge(itg_language_run *run, const char *path);
// report.c: malloc'ed JSON, or NULL without memory. The record is what the file holds: nothing that differs between runs.
char *itg_language_record_json(const itg_language_run *run);
char *itg_language_report_json(const itg_language_run *run, const char *source, const char *compiled);
// recipe.c: the built-in recipe of a language model for a precision, and the rules of a file behind it.
ITG_MUST_USE itg_status itg_language_recipe(const itg_language_options *options, const itg_language_config *config,
                                            itg_diagnostic *diagnostic, itg_recipe *out);

// The samples that judge: of the text stream, [first, end), and their ids.
static inline const itg_language_samples *itg_language_judging(const itg_language_run *run, size_t *first) {
  *first = run->judged.count ? run->calibration.count : 0;
  return run->judged.count ? &run->judged : &run->calibration;
}

#endif
