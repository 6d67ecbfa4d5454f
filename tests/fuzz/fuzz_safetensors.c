// .safetensors of any bytes: an error, or weights inside the bytes.
#include <stddef.h>
#include <stdint.h>

#include "import/huggingface/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  itg_checkpoint checkpoint = {0};
  itg_diagnostic diagnostic;
  if (itg_safetensors_add(&checkpoint, (itg_span){data, size}, "fuzz", &diagnostic) == ITG_OK) {
    for (size_t i = 0; i < checkpoint.count; i++) {
      const itg_weight *weight = checkpoint.weights[i];
      float row[64];
      const int64_t columns = weight->shape.rank ? weight->shape.dims[weight->shape.rank - 1] : 1;
      if (weight->format == ITG_BLOCK_UNKNOWN || columns > 64) continue;
      const int64_t rows = itg_weight_rows(weight);
      if (columns > 0 && rows > 0) itg_weight_read(weight, rows - 1, 1, row);
    }
  }
  itg_checkpoint_free(&checkpoint);
  return 0;
}
