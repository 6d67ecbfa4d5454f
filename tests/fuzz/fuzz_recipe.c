// Any bytes as a recipe: refused, or written and read again to the same text.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  itg_recipe recipe, again;
  itg_diagnostic why;
  if (itg_recipe_parse((itg_span){data, size}, &why, &recipe) != ITG_OK) return 0;
  char *text = itg_recipe_to_json(&recipe);
  if (text) {
    if (itg_recipe_parse((itg_span){(const uint8_t *)text, strlen(text)}, &why, &again) != ITG_OK) abort();
    char *second = itg_recipe_to_json(&again);
    if (second && strcmp(text, second) != 0) abort();
    free(second);
    itg_recipe_free(&again);
  }
  free(text);
  itg_recipe_free(&recipe);
  return 0;
}
