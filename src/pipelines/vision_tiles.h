// From a picture to what the encoder of a vision-language model takes, and to the text that stands for it in a prompt.
//
// IDEFICS3 (SmolVLM): Lanczos to the longest edge, then up to whole tiles, cut, and the whole picture squashed to one tile
// last. INTERNVL: bicubic to the grid whose proportions are nearest, cut, and a thumbnail last. Both as the models' own
// processors do it, with Pillow's resampler. Pure functions.
#ifndef ITG_PIPELINES_VISION_TILES_H
#define ITG_PIPELINES_VISION_TILES_H

#include "intaglio/pipelines.h"
#include "text/language_config.h"
#include "text/tokenizer.h"

enum { ITG_VISION_MAX_TILES = 256 }; // Of one picture.

typedef struct itg_vision_tiles {
  int32_t rows, columns; // Of the grid that was cut; 0: the picture is one tile.
  size_t count;          // Tiles, the whole picture included.
  int32_t side;          // Pixels of a tile's side.
  uint8_t *pixels;       // [count, side, side, 3]; malloc'ed.
} itg_vision_tiles;

// `split` false: one tile, whatever the model's processor would do by itself (then the same as `vision->split` false).
// Errors: ARGUMENT (the image), LIMIT (more than ITG_VISION_MAX_TILES), MEMORY.
ITG_MUST_USE itg_status itg_vision_tiles_make(const itg_vision_config *vision, const itg_image *image, bool split,
                                              itg_diagnostic *diagnostic, itg_vision_tiles *out);
void itg_vision_tiles_free(itg_vision_tiles *tiles); // Leaves an empty value.
// The normalised values of tile `index`, [3, side, side].
void itg_vision_tile_values(const itg_vision_config *vision, const itg_vision_tiles *tiles, size_t index, float *out);

// Appends `prompt` to `text` with the image_index-th placeholder ("<image>" or "<IMG_CONTEXT>") replaced by the tokens of
// tiles[image_index]. Errors: ARGUMENT (placeholders and pictures differ in number), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_vision_expand_prompt(const itg_vision_config *vision, itg_span prompt,
                                                 const itg_vision_tiles *tiles, size_t tile_count,
                                                 itg_diagnostic *diagnostic, itg_text *text);

#endif
