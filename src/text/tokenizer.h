// Tokenizers read from a Hugging Face tokenizer.json.
//
// A tokenizer is a chain of parts: added tokens are cut out first, the text between them is normalized, cut into pieces,
// each piece becomes tokens of the vocabulary (WordPiece, byte-pair encoding or Unigram), and special tokens are put
// around the result. Decoding runs a chain of its own. Ids equal those of the `tokenizers` library (the reference of the
// format) for text of characters that Unicode 14 knows. Component types and fields that are not known are refused by
// name, so that a tokenizer either works as meant or does not open.
#ifndef ITG_TEXT_TOKENIZER_H
#define ITG_TEXT_TOKENIZER_H

#include <stdbool.h>

#include "base/span.h"
#include "base/status.h"

// Limits: beyond them, opening or encoding fails with ITG_ERROR_LIMIT.
#define ITG_TOKENIZER_MAX_FILE ((size_t)64 << 20)
#define ITG_TOKENIZER_MAX_VOCABULARY 2000000 // Also of the greatest id.
#define ITG_TOKENIZER_MAX_TEXT ((size_t)16 << 20)

typedef struct itg_tokenizer itg_tokenizer; // Immutable after open: any number of threads may share it.

// A growable list of token ids; starts as zeroes. One thread at a time.
typedef struct itg_token_ids {
  int32_t *ids;
  size_t count, capacity;
} itg_token_ids;

// Growable UTF-8 bytes; starts as zeroes, not NUL-terminated. One thread at a time.
typedef struct itg_text {
  uint8_t *data;
  size_t size, capacity;
} itg_text;

void itg_token_ids_free(itg_token_ids *ids);
void itg_text_free(itg_text *text);

// Reads the bytes of a tokenizer.json, which need not outlive the call.
// Errors: FORMAT (not JSON, contradictory), VERSION, LIMIT, UNSUPPORTED (a component or field, by name), MEMORY.
ITG_MUST_USE itg_status itg_tokenizer_open(itg_span json, itg_diagnostic *diagnostic, itg_tokenizer **out);
// NULL is allowed.
void itg_tokenizer_close(itg_tokenizer *tokenizer);

typedef struct itg_encode_options {
  bool add_special;   // Put the special tokens of the model (such as [CLS] and [SEP]) around the text.
  size_t max_length;  // Keep at most so many ids, special ones included; 0: all.
  bool truncate_left; // Drop from the beginning of the text instead of its end.
} itg_encode_options;

// Appends the ids of `text` to `ids`. Bytes that are not UTF-8 count as U+FFFD, one for each maximal ill-formed part.
// `options` NULL: no special tokens, no truncation. On an error `ids` is as before.
// Errors: LIMIT (text longer than ITG_TOKENIZER_MAX_TEXT, a pattern that backtracks too much, special tokens that do not
// fit max_length), FORMAT (the vocabulary lacks a token for unknown text), MEMORY.
ITG_MUST_USE itg_status itg_tokenizer_encode(const itg_tokenizer *tokenizer, itg_span text,
                                             const itg_encode_options *options, itg_diagnostic *diagnostic,
                                             itg_token_ids *ids);

// Truncation and padding that the file asks for; zeroes where it asks for none. Encoding does not apply them by itself.
typedef struct itg_tokenizer_limits {
  size_t max_length; // Truncation.
  bool truncate_left;
  size_t pad_length;   // Pad to this length; 0: to the longest of a batch, when pad_multiple or has_padding.
  size_t pad_multiple; // Then up to a multiple of this; 0: none.
  bool has_padding, pad_left;
  int32_t pad_id;
} itg_tokenizer_limits;
const itg_tokenizer_limits *itg_tokenizer_stored_limits(const itg_tokenizer *tokenizer);
// Pads with `pad_id` up to `length` ids; longer lists stay as they are. Errors: MEMORY, LIMIT.
ITG_MUST_USE itg_status itg_token_ids_pad(itg_token_ids *ids, size_t length, int32_t pad_id, bool left,
                                          itg_diagnostic *diagnostic);

// Appends the text of `count` ids to `text`. Ids without a token are passed over, and so are special tokens when
// `skip_special`. The result is always UTF-8. On an error `text` is as before. Errors: MEMORY, LIMIT.
ITG_MUST_USE itg_status itg_tokenizer_decode(const itg_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                             bool skip_special, itg_diagnostic *diagnostic, itg_text *text);

// Decodes one id after the other; text is held back while its last character is incomplete. One thread at a time.
// What has come out in the end equals itg_tokenizer_decode of all ids, except that a byte-fallback run that turns out
// not to be UTF-8 becomes U+FFFD only from where it breaks.
typedef struct itg_stream_decoder itg_stream_decoder;
// `tokenizer` must outlive the decoder.
ITG_MUST_USE itg_status itg_stream_decoder_create(const itg_tokenizer *tokenizer, bool skip_special,
                                                  itg_diagnostic *diagnostic, itg_stream_decoder **out);
// Appends the text that is complete now to `text` (often nothing).
ITG_MUST_USE itg_status itg_stream_decoder_push(itg_stream_decoder *decoder, int32_t id, itg_diagnostic *diagnostic,
                                                itg_text *text);
// Appends what is held back, with U+FFFD for what is incomplete, and starts anew.
ITG_MUST_USE itg_status itg_stream_decoder_finish(itg_stream_decoder *decoder, itg_diagnostic *diagnostic,
                                                  itg_text *text);
// NULL is allowed.
void itg_stream_decoder_destroy(itg_stream_decoder *decoder);

// The id of a token as the file spells it (byte-level tokenizers: "\xC4\xA0the" for " the"), or -1.
int32_t itg_tokenizer_id_of_token(const itg_tokenizer *tokenizer, itg_span token);
// The token of an id; data is NULL when there is none. Lives as long as the tokenizer.
itg_span itg_tokenizer_token_of_id(const itg_tokenizer *tokenizer, int32_t id);
// One more than the greatest id, added tokens included.
size_t itg_tokenizer_vocabulary_size(const itg_tokenizer *tokenizer);
bool itg_tokenizer_is_special(const itg_tokenizer *tokenizer, int32_t id);

#endif
