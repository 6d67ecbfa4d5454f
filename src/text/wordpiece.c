// WordPiece (Wu et al. 2016, as BERT uses it): the longest token first, from left to right.
#include "text/model.h"
#include "text/unicode.h"

itg_status itg_wordpiece_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *model) {
  static const char where[] = "model WordPiece";
  itg_span prefix = {(const uint8_t *)"##", 2};
  model->kind = ITG_MODEL_WORDPIECE;
  model->max_characters = 100;
  ITG_TRY(itg_json_allow(json, where, "type unk_token continuing_subword_prefix max_input_chars_per_word vocab",
                         diagnostic));
  ITG_TRY(itg_json_string(json, where, "continuing_subword_prefix", diagnostic, &prefix));
  if (prefix.size > 256)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "%s: continuing_subword_prefix is longer than 256", where);
  ITG_TRY(itg_text_append(&model->prefix, prefix, diagnostic));
  ITG_TRY(itg_json_integer(json, where, "max_input_chars_per_word", 0, 10000, diagnostic, &model->max_characters));
  ITG_TRY(itg_text_model_read_vocabulary(json, where, diagnostic, model));
  return itg_text_model_read_unknown(json, where, diagnostic, model);
}

itg_status itg_wordpiece_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                                itg_token_ids *ids, itg_diagnostic *diagnostic) {
  const size_t before = ids->count, prefix = model->prefix.size;
  bool whole = itg_utf8_count(piece) <= (size_t)model->max_characters;
  for (size_t start = 0; whole && start < piece.size;) {
    scratch->text.size = 0;
    itg_span rest = {piece.data + start, piece.size - start};
    const size_t extra = start ? prefix : 0;
    // No token is longer than the longest.
    if (rest.size + extra > model->vocabulary.longest)
      rest.size = model->vocabulary.longest > extra ? model->vocabulary.longest - extra : 0;
    while (rest.size && rest.size < piece.size - start && (piece.data[start + rest.size] & 0xC0) == 0x80) rest.size--;
    if (start) ITG_TRY(itg_text_append(&scratch->text, itg_text_span(&model->prefix), diagnostic));
    ITG_TRY(itg_text_append(&scratch->text, rest, diagnostic));
    int32_t id = -1;
    size_t size = rest.size;
    while (size > 0) {
      id = itg_vocabulary_id(&model->vocabulary, (itg_span){scratch->text.data, extra + size});
      if (id >= 0) break;
      do size--;
      while (size > 0 && (rest.data[size] & 0xC0) == 0x80);
    }
    whole = id >= 0;
    if (whole) ITG_TRY(itg_token_ids_append(ids, id, diagnostic));
    start += size;
  }
  if (whole) return ITG_OK;
  if (model->unknown < 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL,
             "the text has an unknown word, and the vocabulary lacks the unk_token");
  ids->count = before;
  return itg_token_ids_append(ids, model->unknown, diagnostic);
}
