// The decoder and the token embedding.
#include <stdlib.h>
#include <string.h>

#include "compile/language/run.h"
#include "compile/source.h"
#include "import/language/build.h"

// Embeds one sample; `exact` reads the model's own table (the float side), else the 8-bit one. Features of tiles take the
// places of image tokens, from `feature` on.
static itg_status embed(itg_language_run *run, const itg_language_sample *sample, bool exact, size_t *tile,
                        itg_activations *out) {
  const size_t width = (size_t)run->config.hidden, tokens = (size_t)run->config.vision.tile_tokens;
  const itg_token_ids *ids = &sample->ids;
  size_t row = 0;
  *out = (itg_activations){malloc(ids->count * width * sizeof(float) + 1), (int64_t)ids->count, width};
  ITG_TRY_MEMORY(out->values, run->diagnostic);
  if (exact) ITG_TRY(itg_language_embed(run->model, ids->ids, ids->count, run->diagnostic, out->values));
  for (size_t i = 0; i < ids->count; i++) {
    float *to = out->values + i * width;
    if (sample->tile_sets && ids->ids[i] == run->config.image_token) {
      if (*tile >= run->tiles.count)
        ITG_FAIL(run->diagnostic, ITG_ERROR_ARGUMENT, NULL, "a sample has more image tokens than its pictures give");
      memcpy(to, run->tiles.samples[*tile].values + row * width, width * sizeof *to);
      if (++row == tokens) {
        row = 0;
        ++*tile;
      }
    } else if (!exact) {
      itg_row_table_read(&run->table, ids->ids[i], to);
    }
  }
  return ITG_OK;
}

static itg_status check_ids(const itg_language_run *run, const itg_language_samples *samples) {
  for (size_t s = 0; s < samples->count; s++) {
    const itg_token_ids *ids = &samples->items[s].ids;
    for (size_t i = 0; i < ids->count; i++) {
      if (ids->ids[i] < 0 || ids->ids[i] >= run->config.vocabulary)
        ITG_FAIL(run->diagnostic, ITG_ERROR_FORMAT, "tokenizer",
                 "the tokenizer gives token %d, but the model has only %d", (int)ids->ids[i],
                 (int)run->config.vocabulary);
    }
  }
  return ITG_OK;
}

static itg_status make_stream(itg_language_run *run) {
  const size_t first = run->calibration.count, all = first + run->judged.count;
  size_t tile = 0;
  ITG_TRY(check_ids(run, &run->calibration));
  ITG_TRY(check_ids(run, &run->judged));
  run->text.samples = calloc(all + 1, sizeof run->text.samples[0]);
  ITG_TRY_MEMORY(run->text.samples, run->diagnostic);
  run->text.calibrating = first;
  for (; run->text.count < all; run->text.count++) {
    const size_t i = run->text.count;
    const itg_language_sample *sample = i < first ? &run->calibration.items[i] : &run->judged.items[i - first];
    ITG_TRY(embed(run, sample, i >= first, &tile, &run->text.samples[i]));
  }
  return ITG_OK;
}

static itg_status compile_layers(itg_language_run *run) {
  const int64_t longest = itg_stream_longest(&run->text);
  const int32_t layers = run->config.layers;
  itg_segment_options options = {.config = &run->config,
                                 .recipe = &run->recipe,
                                 .pool = run->pool,
                                 .rows = run->config.prefill_length,
                                 .context = run->config.context_length};
  itg_tensor *output = NULL;
  for (int32_t layer = 0; layer <= layers; layer++) {
    const bool head = layer == layers;
    const itg_decoder_part part = {layer, head ? layer : layer + 1, head, longest, longest};
    itg_graph *graph = NULL;
    ITG_TRY(itg_language_progress(run, "decoder"));
    ITG_TRY(itg_build_decoder(run->model, &part, run->diagnostic, &graph));
    options.keep_outputs = !head; // Logits of all positions would not fit, and nothing follows.
    ITG_TRY(itg_segment_compile(graph, &options, &run->text, run->decoder, run->diagnostic, &output));
  }
  ITG_TRY_MEMORY(itg_graph_add_output(run->decoder, output), run->diagnostic);
  run->decoder->stage = ITG_STAGE_LEGAL;
  return ITG_OK;
}

// With a tied head of 8 bits its own rows are the embedding: the file holds them once.
static itg_status make_embedding(itg_language_run *run) {
  const itg_row_table *table = &run->table;
  if (run->config.tied) {
    ITG_TRY(itg_row_table_from_head(run->decoder, run->diagnostic, &run->deployed));
    if (run->deployed.count) table = &run->deployed;
  }
  return itg_embedding_graph(table, run->decoder->inputs[0]->encoding, run->diagnostic, &run->embedding);
}

itg_status itg_language_compile_decoder(itg_language_run *run) {
  const double start = itg_now();
  ITG_TRY(itg_row_table_from_model(run->model, run->diagnostic, &run->table));
  ITG_TRY(make_stream(run));
  ITG_TRY(itg_graph_create(run->diagnostic, &run->decoder));
  ITG_TRY(compile_layers(run));
  run->result.parts[run->result.part_count++] =
      (itg_language_part){.role = "decoder", .compile_seconds = itg_now() - start};
  const double middle = itg_now();
  ITG_TRY(make_embedding(run));
  run->result.parts[run->result.part_count++] =
      (itg_language_part){.role = "embedding", .compile_seconds = itg_now() - middle};
  return ITG_OK;
}
