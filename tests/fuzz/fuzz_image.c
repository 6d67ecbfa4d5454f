// Images of any bytes: an error or pixels. Decoded pictures also go through every resize method.
#include <stddef.h>
#include <stdint.h>

#include "intaglio/pipelines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const itg_image_limits limits = {1 << 16, 1 << 20};
  itg_image image = {0}, resized = {0};
  itg_diagnostic diagnostic;
  if (itg_image_decode(data, size, &limits, &diagnostic, &image) != ITG_OK) return 0;
  if (image.channels != 3 || (int64_t)image.width * image.height > limits.max_pixels) __builtin_trap();
  const int side = 1 + data[size / 2] % 40, other = 1 + data[size / 3] % 40;
  for (int method = 0; method < ITG_RESIZE_METHOD_COUNT; method++) {
    if (itg_image_resize(&image, (itg_resize_method)method, side, other, &diagnostic, &resized) != ITG_OK)
      __builtin_trap();
    itg_image_free(&resized);
  }
  itg_image_free(&image);
  return 0;
}
