// Parsing preprocessing descriptions (docs/FORMATS.md), and the built-in ones.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "image/preprocess.h"

enum { MAX_DESCRIPTION = 65536, MAX_INPUT_SIDE = 16384 };

static const struct {
  const char *name, *json;
} builtins[] = {
    {"imagenet",
     "{\"resize\": {\"rule\": \"shortest-center-crop\", \"method\": \"pillow-bilinear\", \"shortest\": 256}, "
     "\"size\": [224, 224], \"divide_by\": 255, \"mean\": [0.485, 0.456, 0.406], "
     "\"std\": [0.229, 0.224, 0.225]}"},
    {"clip", "{\"resize\": {\"rule\": \"shortest-center-crop\", \"method\": \"pillow-bicubic\"}, \"divide_by\": 255, "
             "\"mean\": [0.48145466, 0.4578275, 0.40821073], \"std\": [0.26862954, 0.26130258, 0.27577711]}"},
    {"siglip",
     "{\"resize\": {\"rule\": \"squash\", \"method\": \"pillow-bicubic\"}, \"divide_by\": 255, \"mean\": 0.5, "
     "\"std\": 0.5}"},
    {"arcface", "{\"resize\": {\"rule\": \"squash\", \"method\": \"opencv-linear\"}, \"size\": [112, 112], "
                "\"mean\": 127.5, \"std\": 127.5}"},
    {"scrfd", "{\"resize\": {\"rule\": \"letterbox\", \"method\": \"opencv-linear\", \"align\": \"top-left\"}, "
              "\"mean\": 127.5, \"std\": 128}"},
    {"faceplugin-embedder",
     "{\"channels\": \"BGR\", \"resize\": {\"rule\": \"squash\", \"method\": \"opencv-linear\"}, "
     "\"size\": [112, 112], \"mean\": 127, \"std\": 128}"},
    {"faceplugin-detector", "{\"resize\": {\"rule\": \"squash\", \"method\": \"opencv-linear\"}, \"size\": [240, 320], "
                            "\"mean\": 127, \"std\": 128}"},
    {"faceplugin-landmarks",
     "{\"channels\": \"grey\", \"resize\": {\"rule\": \"squash\", \"method\": \"opencv-linear\"}, "
     "\"size\": [64, 64], \"divide_by\": 256}"},
    {"ppocr-detection", "{\"channels\": \"BGR\", \"resize\": {\"rule\": \"letterbox\", \"method\": \"pillow-lanczos\", "
                        "\"align\": \"top-left\", \"fill\": 0}, \"mean\": 127.5, \"std\": 127.5}"},
    {"ppocr-recognition",
     "{\"channels\": \"BGR\", \"resize\": {\"rule\": \"fit-height\", \"method\": \"opencv-linear\", "
     "\"fill\": 127.5}, \"mean\": 127.5, \"std\": 127.5}"},
    {"yolo",
     "{\"resize\": {\"rule\": \"letterbox\", \"method\": \"opencv-linear\", \"fill\": 114}, \"divide_by\": 255}"},
    {"unit", "{\"resize\": {\"rule\": \"squash\", \"method\": \"pillow-bilinear\"}, \"divide_by\": 255}"},
    {"raw-255", "{\"resize\": {\"rule\": \"squash\", \"method\": \"pillow-bilinear\"}}"},
};

const char *itg_preprocess_builtin(const char *name) {
  for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++)
    if (strcmp(builtins[i].name, name) == 0) return builtins[i].json;
  return NULL;
}
const char *itg_preprocess_builtin_name(size_t index) {
  return index < sizeof builtins / sizeof builtins[0] ? builtins[index].name : NULL;
}

// What is being read, for messages.
typedef struct reader {
  const char *subject;
  itg_diagnostic *diagnostic;
} reader;

static itg_status check_keys(const reader *r, json_t *object, const char *where, const char *const *allowed) {
  if (!json_is_object(object)) ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "%s is not a JSON object", where);
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    bool known = false;
    for (size_t i = 0; allowed[i]; i++) known |= strcmp(allowed[i], key) == 0;
    if (!known) ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "%s has an unknown key \"%.60s\"", where, key);
  }
  return ITG_OK;
}

// Index of a string among `choices`; `fallback` when the key is absent.
static itg_status read_choice(const reader *r, json_t *object, const char *key, const char *const *choices,
                              int fallback, int *out) {
  json_t *value = json_object_get(object, key);
  if (!value) {
    *out = fallback;
    return ITG_OK;
  }
  const char *text = json_string_value(value);
  char list[256] = "";
  for (int i = 0; choices[i]; i++) {
    if (text && strcmp(text, choices[i]) == 0) {
      *out = i;
      return ITG_OK;
    }
    const size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s\"%s\"", i ? ", " : "", choices[i]);
  }
  ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"%s\" must be one of %s", key, list);
}

static itg_status read_number(const reader *r, json_t *object, const char *key, double low, double high,
                              double fallback, double *out) {
  json_t *value = json_object_get(object, key);
  const double number = value ? json_number_value(value) : fallback;
  if ((value && !json_is_number(value)) || !(number >= low && number <= high))
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"%s\" must be a number from %g to %g", key, low, high);
  *out = number;
  return ITG_OK;
}

// A number for all channels, or an array with one for each.
static itg_status read_channels(const reader *r, json_t *object, const char *key, int count, double fallback,
                                double out[3]) {
  json_t *value = json_object_get(object, key);
  const bool is_array = json_is_array(value);
  if (is_array && json_array_size(value) != (size_t)count)
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"%s\" must have %d numbers, one a channel", key, count);
  for (int c = 0; c < count; c++) {
    json_t *number = is_array ? json_array_get(value, (size_t)c) : value;
    if (number && !json_is_number(number))
      ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"%s\" must be a number or an array of %d", key, count);
    out[c] = number ? json_number_value(number) : fallback;
    if (!(fabs(out[c]) <= 1e6)) ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"%s\" is out of range", key);
  }
  return ITG_OK;
}

static itg_status read_integer(const reader *r, json_t *value, const char *key, int32_t *out) {
  const json_int_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < 1 || number > MAX_INPUT_SIDE)
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"%s\" must be whole numbers from 1 to %d", key,
             MAX_INPUT_SIDE);
  *out = (int32_t)number;
  return ITG_OK;
}

static itg_status read_resize(const reader *r, json_t *root, itg_preprocess *p, double *fill) {
  static const char *const keys[] = {"rule", "method", "shortest", "rounding", "align", "fill", NULL};
  static const char *const rules[] = {"none", "squash", "shortest-center-crop", "letterbox", "fit-height", NULL};
  static const char *const alignments[] = {"center", "top-left", NULL};
  static const char *const roundings[] = {"torchvision", "truncate", NULL};
  const char *methods[ITG_RESIZE_METHOD_COUNT + 1] = {NULL};
  for (int i = 0; i < ITG_RESIZE_METHOD_COUNT; i++) methods[i] = itg_resize_method_name((itg_resize_method)i);
  json_t *resize = json_object_get(root, "resize");
  if (!resize) ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"resize\" is missing");
  ITG_TRY(check_keys(r, resize, "\"resize\"", keys));
  int rule, method, alignment, rounding;
  ITG_TRY(read_choice(r, resize, "rule", rules, -1, &rule));
  if (rule < 0) ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"resize\" has no \"rule\"");
  ITG_TRY(read_choice(r, resize, "method", methods, -1, &method));
  if (method < 0 && rule != ITG_FIT_NONE)
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"resize\" has no \"method\"");
  ITG_TRY(read_choice(r, resize, "align", alignments, 0, &alignment));
  ITG_TRY(read_choice(r, resize, "rounding", roundings, 0, &rounding));
  ITG_TRY(read_number(r, resize, "fill", 0, 255, 0, fill));
  json_t *shortest = json_object_get(resize, "shortest");
  if (shortest) ITG_TRY(read_integer(r, shortest, "shortest", &p->shortest));
  if (((shortest || json_object_get(resize, "rounding")) && rule != ITG_FIT_SHORTEST_CENTER_CROP) ||
      (json_object_get(resize, "align") && rule != ITG_FIT_LETTERBOX) ||
      (json_object_get(resize, "fill") && rule != ITG_FIT_LETTERBOX && rule != ITG_FIT_HEIGHT))
    ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject,
             "\"shortest\" and \"rounding\" belong to shortest-center-crop, \"align\" to letterbox, \"fill\" to "
             "letterbox and "
             "fit-height");
  p->fit = (itg_fit)rule;
  p->method = method < 0 ? ITG_RESIZE_OPENCV_LINEAR : (itg_resize_method)method;
  p->top_left = alignment == 1;
  p->truncate = rounding == 1;
  return ITG_OK;
}

static itg_status read_description(const reader *r, json_t *root, itg_preprocess *p) {
  static const char *const keys[] = {"size", "layout", "channels", "resize", "divide_by", "mean", "std", NULL};
  static const char *const layouts[] = {"NCHW", "NHWC", NULL};
  static const char *const orders[] = {"RGB", "BGR", "grey", NULL};
  ITG_TRY(check_keys(r, root, "the description", keys));
  int layout, order;
  double fill = 0, divide_by = 1, mean[3], deviation[3];
  ITG_TRY(read_choice(r, root, "layout", layouts, 0, &layout));
  ITG_TRY(read_choice(r, root, "channels", orders, 0, &order));
  p->channels_last = layout == 1;
  p->blue_first = order == 1;
  p->grey = order == 2;
  json_t *size = json_object_get(root, "size");
  if (size) {
    if (!json_is_array(size) || json_array_size(size) != 2)
      ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"size\" must be [height, width]");
    ITG_TRY(read_integer(r, json_array_get(size, 0), "size", &p->height));
    ITG_TRY(read_integer(r, json_array_get(size, 1), "size", &p->width));
  }
  ITG_TRY(read_resize(r, root, p, &fill));
  const int channels = p->grey ? 1 : 3;
  ITG_TRY(read_number(r, root, "divide_by", 1e-6, 1e6, 1, &divide_by));
  ITG_TRY(read_channels(r, root, "mean", channels, 0, mean));
  ITG_TRY(read_channels(r, root, "std", channels, 1, deviation));
  for (int c = 0; c < channels; c++) {
    if (deviation[c] < 1e-6) ITG_FAIL(r->diagnostic, ITG_ERROR_FORMAT, r->subject, "\"std\" must be above 0");
    for (int code = 0; code < 256; code++) p->values[c][code] = (float)((code / divide_by - mean[c]) / deviation[c]);
    p->fill[c] = (float)((fill / divide_by - mean[c]) / deviation[c]);
  }
  return ITG_OK;
}

itg_status itg_preprocess_parse(itg_span json, const char *subject, itg_diagnostic *diagnostic, itg_preprocess **out) {
  const reader r = {subject, diagnostic};
  if (json.size > MAX_DESCRIPTION)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "a preprocessing description of %zu bytes; at most %d are read",
             json.size, MAX_DESCRIPTION);
  json_error_t error;
  json_t *root = itg_json_parse(json, JSON_REJECT_DUPLICATES, &error);
  if (!root) ITG_FAIL(diagnostic, itg_json_status(&error), subject, "not JSON: %s (line %d)", error.text, error.line);
  if (itg_preprocess_is_clip_config(root)) {
    json_t *converted = NULL;
    const itg_status read = itg_preprocess_from_clip_config(root, subject, diagnostic, &converted);
    json_decref(root);
    ITG_TRY(read);
    root = converted;
  }
  itg_preprocess *p = calloc(1, sizeof *p);
  itg_status status = p ? ITG_OK : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (status == ITG_OK) status = read_description(&r, root, p);
  if (status == ITG_OK) {
    p->json = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
    if (!p->json) status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  }
  json_decref(root);
  if (status != ITG_OK) {
    itg_preprocess_close(p);
    return status;
  }
  *out = p;
  return ITG_OK;
}

itg_status itg_preprocess_from_json(const char *json, size_t size, itg_diagnostic *diagnostic, itg_preprocess **out) {
  return itg_preprocess_parse((itg_span){(const uint8_t *)json, size}, "preprocessing", diagnostic, out);
}

itg_status itg_preprocess_open(const char *name_or_path, itg_diagnostic *diagnostic, itg_preprocess **out) {
  const char *builtin = itg_preprocess_builtin(name_or_path);
  if (builtin)
    return itg_preprocess_parse((itg_span){(const uint8_t *)builtin, strlen(builtin)}, name_or_path, diagnostic, out);
  if (!strchr(name_or_path, '/') && !strchr(name_or_path, '.')) {
    char list[256] = "";
    for (size_t i = 0; itg_preprocess_builtin_name(i); i++) {
      const size_t used = strlen(list);
      snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", itg_preprocess_builtin_name(i));
    }
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name_or_path,
             "no built-in preprocessing of this name; there are %s; or give the path of a .json file", list);
  }
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(name_or_path, diagnostic, &file));
  const itg_status status = itg_preprocess_parse(file.bytes, name_or_path, diagnostic, out);
  itg_mapped_file_close(&file);
  return status;
}

void itg_preprocess_close(itg_preprocess *preprocess) {
  if (!preprocess) return;
  free(preprocess->json);
  free(preprocess);
}

const char *itg_preprocess_json(const itg_preprocess *preprocess) { return preprocess->json; }
