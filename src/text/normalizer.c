// Normalizers of a tokenizer.json.
#include "text/normalizer.h"

#include <stdlib.h>

#include "text/charsmap.h"
#include "text/components.h"
#include "text/pattern.h"

typedef enum kind {
  NORMAL_FORM,
  LOWERCASE,
  BERT,
  REPLACE,
  PREPEND,
  STRIP,
  STRIP_ACCENTS,
  BYTE_LEVEL,
  NMT,
  PRECOMPILED,
} kind;

typedef struct itg_normalizer {
  kind kind;
  itg_normal_form form;
  bool clean_text, chinese, strip_accents, lowercase; // BertNormalizer
  bool left, right;                                   // Strip
  itg_pattern *pattern;                               // Replace
  itg_text content;                                   // Replace, Prepend
  itg_charsmap *map;
} itg_normalizer;

static itg_status read_one(const json_t *json, const char *type, itg_diagnostic *diagnostic, void *item) {
  itg_normalizer *one = item;
  itg_span text = {0};
  char where[64];
  snprintf(where, sizeof where, "normalizer %.40s", type);
  static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
  for (int i = 0; i < 4; i++) {
    if (strcmp(type, forms[i]) != 0) continue;
    one->kind = NORMAL_FORM;
    one->form = (itg_normal_form)i;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "Lowercase") == 0) {
    one->kind = LOWERCASE;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "StripAccents") == 0) {
    one->kind = STRIP_ACCENTS;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "ByteLevel") == 0) {
    one->kind = BYTE_LEVEL;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "Nmt") == 0) {
    one->kind = NMT;
    return itg_json_allow(json, where, "type", diagnostic);
  }
  if (strcmp(type, "BertNormalizer") == 0) {
    one->kind = BERT;
    one->clean_text = one->chinese = one->lowercase = true;
    ITG_TRY(itg_json_allow(json, where, "type clean_text handle_chinese_chars strip_accents lowercase", diagnostic));
    ITG_TRY(itg_json_bool(json, where, "clean_text", diagnostic, &one->clean_text));
    ITG_TRY(itg_json_bool(json, where, "handle_chinese_chars", diagnostic, &one->chinese));
    ITG_TRY(itg_json_bool(json, where, "lowercase", diagnostic, &one->lowercase));
    one->strip_accents = one->lowercase;
    return itg_json_bool(json, where, "strip_accents", diagnostic, &one->strip_accents);
  }
  if (strcmp(type, "Replace") == 0) {
    one->kind = REPLACE;
    ITG_TRY(itg_json_allow(json, where, "type pattern content", diagnostic));
    ITG_TRY(itg_json_need_string(json, where, "content", diagnostic, &text));
    ITG_TRY(itg_text_append(&one->content, text, diagnostic));
    return itg_json_pattern(json, where, diagnostic, &one->pattern);
  }
  if (strcmp(type, "Prepend") == 0) {
    one->kind = PREPEND;
    ITG_TRY(itg_json_allow(json, where, "type prepend", diagnostic));
    ITG_TRY(itg_json_need_string(json, where, "prepend", diagnostic, &text));
    return itg_text_append(&one->content, text, diagnostic);
  }
  if (strcmp(type, "Strip") == 0) {
    one->kind = STRIP;
    ITG_TRY(itg_json_allow(json, where, "type strip_left strip_right", diagnostic));
    ITG_TRY(itg_json_bool(json, where, "strip_left", diagnostic, &one->left));
    return itg_json_bool(json, where, "strip_right", diagnostic, &one->right);
  }
  if (strcmp(type, "Precompiled") == 0) {
    one->kind = PRECOMPILED;
    ITG_TRY(itg_json_allow(json, where, "type precompiled_charsmap", diagnostic));
    ITG_TRY(itg_json_string(json, where, "precompiled_charsmap", diagnostic, &text));
    return itg_charsmap_read(text, diagnostic, &one->map);
  }
  ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "the normalizer \"%.80s\" is not supported", type);
}

itg_status itg_normalizers_read(const json_t *json, itg_diagnostic *diagnostic, itg_normalizers *out) {
  static const itg_component_kind component = {"normalizer", "normalizers", sizeof(itg_normalizer), read_one};
  if (!json || json_is_null(json)) return ITG_OK;
  return itg_components_read(&component, json, diagnostic, (void **)&out->items, &out->count, &out->capacity);
}

void itg_normalizers_free(itg_normalizers *normalizers) {
  for (size_t i = 0; i < normalizers->count; i++) {
    itg_pattern_free(normalizers->items[i].pattern);
    itg_charsmap_free(normalizers->items[i].map);
    itg_text_free(&normalizers->items[i].content);
  }
  free(normalizers->items);
  *normalizers = (itg_normalizers){0};
}

// The ideographs that BERT puts spaces around (Devlin et al. 2018, reference implementation).
static bool chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool nmt_dropped(uint32_t c) {
  return (c >= 1 && c <= 8) || c == 11 || (c >= 14 && c <= 31) || c == 127 || c == 0x8F || c == 0x9F;
}
static bool nmt_space(uint32_t c) {
  return c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
         c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

typedef enum character_step { CLEAN, SPACE_CHINESE, DROP_NONSPACING, DROP_MARKS, LOWER, NMT_STEP } character_step;

// Steps that look at one character at a time.
static itg_status by_character(itg_span text, character_step step, itg_text *out, bool *moved_start,
                               itg_diagnostic *diagnostic) {
  ITG_TRY(itg_text_reserve(out, text.size * 3, diagnostic)); // The most: an ideograph and two spaces, U+0130 lowered.
  uint8_t *to = out->data + out->size;
  for (size_t at = 0; at < text.size;) {
    uint32_t code;
    const size_t length = itg_utf8_next(text.data + at, &code);
    bool drop = false;
    uint32_t put = code;
    switch (step) {
    case CLEAN:
      drop = code == 0 || code == 0xFFFD || (itg_is_other(code) && code != '\t' && code != '\n' && code != '\r');
      if (itg_is_whitespace(code)) put = ' ';
      break;
    case SPACE_CHINESE:
      if (chinese(code)) *to++ = ' ';
      break;
    case DROP_NONSPACING: drop = itg_is_nonspacing_mark(code); break;
    case DROP_MARKS: drop = itg_is_mark(code); break;
    case LOWER: put = itg_lowercase(code); break;
    case NMT_STEP:
      drop = nmt_dropped(code);
      if (nmt_space(code)) put = ' ';
      break;
    }
    if (drop) {
      if (at == 0) *moved_start = true;
    } else if (step == LOWER && code == 0x130) {
      memcpy(to, "i\xCC\x87", 3); // The only letter whose small form is two characters.
      to += 3;
    } else if (put == code) {
      memcpy(to, text.data + at, length);
      to += length;
    } else {
      to += itg_utf8_put(put, to);
    }
    if (step == SPACE_CHINESE && chinese(code)) *to++ = ' ';
    at += length;
  }
  out->size = (size_t)(to - out->data);
  return ITG_OK;
}

static void swap(itg_text *a, itg_text *b) {
  const itg_text other = *a;
  *a = *b;
  *b = other;
}

static itg_status step_in_place(itg_text *current, itg_text *spare, character_step step, bool *moved_start,
                                itg_diagnostic *diagnostic) {
  spare->size = 0;
  ITG_TRY(by_character(itg_text_span(current), step, spare, moved_start, diagnostic));
  swap(current, spare);
  return ITG_OK;
}

static itg_status bert(const itg_normalizer *one, itg_text *current, itg_text *spare, bool *moved_start,
                       itg_diagnostic *diagnostic) {
  if (one->clean_text) ITG_TRY(step_in_place(current, spare, CLEAN, moved_start, diagnostic));
  if (one->chinese) ITG_TRY(step_in_place(current, spare, SPACE_CHINESE, moved_start, diagnostic));
  if (one->strip_accents) {
    spare->size = 0;
    ITG_TRY(itg_normalize(itg_text_span(current), ITG_NFD, diagnostic, spare));
    swap(current, spare);
    ITG_TRY(step_in_place(current, spare, DROP_NONSPACING, moved_start, diagnostic));
  }
  if (one->lowercase) ITG_TRY(step_in_place(current, spare, LOWER, moved_start, diagnostic));
  return ITG_OK;
}

static itg_status replace_all(const itg_normalizer *one, itg_span text, itg_matches *matches, itg_text *out,
                              bool *moved_start, itg_diagnostic *diagnostic) {
  size_t done = 0, start = 0, end = 0;
  bool found;
  itg_matches_set_text(matches, text);
  for (;;) {
    ITG_TRY(itg_matches_next(matches, &found, &start, &end, diagnostic));
    if (!found) break;
    ITG_TRY(itg_text_append(out, (itg_span){text.data + done, start - done}, diagnostic));
    ITG_TRY(itg_text_append(out, itg_text_span(&one->content), diagnostic));
    if (start == 0 && end > 0 && one->content.size == 0) *moved_start = true;
    done = end;
  }
  return itg_text_append(out, (itg_span){text.data + done, text.size - done}, diagnostic);
}

static itg_status apply_one(const itg_normalizer *one, itg_text *current, itg_text *spare, bool *moved_start,
                            itg_diagnostic *diagnostic) {
  itg_span text = itg_text_span(current);
  spare->size = 0;
  switch (one->kind) {
  case NORMAL_FORM: ITG_TRY(itg_normalize(text, one->form, diagnostic, spare)); break;
  case LOWERCASE: return step_in_place(current, spare, LOWER, moved_start, diagnostic);
  case STRIP_ACCENTS: return step_in_place(current, spare, DROP_MARKS, moved_start, diagnostic);
  case NMT: return step_in_place(current, spare, NMT_STEP, moved_start, diagnostic);
  case BERT: return bert(one, current, spare, moved_start, diagnostic);
  case REPLACE: {
    itg_matches matches;
    itg_status status = itg_matches_begin(one->pattern, diagnostic, &matches);
    if (status == ITG_OK) status = replace_all(one, text, &matches, spare, moved_start, diagnostic);
    itg_matches_end(&matches);
    ITG_TRY(status);
    break;
  }
  case PREPEND:
    if (text.size) ITG_TRY(itg_text_append(spare, itg_text_span(&one->content), diagnostic));
    ITG_TRY(itg_text_append(spare, text, diagnostic));
    break;
  case STRIP: {
    size_t start = 0, end = text.size;
    uint32_t code;
    while (one->left && start < end) {
      const size_t length = itg_utf8_next(text.data + start, &code);
      if (!itg_is_whitespace(code)) break;
      start += length;
      *moved_start = true;
    }
    while (one->right && end > start) {
      size_t last = end - 1;
      while ((text.data[last] & 0xC0) == 0x80) last--;
      (void)itg_utf8_next(text.data + last, &code);
      if (!itg_is_whitespace(code)) break;
      end = last;
    }
    ITG_TRY(itg_text_append(spare, (itg_span){text.data + start, end - start}, diagnostic));
    break;
  }
  case BYTE_LEVEL: ITG_TRY(itg_byte_level_append(text, diagnostic, spare)); break;
  case PRECOMPILED: ITG_TRY(itg_charsmap_apply(one->map, text, diagnostic, spare)); break;
  }
  swap(current, spare);
  return ITG_OK;
}

itg_status itg_normalizers_apply(const itg_normalizers *normalizers, itg_text *current, itg_text *spare,
                                 bool *moved_start, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < normalizers->count && current->size; i++) // Nothing comes from an empty text.
    ITG_TRY(apply_one(&normalizers->items[i], current, spare, moved_start, diagnostic));
  return ITG_OK;
}
