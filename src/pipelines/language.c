// Opening compiled language models. See intaglio/language.h.
#include "pipelines/language.h"

#include <stdlib.h>
#include <string.h>

static itg_status need_text(const itg_model *model, const char *name, itg_diagnostic *diagnostic, itg_span *out) {
  size_t size = 0;
  const char *text = itg_model_metadata(model, name, &size);
  if (!text)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, name,
             "the file has no section \"%s\": it is no compiled language model (see intaglio compile --help)", name);
  *out = (itg_span){(const uint8_t *)text, size};
  return ITG_OK;
}

static itg_status need_part(const itg_model *model, const char *role, itg_diagnostic *diagnostic,
                            const itg_model **out) {
  *out = itg_model_part(model, role);
  if (!*out) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, role, "the file lacks the model's %s", role);
  return ITG_OK;
}

// An input by name, which must have `dims` as its shape.
static itg_status need_input(const itg_model *model, const char *name, itg_shape shape, itg_diagnostic *diagnostic,
                             size_t *out) {
  for (size_t i = 0; i < itg_model_input_count(model); i++) {
    const itg_tensor_info *info = itg_model_input(model, i);
    if (strcmp(info->name, name) != 0) continue;
    if (info->shape.rank != shape.rank || memcmp(info->shape.dims, shape.dims, sizeof shape.dims) != 0) break;
    *out = i;
    return ITG_OK;
  }
  ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, name, "the decoder has no such input of the shape that the description says");
}

static itg_status check_decoder(itg_language *l, itg_diagnostic *diagnostic) {
  const itg_tensor_info *output = itg_model_output(l->decoder, 0);
  const int64_t rows = output && output->shape.rank == 3 ? output->shape.dims[1] : 0;
  const int64_t hidden = l->config.hidden, half = l->config.head_size / 2;
  if (rows < 1 || itg_model_input_count(l->decoder) != 3 || output->shape.dims[0] != 1 ||
      output->shape.dims[2] != l->config.vocabulary)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, "decoder", "the decoder does not give logits of %d tokens",
             (int)l->config.vocabulary);
  ITG_TRY(need_input(l->decoder, "embeddings", (itg_shape){3, {1, rows, hidden}}, diagnostic, &l->input_embeddings));
  ITG_TRY(need_input(l->decoder, "cosine", (itg_shape){2, {rows, half}}, diagnostic, &l->input_cosine));
  ITG_TRY(need_input(l->decoder, "sine", (itg_shape){2, {rows, half}}, diagnostic, &l->input_sine));
  l->block = (size_t)rows;
  const itg_tensor_info *ids = itg_model_input(l->embedding, 0), *row = itg_model_output(l->embedding, 0);
  if (itg_model_input_count(l->embedding) != 1 || !row || ids->count != 1 || ids->dtype != ITG_DTYPE_S32 ||
      row->count != (size_t)hidden)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, "embedding", "the token embedding does not give %d values for an id",
             (int)hidden);
  if (!l->vision) return ITG_OK;
  const size_t side = (size_t)l->config.vision.image_size;
  const itg_tensor_info *features = itg_model_output(l->vision, 0);
  if (itg_model_input_count(l->vision) != 1 || itg_model_input(l->vision, 0)->count != 3 * side * side || !features ||
      features->count != (size_t)(l->config.vision.tile_tokens * hidden))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, "vision", "the image encoder does not fit the decoder");
  return ITG_OK;
}

static void add_end(itg_language *l, int32_t id) {
  for (size_t i = 0; i < l->end_count; i++) {
    if (l->ends[i] == id) return;
  }
  if (id >= 0 && l->end_count < ITG_LANGUAGE_MAX_ENDS) l->ends[l->end_count++] = id;
}

static void find_ends(itg_language *l) {
  static const char *const names[] = {"<|im_end|>", "<end_of_utterance>", "<|eot_id|>",
                                      "<|eom_id|>", "<|end_of_text|>",    "<|endoftext|>"};
  for (int32_t i = 0; i < l->config.eos_count; i++) add_end(l, l->config.eos[i]);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    add_end(l, itg_tokenizer_id_of_token(l->tokenizer, (itg_span){(const uint8_t *)names[i], strlen(names[i])}));
}

static itg_status prepare(itg_language *l, itg_diagnostic *diagnostic) {
  itg_span config, tokenizer, jinja = {0};
  size_t size = 0;
  ITG_TRY(need_text(l->model, "language", diagnostic, &config));
  ITG_TRY(need_text(l->model, "tokenizer", diagnostic, &tokenizer));
  ITG_TRY(itg_language_config_parse(config, diagnostic, &l->config));
  ITG_TRY(itg_language_config_check(&l->config, diagnostic));
  ITG_TRY(need_part(l->model, "decoder", diagnostic, &l->decoder));
  ITG_TRY(need_part(l->model, "embedding", diagnostic, &l->embedding));
  if (l->config.vision.family != ITG_VISION_NONE) ITG_TRY(need_part(l->model, "vision", diagnostic, &l->vision));
  ITG_TRY(check_decoder(l, diagnostic));
  l->capacity = (size_t)l->config.context_length;
  ITG_TRY(itg_tokenizer_open(tokenizer, diagnostic, &l->tokenizer));
  const char *text = itg_model_metadata(l->model, "chat-template", &size);
  if (text) jinja = (itg_span){(const uint8_t *)text, size};
  find_ends(l);
  return itg_chat_template_choose(&l->config, jinja, l->tokenizer, diagnostic, &l->chat);
}

itg_status itg_language_open(const char *path, itg_diagnostic *diagnostic, itg_language **out) {
  itg_language *l = calloc(1, sizeof *l);
  ITG_TRY_MEMORY(l, diagnostic);
  itg_status status = itg_model_open(path, diagnostic, &l->model);
  if (status == ITG_OK) status = prepare(l, diagnostic);
  if (status != ITG_OK) {
    itg_language_close(l);
    return status;
  }
  *out = l;
  return ITG_OK;
}

void itg_language_close(itg_language *language) {
  if (!language) return;
  itg_tokenizer_close(language->tokenizer);
  itg_model_close(language->model);
  free(language);
}

bool itg_language_sees(const itg_language *language) { return language->vision != NULL; }
size_t itg_language_context(const itg_language *language) { return language->capacity; }
