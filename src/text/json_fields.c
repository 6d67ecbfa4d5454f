// Reading the objects of a tokenizer.json.
#include "text/json_fields.h"

#include "text/pattern.h"

static bool listed(const char *name, const char *allowed) {
  const size_t length = strlen(name);
  for (const char *at = allowed; *at;) {
    const size_t word = strcspn(at, " ");
    if (word == length && memcmp(at, name, length) == 0) return true;
    at += word + (at[word] == ' ');
  }
  return false;
}

itg_status itg_json_allow(const json_t *object, const char *where, const char *allowed, itg_diagnostic *diagnostic) {
  if (!json_is_object(object)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s is not an object", where);
  json_t *all = (json_t *)object;
  for (void *at = json_object_iter(all); at; at = json_object_iter_next(all, at))
    if (!listed(json_object_iter_key(at), allowed))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tokenizer.json", "%s has the unknown field \"%.80s\"", where,
               json_object_iter_key(at));
  return ITG_OK;
}

itg_status itg_json_bool(const json_t *object, const char *where, const char *name, itg_diagnostic *diagnostic,
                         bool *out) {
  const json_t *value = json_object_get(object, name);
  if (!value || json_is_null(value)) return ITG_OK;
  if (!json_is_boolean(value))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"%s\" is not true or false", where, name);
  *out = json_is_true(value);
  return ITG_OK;
}

itg_status itg_json_integer(const json_t *object, const char *where, const char *name, int64_t low, int64_t high,
                            itg_diagnostic *diagnostic, int64_t *out) {
  const json_t *value = json_object_get(object, name);
  if (!value || json_is_null(value)) return ITG_OK;
  if (!json_is_integer(value) || json_integer_value(value) < low || json_integer_value(value) > high)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"%s\" is not a whole number from %lld to %lld",
             where, name, (long long)low, (long long)high);
  *out = json_integer_value(value);
  return ITG_OK;
}

itg_status itg_json_string(const json_t *object, const char *where, const char *name, itg_diagnostic *diagnostic,
                           itg_span *out) {
  const json_t *value = json_object_get(object, name);
  if (!value || json_is_null(value)) return ITG_OK;
  if (!json_is_string(value))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"%s\" is not a string", where, name);
  *out = itg_json_span(value);
  return ITG_OK;
}

itg_status itg_json_need_string(const json_t *object, const char *where, const char *name, itg_diagnostic *diagnostic,
                                itg_span *out) {
  *out = (itg_span){0};
  ITG_TRY(itg_json_string(object, where, name, diagnostic, out));
  if (!out->data) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s lacks \"%s\"", where, name);
  return ITG_OK;
}

itg_status itg_json_need_array(const json_t *object, const char *where, const char *name, itg_diagnostic *diagnostic,
                               const json_t **out) {
  *out = json_object_get(object, name);
  if (!json_is_array(*out))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s: \"%s\" is missing or not a list", where, name);
  return ITG_OK;
}

itg_status itg_json_type(const json_t *object, const char *where, itg_diagnostic *diagnostic, const char **out) {
  itg_span type;
  if (!json_is_object(object)) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "%s is not an object", where);
  ITG_TRY(itg_json_need_string(object, where, "type", diagnostic, &type));
  *out = (const char *)type.data;
  return ITG_OK;
}

itg_status itg_json_pattern(const json_t *object, const char *where, itg_diagnostic *diagnostic,
                            struct itg_pattern **out) {
  itg_span source = {0};
  const json_t *pattern = json_object_get(object, "pattern");
  const bool literal = json_object_get(pattern, "String") != NULL;
  if (!pattern || json_object_size(pattern) != 1)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json",
             "%s: \"pattern\" is not {\"String\": ...} or {\"Regex\": ...}", where);
  ITG_TRY(itg_json_allow(pattern, where, "String Regex", diagnostic));
  ITG_TRY(itg_json_need_string(pattern, where, literal ? "String" : "Regex", diagnostic, &source));
  return itg_pattern_compile(source, literal, diagnostic, out);
}
