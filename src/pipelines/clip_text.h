// From a search text to the ids that a CLIP or SigLIP text encoder reads, as Immich's service makes them.
#ifndef ITG_PIPELINES_CLIP_TEXT_H
#define ITG_PIPELINES_CLIP_TEXT_H

#include <stdbool.h>

#include "base/span.h"
#include "base/status.h"
#include "text/tokenizer.h"

// White space runs (Unicode's, as Python's str.split() sees them) become one space, none at the ends. `canonicalize`
// (SigLIP): ASCII punctuation is deleted, then everything becomes lower case, as Python's str.lower() does it. Bytes that are
// not UTF-8 count as U+FFFD. `out` is overwritten. Errors: MEMORY, LIMIT.
ITG_MUST_USE itg_status itg_clip_clean_text(itg_span text, bool canonicalize, itg_diagnostic *diagnostic,
                                            itg_text *out);
// The FLORES-200 code of a language as Immich's clients name it ("de", "pt-BR"): the name itself, else what is before its
// hyphen, else English.
const char *itg_clip_flores_code(const char *language);

#endif
