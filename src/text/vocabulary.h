// The tokens of a model with their ids, both ways.
#ifndef ITG_TEXT_VOCABULARY_H
#define ITG_TEXT_VOCABULARY_H

#include "text/buffers.h"

typedef struct itg_token {
  size_t offset;
  uint32_t size;
  bool present;
} itg_token;

// Starts as zeroes; filled while opening, immutable afterwards.
typedef struct itg_vocabulary {
  itg_text bytes;    // All tokens, one after the other.
  itg_token *tokens; // By id.
  size_t id_limit;   // One more than the greatest id.
  size_t token_capacity;
  uint32_t *slots; // Hash table of id + 1; 0: free.
  size_t slot_count, count;
  uint64_t seed;  // Drawn anew for each, so that no file can be made to collide.
  size_t longest; // Bytes of the longest token.
} itg_vocabulary;

// Room for `count` tokens. Errors: LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_vocabulary_reserve(itg_vocabulary *vocabulary, size_t count, itg_diagnostic *diagnostic);
// Adds a token. An id that is taken is refused; a string that is there already gets the new id when `replace`.
// Errors: FORMAT, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_vocabulary_add(itg_vocabulary *vocabulary, itg_span token, int64_t id, bool replace,
                                           itg_diagnostic *diagnostic);
void itg_vocabulary_free(itg_vocabulary *vocabulary);
// -1 when the token is not there.
int32_t itg_vocabulary_id(const itg_vocabulary *vocabulary, itg_span token);
// data is NULL when the id has no token.
static inline itg_span itg_vocabulary_token(const itg_vocabulary *vocabulary, int32_t id) {
  if (id < 0 || (size_t)id >= vocabulary->id_limit || !vocabulary->tokens[id].present) return (itg_span){0};
  return (itg_span){vocabulary->bytes.data + vocabulary->tokens[id].offset, vocabulary->tokens[id].size};
}

// A sorted list of strings with ids that finds the strings a text starts with, by narrowing a range byte by byte.
typedef struct itg_prefix_set {
  const itg_vocabulary *vocabulary; // Borrowed.
  uint32_t *ids;                    // Sorted by token.
  size_t count;
  uint32_t first[257]; // Where the tokens that start with a byte begin.
} itg_prefix_set;
// All tokens of the vocabulary that are not empty. Errors: MEMORY.
ITG_MUST_USE itg_status itg_prefix_set_build(const itg_vocabulary *vocabulary, itg_diagnostic *diagnostic,
                                             itg_prefix_set *out);
void itg_prefix_set_free(itg_prefix_set *set);
// A walk over the strings `text` starts with, shortest first.
typedef struct itg_prefix_walk {
  size_t low, high, depth;
} itg_prefix_walk;
static inline itg_prefix_walk itg_prefix_begin(const itg_prefix_set *set, uint8_t first) {
  return (itg_prefix_walk){set->first[first], set->first[first + 1], 1};
}
// The id of the next one, with its length; -1: no more.
int32_t itg_prefix_next(const itg_prefix_set *set, itg_span text, itg_prefix_walk *walk, size_t *length);

#endif
