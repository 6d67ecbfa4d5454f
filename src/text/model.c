// What the models of a tokenizer.json share.
#include "text/model.h"

#include <stdlib.h>

itg_status itg_text_model_read_vocabulary(const json_t *json, const char *where, itg_diagnostic *diagnostic,
                                          itg_text_model *model) {
  json_t *vocabulary = json_object_get(json, "vocab");
  if (!json_is_object(vocabulary))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"vocab\" is missing or not an object", where);
  ITG_TRY(itg_vocabulary_reserve(&model->vocabulary, json_object_size(vocabulary), diagnostic));
  for (void *at = json_object_iter(vocabulary); at; at = json_object_iter_next(vocabulary, at)) {
    const json_t *id = json_object_iter_value(at);
    const char *token = json_object_iter_key(at);
    if (!json_is_integer(id))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: the id of \"%.80s\" is not a number", where, token);
    ITG_TRY(itg_vocabulary_add(&model->vocabulary, (itg_span){(const uint8_t *)token, strlen(token)},
                               json_integer_value(id), false, diagnostic));
  }
  return ITG_OK;
}

itg_status itg_text_model_read_unknown(const json_t *json, const char *where, itg_diagnostic *diagnostic,
                                       itg_text_model *model) {
  itg_span unknown = {0};
  ITG_TRY(itg_json_string(json, where, "unk_token", diagnostic, &unknown));
  model->unknown = unknown.data ? itg_vocabulary_id(&model->vocabulary, unknown) : -1;
  return ITG_OK;
}

static void find_bytes(itg_text_model *model) {
  for (int i = 0; i < 256; i++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", i);
    model->byte_ids[i] = itg_vocabulary_id(&model->vocabulary, (itg_span){(const uint8_t *)name, 6});
  }
}

itg_status itg_text_model_bytes(const itg_text_model *model, itg_span text, bool *done, itg_token_ids *ids,
                                itg_diagnostic *diagnostic) {
  *done = false;
  for (size_t i = 0; i < text.size; i++)
    if (model->byte_ids[text.data[i]] < 0) return ITG_OK;
  ITG_TRY(itg_token_ids_reserve(ids, text.size, diagnostic));
  for (size_t i = 0; i < text.size; i++) ids->ids[ids->count++] = model->byte_ids[text.data[i]];
  *done = true;
  return ITG_OK;
}

itg_status itg_text_model_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *out) {
  itg_span type = {0};
  out->unknown = -1;
  if (!json_is_object(json))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "the model is missing or not an object");
  ITG_TRY(itg_json_string(json, "model", "type", diagnostic, &type));
  // Old files leave the type out: only byte-pair encoding has merges.
  if (itg_span_equals(type, "BPE") || (!type.data && json_object_get(json, "merges")))
    ITG_TRY(itg_bpe_read(json, diagnostic, out));
  else if (itg_span_equals(type, "WordPiece"))
    ITG_TRY(itg_wordpiece_read(json, diagnostic, out));
  else if (itg_span_equals(type, "Unigram"))
    ITG_TRY(itg_unigram_read(json, diagnostic, out));
  else
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json",
             "the model \"%.80s\" is not supported; BPE, WordPiece and Unigram are",
             type.data ? (const char *)type.data : "");
  find_bytes(out);
  return ITG_OK;
}

void itg_text_model_free(itg_text_model *model) {
  itg_vocabulary_free(&model->vocabulary);
  itg_text_free(&model->prefix);
  itg_text_free(&model->suffix);
  free(model->merges);
  free(model->scores);
  itg_prefix_set_free(&model->prefixes);
  *model = (itg_text_model){0};
}

void itg_model_scratch_free(itg_model_scratch *scratch) {
  itg_text_free(&scratch->text);
  free(scratch->symbols);
  free(scratch->heap);
  *scratch = (itg_model_scratch){0};
}

itg_status itg_text_model_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                                 itg_token_ids *ids, itg_diagnostic *diagnostic) {
  switch (model->kind) {
  case ITG_MODEL_BPE: return itg_bpe_encode(model, piece, scratch, ids, diagnostic);
  case ITG_MODEL_WORDPIECE: return itg_wordpiece_encode(model, piece, scratch, ids, diagnostic);
  case ITG_MODEL_UNIGRAM: return itg_unigram_encode(model, piece, scratch, ids, diagnostic);
  }
  return ITG_OK;
}
