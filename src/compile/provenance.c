// See provenance.h.
#include "compile/provenance.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file.h"
#include "intaglio/intaglio.h"

static json_t *hash_text(uint64_t hash) {
  char text[32];
  snprintf(text, sizeof text, "xxh3:%016" PRIx64, hash);
  return json_string(text);
}

char *itg_provenance_json(const itg_provenance *provenance) {
  json_t *root = json_object(), *source = json_object(), *calibration = json_object();
  json_object_set_new(root, "tool", json_string("intaglio " ITG_VERSION));
  json_t *name = json_string(provenance->source_name);
  json_object_set_new(source, "name", name ? name : json_string("(not UTF-8)"));
  json_object_set_new(source, "hash", hash_text(provenance->source_hash));
  json_object_set_new(source, "bytes", json_integer((json_int_t)provenance->source_bytes));
  json_object_set_new(root, "source", source);
  json_object_set_new(root, "precision", json_string(provenance->precision));
  if (provenance->target) json_object_set_new(root, "target", json_string(provenance->target));
  json_t *recipe = provenance->recipe_json ? json_loads(provenance->recipe_json, 0, NULL) : NULL;
  if (recipe) json_object_set_new(root, "recipe", recipe);
  json_object_set_new(calibration, "samples", json_integer((json_int_t)provenance->calibration_count));
  json_object_set_new(calibration, "hash", hash_text(provenance->calibration_hash));
  json_object_set_new(root, "calibration", calibration);
  char *result = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  return result;
}

static itg_status read_recipe(const json_t *recipe, itg_diagnostic *diagnostic, itg_recipe *out) {
  char *text = json_is_object(recipe) ? json_dumps(recipe, JSON_COMPACT) : NULL;
  if (!text) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "provenance", "the file does not say by which recipe it was made");
  const itg_status status = itg_recipe_parse((itg_span){(const uint8_t *)text, strlen(text)}, diagnostic, out);
  free(text);
  return status;
}

itg_status itg_provenance_read(const char *text, size_t size, itg_diagnostic *diagnostic, itg_recipe *recipe,
                               const itg_target **target) {
  json_t *root = text ? json_loadb(text, size, 0, NULL) : NULL;
  itg_recipe result = {0};
  itg_status status = read_recipe(json_object_get(root, "recipe"), diagnostic, &result);
  const json_t *name = json_object_get(root, "target");
  *target = NULL;
  if (status == ITG_OK && json_is_string(name)) status = itg_target_find(json_string_value(name), diagnostic, target);
  json_decref(root);
  if (status != ITG_OK) {
    itg_recipe_free(&result);
    return status;
  }
  *recipe = result;
  return ITG_OK;
}

itg_status itg_hash_file(const char *path, itg_diagnostic *diagnostic, size_t *size, uint64_t *hash) {
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  *size = file.bytes.size;
  *hash = XXH3_64bits(file.bytes.data, file.bytes.size);
  itg_mapped_file_close(&file);
  return ITG_OK;
}
