// Parsing JSON from memory, with an error that also says something about an empty text. For rooms that use jansson.
#ifndef ITG_BASE_JSON_H
#define ITG_BASE_JSON_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/span.h"
#include "base/status.h"

// As json_loadb; NULL with `error` filled. `error` must not be NULL.
static inline json_t *itg_json_parse(itg_span text, size_t flags, json_error_t *error) {
  json_t *root = text.size > 0 ? json_loadb((const char *)text.data, text.size, flags, error) : NULL;
  if (text.size == 0) {
    *error = (json_error_t){.line = 1, .column = 1};
    snprintf(error->text, sizeof error->text, "it is empty");
  } else if (!root && !error->text[0]) { // Jansson finds no words when it has no memory to begin with.
    snprintf(error->text, sizeof error->text, "out of memory");
  }
  return root;
}

// What went wrong when itg_json_parse returned NULL: MEMORY where jansson lets it be seen, else FORMAT.
static inline itg_status itg_json_status(const json_error_t *error) {
  return json_error_code(error) == json_error_out_of_memory || strcmp(error->text, "out of memory") == 0
             ? ITG_ERROR_MEMORY
             : ITG_ERROR_FORMAT;
}

#endif
