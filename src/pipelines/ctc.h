// Characters of a text recognizer, and greedy decoding of what it gives (connectionist temporal classification).
#ifndef ITG_PIPELINES_CTC_H
#define ITG_PIPELINES_CTC_H

#include "base/span.h"
#include "base/status.h"

// Class 0 is the blank; class i is line i - 1 of the text; where the network has one class more, it is the space.
typedef struct itg_charset {
  char *text;       // Owned.
  uint32_t *starts; // Of each line; one more than there are lines.
  size_t count;
} itg_charset;

// `lines` is one character (or more) a line. Errors: FORMAT (empty), MEMORY.
ITG_MUST_USE itg_status itg_charset_read(itg_span lines, itg_diagnostic *diagnostic, itg_charset *out);
void itg_charset_free(itg_charset *charset);
// FORMAT unless the characters fit a network of `classes`.
ITG_MUST_USE itg_status itg_charset_check(const itg_charset *charset, size_t classes, itg_diagnostic *diagnostic);
// The most likely class of each of `steps` rows, repetitions and blanks left out, as a malloc'ed text; `score` is the mean
// probability of the steps that were kept, 0 for none. Errors: MEMORY.
ITG_MUST_USE itg_status itg_ctc_decode(const itg_charset *charset, const float *probabilities, size_t steps,
                                       size_t classes, itg_diagnostic *diagnostic, char **text, float *score);

#endif
