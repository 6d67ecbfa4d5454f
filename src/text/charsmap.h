// The precompiled character map of SentencePiece models ("precompiled_charsmap"): a double-array trie (darts-clone) from
// character sequences to offsets into a list of NUL-terminated replacements.
#ifndef ITG_TEXT_CHARSMAP_H
#define ITG_TEXT_CHARSMAP_H

#include "text/unicode.h"

typedef struct itg_charsmap itg_charsmap; // Immutable after reading.

// `base64` as in the file; an empty one maps nothing. Errors: FORMAT, MEMORY.
ITG_MUST_USE itg_status itg_charsmap_read(itg_span base64, itg_diagnostic *diagnostic, itg_charsmap **out);
void itg_charsmap_free(itg_charsmap *map);
// Appends `text` with its characters and grapheme clusters replaced.
ITG_MUST_USE itg_status itg_charsmap_apply(const itg_charsmap *map, itg_span text, itg_diagnostic *diagnostic,
                                           itg_text *out);

#endif
