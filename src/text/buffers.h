// The growing arrays of tokenization: text, ids, and the pieces a text is cut into.
#ifndef ITG_TEXT_BUFFERS_H
#define ITG_TEXT_BUFFERS_H

#include "text/tokenizer.h"

// Hostile components may multiply a text; all text of one call stays below this.
#define ITG_TEXT_MAX_SIZE ((size_t)256 << 20)

// A part of the working text. `token` is its id when an added token was recognized, -1 while it is still text.
typedef struct itg_piece {
  size_t offset, size;
  int32_t token;
  bool at_start; // It starts where the whole text starts.
} itg_piece;

// The working text of one call with the pieces of interest. Components append what they change to the text and make new
// pieces; the bytes of old ones stay. All text is valid UTF-8. Starts as zeroes.
typedef struct itg_pieces {
  itg_text text;
  itg_piece *items, *next; // Now, and under construction.
  size_t count, capacity, next_count, next_capacity;
} itg_pieces;

// Makes room for `more` bytes or ids. Errors: MEMORY, LIMIT.
ITG_MUST_USE itg_status itg_text_reserve(itg_text *text, size_t more, itg_diagnostic *diagnostic);
// `bytes` may lie inside `text` itself.
ITG_MUST_USE itg_status itg_text_append(itg_text *text, itg_span bytes, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_token_ids_reserve(itg_token_ids *ids, size_t more, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_token_ids_append(itg_token_ids *ids, int32_t id, itg_diagnostic *diagnostic);

static inline itg_span itg_text_span(const itg_text *text) { return (itg_span){text->data, text->size}; }
static inline itg_span itg_piece_span(const itg_pieces *pieces, const itg_piece *piece) {
  return (itg_span){piece->size ? pieces->text.data + piece->offset : (const uint8_t *)"", piece->size};
}

// Adds to the pieces under construction; empty ones are left out, as the reference does.
ITG_MUST_USE itg_status itg_pieces_add(itg_pieces *pieces, itg_piece piece, itg_diagnostic *diagnostic);
// The same, but keeps empty ones.
ITG_MUST_USE itg_status itg_pieces_add_any(itg_pieces *pieces, itg_piece piece, itg_diagnostic *diagnostic);
// Puts the pieces under construction in place of the present ones.
void itg_pieces_turn(itg_pieces *pieces);
void itg_pieces_free(itg_pieces *pieces);

// Grows `*array` of elements of `element` bytes to at least `needed`, doubling; false without memory or on overflow.
bool itg_grow(void **array, size_t *capacity, size_t needed, size_t element);

#endif
