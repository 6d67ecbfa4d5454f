// UTF-8 and character properties.
//
// Properties are utf8proc's but for the characters of reference_tables.inc, where the reference (the `tokenizers` package)
// still has those of older Unicode versions: models were trained with it, so its answers are the right ones here.
#include "text/unicode.h"

#include <stdlib.h>
#include <utf8proc.h>

size_t itg_utf8_put(uint32_t code, uint8_t *to) { return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, to); }

size_t itg_utf8_count(itg_span text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size; i++) count += (text.data[i] & 0xC0) != 0x80;
  return count;
}

int itg_utf8_part(const uint8_t *at, size_t size) {
  const uint8_t lead = at[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  const int length = (int)itg_utf8_length(lead);
  // The second byte of some leads has a narrower range: no overlong forms, surrogates, or values above U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < length; i++) {
    if ((size_t)i >= size) return 0;
    if (at[i] < (i == 1 ? low : 0x80) || at[i] > (i == 1 ? high : 0xBF)) return -i;
  }
  return length;
}

itg_status itg_utf8_repair(itg_span bytes, itg_diagnostic *diagnostic, itg_text *out) {
  ITG_TRY(itg_text_reserve(out, bytes.size, diagnostic));
  for (size_t at = 0; at < bytes.size;) {
    size_t good = at;
    int part = 1;
    while (good < bytes.size && (part = itg_utf8_part(bytes.data + good, bytes.size - good)) > 0) good += (size_t)part;
    ITG_TRY(itg_text_append(out, (itg_span){bytes.data + at, good - at}, diagnostic));
    if (good == bytes.size) break;
    ITG_TRY(itg_text_append(out, (itg_span){(const uint8_t *)"\xEF\xBF\xBD", 3}, diagnostic));
    at = part == 0 ? bytes.size : good + (size_t)-part;
  }
  return ITG_OK;
}

typedef struct itg_code_range {
  uint32_t first, last;
} itg_code_range;
#include "text/reference_tables.inc"

static bool in_ranges(const itg_code_range *ranges, size_t count, uint32_t code) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (ranges[middle].last < code)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && ranges[low].first <= code;
}
#define IN(ranges, code) in_ranges((ranges), sizeof(ranges) / sizeof *(ranges), (code))

static utf8proc_propval_t combining_class(utf8proc_int32_t code) {
  const utf8proc_propval_t found = utf8proc_get_property(code)->combining_class;
  return found && !IN(starters, (uint32_t)code) ? found : 0;
}

static utf8proc_category_t category(uint32_t code) { return utf8proc_category((utf8proc_int32_t)code); }

bool itg_is_whitespace(uint32_t code) {
  if (code < 0x85) return (code >= 9 && code <= 13) || code == ' ';
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool itg_is_punctuation(uint32_t code) {
  if (code < 0x80)
    return (code > 32 && code < 48) || (code > 57 && code < 65) || (code > 90 && code < 97) ||
           (code > 122 && code < 127);
  const utf8proc_category_t found = category(code);
  return (found >= UTF8PROC_CATEGORY_PC && found <= UTF8PROC_CATEGORY_PO) != IN(other_punctuation, code);
}

bool itg_is_numeric(uint32_t code) {
  const utf8proc_category_t found = category(code);
  return (found >= UTF8PROC_CATEGORY_ND && found <= UTF8PROC_CATEGORY_NO) || IN(newer_numbers, code);
}

bool itg_is_mark(uint32_t code) {
  const utf8proc_category_t found = category(code);
  return (found >= UTF8PROC_CATEGORY_MN && found <= UTF8PROC_CATEGORY_ME) != IN(other_marks, code);
}

bool itg_is_nonspacing_mark(uint32_t code) {
  return (category(code) == UTF8PROC_CATEGORY_MN) != IN(other_nonspacing_marks, code);
}

bool itg_is_other(uint32_t code) {
  const utf8proc_category_t found = category(code);
  return (found == UTF8PROC_CATEGORY_CC || found == UTF8PROC_CATEGORY_CF || found == UTF8PROC_CATEGORY_CO) !=
         IN(other_others, code);
}

bool itg_is_cased(uint32_t code) {
  const utf8proc_category_t found = category(code);
  return (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LT) || code == 0xAA || code == 0xBA ||
         (code >= 0x2160 && code <= 0x217F) || (code >= 0x24B6 && code <= 0x24E9); // Roman and circled letters.
}

bool itg_is_case_ignorable(uint32_t code) {
  static const uint32_t middle_marks[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                          0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  for (size_t i = 0; i < sizeof middle_marks / sizeof middle_marks[0]; i++)
    if (middle_marks[i] == code) return true;
  const utf8proc_category_t found = category(code);
  return found == UTF8PROC_CATEGORY_MN || found == UTF8PROC_CATEGORY_ME || found == UTF8PROC_CATEGORY_CF ||
         found == UTF8PROC_CATEGORY_LM || found == UTF8PROC_CATEGORY_SK;
}

uint32_t itg_lowercase(uint32_t code) { return (uint32_t)utf8proc_tolower((utf8proc_int32_t)code); }

// Canonical ordering: stable sorts of the runs of marks. utf8proc's own sort is quadratic in the length of a run, which
// hostile text could exploit; here short runs are sorted by insertion and long ones by counting.
static bool order_marks(utf8proc_int32_t *codes, size_t count) {
  for (size_t i = 0; i < count;) {
    if (combining_class(codes[i]) == 0) {
      i++;
      continue;
    }
    size_t end = i + 1;
    while (end < count && combining_class(codes[end]) != 0) end++;
    const size_t length = end - i;
    if (length <= 32) {
      for (size_t j = i + 1; j < end; j++) {
        const utf8proc_int32_t moved = codes[j];
        const utf8proc_propval_t of_moved = combining_class(moved);
        size_t to = j;
        while (to > i && combining_class(codes[to - 1]) > of_moved) {
          codes[to] = codes[to - 1];
          to--;
        }
        codes[to] = moved;
      }
    } else {
      size_t start[257] = {0};
      utf8proc_int32_t *sorted = malloc(length * sizeof *sorted);
      if (!sorted) return false;
      for (size_t j = i; j < end; j++) start[combining_class(codes[j]) + 1]++;
      for (int c = 0; c < 256; c++) start[c + 1] += start[c];
      for (size_t j = i; j < end; j++) sorted[start[combining_class(codes[j])]++] = codes[j];
      memcpy(codes + i, sorted, length * sizeof *sorted);
      free(sorted);
    }
    i = end;
  }
  return true;
}

// Composes in place; returns how many are left. Characters that utf8proc takes for marks and the reference for starters
// begin a part of their own: nothing is composed across them.
static size_t compose(utf8proc_int32_t *codes, size_t count) {
  size_t left = 0;
  for (size_t start = 0, end; start < count; start = end) {
    for (end = start + 1; end < count; end++)
      if (utf8proc_get_property(codes[end])->combining_class && IN(starters, (uint32_t)codes[end])) break;
    utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(codes + start, (utf8proc_ssize_t)(end - start), UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (composed < 0) composed = (utf8proc_ssize_t)(end - start);
    memmove(codes + left, codes + start, (size_t)composed * sizeof *codes);
    left += (size_t)composed;
  }
  return left;
}

itg_status itg_normalize(itg_span text, itg_normal_form form, itg_diagnostic *diagnostic, itg_text *out) {
  size_t ascii = 0;
  while (ascii < text.size && text.data[ascii] < 0x80) ascii++;
  if (ascii == text.size) return itg_text_append(out, text, diagnostic);

  const utf8proc_option_t options =
      form == ITG_NFKC || form == ITG_NFKD ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE;
  utf8proc_int32_t *codes = NULL;
  size_t count = 0, capacity = 0;
  bool good = true;
  for (size_t at = 0; good && at < text.size;) {
    uint32_t code;
    at += itg_utf8_next(text.data + at, &code);
    void *array = codes;
    good = itg_grow(&array, &capacity, count + 32, sizeof *codes);
    codes = array;
    int last_class = 0;
    if (!good) break;
    if (IN(undecomposed, code)) {
      codes[count++] = (utf8proc_int32_t)code;
      continue;
    }
    const utf8proc_ssize_t added = utf8proc_decompose_char((utf8proc_int32_t)code, codes + count,
                                                           (utf8proc_ssize_t)(capacity - count), options, &last_class);
    if (added > 0 && (size_t)added <= capacity - count) count += (size_t)added;
  }
  good = good && order_marks(codes, count);
  if (good && (form == ITG_NFC || form == ITG_NFKC)) {
    count = compose(codes, count);
  }
  itg_status status = good ? itg_text_reserve(out, count * 4, diagnostic)
                           : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  for (size_t i = 0; status == ITG_OK && i < count; i++)
    out->size += itg_utf8_put((uint32_t)codes[i], out->data + out->size);
  free(codes);
  return status;
}

size_t itg_grapheme_end(itg_span text, size_t from) {
  uint32_t before, code;
  utf8proc_int32_t state = 0;
  size_t at = from + itg_utf8_next(text.data + from, &before);
  while (at < text.size) {
    const size_t length = itg_utf8_next(text.data + at, &code);
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)code, &state)) break;
    before = code;
    at += length;
  }
  return at;
}
