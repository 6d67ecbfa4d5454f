// Preprocessing descriptions of any bytes, applied to small pictures of every proportion.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "intaglio/pipelines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t pixels[64 * 3];
  static float out[3 * 16 * 24];
  itg_preprocess *preprocess = NULL;
  itg_diagnostic diagnostic;
  if (itg_preprocess_from_json((const char *)data, size, &diagnostic, &preprocess) != ITG_OK) return 0;
  const char *text = itg_preprocess_json(preprocess);
  itg_preprocess *again = NULL;
  if (itg_preprocess_from_json(text, strlen(text), &diagnostic, &again) != ITG_OK) __builtin_trap();
  itg_preprocess_close(again);
  for (int i = 0; i < 8; i++) {
    const itg_image image = {1 << i % 4, 8 >> i / 2, i % 2 ? 3 : 1, pixels};
    const itg_shape first = {4, {1, i % 3 ? 3 : 1, 16, 24}}, last = {4, {1, 16, 24, i % 3 ? 3 : 1}};
    const itg_status a = itg_preprocess_run(preprocess, &image, &first, &diagnostic, out);
    const itg_status b = itg_preprocess_run(preprocess, &image, &last, &diagnostic, out);
    if (a == ITG_OK && b == ITG_OK) __builtin_trap(); // One layout only.
  }
  itg_preprocess_close(preprocess);
  return 0;
}
