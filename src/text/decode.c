// From ids back to text, at once and in a stream.
#include <stdlib.h>

#include "text/tokenizer_parts.h"
#include "text/unicode.h"

// The token of an id as decoding sees it; data is NULL when the id is passed over.
static itg_span token_to_decode(const itg_tokenizer *tokenizer, int32_t id, bool skip_special) {
  if (skip_special && itg_tokenizer_is_special(tokenizer, id)) return (itg_span){0};
  const itg_span normalized = itg_vocabulary_token(&tokenizer->added.normalized, id);
  return normalized.data ? normalized : itg_tokenizer_token_of_id(tokenizer, id);
}

static itg_status decode_pieces(const itg_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special,
                                itg_pieces *pieces, itg_text *text, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < count; i++) {
    const itg_span token = token_to_decode(tokenizer, ids[i], skip_special);
    if (!token.data) continue;
    const itg_piece piece = {pieces->text.size, token.size, -1, false};
    ITG_TRY(itg_text_append(&pieces->text, token, diagnostic));
    ITG_TRY(itg_pieces_add_any(pieces, piece, diagnostic));
  }
  itg_pieces_turn(pieces);
  ITG_TRY(itg_token_decoders_apply(&tokenizer->decoders, pieces, diagnostic));
  for (size_t i = 0; i < pieces->count; i++) {
    if (i > 0 && !tokenizer->decoders.present)
      ITG_TRY(itg_text_append(text, (itg_span){(const uint8_t *)" ", 1}, diagnostic));
    ITG_TRY(itg_text_append(text, itg_piece_span(pieces, &pieces->items[i]), diagnostic));
  }
  return ITG_OK;
}

itg_status itg_tokenizer_decode(const itg_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special,
                                itg_diagnostic *diagnostic, itg_text *text) {
  const size_t before = text->size;
  itg_pieces pieces = {0};
  const itg_status status = decode_pieces(tokenizer, ids, count, skip_special, &pieces, text, diagnostic);
  itg_pieces_free(&pieces);
  if (status != ITG_OK) text->size = before;
  return status;
}

// At byte level the bytes themselves are the state. For other decoders a token's text depends on its neighbours: the
// tokens of the last output are kept, and what the new ones add to their text comes out.
struct itg_stream_decoder {
  const itg_tokenizer *tokenizer;
  bool skip_special;
  itg_text bytes;     // Byte level: an incomplete character.
  itg_token_ids ids;  // Otherwise: the tokens of the last output, then those held back.
  size_t known;       // Of the ids, those whose text has come out.
  itg_text told, now; // The text of the known ids; of all.
};

itg_status itg_stream_decoder_create(const itg_tokenizer *tokenizer, bool skip_special, itg_diagnostic *diagnostic,
                                     itg_stream_decoder **out) {
  itg_stream_decoder *decoder = calloc(1, sizeof *decoder);
  ITG_TRY_MEMORY(decoder, diagnostic);
  decoder->tokenizer = tokenizer;
  decoder->skip_special = skip_special;
  *out = decoder;
  return ITG_OK;
}

void itg_stream_decoder_destroy(itg_stream_decoder *decoder) {
  if (!decoder) return;
  itg_text_free(&decoder->bytes);
  itg_token_ids_free(&decoder->ids);
  itg_text_free(&decoder->told);
  itg_text_free(&decoder->now);
  free(decoder);
}

// Moves what is complete from the bytes to the text; at the `end` everything is.
static itg_status move_complete(itg_text *bytes, bool end, itg_text *text, itg_diagnostic *diagnostic) {
  size_t complete = 0;
  while (complete < bytes->size) {
    const int part = itg_utf8_part(bytes->data + complete, bytes->size - complete);
    if (part == 0 && !end) break;
    complete += part == 0 ? bytes->size - complete : (size_t)abs(part);
  }
  ITG_TRY(itg_utf8_repair((itg_span){bytes->data, complete}, diagnostic, text));
  if (complete < bytes->size) memmove(bytes->data, bytes->data + complete, bytes->size - complete);
  bytes->size -= complete;
  return ITG_OK;
}

static bool ends_incomplete(const itg_text *text) {
  return text->size >= 3 && memcmp(text->data + text->size - 3, "\xEF\xBF\xBD", 3) == 0;
}

enum { MOST_HELD_BACK = 64 }; // No character has so many tokens: from here on U+FFFD is meant.

static itg_status push_window(itg_stream_decoder *decoder, bool end, itg_text *text, itg_diagnostic *diagnostic) {
  itg_token_ids *ids = &decoder->ids;
  decoder->now.size = 0;
  ITG_TRY(
      itg_tokenizer_decode(decoder->tokenizer, ids->ids, ids->count, decoder->skip_special, diagnostic, &decoder->now));
  if (!end && ends_incomplete(&decoder->now) && ids->count - decoder->known < MOST_HELD_BACK) return ITG_OK;
  if (decoder->now.size <= decoder->told.size && !end && ids->count - decoder->known < MOST_HELD_BACK) return ITG_OK;
  // Where the text before changed after all, the part that agrees is what has come out.
  size_t same = 0;
  while (same < decoder->told.size && same < decoder->now.size && decoder->told.data[same] == decoder->now.data[same])
    same++;
  while (same < decoder->now.size && same > 0 && (decoder->now.data[same] & 0xC0) == 0x80) same--;
  if (same < decoder->now.size)
    ITG_TRY(itg_text_append(text, (itg_span){decoder->now.data + same, decoder->now.size - same}, diagnostic));
  memmove(ids->ids, ids->ids + decoder->known, (ids->count - decoder->known) * sizeof *ids->ids);
  ids->count -= decoder->known;
  decoder->known = ids->count;
  decoder->told.size = 0;
  return itg_tokenizer_decode(decoder->tokenizer, ids->ids, ids->count, decoder->skip_special, diagnostic,
                              &decoder->told);
}

itg_status itg_stream_decoder_push(itg_stream_decoder *decoder, int32_t id, itg_diagnostic *diagnostic,
                                   itg_text *text) {
  const itg_span token = token_to_decode(decoder->tokenizer, id, decoder->skip_special);
  if (!token.data) return ITG_OK;
  if (decoder->tokenizer->decoders.byte_level) {
    ITG_TRY(itg_byte_level_decode(token, diagnostic, &decoder->bytes));
    return move_complete(&decoder->bytes, false, text, diagnostic);
  }
  ITG_TRY(itg_token_ids_append(&decoder->ids, id, diagnostic));
  return push_window(decoder, false, text, diagnostic);
}

itg_status itg_stream_decoder_finish(itg_stream_decoder *decoder, itg_diagnostic *diagnostic, itg_text *text) {
  itg_status status = ITG_OK;
  if (decoder->tokenizer->decoders.byte_level)
    status = move_complete(&decoder->bytes, true, text, diagnostic);
  else if (decoder->ids.count > decoder->known)
    status = push_window(decoder, true, text, diagnostic);
  decoder->bytes.size = decoder->told.size = 0;
  decoder->ids.count = decoder->known = 0;
  return status;
}
