// The compiled file against the float model: the judged samples run through its own parts, as they will be used.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compile/language/run.h"
#include "import/language/build.h"

typedef struct judge {
  itg_language_run *run;
  itg_model *model;
  itg_session *decoder, *embedding, *vision;
  itg_float_segment *head; // Final norm and head in float, over blocks of rows.
  itg_graph *head_graph;
  float *rows, *cosines, *sines, *logits; // One block.
  float *features;                        // Integer ones of one tile.
  float *token_cosines;
  size_t token_count;
} judge;

// ---- pictures ----

static double cosine(const float *a, const float *b, size_t count) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < count; i++) {
    ab += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i];
    bb += (double)b[i] * (double)b[i];
  }
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb;
}

// Integer features of one tile, whose float features are tile `index` of the stream.
static itg_status run_tile(judge *j, const itg_vision_tiles *tiles, size_t n, size_t index) {
  itg_language_run *run = j->run;
  const itg_vision_config *vision = &run->config.vision;
  const size_t pixels = 3 * (size_t)vision->image_size * (size_t)vision->image_size;
  const size_t width = (size_t)run->config.hidden, tokens = (size_t)vision->tile_tokens;
  float *values = malloc(pixels * sizeof *values);
  ITG_TRY_MEMORY(values, run->diagnostic);
  itg_vision_tile_values(vision, tiles, n, values);
  itg_status status = itg_session_set_input(j->vision, 0, values, pixels, run->diagnostic);
  free(values);
  if (status == ITG_OK) status = itg_session_run(j->vision, run->diagnostic);
  if (status == ITG_OK) status = itg_session_get_output(j->vision, 0, j->features, tokens * width, run->diagnostic);
  ITG_TRY(status);
  const float *reference = run->tiles.samples[index].values;
  for (size_t t = 0; t < tokens; t++)
    j->token_cosines[j->token_count++] = (float)cosine(j->features + t * width, reference + t * width, width);
  return ITG_OK;
}

// ---- text ----

static itg_status embed_block(judge *j, const itg_language_sample *sample, size_t first, size_t count) {
  itg_language_run *run = j->run;
  const size_t width = (size_t)run->config.hidden;
  for (size_t i = 0; i < count; i++) {
    const int32_t *id = &sample->ids.ids[first + i];
    ITG_TRY(itg_session_set_input_codes(j->embedding, 0, id, sizeof *id, run->diagnostic));
    ITG_TRY(itg_session_run(j->embedding, run->diagnostic));
    ITG_TRY(itg_session_get_output(j->embedding, 0, j->rows + i * width, width, run->diagnostic));
  }
  return ITG_OK;
}

// Puts the rows of integer features (of all tiles of the sample, in order) where the block has image tokens.
static void place_features(const judge *j, const itg_language_sample *sample, size_t first, size_t count,
                           const float *features, size_t *row) {
  const itg_language_config *config = &j->run->config;
  const size_t width = (size_t)config->hidden;
  for (size_t i = 0; features && i < count; i++) {
    if (sample->ids.ids[first + i] == config->image_token)
      memcpy(j->rows + i * width, features + (*row)++ * width, width * sizeof(float));
  }
}

static itg_status run_block(judge *j, size_t first, size_t count) {
  itg_language_run *run = j->run;
  const itg_language_config *config = &run->config;
  const size_t pairs = (size_t)config->head_size / 2;
  ITG_TRY(itg_session_set_block(j->decoder, count, ITG_BLOCK_ALL_ROWS, run->diagnostic));
  ITG_TRY(itg_rope_tables(config, (int64_t)first, (int64_t)count, run->diagnostic, j->cosines, j->sines));
  ITG_TRY(itg_session_set_input(j->decoder, 0, j->rows, count * (size_t)config->hidden, run->diagnostic));
  // The integer graph takes Q30.
  for (size_t i = 0; i < count * pairs; i++) {
    j->cosines[i] *= 0x1p30f;
    j->sines[i] *= 0x1p30f;
  }
  ITG_TRY(itg_session_set_input(j->decoder, 1, j->cosines, count * pairs, run->diagnostic));
  ITG_TRY(itg_session_set_input(j->decoder, 2, j->sines, count * pairs, run->diagnostic));
  ITG_TRY(itg_session_run(j->decoder, run->diagnostic));
  return itg_session_get_output(j->decoder, 0, j->logits, count * (size_t)config->vocabulary, run->diagnostic);
}

static itg_status compare_block(judge *j, const itg_language_sample *sample, const itg_activations *reference,
                                size_t first, size_t count) {
  itg_language_run *run = j->run;
  const size_t width = (size_t)run->config.hidden, vocabulary = (size_t)run->config.vocabulary;
  itg_activations rows = {malloc(count * width * sizeof(float)), (int64_t)count, width};
  ITG_TRY_MEMORY(rows.values, run->diagnostic);
  memcpy(rows.values, reference->values + first * width, count * width * sizeof(float));
  itg_status status = itg_float_segment_run(j->head, &rows, 0, 1, run->diagnostic);
  for (size_t i = 0; status == ITG_OK && i < count; i++) {
    const size_t at = first + i;
    // What a picture's tokens predict is nobody's concern.
    const bool known = at + 1 < sample->ids.count && sample->ids.ids[at + 1] != run->config.image_token;
    status = itg_token_accuracy_add(&run->accuracy, rows.values + i * vocabulary, j->logits + i * vocabulary,
                                    vocabulary, known ? sample->ids.ids[at + 1] : -1, run->diagnostic);
  }
  free(rows.values);
  return status;
}

static itg_status judge_sample(judge *j, const itg_language_sample *sample, const itg_activations *reference,
                               size_t *tile) {
  itg_language_run *run = j->run;
  const size_t block = (size_t)run->config.prefill_length, width = (size_t)run->config.hidden;
  const size_t tokens = (size_t)run->config.vision.tile_tokens;
  size_t count = 0, row = 0;
  float *features = NULL;
  for (size_t t = 0; t < sample->tile_sets; t++) count += sample->tiles[t].count;
  if (count) {
    features = malloc(count * tokens * width * sizeof *features);
    ITG_TRY_MEMORY(features, run->diagnostic);
  }
  itg_status status = ITG_OK;
  float *to = features;
  for (size_t t = 0; t < sample->tile_sets; t++) {
    for (size_t n = 0; status == ITG_OK && n < sample->tiles[t].count; n++, to += tokens * width) {
      status = run_tile(j, &sample->tiles[t], n, (*tile)++);
      memcpy(to, j->features, tokens * width * sizeof *to);
    }
  }
  if (status == ITG_OK) status = itg_session_rewind(j->decoder, 0, run->diagnostic);
  // The prefix is in the caches already.
  const size_t start = (size_t)run->config.prefix_count;
  for (size_t first = start; status == ITG_OK && first < sample->ids.count; first += block) {
    const size_t rows = sample->ids.count - first < block ? sample->ids.count - first : block;
    status = embed_block(j, sample, first, rows);
    if (status == ITG_OK) place_features(j, sample, first, rows, features, &row);
    if (status == ITG_OK) status = run_block(j, first, rows);
    if (status == ITG_OK) status = compare_block(j, sample, reference, first, rows);
  }
  free(features);
  return status;
}

// ---- all together ----

static itg_status open_session(const itg_language_run *run, const itg_model *model, const char *role,
                               itg_session **out) {
  const itg_model *part = itg_model_part(model, role);
  itg_session_options options;
  itg_session_options_default(&options);
  options.thread_count = run->options->thread_count;
  if (strcmp(role, "embedding") == 0) options.thread_count = 1; // Looking up a row is no work for threads.
  if (!part) ITG_FAIL(run->diagnostic, ITG_ERROR_INTERNAL, role, "the file has no part \"%s\"", role);
  return itg_session_create(part, &options, run->diagnostic, out);
}

static itg_status prepare(judge *j, const char *path, size_t tile_count) {
  itg_language_run *run = j->run;
  const itg_language_config *config = &run->config;
  const size_t block = (size_t)config->prefill_length, pairs = (size_t)config->head_size / 2;
  const size_t width = (size_t)config->hidden, tokens = (size_t)config->vision.tile_tokens;
  ITG_TRY(itg_model_open(path, run->diagnostic, &j->model));
  ITG_TRY(open_session(run, j->model, "decoder", &j->decoder));
  ITG_TRY(open_session(run, j->model, "embedding", &j->embedding));
  if (run->vision) ITG_TRY(open_session(run, j->model, "vision", &j->vision));
  const itg_decoder_part head = {config->layers, config->layers, true, (int64_t)block, (int64_t)block};
  ITG_TRY(itg_build_decoder(run->model, &head, run->diagnostic, &j->head_graph));
  ITG_TRY(itg_float_segment_create(j->head_graph, config, NULL, run->diagnostic, &j->head));
  j->rows = malloc(block * width * sizeof *j->rows);
  j->cosines = malloc(2 * block * pairs * sizeof *j->cosines);
  j->logits = malloc(block * (size_t)config->vocabulary * sizeof *j->logits);
  j->features = malloc(tokens * width * sizeof *j->features + 1);
  j->token_cosines = malloc(tile_count * tokens * sizeof *j->token_cosines + 1);
  ITG_TRY_MEMORY(j->rows && j->cosines && j->logits && j->features && j->token_cosines, run->diagnostic);
  j->sines = j->cosines + block * pairs;
  return ITG_OK;
}

static void release(judge *j) {
  itg_session_destroy(j->decoder);
  itg_session_destroy(j->embedding);
  itg_session_destroy(j->vision);
  itg_model_close(j->model);
  itg_float_segment_destroy(j->head);
  itg_graph_destroy(j->head_graph);
  free(j->rows);
  free(j->cosines);
  free(j->logits);
  free(j->features);
  free(j->token_cosines);
}

static int compare_floats(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void summarise(judge *j) {
  itg_language_accuracy *out = &j->run->result.accuracy;
  const itg_token_summary summary = itg_token_accuracy_summary(&j->run->accuracy);
  *out = (itg_language_accuracy){.tokens = summary.tokens,
                                 .float_perplexity = summary.float_perplexity,
                                 .integer_perplexity = summary.integer_perplexity,
                                 .perplexity_ratio = summary.ratio,
                                 .divergence_mean = summary.divergence_mean,
                                 .divergence_999 = summary.divergence_999,
                                 .top1_agreement = summary.top1,
                                 .image_tokens = j->token_count,
                                 .image_cosine_mean = NAN,
                                 .image_cosine_low = NAN};
  if (!j->token_count) return;
  double sum = 0;
  for (size_t i = 0; i < j->token_count; i++) sum += (double)j->token_cosines[i];
  qsort(j->token_cosines, j->token_count, sizeof j->token_cosines[0], compare_floats);
  out->image_cosine_mean = sum / (double)j->token_count;
  out->image_cosine_low = (double)j->token_cosines[j->token_count / 100];
}

static itg_status judge_all(judge *j) {
  itg_language_run *run = j->run;
  size_t first, tile = 0;
  const itg_language_samples *samples = itg_language_judging(run, &first);
  // Tiles of the calibration samples come first in their stream.
  for (size_t i = 0; first && i < run->calibration.count; i++) {
    for (size_t t = 0; t < run->calibration.items[i].tile_sets; t++) tile += run->calibration.items[i].tiles[t].count;
  }
  for (size_t i = 0; i < samples->count; i++) {
    ITG_TRY(itg_language_progress(run, "judge"));
    ITG_TRY(judge_sample(j, &samples->items[i], &run->text.samples[first + i], &tile));
  }
  summarise(j);
  return ITG_OK;
}

itg_status itg_language_judge(itg_language_run *run, const char *path) {
  judge j = {.run = run};
  itg_status status = prepare(&j, path, run->tiles.count);
  if (status == ITG_OK) status = judge_all(&j);
  release(&j);
  return status;
}
