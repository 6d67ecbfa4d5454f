// Decoders of a tokenizer.json.
#include "text/decoder.h"

#include <stdlib.h>

#include "text/components.h"
#include "text/normalizer.h"
#include "text/pattern.h"
#include "text/unicode.h"

typedef enum kind { BYTE_LEVEL, WORDPIECE, METASPACE, BYTE_FALLBACK, FUSE, REPLACE, STRIP, BPE_SUFFIX } kind;

typedef struct itg_token_decoder {
  kind kind;
  bool cleanup;         // WordPiece
  bool drops_first;     // Metaspace: no space in front of the text.
  uint32_t character;   // Metaspace, Strip
  int64_t start, stop;  // Strip
  itg_text content;     // WordPiece's prefix, Replace's content, BPEDecoder's suffix.
  itg_pattern *pattern; // Replace
} itg_token_decoder;

static itg_status read_character(const json_t *json, const char *where, const char *name, itg_diagnostic *diagnostic,
                                 uint32_t *out) {
  itg_span text;
  ITG_TRY(itg_json_need_string(json, where, name, diagnostic, &text));
  if (text.size == 0 || itg_utf8_next(text.data, out) != text.size)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"%s\" is not one character", where, name);
  return ITG_OK;
}

static itg_status read_one(const json_t *json, const char *type, itg_diagnostic *diagnostic, void *item) {
  itg_token_decoder *one = item;
  itg_span text = {0};
  char where[64];
  snprintf(where, sizeof where, "decoder %.40s", type);
  if (strcmp(type, "ByteLevel") == 0) {
    one->kind = BYTE_LEVEL;
    return itg_json_allow(json, where, "type add_prefix_space trim_offsets use_regex", diagnostic);
  }
  if (strcmp(type, "WordPiece") == 0) {
    text = (itg_span){(const uint8_t *)"##", 2};
    one->kind = WORDPIECE;
    one->cleanup = true;
    ITG_TRY(itg_json_allow(json, where, "type prefix cleanup", diagnostic));
    ITG_TRY(itg_json_string(json, where, "prefix", diagnostic, &text));
    ITG_TRY(itg_json_bool(json, where, "cleanup", diagnostic, &one->cleanup));
    return itg_text_append(&one->content, text, diagnostic);
  }
  if (strcmp(type, "Metaspace") == 0) {
    bool prefix = true;
    one->kind = METASPACE;
    ITG_TRY(itg_json_allow(json, where, "type replacement prepend_scheme split add_prefix_space str_rep", diagnostic));
    ITG_TRY(itg_json_bool(json, where, "add_prefix_space", diagnostic, &prefix));
    ITG_TRY(itg_json_string(json, where, "prepend_scheme", diagnostic, &text));
    if (text.data && !itg_span_equals(text, "always") && !itg_span_equals(text, "first") &&
        !itg_span_equals(text, "never"))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "%s: the prepend_scheme \"%.80s\" is not known",
               where, (const char *)text.data);
    one->drops_first = prefix && !(text.data && itg_span_equals(text, "never"));
    return read_character(json, where, "replacement", diagnostic, &one->character);
  }
  if (strcmp(type, "ByteFallback") == 0) {
    one->kind = BYTE_FALLBACK;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "Fuse") == 0) {
    one->kind = FUSE;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "Replace") == 0) {
    one->kind = REPLACE;
    ITG_TRY(itg_json_allow(json, where, "type pattern content", diagnostic));
    ITG_TRY(itg_json_need_string(json, where, "content", diagnostic, &text));
    ITG_TRY(itg_text_append(&one->content, text, diagnostic));
    return itg_json_pattern(json, where, diagnostic, &one->pattern);
  }
  if (strcmp(type, "Strip") == 0) {
    one->kind = STRIP;
    ITG_TRY(itg_json_allow(json, where, "type content start stop", diagnostic));
    ITG_TRY(itg_json_integer(json, where, "start", 0, INT32_MAX, diagnostic, &one->start));
    ITG_TRY(itg_json_integer(json, where, "stop", 0, INT32_MAX, diagnostic, &one->stop));
    return read_character(json, where, "content", diagnostic, &one->character);
  }
  if (strcmp(type, "BPEDecoder") == 0) {
    text = (itg_span){(const uint8_t *)"</w>", 4};
    one->kind = BPE_SUFFIX;
    ITG_TRY(itg_json_allow(json, where, "type suffix", diagnostic));
    ITG_TRY(itg_json_string(json, where, "suffix", diagnostic, &text));
    ITG_TRY(itg_text_append(&one->content, text, diagnostic));
    return itg_pattern_compile(text, true, diagnostic, &one->pattern);
  }
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "the decoder \"%.80s\" is not supported", type);
}

itg_status itg_token_decoders_read(const json_t *json, itg_diagnostic *diagnostic, itg_token_decoders *out) {
  static const itg_component_kind component = {"decoder", "decoders", sizeof(itg_token_decoder), read_one};
  if (!json || json_is_null(json)) return ITG_OK;
  ITG_TRY(itg_components_read(&component, json, diagnostic, (void **)&out->items, &out->count, &out->capacity));
  out->present = true;
  out->byte_level = out->count == 1 && out->items[0].kind == BYTE_LEVEL;
  return ITG_OK;
}

void itg_token_decoders_free(itg_token_decoders *decoders) {
  for (size_t i = 0; i < decoders->count; i++) {
    itg_text_free(&decoders->items[i].content);
    itg_pattern_free(decoders->items[i].pattern);
  }
  free(decoders->items);
  *decoders = (itg_token_decoders){0};
}

itg_status itg_byte_level_decode(itg_span token, itg_diagnostic *diagnostic, itg_text *out) {
  const size_t before = out->size;
  ITG_TRY(itg_text_reserve(out, token.size, diagnostic));
  for (size_t at = 0; at < token.size;) {
    uint32_t code;
    at += itg_utf8_next(token.data + at, &code);
    const int byte = itg_byte_level_byte(code);
    if (byte < 0) {
      // A token with any other character (an added one, say) stands for itself.
      out->size = before;
      return itg_text_append(out, token, diagnostic);
    }
    out->data[out->size++] = (uint8_t)byte;
  }
  return ITG_OK;
}

// A finished part of the text from `offset` to its present end.
static itg_status finish_part(itg_pieces *pieces, size_t offset, itg_diagnostic *diagnostic) {
  return itg_pieces_add_any(pieces, (itg_piece){offset, pieces->text.size - offset, -1, false}, diagnostic);
}

static itg_status append_piece(itg_pieces *pieces, const itg_piece *piece, itg_diagnostic *diagnostic) {
  return itg_text_append(&pieces->text, itg_piece_span(pieces, piece), diagnostic);
}

static itg_status decode_bytes(itg_pieces *pieces, itg_diagnostic *diagnostic) {
  itg_text bytes = {0};
  itg_status status = ITG_OK;
  for (size_t i = 0; status == ITG_OK && i < pieces->count; i++)
    status = itg_byte_level_decode(itg_piece_span(pieces, &pieces->items[i]), diagnostic, &bytes);
  const size_t offset = pieces->text.size;
  if (status == ITG_OK) status = itg_utf8_repair(itg_text_span(&bytes), diagnostic, &pieces->text);
  itg_text_free(&bytes);
  return status == ITG_OK ? finish_part(pieces, offset, diagnostic) : status;
}

// The byte that a token such as "<0x0A>" stands for, or -1. (A sign before one digit is read as well, as in the
// reference.)
static int fallback_byte(itg_span token) {
  if (token.size != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>') return -1;
  int value = 0;
  for (int i = 3; i < 5; i++) {
    const int c = token.data[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0 && !(i == 3 && c == '+')) return -1;
    value = value * 16 + (digit < 0 ? 0 : digit);
  }
  return value;
}

// A run of byte tokens is UTF-8 as a whole or becomes as many U+FFFD.
static itg_status flush_bytes(itg_pieces *pieces, itg_text *bytes, itg_diagnostic *diagnostic) {
  bool good = true;
  const size_t offset = pieces->text.size;
  if (bytes->size == 0) return ITG_OK;
  for (size_t at = 0; good && at < bytes->size;) {
    const int part = itg_utf8_part(bytes->data + at, bytes->size - at);
    good = part > 0;
    at += good ? (size_t)part : 0;
  }
  if (good) {
    ITG_TRY(itg_text_append(&pieces->text, itg_text_span(bytes), diagnostic));
    ITG_TRY(finish_part(pieces, offset, diagnostic));
  }
  for (size_t i = 0; !good && i < bytes->size; i++) {
    const size_t start = pieces->text.size;
    ITG_TRY(itg_text_append(&pieces->text, (itg_span){(const uint8_t *)"\xEF\xBF\xBD", 3}, diagnostic));
    ITG_TRY(finish_part(pieces, start, diagnostic));
  }
  bytes->size = 0;
  return ITG_OK;
}

static itg_status decode_fallback(itg_pieces *pieces, itg_diagnostic *diagnostic) {
  itg_text bytes = {0};
  itg_status status = ITG_OK;
  for (size_t i = 0; status == ITG_OK && i < pieces->count; i++) {
    const int value = fallback_byte(itg_piece_span(pieces, &pieces->items[i]));
    const uint8_t byte = (uint8_t)value;
    if (value >= 0) {
      status = itg_text_append(&bytes, (itg_span){&byte, 1}, diagnostic);
    } else {
      status = flush_bytes(pieces, &bytes, diagnostic);
      if (status == ITG_OK) status = itg_pieces_add_any(pieces, pieces->items[i], diagnostic);
    }
  }
  if (status == ITG_OK) status = flush_bytes(pieces, &bytes, diagnostic);
  itg_text_free(&bytes);
  return status;
}

// Replaces every `from` in the text from `offset` on; it only gets shorter.
static void shorten(itg_text *text, size_t offset, const char *from, const char *to) {
  const size_t from_size = strlen(from), to_size = strlen(to);
  size_t put = offset;
  for (size_t at = offset; at < text->size;) {
    if (text->size - at >= from_size && memcmp(text->data + at, from, from_size) == 0) {
      memcpy(text->data + put, to, to_size);
      put += to_size;
      at += from_size;
    } else {
      text->data[put++] = text->data[at++];
    }
  }
  text->size = put;
}

static itg_status decode_wordpiece(const itg_token_decoder *one, itg_pieces *pieces, itg_diagnostic *diagnostic) {
  static const char *const cleanups[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                            {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                            {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < pieces->count; i++) {
    itg_piece piece = pieces->items[i];
    const size_t offset = pieces->text.size, prefix = one->content.size;
    const itg_span token = itg_piece_span(pieces, &piece);
    if (i > 0 && token.size >= prefix && (prefix == 0 || memcmp(token.data, one->content.data, prefix) == 0)) {
      piece.offset += prefix;
      piece.size -= prefix;
    } else if (i > 0) {
      ITG_TRY(itg_text_append(&pieces->text, (itg_span){(const uint8_t *)" ", 1}, diagnostic));
    }
    ITG_TRY(append_piece(pieces, &piece, diagnostic));
    for (size_t j = 0; one->cleanup && j < sizeof cleanups / sizeof cleanups[0]; j++)
      shorten(&pieces->text, offset, cleanups[j][0], cleanups[j][1]);
    ITG_TRY(finish_part(pieces, offset, diagnostic));
  }
  return ITG_OK;
}

static itg_status decode_metaspace(const itg_token_decoder *one, itg_pieces *pieces, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < pieces->count; i++) {
    const itg_piece piece = pieces->items[i];
    const size_t offset = pieces->text.size;
    ITG_TRY(itg_text_reserve(&pieces->text, piece.size, diagnostic));
    const uint8_t *from = pieces->text.data + piece.offset;
    for (size_t at = 0; at < piece.size;) {
      uint32_t code;
      const size_t length = itg_utf8_next(from + at, &code);
      if (code != one->character) {
        memcpy(pieces->text.data + pieces->text.size, from + at, length);
        pieces->text.size += length;
      } else if (i > 0 || !one->drops_first) {
        pieces->text.data[pieces->text.size++] = ' ';
      }
      at += length;
    }
    ITG_TRY(finish_part(pieces, offset, diagnostic));
  }
  return ITG_OK;
}

// `content` in place of the matches in one piece.
static itg_status replace_in(itg_pieces *pieces, const itg_piece *piece, itg_matches *matches, itg_span content,
                             itg_diagnostic *diagnostic) {
  const size_t offset = pieces->text.size;
  itg_text copy = {0};
  size_t done = 0, start = 0, end = 0;
  bool found = false;
  // The pieces' text moves as it grows; matching needs text that stays.
  itg_status status = itg_text_append(&copy, itg_piece_span(pieces, piece), diagnostic);
  itg_matches_set_text(matches, itg_text_span(&copy));
  while (status == ITG_OK) {
    status = itg_matches_next(matches, &found, &start, &end, diagnostic);
    if (status != ITG_OK || !found) break;
    status = itg_text_append(&pieces->text, (itg_span){copy.data + done, start - done}, diagnostic);
    if (status == ITG_OK) status = itg_text_append(&pieces->text, content, diagnostic);
    done = end;
  }
  if (status == ITG_OK && copy.size)
    status = itg_text_append(&pieces->text, (itg_span){copy.data + done, copy.size - done}, diagnostic);
  itg_text_free(&copy);
  return status == ITG_OK ? finish_part(pieces, offset, diagnostic) : status;
}

static itg_status decode_replace(const itg_token_decoder *one, itg_pieces *pieces, itg_diagnostic *diagnostic) {
  itg_matches matches;
  itg_status status = itg_matches_begin(one->pattern, diagnostic, &matches);
  for (size_t i = 0; status == ITG_OK && i < pieces->count; i++) {
    // BPEDecoder: the end of a word is a space, but for the last.
    const itg_span space = {(const uint8_t *)" ", i + 1 < pieces->count};
    status = replace_in(pieces, &pieces->items[i], &matches,
                        one->kind == BPE_SUFFIX ? space : itg_text_span(&one->content), diagnostic);
  }
  itg_matches_end(&matches);
  return status;
}

static itg_status decode_strip(const itg_token_decoder *one, itg_pieces *pieces, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < pieces->count; i++) {
    itg_piece piece = pieces->items[i];
    const itg_span token = itg_piece_span(pieces, &piece);
    uint8_t mark[4];
    const size_t mark_size = itg_utf8_put(one->character, mark);
    size_t start = 0, end = token.size;
    for (int64_t j = 0; j < one->start && end - start >= mark_size; j++) {
      if (memcmp(token.data + start, mark, mark_size) != 0) break;
      start += mark_size;
    }
    for (int64_t j = 0; j < one->stop && end - start >= mark_size; j++) {
      if (memcmp(token.data + end - mark_size, mark, mark_size) != 0) break;
      end -= mark_size;
    }
    piece.offset += start;
    piece.size = end - start;
    ITG_TRY(itg_pieces_add_any(pieces, piece, diagnostic));
  }
  return ITG_OK;
}

static itg_status apply_one(const itg_token_decoder *one, itg_pieces *pieces, itg_diagnostic *diagnostic) {
  switch (one->kind) {
  case BYTE_LEVEL: return decode_bytes(pieces, diagnostic);
  case WORDPIECE: return decode_wordpiece(one, pieces, diagnostic);
  case METASPACE: return decode_metaspace(one, pieces, diagnostic);
  case BYTE_FALLBACK: return decode_fallback(pieces, diagnostic);
  case REPLACE:
  case BPE_SUFFIX: return decode_replace(one, pieces, diagnostic);
  case STRIP: return decode_strip(one, pieces, diagnostic);
  case FUSE: {
    const size_t offset = pieces->text.size;
    for (size_t i = 0; i < pieces->count; i++) ITG_TRY(append_piece(pieces, &pieces->items[i], diagnostic));
    return finish_part(pieces, offset, diagnostic);
  }
  }
  return ITG_OK;
}

itg_status itg_token_decoders_apply(const itg_token_decoders *decoders, itg_pieces *pieces,
                                    itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < decoders->count; i++) {
    pieces->next_count = 0;
    ITG_TRY(apply_one(&decoders->items[i], pieces, diagnostic));
    itg_pieces_turn(pieces);
  }
  return ITG_OK;
}
