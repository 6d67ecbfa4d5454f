// Pre-tokenizers of a tokenizer.json.
#include "text/pre_tokenizer.h"

#include <stdlib.h>

#include "text/components.h"
#include "text/normalizer.h"
#include "text/pattern.h"
#include "text/splitter.h"
#include "text/unicode.h"

typedef enum kind { BERT, BYTE_LEVEL, SPLIT, CHARACTERS, METASPACE, FIXED_LENGTH } kind;
typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

typedef struct itg_pre_tokenizer {
  kind kind;
  itg_split_behavior behavior;
  bool invert;
  itg_pattern *pattern;         // Split, Whitespace; ByteLevel with its own expression.
  bool (*characters)(uint32_t); // Digits, Punctuation, WhitespaceSplit: a match is one character.
  bool prefix_space;            // ByteLevel
  prepend_scheme scheme;        // Metaspace
  bool split;                   // Metaspace
  uint32_t replacement;         // Metaspace, CharDelimiterSplit
  size_t length;                // FixedLength
} itg_pre_tokenizer;

// The expression of GPT-2.
#define BYTE_LEVEL_EXPRESSION "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
// The reference runs this one with another engine, whose word characters include the joiners.
#define WHITESPACE_EXPRESSION "[\\w\\x{200c}\\x{200d}]+|[^\\w\\x{200c}\\x{200d}\\s]+"

static itg_status own_pattern(const char *expression, itg_diagnostic *diagnostic, itg_pattern **out) {
  return itg_pattern_compile((itg_span){(const uint8_t *)expression, strlen(expression)}, false, diagnostic, out);
}

static itg_status read_behavior(const json_t *json, const char *where, itg_diagnostic *diagnostic,
                                itg_split_behavior *out) {
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  itg_span name = {0};
  ITG_TRY(itg_json_string(json, where, "behavior", diagnostic, &name));
  if (!name.data) return ITG_OK;
  for (int i = 0; i < 5; i++) {
    if (!itg_span_equals(name, names[i])) continue;
    *out = (itg_split_behavior)i;
    return ITG_OK;
  }
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "%s: the behavior \"%.80s\" is not known", where,
           (const char *)name.data);
}

static itg_status read_character(const json_t *json, const char *where, const char *name, itg_diagnostic *diagnostic,
                                 uint32_t *out) {
  itg_span text;
  ITG_TRY(itg_json_need_string(json, where, name, diagnostic, &text));
  if (text.size == 0 || itg_utf8_next(text.data, out) != text.size)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"%s\" is not one character", where, name);
  return ITG_OK;
}

static itg_status read_metaspace(const json_t *json, const char *where, itg_diagnostic *diagnostic,
                                 itg_pre_tokenizer *one) {
  static const char *const schemes[] = {"always", "first", "never"};
  itg_span scheme = {0};
  bool prefix = true;
  one->kind = METASPACE;
  one->split = true;
  ITG_TRY(itg_json_allow(json, where, "type replacement prepend_scheme split add_prefix_space str_rep", diagnostic));
  ITG_TRY(read_character(json, where, "replacement", diagnostic, &one->replacement));
  ITG_TRY(itg_json_bool(json, where, "split", diagnostic, &one->split));
  ITG_TRY(itg_json_bool(json, where, "add_prefix_space", diagnostic, &prefix));
  ITG_TRY(itg_json_string(json, where, "prepend_scheme", diagnostic, &scheme));
  one->scheme = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
  if (!scheme.data) return ITG_OK;
  for (int i = 0; i < 3; i++) {
    if (!itg_span_equals(scheme, schemes[i])) continue;
    if (!prefix && i != PREPEND_NEVER)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: add_prefix_space contradicts prepend_scheme",
               where);
    one->scheme = (prepend_scheme)i;
    return ITG_OK;
  }
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "%s: the prepend_scheme \"%.80s\" is not known", where,
           (const char *)scheme.data);
}

static itg_status read_characters(const json_t *json, const char *where, const char *allowed,
                                  bool (*characters)(uint32_t), itg_split_behavior behavior, itg_diagnostic *diagnostic,
                                  itg_pre_tokenizer *one) {
  one->kind = CHARACTERS;
  one->characters = characters;
  one->behavior = behavior;
  return itg_json_allow(json, where, allowed, diagnostic);
}

static itg_status read_one(const json_t *json, const char *type, itg_diagnostic *diagnostic, void *item) {
  itg_pre_tokenizer *one = item;
  char where[64];
  snprintf(where, sizeof where, "pre_tokenizer %.40s", type);
  if (strcmp(type, "BertPreTokenizer") == 0) {
    one->kind = BERT;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "ByteLevel") == 0) {
    bool expression = true;
    one->kind = BYTE_LEVEL;
    one->prefix_space = true;
    one->behavior = ITG_SPLIT_ISOLATED;
    ITG_TRY(itg_json_allow(json, where, "type add_prefix_space trim_offsets use_regex", diagnostic));
    ITG_TRY(itg_json_bool(json, where, "add_prefix_space", diagnostic, &one->prefix_space));
    ITG_TRY(itg_json_bool(json, where, "use_regex", diagnostic, &expression));
    return expression ? own_pattern(BYTE_LEVEL_EXPRESSION, diagnostic, &one->pattern) : ITG_OK;
  }
  if (strcmp(type, "Split") == 0) {
    one->kind = SPLIT;
    ITG_TRY(itg_json_allow(json, where, "type pattern behavior invert", diagnostic));
    ITG_TRY(itg_json_bool(json, where, "invert", diagnostic, &one->invert));
    ITG_TRY(read_behavior(json, where, diagnostic, &one->behavior));
    return itg_json_pattern(json, where, diagnostic, &one->pattern);
  }
  if (strcmp(type, "Whitespace") == 0) {
    one->kind = SPLIT;
    one->invert = true;
    ITG_TRY(itg_json_allow(json, where, "type", diagnostic));
    return own_pattern(WHITESPACE_EXPRESSION, diagnostic, &one->pattern);
  }
  if (strcmp(type, "WhitespaceSplit") == 0)
    return read_characters(json, where, "type", itg_is_whitespace, ITG_SPLIT_REMOVED, diagnostic, one);
  if (strcmp(type, "CharDelimiterSplit") == 0) {
    ITG_TRY(read_characters(json, where, "type delimiter", NULL, ITG_SPLIT_REMOVED, diagnostic, one));
    return read_character(json, where, "delimiter", diagnostic, &one->replacement);
  }
  if (strcmp(type, "Digits") == 0) {
    bool individual = false;
    ITG_TRY(itg_json_bool(json, where, "individual_digits", diagnostic, &individual));
    return read_characters(json, where, "type individual_digits", itg_is_numeric,
                           individual ? ITG_SPLIT_ISOLATED : ITG_SPLIT_CONTIGUOUS, diagnostic, one);
  }
  if (strcmp(type, "Punctuation") == 0) {
    ITG_TRY(read_characters(json, where, "type behavior", itg_is_punctuation, ITG_SPLIT_ISOLATED, diagnostic, one));
    return read_behavior(json, where, diagnostic, &one->behavior);
  }
  if (strcmp(type, "Metaspace") == 0) return read_metaspace(json, where, diagnostic, one);
  if (strcmp(type, "FixedLength") == 0) {
    int64_t length = 5;
    one->kind = FIXED_LENGTH;
    ITG_TRY(itg_json_allow(json, where, "type length", diagnostic));
    ITG_TRY(itg_json_integer(json, where, "length", 1, INT32_MAX, diagnostic, &length));
    one->length = (size_t)length;
    return ITG_OK;
  }
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "the pre_tokenizer \"%.80s\" is not supported", type);
}

itg_status itg_pre_tokenizers_read(const json_t *json, itg_diagnostic *diagnostic, itg_pre_tokenizers *out) {
  static const itg_component_kind component = {"pre_tokenizer", "pretokenizers", sizeof(itg_pre_tokenizer), read_one};
  if (!json || json_is_null(json)) return ITG_OK;
  return itg_components_read(&component, json, diagnostic, (void **)&out->items, &out->count, &out->capacity);
}

void itg_pre_tokenizers_free(itg_pre_tokenizers *list) {
  for (size_t i = 0; i < list->count; i++) itg_pattern_free(list->items[i].pattern);
  free(list->items);
  *list = (itg_pre_tokenizers){0};
}

// Every character with the property is a match of its own.
static itg_status split_characters(const itg_pre_tokenizer *one, itg_splitter *splitter, itg_span text,
                                   itg_diagnostic *diagnostic) {
  size_t between = 0;
  for (size_t at = 0; at < text.size;) {
    uint32_t code;
    const size_t length = itg_utf8_next(text.data + at, &code);
    if (one->characters ? one->characters(code) : code == one->replacement) {
      if (between < at) ITG_TRY(itg_splitter_segment(splitter, between, at, false, diagnostic));
      ITG_TRY(itg_splitter_segment(splitter, at, at + length, true, diagnostic));
      between = at + length;
    }
    at += length;
  }
  if (between < text.size) ITG_TRY(itg_splitter_segment(splitter, between, text.size, false, diagnostic));
  return itg_splitter_finish(splitter, diagnostic);
}

static itg_status split_pattern(itg_splitter *splitter, itg_span text, itg_matches *matches,
                                itg_diagnostic *diagnostic) {
  size_t done = 0, start = 0, end = 0;
  bool found;
  itg_matches_set_text(matches, text);
  for (;;) {
    ITG_TRY(itg_matches_next(matches, &found, &start, &end, diagnostic));
    if (!found) break;
    if (done < start) ITG_TRY(itg_splitter_segment(splitter, done, start, false, diagnostic));
    ITG_TRY(itg_splitter_segment(splitter, start, end, true, diagnostic));
    done = end;
  }
  if (done < text.size) ITG_TRY(itg_splitter_segment(splitter, done, text.size, false, diagnostic));
  return itg_splitter_finish(splitter, diagnostic);
}

// BERT drops white space and isolates punctuation.
static itg_status split_bert(itg_pieces *pieces, itg_piece piece, itg_diagnostic *diagnostic) {
  size_t between = 0;
  const size_t size = piece.size;
  for (size_t at = 0; at <= size;) {
    uint32_t code = ' ';
    const size_t length = at < size ? itg_utf8_next(pieces->text.data + piece.offset + at, &code) : 1;
    const bool space = itg_is_whitespace(code), punctuation = itg_is_punctuation(code);
    if (space || punctuation) {
      ITG_TRY(itg_pieces_add(pieces, (itg_piece){piece.offset + between, at - between, -1, piece.at_start && !between},
                             diagnostic));
      if (punctuation)
        ITG_TRY(itg_pieces_add(pieces, (itg_piece){piece.offset + at, length, -1, piece.at_start && !at}, diagnostic));
      between = at + length;
    }
    at += length;
  }
  return ITG_OK;
}

static itg_status split_fixed(itg_pieces *pieces, itg_piece piece, size_t length, itg_diagnostic *diagnostic) {
  size_t start = 0, characters = 0;
  for (size_t at = 0; at < piece.size;) {
    at += itg_utf8_length(pieces->text.data[piece.offset + at]);
    if (++characters < length && at < piece.size) continue;
    ITG_TRY(itg_pieces_add(pieces, (itg_piece){piece.offset + start, at - start, -1, piece.at_start && !start},
                           diagnostic));
    start = at;
    characters = 0;
  }
  return ITG_OK;
}

// Spells spaces as the replacement, perhaps with one more in front; `piece` becomes the new text.
static itg_status spell_spaces(const itg_pre_tokenizer *one, itg_text *text, itg_piece *piece,
                               itg_diagnostic *diagnostic) {
  uint8_t mark[4];
  const size_t mark_size = itg_utf8_put(one->replacement, mark);
  size_t spaces = 0;
  for (size_t i = 0; i < piece->size; i++) spaces += text->data[piece->offset + i] == ' ';
  ITG_TRY(itg_text_reserve(text, piece->size + (spaces + 1) * mark_size, diagnostic));
  const uint8_t *from = text->data + piece->offset;
  uint8_t *to = text->data + text->size;
  const bool marked = from[0] == ' ' || (piece->size >= mark_size && memcmp(from, mark, mark_size) == 0);
  if (!marked && (one->scheme == PREPEND_ALWAYS || (one->scheme == PREPEND_FIRST && piece->at_start))) {
    memcpy(to, mark, mark_size);
    to += mark_size;
  }
  for (size_t i = 0; i < piece->size; i++) {
    if (from[i] == ' ') {
      memcpy(to, mark, mark_size);
      to += mark_size;
    } else {
      *to++ = from[i];
    }
  }
  piece->offset = text->size;
  piece->size = (size_t)(to - text->data) - text->size;
  text->size += piece->size;
  return ITG_OK;
}

static itg_status cut(const itg_pre_tokenizer *one, itg_pieces *pieces, itg_piece piece, itg_matches *matches,
                      itg_diagnostic *diagnostic) {
  itg_splitter splitter = {.behavior = one->behavior, .invert = one->invert};
  if (one->kind == BERT) return split_bert(pieces, piece, diagnostic);
  if (one->kind == FIXED_LENGTH) return split_fixed(pieces, piece, one->length, diagnostic);
  if (one->kind == BYTE_LEVEL && one->prefix_space && pieces->text.data[piece.offset] != ' ') {
    const size_t offset = pieces->text.size;
    ITG_TRY(itg_text_append(&pieces->text, (itg_span){(const uint8_t *)" ", 1}, diagnostic));
    ITG_TRY(itg_text_append(&pieces->text, itg_piece_span(pieces, &piece), diagnostic));
    piece.offset = offset;
    piece.size++;
  }
  if (one->kind == METASPACE) {
    ITG_TRY(spell_spaces(one, &pieces->text, &piece, diagnostic));
    if (!one->split) return itg_pieces_add(pieces, piece, diagnostic);
    splitter.behavior = ITG_SPLIT_MERGED_WITH_NEXT;
  }
  itg_splitter_begin(&splitter, pieces, piece);
  if (one->kind == METASPACE || one->kind == CHARACTERS)
    return split_characters(one, &splitter, itg_piece_span(pieces, &piece), diagnostic);
  if (!one->pattern) return itg_pieces_add(pieces, piece, diagnostic);
  return split_pattern(&splitter, itg_piece_span(pieces, &piece), matches, diagnostic);
}

// Spells the pieces under construction from `first` on byte by byte.
static itg_status spell_bytes(itg_pieces *pieces, size_t first, itg_diagnostic *diagnostic) {
  for (size_t i = first; i < pieces->next_count; i++) {
    itg_piece *piece = &pieces->next[i];
    const size_t offset = pieces->text.size;
    ITG_TRY(itg_byte_level_append(itg_piece_span(pieces, piece), diagnostic, &pieces->text));
    piece->offset = offset;
    piece->size = pieces->text.size - offset;
  }
  return ITG_OK;
}

static itg_status apply_one(const itg_pre_tokenizer *one, itg_pieces *pieces, itg_matches *matches,
                            itg_diagnostic *diagnostic) {
  pieces->next_count = 0;
  for (size_t i = 0; i < pieces->count; i++) {
    const size_t first = pieces->next_count;
    if (pieces->items[i].token >= 0) {
      ITG_TRY(itg_pieces_add(pieces, pieces->items[i], diagnostic));
      continue;
    }
    ITG_TRY(cut(one, pieces, pieces->items[i], matches, diagnostic));
    if (one->kind == BYTE_LEVEL) ITG_TRY(spell_bytes(pieces, first, diagnostic));
  }
  itg_pieces_turn(pieces);
  return ITG_OK;
}

itg_status itg_pre_tokenizers_apply(const itg_pre_tokenizers *list, itg_pieces *pieces, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < list->count; i++) {
    const itg_pre_tokenizer *one = &list->items[i];
    itg_matches matches = {0};
    itg_status status = one->pattern ? itg_matches_begin(one->pattern, diagnostic, &matches) : ITG_OK;
    if (status == ITG_OK) status = apply_one(one, pieces, &matches, diagnostic);
    itg_matches_end(&matches);
    ITG_TRY(status);
  }
  return ITG_OK;
}
