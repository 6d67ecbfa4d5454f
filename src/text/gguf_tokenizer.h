// The tokenizer inside a GGUF file as a tokenizer.json, so that one reader and one engine serve both.
//
// GGUF stores tokens, merges and the kind of each token; how text is cut before merging is only named
// (tokenizer.ggml.pre). The names of the supported families stand for the pre-tokenizers of their own tokenizer.json.
#ifndef ITG_TEXT_GGUF_TOKENIZER_H
#define ITG_TEXT_GGUF_TOKENIZER_H

#include "tensor/gguf.h"
#include "text/tokenizer.h"

// Appends the JSON to `out`. Errors: UNSUPPORTED (another model than byte-level BPE, or another pre-tokenizer, by name),
// FORMAT (metadata missing or of the wrong type, tokens or merges that are no UTF-8), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_gguf_tokenizer_to_json(const itg_gguf *gguf, itg_diagnostic *diagnostic, itg_text *out);

#endif
