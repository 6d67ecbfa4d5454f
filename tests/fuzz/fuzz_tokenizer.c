// Any bytes as a tokenizer.json: refused, or ids within the vocabulary and decoded text that is UTF-8. The text encoded
// is the file itself, cut short, after a line of many scripts.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_utf8(const itg_text *text) {
  for (size_t at = 0; at < text->size;) {
    const int part = itg_utf8_part(text->data + at, text->size - at);
    if (part <= 0) abort();
    at += (size_t)part;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char line[] =
      " The cafe\xCC\x81's 12,5 \xC3\x89t\xC3\xA9\xE2\x80\x99 \xED\x95\x9C \xE4\xB8\xAD\xE6\x96\x87 "
      "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB\n\t ab abab low <s>\xFF[CLS]";
  itg_tokenizer *tokenizer = NULL;
  itg_diagnostic why;
  if (itg_tokenizer_open((itg_span){data, size}, &why, &tokenizer) != ITG_OK) return 0;
  uint8_t bytes[sizeof line + 256];
  const size_t tail = size < 256 ? size : 256;
  memcpy(bytes, line, sizeof line);
  memcpy(bytes + sizeof line, data + size - tail, tail);
  itg_token_ids ids = {0};
  itg_text text = {0}, streamed = {0};
  itg_stream_decoder *decoder = NULL;
  const itg_encode_options options = {
      .add_special = size % 2, .max_length = size % 5 ? 0 : size % 64, .truncate_left = size % 3};
  if (itg_tokenizer_encode(tokenizer, (itg_span){bytes, sizeof line + tail}, &options, &why, &ids) == ITG_OK) {
    if (options.max_length && ids.count > options.max_length) abort();
    if (itg_tokenizer_decode(tokenizer, ids.ids, ids.count, size % 7 == 0, &why, &text) == ITG_OK) check_utf8(&text);
    if (itg_stream_decoder_create(tokenizer, false, &why, &decoder) == ITG_OK) {
      itg_status status = ITG_OK;
      for (size_t i = 0; status == ITG_OK && i < ids.count && i < 200; i++)
        status = itg_stream_decoder_push(decoder, ids.ids[i], &why, &streamed);
      if (status == ITG_OK && itg_stream_decoder_finish(decoder, &why, &streamed) == ITG_OK) check_utf8(&streamed);
    }
  }
  itg_stream_decoder_destroy(decoder);
  itg_token_ids_free(&ids);
  itg_text_free(&text);
  itg_text_free(&streamed);
  itg_tokenizer_close(tokenizer);
  return 0;
}
