// The added tokens of a tokenizer.json. Of the tokens that start earliest in the text the longest is taken.
#include "text/added_tokens.h"

#include <stdlib.h>

#include "text/unicode.h"

static int by_id(const void *a, const void *b) {
  const int32_t left = ((const itg_added_token *)a)->id, right = ((const itg_added_token *)b)->id;
  return (left > right) - (left < right);
}

static itg_status read_one(const json_t *json, const itg_vocabulary *model, const itg_normalizers *normalizers,
                           itg_text *current, itg_text *spare, itg_diagnostic *diagnostic, itg_added_tokens *out) {
  static const char where[] = "an entry of added_tokens";
  itg_span content;
  itg_added_token token = {.id = -1, .normalized = true};
  int64_t id = -1;
  bool moved;
  ITG_TRY(itg_json_allow(json, where, "id content special single_word lstrip rstrip normalized", diagnostic));
  ITG_TRY(itg_json_need_string(json, where, "content", diagnostic, &content));
  ITG_TRY(itg_json_integer(json, where, "id", 0, ITG_TOKENIZER_MAX_VOCABULARY - 1, diagnostic, &id));
  ITG_TRY(itg_json_bool(json, where, "special", diagnostic, &token.special));
  token.normalized = !token.special;
  ITG_TRY(itg_json_bool(json, where, "single_word", diagnostic, &token.single_word));
  ITG_TRY(itg_json_bool(json, where, "lstrip", diagnostic, &token.left_strip));
  ITG_TRY(itg_json_bool(json, where, "rstrip", diagnostic, &token.right_strip));
  ITG_TRY(itg_json_bool(json, where, "normalized", diagnostic, &token.normalized));
  if (content.size == 0) return ITG_OK;
  const int32_t in_model = itg_vocabulary_id(model, content);
  if (id < 0 || (in_model >= 0 && in_model != id) || (in_model < 0 && itg_vocabulary_token(model, (int32_t)id).data))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json",
             "the added token \"%.80s\" has the id %lld, which the model's vocabulary contradicts",
             (const char *)content.data, (long long)id);
  token.id = (int32_t)id;
  ITG_TRY(itg_vocabulary_add(&out->contents, content, id, false, diagnostic));
  if (token.normalized) {
    current->size = 0;
    ITG_TRY(itg_text_append(current, content, diagnostic));
    ITG_TRY(itg_normalizers_apply(normalizers, current, spare, &moved, diagnostic));
    ITG_TRY(itg_vocabulary_add(&out->normalized, itg_text_span(current), id, true, diagnostic));
  } else {
    ITG_TRY(itg_vocabulary_add(&out->raw, content, id, false, diagnostic));
  }
  out->tokens[out->count++] = token;
  return ITG_OK;
}

itg_status itg_added_tokens_read(const json_t *json, const itg_vocabulary *model, const itg_normalizers *normalizers,
                                 itg_diagnostic *diagnostic, itg_added_tokens *out) {
  static const char word[] = "[\\w\\x{200c}\\x{200d}]";
  const json_t *one;
  size_t i;
  itg_text current = {0}, spare = {0};
  if (json && !json_is_null(json) && !json_is_array(json))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "added_tokens is not a list");
  const size_t count = json_array_size(json);
  ITG_TRY(itg_vocabulary_reserve(&out->contents, count, diagnostic));
  ITG_TRY(itg_vocabulary_reserve(&out->normalized, count, diagnostic));
  ITG_TRY(itg_vocabulary_reserve(&out->raw, count, diagnostic));
  out->tokens = calloc(count + 1, sizeof *out->tokens);
  ITG_TRY_MEMORY(out->tokens, diagnostic);
  ITG_TRY(itg_pattern_compile((itg_span){(const uint8_t *)word, sizeof word - 1}, false, diagnostic, &out->word));
  itg_status status = ITG_OK;
  json_array_foreach(json, i, one) {
    status = read_one(one, model, normalizers, &current, &spare, diagnostic, out);
    if (status != ITG_OK) break;
  }
  itg_text_free(&current);
  itg_text_free(&spare);
  ITG_TRY(status);
  qsort(out->tokens, out->count, sizeof *out->tokens, by_id);
  ITG_TRY(itg_prefix_set_build(&out->normalized, diagnostic, &out->in_normalized));
  return itg_prefix_set_build(&out->raw, diagnostic, &out->in_raw);
}

void itg_added_tokens_free(itg_added_tokens *added) {
  free(added->tokens);
  itg_vocabulary_free(&added->contents);
  itg_vocabulary_free(&added->normalized);
  itg_vocabulary_free(&added->raw);
  itg_prefix_set_free(&added->in_normalized);
  itg_prefix_set_free(&added->in_raw);
  itg_pattern_free(added->word);
  *added = (itg_added_tokens){0};
}

const itg_added_token *itg_added_token_of(const itg_added_tokens *added, int32_t id) {
  const itg_added_token key = {.id = id};
  return added->count ? bsearch(&key, added->tokens, added->count, sizeof key, by_id) : NULL;
}

static itg_status is_word(const itg_added_tokens *added, itg_span character, bool *out, itg_diagnostic *diagnostic) {
  itg_matches matches;
  size_t start, end;
  itg_status status = itg_matches_begin(added->word, diagnostic, &matches);
  itg_matches_set_text(&matches, character);
  if (status == ITG_OK) status = itg_matches_next(&matches, out, &start, &end, diagnostic);
  itg_matches_end(&matches);
  return status;
}

static size_t character_before(itg_span text, size_t at) {
  do at--;
  while ((text.data[at] & 0xC0) == 0x80);
  return at;
}

// Whether a token that must be a word of its own has word characters beside it.
static itg_status beside_words(const itg_added_tokens *added, itg_span text, size_t start, size_t end, bool *out,
                               itg_diagnostic *diagnostic) {
  *out = false;
  if (start > 0) {
    const size_t before = character_before(text, start);
    ITG_TRY(is_word(added, (itg_span){text.data + before, start - before}, out, diagnostic));
  }
  if (!*out && end < text.size)
    ITG_TRY(is_word(added, (itg_span){text.data + end, itg_utf8_length(text.data[end])}, out, diagnostic));
  return ITG_OK;
}

static size_t spaces_before(itg_span text, size_t at) {
  uint32_t code;
  while (at > 0) {
    const size_t before = character_before(text, at);
    (void)itg_utf8_next(text.data + before, &code);
    if (!itg_is_whitespace(code)) break;
    at = before;
  }
  return at;
}

static size_t spaces_after(itg_span text, size_t at) {
  uint32_t code;
  while (at < text.size) {
    const size_t length = itg_utf8_next(text.data + at, &code);
    if (!itg_is_whitespace(code)) break;
    at += length;
  }
  return at;
}

// Cuts the tokens of `set` out of one piece.
static itg_status split_piece(const itg_added_tokens *added, const itg_prefix_set *set, itg_pieces *pieces,
                              itg_piece piece, itg_diagnostic *diagnostic) {
  const itg_span text = itg_piece_span(pieces, &piece); // The text does not grow here.
  size_t done = 0;
  for (size_t at = 0; set->count && at < text.size;) {
    const itg_span rest = {text.data + at, text.size - at};
    itg_prefix_walk walk = itg_prefix_begin(set, rest.data[0]);
    size_t length = 0, longest = 0;
    int32_t id = -1, next;
    while ((next = itg_prefix_next(set, rest, &walk, &length)) >= 0) {
      id = next;
      longest = length;
    }
    if (id < 0) {
      at++;
      continue;
    }
    size_t start = at, end = at + longest;
    at = end;
    const itg_added_token *token = itg_added_token_of(added, id);
    if (token->single_word) {
      bool beside;
      ITG_TRY(beside_words(added, text, start, end, &beside, diagnostic));
      if (beside) continue;
    }
    if (token->left_strip) {
      start = spaces_before(text, start);
      if (start < done) start = done;
    }
    if (token->right_strip) end = spaces_after(text, end);
    if (done < start)
      ITG_TRY(itg_pieces_add(pieces, (itg_piece){piece.offset + done, start - done, -1, piece.at_start && !done},
                             diagnostic));
    ITG_TRY(itg_pieces_add(pieces, (itg_piece){piece.offset + start, end - start, id, false}, diagnostic));
    done = end;
  }
  if (done >= text.size) return ITG_OK;
  return itg_pieces_add(pieces, (itg_piece){piece.offset + done, text.size - done, -1, piece.at_start && !done},
                        diagnostic);
}

// Normalizes a piece: it moves to the end of the text.
static itg_status normalize_piece(const itg_normalizers *normalizers, itg_pieces *pieces, itg_piece *piece,
                                  itg_text *current, itg_text *spare, itg_diagnostic *diagnostic) {
  bool moved = false;
  current->size = 0;
  ITG_TRY(itg_text_append(current, itg_piece_span(pieces, piece), diagnostic));
  ITG_TRY(itg_normalizers_apply(normalizers, current, spare, &moved, diagnostic));
  piece->offset = pieces->text.size;
  piece->size = current->size;
  if (moved) piece->at_start = false;
  return itg_text_append(&pieces->text, itg_text_span(current), diagnostic);
}

itg_status itg_added_tokens_split(const itg_added_tokens *added, const itg_normalizers *normalizers, itg_span text,
                                  itg_pieces *pieces, itg_diagnostic *diagnostic) {
  itg_text current = {0}, spare = {0};
  itg_status status = itg_utf8_repair(text, diagnostic, &pieces->text);
  pieces->next_count = 0;
  if (status == ITG_OK && pieces->text.size)
    status = split_piece(added, &added->in_raw, pieces, (itg_piece){0, pieces->text.size, -1, true}, diagnostic);
  itg_pieces_turn(pieces);
  for (size_t i = 0; status == ITG_OK && i < pieces->count; i++) {
    itg_piece piece = pieces->items[i];
    if (piece.token >= 0) {
      status = itg_pieces_add(pieces, piece, diagnostic);
      continue;
    }
    if (normalizers->count) status = normalize_piece(normalizers, pieces, &piece, &current, &spare, diagnostic);
    if (status == ITG_OK) status = split_piece(added, &added->in_normalized, pieces, piece, diagnostic);
  }
  itg_pieces_turn(pieces);
  itg_text_free(&current);
  itg_text_free(&spare);
  return status;
}
