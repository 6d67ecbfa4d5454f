// Decoders of a tokenizer.json: they turn the spelling of tokens back into text.
#ifndef ITG_TEXT_DECODER_H
#define ITG_TEXT_DECODER_H

#include "text/json_fields.h"

struct itg_token_decoder;
// The decoders in order, sequences flattened. Starts as zeroes; immutable after reading.
typedef struct itg_token_decoders {
  struct itg_token_decoder *items;
  size_t count, capacity;
  bool present;    // Without a decoder, tokens are joined by spaces.
  bool byte_level; // Nothing but ByteLevel: every token stands for bytes of its own.
} itg_token_decoders;

// `json` is the field "decoder" (null: none). Errors: FORMAT, UNSUPPORTED, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_token_decoders_read(const json_t *json, itg_diagnostic *diagnostic,
                                                itg_token_decoders *out);
void itg_token_decoders_free(itg_token_decoders *decoders);
// The pieces are the tokens (empty ones count) and become the parts of the text. Errors: LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_token_decoders_apply(const itg_token_decoders *decoders, itg_pieces *pieces,
                                                 itg_diagnostic *diagnostic);
// Appends the bytes a token stands for at byte level (not necessarily UTF-8).
ITG_MUST_USE itg_status itg_byte_level_decode(itg_span token, itg_diagnostic *diagnostic, itg_text *out);

#endif
