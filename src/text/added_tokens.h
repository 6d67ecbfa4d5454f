// The added tokens of a tokenizer.json: recognized in the text as they are, before (or after) it is normalized.
#ifndef ITG_TEXT_ADDED_TOKENS_H
#define ITG_TEXT_ADDED_TOKENS_H

#include "text/json_fields.h"
#include "text/normalizer.h"
#include "text/pattern.h"
#include "text/vocabulary.h"

typedef struct itg_added_token {
  int32_t id;
  bool special, single_word, left_strip, right_strip, normalized;
} itg_added_token;

// Starts as zeroes; immutable after reading.
typedef struct itg_added_tokens {
  itg_added_token *tokens; // Sorted by id.
  size_t count;
  itg_vocabulary contents;   // As the file spells them.
  itg_vocabulary normalized; // What is searched for in normalized text; only tokens with that flag.
  itg_vocabulary raw;        // The others.
  itg_prefix_set in_normalized, in_raw;
  itg_pattern *word; // A word character.
} itg_added_tokens;

// `json` is the field "added_tokens". Ids must agree with those of `model`. Errors: FORMAT, UNSUPPORTED, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_added_tokens_read(const json_t *json, const itg_vocabulary *model,
                                              const itg_normalizers *normalizers, itg_diagnostic *diagnostic,
                                              itg_added_tokens *out);
void itg_added_tokens_free(itg_added_tokens *added);
// NULL when the id is not that of an added token.
const itg_added_token *itg_added_token_of(const itg_added_tokens *added, int32_t id);
// Cuts added tokens out of `text` and normalizes what is between them: the result is in `pieces`, which is empty before.
ITG_MUST_USE itg_status itg_added_tokens_split(const itg_added_tokens *added, const itg_normalizers *normalizers,
                                               itg_span text, itg_pieces *pieces, itg_diagnostic *diagnostic);

#endif
