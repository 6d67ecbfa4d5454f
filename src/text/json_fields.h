// Reading the objects of a tokenizer.json: unknown fields and wrong types are refused by name.
#ifndef ITG_TEXT_JSON_FIELDS_H
#define ITG_TEXT_JSON_FIELDS_H

#include <jansson.h>

#include "text/buffers.h"

// Fails unless `object` is an object whose fields are all in `allowed` (separated by spaces). `where` names it in
// messages ("normalizer Replace").
ITG_MUST_USE itg_status itg_json_allow(const json_t *object, const char *where, const char *allowed,
                                       itg_diagnostic *diagnostic);
// Absent or null: `*out` stays as it is.
ITG_MUST_USE itg_status itg_json_bool(const json_t *object, const char *where, const char *name,
                                      itg_diagnostic *diagnostic, bool *out);
ITG_MUST_USE itg_status itg_json_integer(const json_t *object, const char *where, const char *name, int64_t low,
                                         int64_t high, itg_diagnostic *diagnostic, int64_t *out);
// The span lives as long as the JSON value. Absent or null: `*out` stays as it is.
ITG_MUST_USE itg_status itg_json_string(const json_t *object, const char *where, const char *name,
                                        itg_diagnostic *diagnostic, itg_span *out);
// The same, but it must be there.
ITG_MUST_USE itg_status itg_json_need_string(const json_t *object, const char *where, const char *name,
                                             itg_diagnostic *diagnostic, itg_span *out);
ITG_MUST_USE itg_status itg_json_need_array(const json_t *object, const char *where, const char *name,
                                            itg_diagnostic *diagnostic, const json_t **out);
// The field "type" of a component.
ITG_MUST_USE itg_status itg_json_type(const json_t *object, const char *where, itg_diagnostic *diagnostic,
                                      const char **out);
static inline itg_span itg_json_span(const json_t *string) {
  return (itg_span){(const uint8_t *)json_string_value(string), json_string_length(string)};
}
// A component's pattern: {"String": "..."} or {"Regex": "..."}.
struct itg_pattern;
ITG_MUST_USE itg_status itg_json_pattern(const json_t *object, const char *where, itg_diagnostic *diagnostic,
                                         struct itg_pattern **out);

#endif
