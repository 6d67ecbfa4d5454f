// config.json of any bytes: an error, or a description that passes its own check and its own JSON.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "import/huggingface/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  itg_language_config config, back;
  itg_diagnostic diagnostic;
  if (itg_language_config_parse((itg_span){data, size}, &diagnostic, &back) == ITG_OK &&
      itg_language_config_check(&back, &diagnostic) != ITG_OK)
    __builtin_trap();
  if (itg_huggingface_config((itg_span){data, size}, (itg_span){0}, &diagnostic, &config) != ITG_OK) return 0;
  char *json = itg_language_config_to_json(&config);
  if (!json || itg_language_config_parse((itg_span){(uint8_t *)json, strlen(json)}, &diagnostic, &back) != ITG_OK)
    __builtin_trap();
  free(json);
  return 0;
}
