// A compiled language model for tests: a checkpoint's decoder and token embedding, calibrated on a few texts. Text alone.
#ifndef ITG_TESTS_SUPPORT_LANGUAGE_FILE_H
#define ITG_TESTS_SUPPORT_LANGUAGE_FILE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "container/container.h"
#include "import/language/build.h"
#include "lower/legalize.h"
#include "passes/passes.h"
#include "quantize/encodings.h"
#include "quantize/quantize.h"
#include "tensor/multiplier.h"
#include "text/tokenizer.h"

typedef struct language_file {
  const char *checkpoint, *output, *precision;
  int64_t block, context;
  const char *const *texts; // Each calibrates with its first `block` tokens.
  size_t text_count;
} language_file;

typedef struct language_sample {
  const language_file *file;
  const itg_language_model *model;
  const itg_tokenizer *tokenizer;
} language_sample;

// Inputs of the decoder: embeddings, cosine, sine, position, caches.
static inline itg_status language_read(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  const language_sample *s = context;
  const char *text = s->file->texts[index];
  itg_token_ids ids = {0};
  ITG_TRY(itg_tokenizer_encode(s->tokenizer, (itg_span){(const uint8_t *)text, strlen(text)}, NULL, diagnostic, &ids));
  const size_t block = (size_t)s->file->block;
  while (ids.count < block) { // Short texts are repeated.
    int32_t *grown = realloc(ids.ids, block * sizeof *grown);
    ITG_TRY_MEMORY(grown, diagnostic);
    ids.ids = grown;
    ids.capacity = block;
    const size_t had = ids.count;
    for (; ids.count < block; ids.count++) grown[ids.count] = grown[ids.count - had];
  }
  itg_status status = itg_language_embed(s->model, ids.ids, block, diagnostic, inputs[0]);
  if (status == ITG_OK)
    status = itg_rope_tables(&s->model->config, 0, (int64_t)block, diagnostic, inputs[1], inputs[2]);
  *(int32_t *)inputs[3] = 0;
  itg_token_ids_free(&ids);
  return status;
}

// ids [1,1] -> a row of the table, s8 with one scale a row, in the decoder's input encoding.
static inline itg_status language_embedding(const itg_language_model *model, const itg_tensor *target,
                                            itg_diagnostic *diagnostic, itg_graph **out) {
  const int64_t rows = model->config.vocabulary, width = model->config.hidden;
  const double scale = target->encoding->scales[0];
  itg_graph *graph;
  ITG_TRY(itg_graph_create(diagnostic, &graph));
  graph->stage = ITG_STAGE_LEGAL;
  itg_tensor *inputs[] = {itg_graph_add_tensor(graph, "ids", ITG_DTYPE_S32, &(itg_shape){2, {1, 1}}),
                          itg_graph_add_constant(graph, "rows", ITG_DTYPE_S8, &(itg_shape){2, {rows, width}}, NULL),
                          itg_graph_add_constant(graph, "multiplier", ITG_DTYPE_S32, &(itg_shape){1, {rows}}, NULL),
                          itg_graph_add_constant(graph, "shift", ITG_DTYPE_S32, &(itg_shape){1, {rows}}, NULL)};
  itg_tensor *y = itg_graph_add_tensor(graph, "row", target->dtype, &(itg_shape){3, {1, 1, width}});
  float *values = malloc((size_t)width * sizeof *values);
  ITG_TRY_MEMORY(inputs[0] && inputs[1] && inputs[2] && inputs[3] && y && values, diagnostic);
  for (int64_t i = 0; i < rows; i++) {
    ITG_TRY(itg_language_embed(model, &(int32_t){(int32_t)i}, 1, diagnostic, values));
    float largest = 1e-9f;
    for (int64_t k = 0; k < width; k++) largest = fmaxf(largest, fabsf(values[k]));
    for (int64_t k = 0; k < width; k++)
      ((int8_t *)itg_tensor_writable(inputs[1]))[i * width + k] = (int8_t)lroundf(values[k] * 127 / largest);
    if (!itg_multiplier_from_double((double)largest / 127 / scale, (int32_t *)itg_tensor_writable(inputs[2]) + i,
                                    (int32_t *)itg_tensor_writable(inputs[3]) + i))
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, "rows", "row %d", (int)i);
  }
  free(values);
  y->encoding =
      itg_encoding_create(graph, target->dtype, -1, 1, target->encoding->scales, target->encoding->zero_points);
  itg_node *node = itg_graph_insert_node(graph, NULL, ITG_OP_Q_EMBEDDING, "embedding", inputs, 4, &y, 1);
  ITG_TRY_MEMORY(node && itg_graph_add_input(graph, inputs[0]) && itg_graph_add_output(graph, y), diagnostic);
  node->attributes.requantize.high = itg_code_max(target->dtype);
  *out = graph;
  return ITG_OK;
}

static inline itg_status language_compile(const language_file *file, const itg_language_model *model,
                                          const itg_tokenizer *tokenizer, itg_diagnostic *diagnostic, itg_graph **out) {
  const itg_decoder_part whole = {0, model->config.layers, true, file->block, file->context};
  language_sample sample = {file, model, tokenizer};
  const itg_sample_source samples = {&sample, file->text_count, language_read};
  itg_graph *graph;
  itg_pool *pool;
  itg_recipe recipe;
  itg_statistics *statistics;
  ITG_TRY(itg_build_decoder(model, &whole, diagnostic, &graph));
  graph->stage = ITG_STAGE_CANONICAL;
  ITG_TRY(itg_pool_create(1, diagnostic, &pool));
  ITG_TRY(itg_recipe_builtin(file->precision, diagnostic, &recipe));
  ITG_TRY(itg_calibrate(graph, &samples, pool, NULL, NULL, diagnostic, &statistics));
  ITG_TRY(itg_quantize(graph, statistics, &recipe, NULL, pool, diagnostic));
  ITG_TRY(itg_legalize(graph, NULL, diagnostic, out));
  itg_statistics_destroy(statistics);
  itg_recipe_free(&recipe);
  itg_pool_destroy(pool);
  itg_graph_destroy(graph);
  return ITG_OK;
}

// Errors leave memory behind; tests end with them.
static inline itg_status language_file_make(const language_file *file, itg_diagnostic *diagnostic) {
  itg_language_model *model;
  itg_tokenizer *tokenizer;
  itg_graph *decoder, *embedding;
  ITG_TRY(itg_language_model_open(file->checkpoint, diagnostic, &model));
  model->config.vision.family = ITG_VISION_NONE;
  model->config.image_token = -1;
  model->config.context_length = (int32_t)file->context;
  model->config.prefill_length = (int32_t)file->block;
  const itg_span json = {(const uint8_t *)model->tokenizer_json, model->tokenizer_size};
  ITG_TRY(itg_tokenizer_open(json, diagnostic, &tokenizer));
  ITG_TRY(language_compile(file, model, tokenizer, diagnostic, &decoder));
  ITG_TRY(language_embedding(model, decoder->inputs[0], diagnostic, &embedding));
  char *config = itg_language_config_to_json(&model->config);
  const char *jinja = model->chat_template ? model->chat_template : "";
  const itg_container_part parts[] = {{"decoder", decoder}, {"embedding", embedding}};
  const itg_metadata_section sections[] = {{"language", config, strlen(config), false},
                                           {"tokenizer", model->tokenizer_json, model->tokenizer_size, false},
                                           {"chat-template", jinja, strlen(jinja), false}};
  ITG_TRY(itg_container_write_parts(file->output, parts, 2, sections, 3, diagnostic));
  free(config);
  itg_graph_destroy(decoder);
  itg_graph_destroy(embedding);
  itg_tokenizer_close(tokenizer);
  itg_language_model_close(model);
  return ITG_OK;
}

#endif
