// Pre-tokenizers of a tokenizer.json: they cut the text into the pieces that the model looks at one by one.
#ifndef ITG_TEXT_PRE_TOKENIZER_H
#define ITG_TEXT_PRE_TOKENIZER_H

#include "text/json_fields.h"

struct itg_pre_tokenizer;
// The pre-tokenizers in order, sequences flattened. Starts as zeroes; immutable after reading.
typedef struct itg_pre_tokenizers {
  struct itg_pre_tokenizer *items;
  size_t count, capacity;
} itg_pre_tokenizers;

// `json` is the field "pre_tokenizer" (null: none). Errors: FORMAT, UNSUPPORTED, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_pre_tokenizers_read(const json_t *json, itg_diagnostic *diagnostic,
                                                itg_pre_tokenizers *out);
void itg_pre_tokenizers_free(itg_pre_tokenizers *list);
// Cuts the pieces that are not tokens yet. Errors: LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_pre_tokenizers_apply(const itg_pre_tokenizers *list, itg_pieces *pieces,
                                                 itg_diagnostic *diagnostic);

#endif
