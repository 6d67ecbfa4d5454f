// Tokenizers read from a Hugging Face tokenizer.json: the parts put together.
#include "text/tokenizer.h"

#include <stdlib.h>

#include "base/json.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_parts.h"

static itg_status read_truncation(const json_t *json, itg_diagnostic *diagnostic, itg_tokenizer_limits *out) {
  int64_t length = 0;
  itg_span direction = {0};
  if (!json || json_is_null(json)) return ITG_OK;
  ITG_TRY(itg_json_allow(json, "truncation", "direction max_length strategy stride", diagnostic));
  ITG_TRY(itg_json_integer(json, "truncation", "max_length", 0, ITG_TOKENIZER_MAX_TEXT, diagnostic, &length));
  ITG_TRY(itg_json_string(json, "truncation", "direction", diagnostic, &direction));
  out->max_length = (size_t)length;
  out->truncate_left = itg_span_equals(direction, "Left");
  return ITG_OK;
}

static itg_status read_padding(const json_t *json, itg_diagnostic *diagnostic, itg_tokenizer_limits *out) {
  int64_t length = 0, multiple = 0, id = 0;
  itg_span direction = {0};
  if (!json || json_is_null(json)) return ITG_OK;
  ITG_TRY(itg_json_allow(json, "padding", "strategy direction pad_to_multiple_of pad_id pad_type_id pad_token",
                         diagnostic));
  const json_t *strategy = json_object_get(json, "strategy");
  if (json_is_object(strategy)) {
    ITG_TRY(itg_json_allow(strategy, "padding", "Fixed", diagnostic));
    ITG_TRY(itg_json_integer(strategy, "padding", "Fixed", 0, ITG_TOKENIZER_MAX_TEXT, diagnostic, &length));
  }
  ITG_TRY(itg_json_integer(json, "padding", "pad_to_multiple_of", 0, ITG_TOKENIZER_MAX_TEXT, diagnostic, &multiple));
  ITG_TRY(itg_json_integer(json, "padding", "pad_id", 0, INT32_MAX, diagnostic, &id));
  ITG_TRY(itg_json_string(json, "padding", "direction", diagnostic, &direction));
  out->has_padding = true;
  out->pad_length = (size_t)length;
  out->pad_multiple = (size_t)multiple;
  out->pad_id = (int32_t)id;
  out->pad_left = itg_span_equals(direction, "Left");
  return ITG_OK;
}

static itg_status read_all(const json_t *json, itg_diagnostic *diagnostic, itg_tokenizer *out) {
  itg_span version = {(const uint8_t *)"1.0", 3};
  ITG_TRY(itg_json_allow(
      json, "tokenizer.json",
      "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model", diagnostic));
  ITG_TRY(itg_json_string(json, "tokenizer.json", "version", diagnostic, &version));
  if (!itg_span_equals(version, "1.0"))
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, "tokenizer.json", "version \"%.40s\"; version 1.0 is read",
             (const char *)version.data);
  ITG_TRY(read_truncation(json_object_get(json, "truncation"), diagnostic, &out->limits));
  ITG_TRY(read_padding(json_object_get(json, "padding"), diagnostic, &out->limits));
  ITG_TRY(itg_text_model_read(json_object_get(json, "model"), diagnostic, &out->model));
  ITG_TRY(itg_normalizers_read(json_object_get(json, "normalizer"), diagnostic, &out->normalizers));
  ITG_TRY(itg_pre_tokenizers_read(json_object_get(json, "pre_tokenizer"), diagnostic, &out->pre_tokenizers));
  ITG_TRY(itg_post_processor_read(json_object_get(json, "post_processor"), diagnostic, &out->post_processor));
  ITG_TRY(itg_token_decoders_read(json_object_get(json, "decoder"), diagnostic, &out->decoders));
  return itg_added_tokens_read(json_object_get(json, "added_tokens"), &out->model.vocabulary, &out->normalizers,
                               diagnostic, &out->added);
}

itg_status itg_tokenizer_open(itg_span json, itg_diagnostic *diagnostic, itg_tokenizer **out) {
  json_error_t error;
  if (json.size > ITG_TOKENIZER_MAX_FILE)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "%zu bytes; at most %zu are read", json.size,
             ITG_TOKENIZER_MAX_FILE);
  json_t *root = itg_json_parse(json, JSON_ALLOW_NUL, &error);
  if (!root)
    ITG_FAIL(diagnostic, itg_json_status(&error), "tokenizer.json", "not JSON: %.160s (line %d)", error.text,
             error.line);
  itg_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  itg_status status = tokenizer ? read_all(root, diagnostic, tokenizer)
                                : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  json_decref(root);
  if (status != ITG_OK) {
    itg_tokenizer_close(tokenizer);
    return status;
  }
  *out = tokenizer;
  return ITG_OK;
}

void itg_tokenizer_close(itg_tokenizer *tokenizer) {
  if (!tokenizer) return;
  itg_added_tokens_free(&tokenizer->added);
  itg_normalizers_free(&tokenizer->normalizers);
  itg_pre_tokenizers_free(&tokenizer->pre_tokenizers);
  itg_text_model_free(&tokenizer->model);
  itg_post_processor_free(&tokenizer->post_processor);
  itg_token_decoders_free(&tokenizer->decoders);
  free(tokenizer);
}

const itg_tokenizer_limits *itg_tokenizer_stored_limits(const itg_tokenizer *tokenizer) { return &tokenizer->limits; }

static itg_status encode_text(const itg_tokenizer *tokenizer, itg_span text, itg_pieces *pieces,
                              itg_model_scratch *scratch, itg_token_ids *ids, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_added_tokens_split(&tokenizer->added, &tokenizer->normalizers, text, pieces, diagnostic));
  ITG_TRY(itg_pre_tokenizers_apply(&tokenizer->pre_tokenizers, pieces, diagnostic));
  for (size_t i = 0; i < pieces->count; i++) {
    const itg_piece *piece = &pieces->items[i];
    if (piece->token >= 0)
      ITG_TRY(itg_token_ids_append(ids, piece->token, diagnostic));
    else
      ITG_TRY(itg_text_model_encode(&tokenizer->model, itg_piece_span(pieces, piece), scratch, ids, diagnostic));
  }
  return ITG_OK;
}

// Truncates the text's ids from `first` on, and puts the special tokens around them.
static itg_status finish_ids(const itg_tokenizer *tokenizer, const itg_encode_options *options, size_t first,
                             itg_token_ids *ids, itg_diagnostic *diagnostic) {
  const itg_token_ids *layout = &tokenizer->post_processor.layout;
  const size_t special = options->add_special ? layout->count - 1 : 0;
  size_t count = ids->count - first;
  if (options->max_length) {
    if (special > options->max_length)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "%zu special tokens do not fit %zu ids", special,
               options->max_length);
    const size_t room = options->max_length - special;
    if (count > room && options->truncate_left)
      memmove(ids->ids + first, ids->ids + ids->count - room, room * sizeof *ids->ids);
    if (count > room) count = room;
    ids->count = first + count;
  }
  if (special == 0) return ITG_OK;
  ITG_TRY(itg_token_ids_reserve(ids, special, diagnostic));
  size_t before = 0;
  while (layout->ids[before] != ITG_TEMPLATE_TEXT) before++;
  memmove(ids->ids + first + before, ids->ids + first, count * sizeof *ids->ids);
  for (size_t i = 0; i < before; i++) ids->ids[first + i] = layout->ids[i];
  for (size_t i = before + 1; i < layout->count; i++) ids->ids[first + count + i - 1] = layout->ids[i];
  ids->count = first + count + special;
  return ITG_OK;
}

itg_status itg_tokenizer_encode(const itg_tokenizer *tokenizer, itg_span text, const itg_encode_options *options,
                                itg_diagnostic *diagnostic, itg_token_ids *ids) {
  static const itg_encode_options plain = {0};
  const size_t first = ids->count;
  itg_pieces pieces = {0};
  itg_model_scratch scratch = {0};
  if (text.size > ITG_TOKENIZER_MAX_TEXT)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "a text of %zu bytes; at most %zu are encoded at once", text.size,
             ITG_TOKENIZER_MAX_TEXT);
  itg_status status = encode_text(tokenizer, text, &pieces, &scratch, ids, diagnostic);
  if (status == ITG_OK) status = finish_ids(tokenizer, options ? options : &plain, first, ids, diagnostic);
  itg_pieces_free(&pieces);
  itg_model_scratch_free(&scratch);
  if (status != ITG_OK) ids->count = first;
  return status;
}

int32_t itg_tokenizer_id_of_token(const itg_tokenizer *tokenizer, itg_span token) {
  const int32_t id = itg_vocabulary_id(&tokenizer->added.contents, token);
  return id >= 0 ? id : itg_vocabulary_id(&tokenizer->model.vocabulary, token);
}

itg_span itg_tokenizer_token_of_id(const itg_tokenizer *tokenizer, int32_t id) {
  const itg_span added = itg_vocabulary_token(&tokenizer->added.contents, id);
  return added.data ? added : itg_vocabulary_token(&tokenizer->model.vocabulary, id);
}

size_t itg_tokenizer_vocabulary_size(const itg_tokenizer *tokenizer) {
  const size_t added = tokenizer->added.contents.id_limit, model = tokenizer->model.vocabulary.id_limit;
  return added > model ? added : model;
}

bool itg_tokenizer_is_special(const itg_tokenizer *tokenizer, int32_t id) {
  const itg_added_token *token = itg_added_token_of(&tokenizer->added, id);
  return token && token->special;
}
