// The text of an answer on its way to the caller: held back while it could still become a stop text.
#ifndef ITG_PIPELINES_ANSWER_TEXT_H
#define ITG_PIPELINES_ANSWER_TEXT_H

#include "intaglio/language.h"
#include "text/tokenizer.h"

// One thread at a time; starts as zeroes, then the fields above the line are set.
typedef struct itg_answer_text {
  const char *const *stops;
  size_t stop_count;
  itg_chat_text_function on_text; // May be NULL.
  void *context;
  // ----
  itg_text held; // Not passed on yet.
  bool stopped, cancelled;
} itg_answer_text;

// Takes text that was decoded, and passes on what cannot be the beginning of a stop text. Errors: MEMORY, LIMIT.
ITG_MUST_USE itg_status itg_answer_text_add(itg_answer_text *answer, itg_span text, itg_diagnostic *diagnostic);
// Passes on the rest.
void itg_answer_text_finish(itg_answer_text *answer);

#endif
