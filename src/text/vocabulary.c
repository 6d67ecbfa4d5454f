// The tokens of a model with their ids: an arena, a table by id and an open hash table.
#include "text/vocabulary.h"

#include <stdlib.h>
#include <sys/random.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static size_t slot_of(const itg_vocabulary *vocabulary, itg_span token) {
  const size_t mask = vocabulary->slot_count - 1;
  size_t slot = XXH3_64bits_withSeed(token.data, token.size, vocabulary->seed) & mask;
  for (;; slot = (slot + 1) & mask) {
    const uint32_t entry = vocabulary->slots[slot];
    if (!entry) return slot;
    const itg_token *other = &vocabulary->tokens[entry - 1];
    if (other->size == token.size &&
        (token.size == 0 || memcmp(vocabulary->bytes.data + other->offset, token.data, token.size) == 0))
      return slot;
  }
}

itg_status itg_vocabulary_reserve(itg_vocabulary *vocabulary, size_t count, itg_diagnostic *diagnostic) {
  if (count > ITG_TOKENIZER_MAX_VOCABULARY)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "a vocabulary of %zu tokens; at most %d", count,
             ITG_TOKENIZER_MAX_VOCABULARY);
  size_t slots = 16;
  while (slots < count * 2) slots *= 2;
  if (getrandom(&vocabulary->seed, sizeof vocabulary->seed, GRND_NONBLOCK) != (ssize_t)sizeof vocabulary->seed)
    vocabulary->seed = (uint64_t)(uintptr_t)vocabulary;
  vocabulary->slots = calloc(slots, sizeof *vocabulary->slots);
  ITG_TRY_MEMORY(vocabulary->slots, diagnostic);
  vocabulary->slot_count = slots;
  return ITG_OK;
}

itg_status itg_vocabulary_add(itg_vocabulary *vocabulary, itg_span token, int64_t id, bool replace,
                              itg_diagnostic *diagnostic) {
  if (id < 0 || id >= ITG_TOKENIZER_MAX_VOCABULARY)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "the token \"%.*s\" has the id %lld; ids are 0 to %d",
             token.size > 80 ? 80 : (int)token.size, (const char *)token.data, (long long)id,
             ITG_TOKENIZER_MAX_VOCABULARY - 1);
  if (token.size > UINT32_MAX || (vocabulary->count + 1) * 2 > vocabulary->slot_count)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, "tokenizer.json", "too many or too long tokens");
  const size_t index = (size_t)id, old_capacity = vocabulary->token_capacity;
  void *array = vocabulary->tokens;
  if (!itg_grow(&array, &vocabulary->token_capacity, index + 1, sizeof *vocabulary->tokens))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  vocabulary->tokens = array;
  for (size_t i = old_capacity; i < vocabulary->token_capacity; i++) vocabulary->tokens[i] = (itg_token){0};
  if (vocabulary->tokens[index].present)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "the id %lld belongs to two tokens", (long long)id);
  const size_t slot = slot_of(vocabulary, token);
  if (vocabulary->slots[slot] && !replace)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "the token \"%.*s\" is there twice",
             token.size > 80 ? 80 : (int)token.size, (const char *)token.data);
  const size_t offset = vocabulary->bytes.size;
  ITG_TRY(itg_text_reserve(&vocabulary->bytes, token.size + 1, diagnostic));
  ITG_TRY(itg_text_append(&vocabulary->bytes, token, diagnostic));
  vocabulary->tokens[index] = (itg_token){offset, (uint32_t)token.size, true};
  if (!vocabulary->slots[slot]) vocabulary->count++;
  vocabulary->slots[slot] = (uint32_t)index + 1;
  if (index >= vocabulary->id_limit) vocabulary->id_limit = index + 1;
  if (token.size > vocabulary->longest) vocabulary->longest = token.size;
  return ITG_OK;
}

void itg_vocabulary_free(itg_vocabulary *vocabulary) {
  itg_text_free(&vocabulary->bytes);
  free(vocabulary->tokens);
  free(vocabulary->slots);
  *vocabulary = (itg_vocabulary){0};
}

int32_t itg_vocabulary_id(const itg_vocabulary *vocabulary, itg_span token) {
  if (!vocabulary->slot_count || token.size > vocabulary->longest) return -1;
  return (int32_t)vocabulary->slots[slot_of(vocabulary, token)] - 1;
}

static int compare_tokens(const void *a, const void *b, void *context) {
  const itg_vocabulary *vocabulary = context;
  const itg_span left = itg_vocabulary_token(vocabulary, (int32_t) * (const uint32_t *)a);
  const itg_span right = itg_vocabulary_token(vocabulary, (int32_t) * (const uint32_t *)b);
  const int order = memcmp(left.data, right.data, left.size < right.size ? left.size : right.size);
  return order ? order : (left.size > right.size) - (left.size < right.size);
}

itg_status itg_prefix_set_build(const itg_vocabulary *vocabulary, itg_diagnostic *diagnostic, itg_prefix_set *out) {
  *out = (itg_prefix_set){.vocabulary = vocabulary};
  out->ids = malloc((vocabulary->count + 1) * sizeof *out->ids);
  ITG_TRY_MEMORY(out->ids, diagnostic);
  // By way of the hash table, which has each string once.
  for (size_t i = 0; i < vocabulary->slot_count; i++)
    if (vocabulary->slots[i] && vocabulary->tokens[vocabulary->slots[i] - 1].size)
      out->ids[out->count++] = vocabulary->slots[i] - 1;
  qsort_r(out->ids, out->count, sizeof *out->ids, compare_tokens, (void *)vocabulary);
  for (size_t i = 0; i < out->count; i++)
    out->first[itg_vocabulary_token(vocabulary, (int32_t)out->ids[i]).data[0] + 1]++;
  for (size_t i = 0; i < 256; i++) out->first[i + 1] += out->first[i];
  return ITG_OK;
}

void itg_prefix_set_free(itg_prefix_set *set) {
  free(set->ids);
  *set = (itg_prefix_set){0};
}

// The first index from `low` on whose token has a byte above `byte` (or at least `byte` when `inclusive`) at `depth`.
static size_t bound(const itg_prefix_set *set, size_t low, size_t high, size_t depth, uint8_t byte, bool inclusive) {
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const uint8_t other = itg_vocabulary_token(set->vocabulary, (int32_t)set->ids[middle]).data[depth];
    if (inclusive ? other >= byte : other > byte)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

int32_t itg_prefix_next(const itg_prefix_set *set, itg_span text, itg_prefix_walk *walk, size_t *length) {
  while (walk->low < walk->high) {
    // All of the range agree in `depth` bytes; only the first can be no longer than that.
    if (set->vocabulary->tokens[set->ids[walk->low]].size == walk->depth) {
      *length = walk->depth;
      return (int32_t)set->ids[walk->low++];
    }
    if (walk->depth >= text.size) break;
    const uint8_t byte = text.data[walk->depth];
    walk->low = bound(set, walk->low, walk->high, walk->depth, byte, true);
    walk->high = bound(set, walk->low, walk->high, walk->depth, byte, false);
    walk->depth++;
  }
  walk->low = walk->high;
  return -1;
}
