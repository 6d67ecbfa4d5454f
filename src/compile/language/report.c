// The accuracy record of a language model and the report of its compile, as JSON (docs/FORMATS.md).
#include <math.h>

#include <jansson.h>

#include "compile/language/run.h"

static bool set(json_t *object, const char *name, json_t *value) {
  return json_object_set_new(object, name, value) == 0;
}
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static json_t *count(size_t value) { return json_integer((json_int_t)value); }

static json_t *accuracy(const itg_language_result *result) {
  const itg_language_accuracy *a = &result->accuracy;
  json_t *object = json_object();
  bool ok = object && set(object, "tokens", count(a->tokens)) &&
            set(object, "float_perplexity", number(a->float_perplexity)) &&
            set(object, "integer_perplexity", number(a->integer_perplexity)) &&
            set(object, "perplexity_ratio", number(a->perplexity_ratio)) &&
            set(object, "divergence_mean", number(a->divergence_mean)) &&
            set(object, "divergence_999", number(a->divergence_999)) &&
            set(object, "top1_agreement", number(a->top1_agreement));
  if (ok && a->image_tokens)
    ok = set(object, "image_tokens", count(a->image_tokens)) &&
         set(object, "image_cosine_mean", number(a->image_cosine_mean)) &&
         set(object, "image_cosine_low", number(a->image_cosine_low));
  if (ok) return object;
  json_decref(object);
  return NULL;
}

static json_t *record(const itg_language_run *run) {
  const itg_language_result *result = &run->result;
  json_t *root = json_object();
  const bool ok = root && set(root, "kind", json_string("language")) &&
                  set(root, "precision", json_string(run->recipe.precision)) &&
                  set(root, "judged_on_calibration", json_boolean(result->judged_on_calibration)) &&
                  set(root, "judge_samples", count(result->judge_count)) &&
                  set(root, "calibration_samples", count(result->calibration_count)) &&
                  set(root, "calibration_tokens", count(result->calibration_tokens)) &&
                  set(root, "collapsed", json_boolean(result->collapsed)) && set(root, "accuracy", accuracy(result));
  if (ok) return root;
  json_decref(root);
  return NULL;
}

char *itg_language_record_json(const itg_language_run *run) {
  json_t *root = record(run);
  char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  return text;
}

char *itg_language_report_json(const itg_language_run *run, const char *source, const char *compiled) {
  const itg_language_result *result = &run->result;
  json_t *root = record(run), *parts = json_array();
  bool ok = root && parts;
  for (size_t i = 0; ok && i < result->part_count; i++) {
    json_t *part = json_object();
    ok = part && set(part, "role", json_string(result->parts[i].role)) &&
         set(part, "constant_bytes", count(result->parts[i].constant_bytes)) &&
         set(part, "compile_seconds", number(result->parts[i].compile_seconds));
    ok = json_array_append_new(parts, part) == 0 && ok;
  }
  json_t *source_name = json_string(source), *compiled_name = json_string(compiled); // NULL unless UTF-8.
  ok = ok && set(root, "command", json_string("compile")) && json_object_set(root, "parts", parts) == 0 &&
       set(root, "source", source_name ? source_name : json_null()) &&
       set(root, "compiled", compiled_name ? compiled_name : json_null()) &&
       set(root, "file_bytes", count(result->file_bytes)) &&
       set(root, "peak_memory_bytes", count(result->peak_memory_bytes)) &&
       set(root, "judge_seconds", number(result->judge_seconds)) &&
       set(root, "total_seconds", number(result->total_seconds));
  char *text = ok ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(parts);
  json_decref(root);
  return text;
}
