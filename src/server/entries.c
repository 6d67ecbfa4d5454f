// See entries.h.
#include "server/entries.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { MAX_ENTRIES_BYTES = 64 << 10 };

static const char invalid[] = "Invalid request format.";

// Default of "minScore" where the request has none, as in Immich's service.
static double default_score(itg_service_kind kind) {
  switch (kind) {
  case ITG_SERVICE_FACE_DETECTION: return 0.7;
  case ITG_SERVICE_OCR_DETECTION: return 0.5;
  case ITG_SERVICE_OCR_RECOGNITION: return 0.9;
  default: return 0;
  }
}

itg_service_kind itg_entry_needs(itg_service_kind kind) {
  if (kind == ITG_SERVICE_FACE_RECOGNITION) return ITG_SERVICE_FACE_DETECTION;
  if (kind == ITG_SERVICE_OCR_RECOGNITION) return ITG_SERVICE_OCR_DETECTION;
  return ITG_SERVICE_KIND_COUNT;
}

static itg_service_kind find_kind(const char *task, const char *type) {
  for (itg_service_kind kind = 0; kind < ITG_SERVICE_KIND_COUNT; kind++)
    if (strcmp(itg_service_task(kind), task) == 0 && strcmp(itg_service_type(kind), type) == 0) return kind;
  return ITG_SERVICE_KIND_COUNT;
}

static bool read_options(const json_t *options, itg_entry *entry) {
  if (!options || json_is_null(options)) return true;
  if (!json_is_object(options)) return false;
  const json_t *score = json_object_get(options, "minScore"), *size = json_object_get(options, "maxResolution");
  const json_t *mode = json_object_get(options, "scoreMode"), *language = json_object_get(options, "language");
  if (score && !json_is_null(score)) {
    if (!json_is_number(score) || !isfinite(json_number_value(score))) return false;
    entry->min_score = json_number_value(score);
  }
  if (size && !json_is_null(size)) {
    if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > 65536) return false;
    entry->max_resolution = (int32_t)json_integer_value(size);
  }
  if (mode && !json_is_null(mode)) {
    const char *word = json_string_value(mode);
    if (!word || (strcmp(word, "fast") != 0 && strcmp(word, "slow") != 0)) return false;
    entry->slow_score = strcmp(word, "slow") == 0;
  }
  // Servers have sent languages that are missing, empty or of another type; a text then counts as English.
  if (json_is_string(language) && json_string_length(language) < ITG_LANGUAGE)
    snprintf(entry->language, ITG_LANGUAGE, "%s", json_string_value(language));
  return true;
}

static bool read_entry(const json_t *value, itg_service_kind kind, itg_entry *entry) {
  const json_t *name = json_object_get(value, "modelName");
  const size_t length = json_string_length(name);
  if (!json_is_string(name) || length == 0 || length >= ITG_MODEL_NAME || strlen(json_string_value(name)) != length)
    return false;
  *entry = (itg_entry){.wanted = true, .min_score = default_score(kind), .max_resolution = 736};
  memcpy(entry->model, json_string_value(name), length + 1);
  return read_options(json_object_get(value, "options"), entry);
}

static bool read_tasks(json_t *root, itg_entries *out) {
  const char *task, *type;
  json_t *types, *value;
  if (!json_is_object(root)) return false;
  json_object_foreach(root, task, types) {
    if (!json_is_object(types)) return false;
    bool first = true;
    json_object_foreach(types, type, value) {
      const itg_service_kind kind = find_kind(task, type);
      if (kind == ITG_SERVICE_KIND_COUNT || !read_entry(value, kind, &out->of[kind])) return false;
      if (first) out->task_order[out->task_count++] = kind;
      first = false;
    }
  }
  return true;
}

int itg_entries_parse(itg_span json, itg_immich_version version, char detail[ITG_DETAIL], itg_entries *out) {
  *out = (itg_entries){0};
  json_error_t error = {0};
  json_t *root = json.size <= MAX_ENTRIES_BYTES ? itg_json_parse(json, 0, &error) : NULL;
  const bool good = read_tasks(root, out);
  json_decref(root);
  if (!good && error.text[0] && itg_json_status(&error) == ITG_ERROR_MEMORY) {
    snprintf(detail, ITG_DETAIL, "out of memory");
    return 503;
  }
  if (!good) {
    snprintf(detail, ITG_DETAIL, "%s", invalid);
    return 422;
  }
  if (out->task_count == 0 && version == ITG_IMMICH_3) {
    snprintf(detail, ITG_DETAIL, "No model task requested.");
    return 422;
  }
  return 0;
}
