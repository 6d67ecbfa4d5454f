// UTF-8 and the character properties that tokenizers ask for (Unicode by way of utf8proc).
#ifndef ITG_TEXT_UNICODE_H
#define ITG_TEXT_UNICODE_H

#include "text/buffers.h"

// Decodes one code point of well-formed UTF-8; returns its length in bytes. There must be one.
static inline size_t itg_utf8_next(const uint8_t *at, uint32_t *code) {
  if (at[0] < 0x80) {
    *code = at[0];
    return 1;
  }
  if (at[0] < 0xE0) {
    *code = (uint32_t)(at[0] & 0x1F) << 6 | (at[1] & 0x3F);
    return 2;
  }
  if (at[0] < 0xF0) {
    *code = (uint32_t)(at[0] & 0x0F) << 12 | (uint32_t)(at[1] & 0x3F) << 6 | (at[2] & 0x3F);
    return 3;
  }
  *code =
      (uint32_t)(at[0] & 0x07) << 18 | (uint32_t)(at[1] & 0x3F) << 12 | (uint32_t)(at[2] & 0x3F) << 6 | (at[3] & 0x3F);
  return 4;
}
static inline size_t itg_utf8_length(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// Writes up to 4 bytes; returns their number. `code` is a scalar value.
size_t itg_utf8_put(uint32_t code, uint8_t *to);
size_t itg_utf8_count(itg_span text);
// The number of bytes at `at` (of `size` > 0) that form one character (positive), or one maximal ill-formed part
// (negative). 0: the bytes are the beginning of a character that is not there yet.
int itg_utf8_part(const uint8_t *at, size_t size);
// Appends `bytes` with U+FFFD for each maximal ill-formed part (Unicode 3.9, table 3-8).
ITG_MUST_USE itg_status itg_utf8_repair(itg_span bytes, itg_diagnostic *diagnostic, itg_text *out);

bool itg_is_whitespace(uint32_t code);  // White_Space
bool itg_is_punctuation(uint32_t code); // General category P, or ASCII punctuation.
bool itg_is_numeric(uint32_t code);     // General category N
bool itg_is_mark(uint32_t code);        // General category M
bool itg_is_nonspacing_mark(uint32_t code);
bool itg_is_other(uint32_t code); // Control, format, private use.
uint32_t itg_lowercase(uint32_t code);
// Cased and Case_Ignorable (Unicode 3.13), as far as general categories and the middle-of-word marks tell.
bool itg_is_cased(uint32_t code);
bool itg_is_case_ignorable(uint32_t code);

typedef enum itg_normal_form { ITG_NFC, ITG_NFD, ITG_NFKC, ITG_NFKD } itg_normal_form;
// Appends `text` in a normal form (Unicode Standard Annex 15). Linear time but for the sort of long runs of marks.
ITG_MUST_USE itg_status itg_normalize(itg_span text, itg_normal_form form, itg_diagnostic *diagnostic, itg_text *out);
// The end of the extended grapheme cluster that starts at `from`.
size_t itg_grapheme_end(itg_span text, size_t from);

#endif
