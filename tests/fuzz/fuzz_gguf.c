// GGUF tables of any bytes: an error, or values inside the bytes.
#include <stddef.h>
#include <stdint.h>

#include "tensor/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  itg_gguf gguf;
  itg_diagnostic diagnostic;
  if (itg_gguf_read((itg_span){data, size}, &diagnostic, &gguf) != ITG_OK) return 0;
  uint64_t sum = 0;
  for (size_t i = 0; i < gguf.key_count; i++) {
    const itg_gguf_value *value = itg_map_get(&gguf.values, (const char *)gguf.keys[i].data, gguf.keys[i].size);
    double number;
    if (!value) __builtin_trap();
    if (itg_gguf_number(value, value->count - 1, &number)) sum++;
    for (uint64_t t = 0; value->texts && t < value->count; t++) {
      if (value->texts[t].size) sum += value->texts[t].data[value->texts[t].size - 1];
    }
  }
  itg_gguf_free(&gguf);
  return sum == UINT64_MAX; // Keeps the reads.
}
