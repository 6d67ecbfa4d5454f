// preprocess_cfg.json of an OpenCLIP model, as Immich keeps it beside the visual encoder, as a description of our own.
//
// Immich's numbers: the longer side is (long / short) * size in double, cut to a whole number, and so is the corner of the
// crop. Keys: size (number, or [height, width]), mode ("RGB"), mean, std, interpolation, resize_mode, fill_color (of no
// effect in the modes that are known).
#include <jansson.h>
#include <string.h>

#include "image/preprocess.h"

static const char *method_of(const char *interpolation) {
  static const char *const names[][2] = {{"bicubic", "pillow-bicubic"},
                                         {"bilinear", "pillow-bilinear"},
                                         {"lanczos", "pillow-lanczos"},
                                         {"nearest", "pillow-nearest"},
                                         {"random", "pillow-bicubic"}}; // Chosen at random in training only.
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i][0], interpolation) == 0) return names[i][1];
  return NULL;
}

static const char *text_of(json_t *object, const char *key, const char *fallback) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : fallback;
}

bool itg_preprocess_is_clip_config(json_t *root) {
  return json_is_object(root) && !json_object_get(root, "resize") &&
         (json_object_get(root, "interpolation") || json_object_get(root, "resize_mode"));
}

itg_status itg_preprocess_from_clip_config(json_t *config, const char *subject, itg_diagnostic *diagnostic,
                                           json_t **out) {
  const char *interpolation = text_of(config, "interpolation", "bicubic");
  const char *mode = text_of(config, "resize_mode", "shortest"), *channels = text_of(config, "mode", "RGB");
  const char *method = method_of(interpolation);
  const bool squash = strcmp(mode, "squash") == 0;
  if (!method) ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, subject, "interpolation \"%.40s\"", interpolation);
  if (!squash && strcmp(mode, "shortest") != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, subject, "resize_mode \"%.40s\"; shortest and squash are known", mode);
  if (strcmp(channels, "RGB") != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, subject, "mode \"%.40s\"; RGB is known", channels);
  json_t *size = json_object_get(config, "size"), *mean = json_object_get(config, "mean");
  json_t *deviation = json_object_get(config, "std");
  if (!size || !mean || !deviation)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "\"size\", \"mean\" or \"std\" is missing");
  json_t *sides = json_is_array(size) ? json_incref(size) : json_pack("[OO]", size, size);
  json_t *resize =
      squash ? json_pack("{ssss}", "rule", "squash", "method", method)
             : json_pack("{ssssss}", "rule", "shortest-center-crop", "method", method, "rounding", "truncate");
  // Takes the two references also when it fails.
  *out = json_pack("{sosisOsOso}", "size", sides, "divide_by", 255, "mean", mean, "std", deviation, "resize", resize);
  ITG_TRY_MEMORY(*out, diagnostic);
  return ITG_OK;
}
