// Parsing JSON from memory, with an error that also says something about an empty text. For rooms that use jansson.
#ifndef ITG_BASE_JSON_H
#define ITG_BASE_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "base/span.h"

// As json_loadb; NULL with `error` filled. `error` must not be NULL.
static inline json_t *itg_json_parse(itg_span text, size_t flags, json_error_t *error) {
  if (text.size > 0) return json_loadb((const char *)text.data, text.size, flags, error);
  *error = (json_error_t){.line = 1, .column = 1};
  snprintf(error->text, sizeof error->text, "it is empty");
  return NULL;
}

#endif
