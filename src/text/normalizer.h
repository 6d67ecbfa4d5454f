// Normalizers of a tokenizer.json: they change the text before it is cut into pieces.
#ifndef ITG_TEXT_NORMALIZER_H
#define ITG_TEXT_NORMALIZER_H

#include "text/json_fields.h"
#include "text/unicode.h"

struct itg_normalizer;
// The normalizers in order, sequences flattened. Starts as zeroes; immutable after reading.
typedef struct itg_normalizers {
  struct itg_normalizer *items;
  size_t count, capacity;
} itg_normalizers;

// `json` is the field "normalizer" (null: none). Errors: FORMAT, UNSUPPORTED, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_normalizers_read(const json_t *json, itg_diagnostic *diagnostic, itg_normalizers *out);
void itg_normalizers_free(itg_normalizers *normalizers);
// Normalizes `current` (valid UTF-8) in place; `spare` is room for it. `*moved_start` becomes true when characters at
// the start of the text were dropped. Errors: LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_normalizers_apply(const itg_normalizers *normalizers, itg_text *current, itg_text *spare,
                                              bool *moved_start, itg_diagnostic *diagnostic);

// Byte-level spelling: every byte as a printable character (GPT-2's table).
uint32_t itg_byte_level_character(uint8_t byte);
ITG_MUST_USE itg_status itg_byte_level_append(itg_span bytes, itg_diagnostic *diagnostic, itg_text *out);
// The byte that a character spells, or -1.
int itg_byte_level_byte(uint32_t code);

#endif
