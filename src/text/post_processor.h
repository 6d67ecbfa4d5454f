// The post-processor of a tokenizer.json: which special tokens go around the ids of a text.
#ifndef ITG_TEXT_POST_PROCESSOR_H
#define ITG_TEXT_POST_PROCESSOR_H

#include "text/json_fields.h"

enum { ITG_TEMPLATE_TEXT = -1 }; // Stands for the ids of the text.

// Ids with exactly one ITG_TEMPLATE_TEXT among them. Starts as zeroes; immutable after reading.
typedef struct itg_post_processor {
  itg_token_ids layout;
} itg_post_processor;

// `json` is the field "post_processor" (null: none). Errors: FORMAT, UNSUPPORTED, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_post_processor_read(const json_t *json, itg_diagnostic *diagnostic,
                                                itg_post_processor *out);
void itg_post_processor_free(itg_post_processor *processor);

#endif
