// Inside of a preprocessing description. The format is written in docs/FORMATS.md.
#ifndef ITG_IMAGE_PREPROCESS_H
#define ITG_IMAGE_PREPROCESS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/span.h"
#include "image/image.h"

typedef enum itg_fit {
  ITG_FIT_NONE,                 // The picture has the network's size already.
  ITG_FIT_SQUASH,               // To the size, whatever the proportions.
  ITG_FIT_SHORTEST_CENTER_CROP, // The shorter side to `shortest`, then the middle.
  ITG_FIT_LETTERBOX,            // The whole picture inside, the rest filled.
  ITG_FIT_HEIGHT,               // To the height, the rest at the right filled; wider pictures are squashed.
} itg_fit;

struct itg_preprocess {
  char *json; // Owned.
  bool channels_last;
  bool grey, blue_first;
  itg_fit fit;
  itg_resize_method method;
  int32_t height, width; // 0: those of the network.
  int32_t shortest;      // 0: the shorter side of the network's input.
  bool top_left;         // Letterbox: where the picture goes.
  bool truncate;         // Center crop: whole numbers by truncation, as Immich computes them.
  float values[3][256];  // Of a pixel's code, by channel of the network.
  float fill[3];
};

// Reads a description. `subject` names it in messages. Errors: FORMAT (not JSON, unknown key, wrong type or range), MEMORY.
ITG_MUST_USE itg_status itg_preprocess_parse(itg_span json, const char *subject, itg_diagnostic *diagnostic,
                                             itg_preprocess **out);
// Values become the pixels themselves, in the order [1,H,W,C]: for networks that normalize by themselves.
void itg_preprocess_keep_pixels(itg_preprocess *preprocess);
// Whether a JSON value looks like OpenCLIP's preprocess_cfg.json, and a description of ours that does the same (a new
// reference). Errors: FORMAT, UNSUPPORTED (a mode that is not known), MEMORY.
bool itg_preprocess_is_clip_config(json_t *root);
ITG_MUST_USE itg_status itg_preprocess_from_clip_config(json_t *config, const char *subject, itg_diagnostic *diagnostic,
                                                        json_t **out);
// The JSON text of a built-in description, or NULL.
const char *itg_preprocess_builtin(const char *name);

#endif
