// .npy headers of any bytes: an error or an array inside the bytes.
#include <stddef.h>
#include <stdint.h>

#include "tensor/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  itg_npy npy;
  itg_diagnostic diagnostic;
  if (itg_npy_parse((itg_span){data, size}, "fuzz", &diagnostic, &npy) != ITG_OK) return 0;
  float values[64];
  const size_t count = npy.count < 64 ? npy.count : 64;
  if (itg_npy_floats(&npy, npy.count - count, count, &diagnostic, values) != ITG_OK) __builtin_trap();
  return 0;
}
