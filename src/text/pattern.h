// Regular expressions of tokenizer files, and plain strings searched for.
//
// The reference compiles them with Oniguruma; here PCRE2 runs them in UTF mode with Unicode properties. Where the two
// disagree about a class (\s and \w), the pattern is rewritten to Oniguruma's meaning before it is compiled.
#ifndef ITG_TEXT_PATTERN_H
#define ITG_TEXT_PATTERN_H

#include "text/buffers.h"

typedef struct itg_pattern itg_pattern; // Immutable after compile; share freely.

// `literal`: `source` is a plain string. Errors: FORMAT (not a regular expression), LIMIT (longer than 64 KiB), MEMORY.
ITG_MUST_USE itg_status itg_pattern_compile(itg_span source, bool literal, itg_diagnostic *diagnostic,
                                            itg_pattern **out);
void itg_pattern_free(itg_pattern *pattern);

// A walk through the matches of a pattern in one text, without overlap; empty matches right after a match are passed
// over. The text must not move meanwhile. One thread at a time.
typedef struct itg_matches {
  const itg_pattern *pattern;
  itg_span text;
  size_t from, last_end;
  bool has_last;
  void *data; // PCRE2's match data.
} itg_matches;

ITG_MUST_USE itg_status itg_matches_begin(const itg_pattern *pattern, itg_diagnostic *diagnostic, itg_matches *out);
// Goes on with another text.
void itg_matches_set_text(itg_matches *matches, itg_span text);
// Errors: LIMIT (too much backtracking).
ITG_MUST_USE itg_status itg_matches_next(itg_matches *matches, bool *found, size_t *start, size_t *end,
                                         itg_diagnostic *diagnostic);
void itg_matches_end(itg_matches *matches);

#endif
