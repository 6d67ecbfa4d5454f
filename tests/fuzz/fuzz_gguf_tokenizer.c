// GGUF metadata: the tables, and the tokenizer in them.
#include <stdlib.h>

#include "tensor/gguf.h"
#include "text/gguf_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  itg_diagnostic diagnostic;
  itg_gguf gguf;
  if (itg_gguf_read((itg_span){data, size}, &diagnostic, &gguf) != ITG_OK) return 0;
  itg_text json = {0};
  itg_tokenizer *tokenizer = NULL;
  if (itg_gguf_tokenizer_to_json(&gguf, &diagnostic, &json) == ITG_OK &&
      itg_tokenizer_open((itg_span){json.data, json.size}, &diagnostic, &tokenizer) == ITG_OK) {
    itg_token_ids ids = {0};
    const uint8_t text[] = "a 12 b";
    if (itg_tokenizer_encode(tokenizer, (itg_span){text, sizeof text - 1}, NULL, &diagnostic, &ids) != ITG_OK) abort();
    itg_token_ids_free(&ids);
    itg_tokenizer_close(tokenizer);
  }
  itg_text_free(&json);
  itg_gguf_free(&gguf);
  return 0;
}
