// The growing arrays of tokenization.
#include "text/buffers.h"

#include <stdlib.h>

#include "base/checked.h"

bool itg_grow(void **array, size_t *capacity, size_t needed, size_t element) {
  if (needed <= *capacity) return true;
  size_t wanted = *capacity ? *capacity : 16, bytes;
  while (wanted < needed)
    if (!itg_checked_multiply(wanted, 2, &wanted)) return false;
  if (!itg_checked_multiply(wanted, element, &bytes)) return false;
  void *grown = realloc(*array, bytes);
  if (!grown) return false;
  *array = grown;
  *capacity = wanted;
  return true;
}

itg_status itg_text_reserve(itg_text *text, size_t more, itg_diagnostic *diagnostic) {
  size_t needed;
  if (!itg_checked_add(text->size, more, &needed) || needed > ITG_TEXT_MAX_SIZE)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "the text becomes longer than %zu bytes; cut it into parts",
             ITG_TEXT_MAX_SIZE);
  void *data = text->data;
  if (!itg_grow(&data, &text->capacity, needed ? needed : 1, 1))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  text->data = data;
  return ITG_OK;
}

itg_status itg_text_append(itg_text *text, itg_span bytes, itg_diagnostic *diagnostic) {
  if (bytes.size == 0) return ITG_OK;
  const bool inside = text->data && bytes.data >= text->data && bytes.data < text->data + text->size;
  const size_t offset = inside ? (size_t)(bytes.data - text->data) : 0;
  ITG_TRY(itg_text_reserve(text, bytes.size, diagnostic));
  memcpy(text->data + text->size, inside ? text->data + offset : bytes.data, bytes.size);
  text->size += bytes.size;
  return ITG_OK;
}

itg_status itg_token_ids_reserve(itg_token_ids *ids, size_t more, itg_diagnostic *diagnostic) {
  size_t needed;
  void *array = ids->ids;
  if (!itg_checked_add(ids->count, more, &needed) || !itg_grow(&array, &ids->capacity, needed, sizeof *ids->ids))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  ids->ids = array;
  return ITG_OK;
}

itg_status itg_token_ids_append(itg_token_ids *ids, int32_t id, itg_diagnostic *diagnostic) {
  if (ids->count == ids->capacity) ITG_TRY(itg_token_ids_reserve(ids, 1, diagnostic));
  ids->ids[ids->count++] = id;
  return ITG_OK;
}

itg_status itg_token_ids_pad(itg_token_ids *ids, size_t length, int32_t pad_id, bool left, itg_diagnostic *diagnostic) {
  if (length <= ids->count) return ITG_OK;
  if (length > ITG_TOKENIZER_MAX_TEXT)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "padding to %zu ids is more than %zu", length, ITG_TOKENIZER_MAX_TEXT);
  const size_t more = length - ids->count;
  ITG_TRY(itg_token_ids_reserve(ids, more, diagnostic));
  if (left) memmove(ids->ids + more, ids->ids, ids->count * sizeof *ids->ids);
  int32_t *pad = left ? ids->ids : ids->ids + ids->count;
  for (size_t i = 0; i < more; i++) pad[i] = pad_id;
  ids->count = length;
  return ITG_OK;
}

void itg_token_ids_free(itg_token_ids *ids) {
  free(ids->ids);
  *ids = (itg_token_ids){0};
}

void itg_text_free(itg_text *text) {
  free(text->data);
  *text = (itg_text){0};
}

itg_status itg_pieces_add(itg_pieces *pieces, itg_piece piece, itg_diagnostic *diagnostic) {
  return piece.size ? itg_pieces_add_any(pieces, piece, diagnostic) : ITG_OK;
}

itg_status itg_pieces_add_any(itg_pieces *pieces, itg_piece piece, itg_diagnostic *diagnostic) {
  if (pieces->next_count == pieces->next_capacity) {
    void *array = pieces->next;
    if (!itg_grow(&array, &pieces->next_capacity, pieces->next_count + 1, sizeof *pieces->next))
      ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
    pieces->next = array;
  }
  pieces->next[pieces->next_count++] = piece;
  return ITG_OK;
}

void itg_pieces_turn(itg_pieces *pieces) {
  itg_piece *items = pieces->items;
  const size_t capacity = pieces->capacity;
  pieces->items = pieces->next;
  pieces->count = pieces->next_count;
  pieces->capacity = pieces->next_capacity;
  pieces->next = items;
  pieces->next_count = 0;
  pieces->next_capacity = capacity;
}

void itg_pieces_free(itg_pieces *pieces) {
  itg_text_free(&pieces->text);
  free(pieces->items);
  free(pieces->next);
  *pieces = (itg_pieces){0};
}
