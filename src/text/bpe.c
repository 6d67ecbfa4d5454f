// Byte-pair encoding (Sennrich et al. 2016): the symbols of a word are merged in the order of the ranks of the merges.
// Short words are scanned for the lowest rank; long ones keep their pairs in a heap, O(n log n).
#include "text/model.h"

#include <stdlib.h>

#include "text/unicode.h"

enum { SHORT_WORD = 24 };
#define NO_RANK UINT32_MAX

static uint64_t pair_of(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

static size_t merge_slot(const itg_text_model *model, uint64_t pair) {
  const size_t mask = model->merge_slots - 1;
  // A 64-bit finalizer (Stafford's mix 13), with the vocabulary's seed against files made to collide.
  uint64_t hash = pair ^ model->vocabulary.seed;
  hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
  size_t slot = (size_t)(hash ^ hash >> 31) & mask;
  while (model->merges[slot].pair != UINT64_MAX && model->merges[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

static uint32_t rank_of(const itg_text_model *model, int32_t left, int32_t right, int32_t *id) {
  const itg_merge *merge = &model->merges[merge_slot(model, pair_of(left, right))];
  *id = (int32_t)merge->id;
  return merge->rank;
}

// The two halves of a merge: ["a", "b"], or "a b" in older files.
static bool halves(const json_t *entry, itg_span *left, itg_span *right) {
  if (json_is_array(entry) && json_array_size(entry) == 2 && json_is_string(json_array_get(entry, 0)) &&
      json_is_string(json_array_get(entry, 1))) {
    *left = itg_json_span(json_array_get(entry, 0));
    *right = itg_json_span(json_array_get(entry, 1));
    return true;
  }
  if (!json_is_string(entry)) return false;
  const itg_span both = itg_json_span(entry);
  const uint8_t *space = memchr(both.data, ' ', both.size);
  if (!space) return false;
  *left = (itg_span){both.data, (size_t)(space - both.data)};
  *right = (itg_span){space + 1, both.size - left->size - 1};
  return memchr(right->data, ' ', right->size) == NULL;
}

static itg_status read_merges(const json_t *json, const char *where, itg_diagnostic *diagnostic,
                              itg_text_model *model) {
  const json_t *merges, *entry;
  size_t rank, slots = 16;
  itg_text joined = {0};
  itg_status status = ITG_OK;
  ITG_TRY(itg_json_need_array(json, where, "merges", diagnostic, &merges));
  const size_t count = json_array_size(merges);
  if (count > 2 * ITG_TOKENIZER_MAX_VOCABULARY)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "%s: %zu merges; at most %d", where, count,
             2 * ITG_TOKENIZER_MAX_VOCABULARY);
  while (slots < count * 2) slots *= 2;
  model->merges = malloc(slots * sizeof *model->merges);
  ITG_TRY_MEMORY(model->merges, diagnostic);
  for (size_t i = 0; i < slots; i++) model->merges[i] = (itg_merge){UINT64_MAX, NO_RANK, 0};
  model->merge_slots = slots;
  json_array_foreach(merges, rank, entry) {
    itg_span left, right, rest;
    if (!halves(entry, &left, &right)) {
      status = itg_fail(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", __FILE__, __LINE__,
                        "%s: merge %zu is not a pair of tokens", where, rank);
      break;
    }
    rest = right;
    if (model->prefix.size && right.size >= model->prefix.size)
      rest = (itg_span){right.data + model->prefix.size, right.size - model->prefix.size};
    joined.size = 0;
    status = itg_text_append(&joined, left, diagnostic);
    if (status == ITG_OK) status = itg_text_append(&joined, rest, diagnostic);
    if (status != ITG_OK) break;
    const int32_t left_id = itg_vocabulary_id(&model->vocabulary, left);
    const int32_t right_id = itg_vocabulary_id(&model->vocabulary, right);
    const int32_t id = joined.size ? itg_vocabulary_id(&model->vocabulary, itg_text_span(&joined)) : -1;
    if (left_id < 0 || right_id < 0 || id < 0) {
      status = itg_fail(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", __FILE__, __LINE__,
                        "%s: merge %zu needs a token that the vocabulary lacks", where, rank);
      break;
    }
    itg_merge *merge = &model->merges[merge_slot(model, pair_of(left_id, right_id))];
    *merge = (itg_merge){pair_of(left_id, right_id), (uint32_t)rank, (uint32_t)id}; // The last of equal ones counts.
  }
  itg_text_free(&joined);
  return status;
}

itg_status itg_bpe_read(const json_t *json, itg_diagnostic *diagnostic, itg_text_model *model) {
  static const char where[] = "model BPE";
  itg_span prefix = {0}, suffix = {0};
  model->kind = ITG_MODEL_BPE;
  ITG_TRY(itg_json_allow(json, where,
                         "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
                         "ignore_merges vocab merges",
                         diagnostic));
  const json_t *dropout = json_object_get(json, "dropout");
  if (json_is_number(dropout) && json_number_value(dropout) != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "%s: dropout is for training; set it to null", where);
  ITG_TRY(itg_json_string(json, where, "continuing_subword_prefix", diagnostic, &prefix));
  ITG_TRY(itg_json_string(json, where, "end_of_word_suffix", diagnostic, &suffix));
  if (prefix.size > 256 || suffix.size > 256)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "%s: a prefix or suffix is longer than 256", where);
  ITG_TRY(itg_text_append(&model->prefix, prefix, diagnostic));
  ITG_TRY(itg_text_append(&model->suffix, suffix, diagnostic));
  ITG_TRY(itg_json_bool(json, where, "fuse_unk", diagnostic, &model->fuse_unknown));
  ITG_TRY(itg_json_bool(json, where, "byte_fallback", diagnostic, &model->byte_fallback));
  ITG_TRY(itg_json_bool(json, where, "ignore_merges", diagnostic, &model->ignore_merges));
  ITG_TRY(itg_text_model_read_vocabulary(json, where, diagnostic, model));
  ITG_TRY(itg_text_model_read_unknown(json, where, diagnostic, model));
  for (uint32_t code = 0; code < 0x200; code++) {
    uint8_t bytes[4];
    model->character_ids[code] = itg_vocabulary_id(&model->vocabulary, (itg_span){bytes, itg_utf8_put(code, bytes)});
  }
  return read_merges(json, where, diagnostic, model);
}

// A symbol of a long word; its neighbours are linked.
typedef struct symbol {
  int32_t id; // -1: merged into the one before.
  int32_t before, after;
} symbol;

// The symbols of a word, as ids at the end of `ids`. An unknown character waits for the next known one, because
// fuse_unk joins what follows; byte tokens pass it by. (So does the reference.)
static itg_status first_symbols(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch,
                                itg_token_ids *ids, itg_diagnostic *diagnostic) {
  bool unknown = false;
  for (size_t at = 0; at < piece.size;) {
    uint32_t code;
    const size_t length = itg_utf8_next(piece.data + at, &code);
    const bool prefixed = at > 0 && model->prefix.size, suffixed = at + length == piece.size && model->suffix.size;
    itg_span character = {piece.data + at, length};
    int32_t id;
    if (prefixed || suffixed) {
      scratch->text.size = 0;
      if (prefixed) ITG_TRY(itg_text_append(&scratch->text, itg_text_span(&model->prefix), diagnostic));
      ITG_TRY(itg_text_append(&scratch->text, character, diagnostic));
      if (suffixed) ITG_TRY(itg_text_append(&scratch->text, itg_text_span(&model->suffix), diagnostic));
      character = itg_text_span(&scratch->text);
      id = itg_vocabulary_id(&model->vocabulary, character);
    } else {
      id = code < 0x200 ? model->character_ids[code] : itg_vocabulary_id(&model->vocabulary, character);
    }
    at += length;
    if (id >= 0) {
      if (unknown) ITG_TRY(itg_token_ids_append(ids, model->unknown, diagnostic));
      unknown = false;
      ITG_TRY(itg_token_ids_append(ids, id, diagnostic));
      continue;
    }
    bool done = false;
    if (model->byte_fallback) ITG_TRY(itg_text_model_bytes(model, character, &done, ids, diagnostic));
    if (done || model->unknown < 0) continue; // Without an unknown token the character is lost.
    if (unknown && !model->fuse_unknown) ITG_TRY(itg_token_ids_append(ids, model->unknown, diagnostic));
    unknown = true;
  }
  return unknown ? itg_token_ids_append(ids, model->unknown, diagnostic) : ITG_OK;
}

// Merges up to SHORT_WORD symbols in place; returns how many are left.
static size_t merge_short(const itg_text_model *model, int32_t *ids, size_t count) {
  uint32_t ranks[SHORT_WORD];
  int32_t merged[SHORT_WORD];
  for (size_t i = 0; i + 1 < count; i++) ranks[i] = rank_of(model, ids[i], ids[i + 1], &merged[i]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; i++)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == NO_RANK) break;
    ids[best] = merged[best];
    count--;
    // The pair to the right of the merged one goes, those after it move down.
    for (size_t i = best + 1; i < count; i++) {
      ids[i] = ids[i + 1];
      ranks[i - 1] = ranks[i];
      merged[i - 1] = merged[i];
    }
    if (best > 0) ranks[best - 1] = rank_of(model, ids[best - 1], ids[best], &merged[best - 1]);
    if (best + 1 < count) ranks[best] = rank_of(model, ids[best], ids[best + 1], &merged[best]);
  }
  return count;
}

// A binary heap of (rank, position); the lowest rank and of these the leftmost pair comes first.
static void heap_push(uint64_t *heap, size_t *count, uint64_t entry) {
  size_t at = (*count)++;
  while (at > 0 && heap[(at - 1) / 2] > entry) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count) {
  const uint64_t top = heap[0], last = heap[--*count];
  size_t at = 0;
  for (size_t child; (child = at * 2 + 1) < *count; at = child) {
    if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= last) break;
    heap[at] = heap[child];
  }
  heap[at] = last;
  return top;
}

static void push_pair(const itg_text_model *model, const symbol *symbols, int32_t left, uint64_t *heap, size_t *count) {
  int32_t id;
  if (left < 0 || symbols[left].after < 0) return;
  const uint32_t rank = rank_of(model, symbols[left].id, symbols[symbols[left].after].id, &id);
  if (rank != NO_RANK) heap_push(heap, count, (uint64_t)rank << 32 | (uint32_t)left);
}

static itg_status merge_long(const itg_text_model *model, itg_model_scratch *scratch, int32_t *ids, size_t *count,
                             itg_diagnostic *diagnostic) {
  const size_t symbol_count = *count;
  void *array = scratch->symbols, *heap_array = scratch->heap;
  const bool grown = itg_grow(&array, &scratch->symbol_capacity, symbol_count, sizeof(symbol));
  scratch->symbols = array;
  // Each merge takes a pair out and puts two in; there is one merge less than symbols.
  const bool heap_grown = itg_grow(&heap_array, &scratch->heap_capacity, symbol_count * 3, sizeof(uint64_t));
  scratch->heap = heap_array;
  if (!grown || !heap_grown) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  symbol *symbols = array;
  uint64_t *heap = scratch->heap;
  size_t heap_count = 0, left_over = 0;
  for (size_t i = 0; i < symbol_count; i++)
    symbols[i] = (symbol){ids[i], (int32_t)i - 1, i + 1 < symbol_count ? (int32_t)i + 1 : -1};
  for (size_t i = 0; i + 1 < symbol_count; i++) push_pair(model, symbols, (int32_t)i, heap, &heap_count);
  while (heap_count) {
    const uint64_t top = heap_pop(heap, &heap_count);
    const int32_t at = (int32_t)(uint32_t)top;
    symbol *left = &symbols[at];
    if (left->id < 0 || left->after < 0) continue;
    symbol *right = &symbols[left->after];
    int32_t merged;
    if (rank_of(model, left->id, right->id, &merged) != top >> 32) continue; // The pair has changed meanwhile.
    left->id = merged;
    right->id = -1;
    left->after = right->after;
    if (left->after >= 0) symbols[left->after].before = at;
    push_pair(model, symbols, left->before, heap, &heap_count);
    push_pair(model, symbols, at, heap, &heap_count);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].after) ids[left_over++] = symbols[i].id;
  *count = left_over;
  return ITG_OK;
}

itg_status itg_bpe_encode(const itg_text_model *model, itg_span piece, itg_model_scratch *scratch, itg_token_ids *ids,
                          itg_diagnostic *diagnostic) {
  if (model->ignore_merges) {
    const int32_t id = itg_vocabulary_id(&model->vocabulary, piece);
    if (id >= 0) return itg_token_ids_append(ids, id, diagnostic);
  }
  const size_t first = ids->count;
  ITG_TRY(first_symbols(model, piece, scratch, ids, diagnostic));
  size_t count = ids->count - first;
  if (count == 0) return ITG_OK;
  if (count <= SHORT_WORD)
    count = merge_short(model, ids->ids + first, count);
  else
    ITG_TRY(merge_long(model, scratch, ids->ids + first, &count, diagnostic));
  ids->count = first + count;
  return ITG_OK;
}
