// The free texts of an ONNX model (ModelProto.metadata_props), such as the characters a text recognizer knows, as JSON.
#include "import/onnx/metadata.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1 << 20 };

static itg_status read_entry(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic, json_t *object) {
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  itg_span key = {0}, value = {0};
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    if (field.number != 1 && field.number != 2) continue;
    ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "metadata entry", diagnostic));
    *(field.number == 1 ? &key : &value) = field.bytes;
  }
  if (key.size == 0 || key.size > MAX_TEXT || value.size > MAX_TEXT || memchr(key.data, 0, key.size)) return ITG_OK;
  json_t *text = json_stringn(value.size ? (const char *)value.data : "", value.size); // NULL unless UTF-8.
  char *name = strndup((const char *)key.data, key.size);
  if (name && text) json_object_set(object, name, text);
  free(name);
  json_decref(text);
  return ITG_OK;
}

itg_status itg_onnx_metadata_json(const itg_onnx_spans *entries, const uint8_t *file, itg_arena *arena,
                                  itg_diagnostic *diagnostic, const char **out) {
  *out = NULL;
  if (entries->count == 0) return ITG_OK;
  json_t *object = json_object();
  itg_status status = ITG_OK;
  for (size_t i = 0; i < entries->count && status == ITG_OK; i++)
    status = read_entry(entries->items[i], file, diagnostic, object);
  char *text = status == ITG_OK ? json_dumps(object, JSON_COMPACT) : NULL;
  json_decref(object);
  ITG_TRY(status);
  if (text) *out = itg_arena_string(arena, text, strlen(text));
  free(text);
  ITG_TRY_MEMORY(*out, diagnostic);
  return ITG_OK;
}
