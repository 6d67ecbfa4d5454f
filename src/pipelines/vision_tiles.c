// Pictures for vision-language models. See vision_tiles.h.
#include "pipelines/vision_tiles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "image/image.h"
#include "text/buffers.h"

void itg_vision_tiles_free(itg_vision_tiles *tiles) {
  free(tiles->pixels);
  *tiles = (itg_vision_tiles){0};
}

static itg_status allocate(itg_vision_tiles *tiles, itg_diagnostic *diagnostic) {
  const size_t side = (size_t)tiles->side;
  if (tiles->count > ITG_VISION_MAX_TILES)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "the picture becomes %zu tiles; at most %d are allowed", tiles->count,
             ITG_VISION_MAX_TILES);
  tiles->pixels = malloc(tiles->count * side * side * 3);
  ITG_TRY_MEMORY(tiles->pixels, diagnostic);
  return ITG_OK;
}

// Resizes into tile `index` (the picture squashed).
static itg_status squash(itg_image_view picture, itg_resize_method method, itg_vision_tiles *tiles, size_t index,
                         itg_diagnostic *diagnostic) {
  const size_t size = (size_t)tiles->side * (size_t)tiles->side * 3;
  itg_image whole;
  ITG_TRY(itg_image_view_resize(picture, method, tiles->side, tiles->side, diagnostic, &whole));
  memcpy(tiles->pixels + index * size, whole.pixels, size);
  itg_image_free(&whole);
  return ITG_OK;
}

// Cuts rows x columns tiles, row by row, out of a picture of exactly that size.
static void cut(const itg_image *picture, itg_vision_tiles *tiles) {
  const size_t side = (size_t)tiles->side, row_bytes = side * 3, pitch = (size_t)picture->width * 3;
  uint8_t *out = tiles->pixels;
  for (size_t r = 0; r < (size_t)tiles->rows; r++) {
    for (size_t c = 0; c < (size_t)tiles->columns; c++) {
      const uint8_t *from = picture->pixels + r * side * pitch + c * row_bytes;
      for (size_t y = 0; y < side; y++, out += row_bytes) memcpy(out, from + y * pitch, row_bytes);
    }
  }
}

typedef struct size {
  int64_t width, height;
} size;

// The longer edge becomes `longest`; the other keeps the proportions, cut to a whole and then made even.
static size fit_longest(size picture, int64_t longest) {
  const double aspect = (double)picture.width / (double)picture.height;
  size fitted = {longest, longest};
  if (picture.width >= picture.height)
    fitted.height = (int64_t)((double)longest / aspect);
  else
    fitted.width = (int64_t)((double)longest * aspect);
  fitted.height += fitted.height & 1;
  fitted.width += fitted.width & 1;
  fitted.height = itg_max_i64(fitted.height, 1);
  fitted.width = itg_max_i64(fitted.width, 1);
  return fitted;
}

static int64_t whole_tiles(int64_t length, int64_t side) { return (length + side - 1) / side * side; }

static size fit_tiles(size picture, int64_t side) {
  const double aspect = (double)picture.width / (double)picture.height;
  size fitted;
  if (picture.width >= picture.height) {
    fitted.width = whole_tiles(picture.width, side);
    fitted.height = whole_tiles((int64_t)((double)fitted.width / aspect), side);
  } else {
    fitted.height = whole_tiles(picture.height, side);
    fitted.width = whole_tiles((int64_t)((double)fitted.height * aspect), side);
  }
  return fitted;
}

static itg_status make_idefics3(const itg_vision_config *vision, const itg_image *image, bool split,
                                itg_diagnostic *diagnostic, itg_vision_tiles *tiles) {
  const itg_resize_method lanczos = ITG_RESIZE_PILLOW_LANCZOS;
  const size fitted = fit_longest((size){image->width, image->height}, vision->maximum_edge);
  const size grid = fit_tiles(fitted, tiles->side);
  itg_image small = {0}, cuttable = {0};
  ITG_TRY(itg_image_view_resize(itg_image_view_of(image), lanczos, (int32_t)fitted.width, (int32_t)fitted.height,
                                diagnostic, &small));
  itg_status status = ITG_OK;
  const itg_image *whole = &small;
  tiles->count = 1;
  if (split) {
    status = itg_image_view_resize(itg_image_view_of(&small), lanczos, (int32_t)grid.width, (int32_t)grid.height,
                                   diagnostic, &cuttable);
    whole = &cuttable;
    if (grid.width > tiles->side || grid.height > tiles->side) {
      tiles->rows = (int32_t)(grid.height / tiles->side);
      tiles->columns = (int32_t)(grid.width / tiles->side);
      tiles->count = (size_t)tiles->rows * (size_t)tiles->columns + 1;
    }
  }
  if (status == ITG_OK) status = allocate(tiles, diagnostic);
  if (status == ITG_OK && tiles->rows) cut(&cuttable, tiles);
  if (status == ITG_OK) status = squash(itg_image_view_of(whole), lanczos, tiles, tiles->count - 1, diagnostic);
  itg_image_free(&small);
  itg_image_free(&cuttable);
  return status;
}

// The grid of at most `most` tiles whose proportions are nearest. Grids are tried from small to large, narrow ones first; of
// equally near ones the larger counts when the picture has more than half its pixels.
static void choose_grid(const itg_image *image, int32_t side, int32_t most, int32_t *columns, int32_t *rows) {
  const double aspect = (double)image->width / (double)image->height;
  const double area = (double)image->width * (double)image->height;
  double best = INFINITY;
  *columns = *rows = 1;
  for (int32_t tiles = 1; tiles <= most; tiles++) {
    for (int32_t width = 1; width <= tiles; width++) {
      if (tiles % width != 0) continue;
      const int32_t height = tiles / width;
      const double difference = fabs(aspect - (double)width / height);
      const bool tie = difference == best && area > 0.5 * side * side * tiles;
      if (!(difference < best) && !tie) continue;
      best = difference;
      *columns = width;
      *rows = height;
    }
  }
}

static itg_status make_internvl(const itg_vision_config *vision, const itg_image *image, bool split,
                                itg_diagnostic *diagnostic, itg_vision_tiles *tiles) {
  const itg_resize_method bicubic = ITG_RESIZE_PILLOW_BICUBIC;
  int32_t columns = 1, rows = 1;
  if (split) choose_grid(image, tiles->side, vision->maximum_tiles, &columns, &rows);
  tiles->count = (size_t)(columns * rows);
  if (tiles->count > 1) {
    tiles->columns = columns;
    tiles->rows = rows;
    tiles->count++;
  }
  ITG_TRY(allocate(tiles, diagnostic));
  if (tiles->rows) {
    itg_image cuttable;
    ITG_TRY(itg_image_view_resize(itg_image_view_of(image), bicubic, columns * tiles->side, rows * tiles->side,
                                  diagnostic, &cuttable));
    cut(&cuttable, tiles);
    itg_image_free(&cuttable);
  }
  return squash(itg_image_view_of(image), bicubic, tiles, tiles->count - 1, diagnostic);
}

itg_status itg_vision_tiles_make(const itg_vision_config *vision, const itg_image *image, bool split,
                                 itg_diagnostic *diagnostic, itg_vision_tiles *out) {
  ITG_TRY(itg_image_check(image, diagnostic));
  if (image->channels != 3) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the picture must have three channels");
  itg_vision_tiles tiles = {.side = vision->image_size};
  split = split && vision->split;
  const itg_status status = vision->family == ITG_VISION_INTERNVL
                                ? make_internvl(vision, image, split, diagnostic, &tiles)
                                : make_idefics3(vision, image, split, diagnostic, &tiles);
  if (status != ITG_OK) {
    itg_vision_tiles_free(&tiles);
    return status;
  }
  *out = tiles;
  return ITG_OK;
}

void itg_vision_tile_values(const itg_vision_config *vision, const itg_vision_tiles *tiles, size_t index, float *out) {
  static const double half[] = {0.5, 0.5, 0.5}, mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
  const bool internvl = vision->family == ITG_VISION_INTERNVL;
  const size_t count = (size_t)tiles->side * (size_t)tiles->side;
  const uint8_t *pixels = tiles->pixels + index * count * 3;
  for (int c = 0; c < 3; c++, out += count) {
    float values[256];
    for (int v = 0; v < 256; v++)
      values[v] = (float)((v / 255.0 - (internvl ? mean : half)[c]) / (internvl ? deviation : half)[c]);
    for (size_t i = 0; i < count; i++) out[i] = values[pixels[i * 3 + (size_t)c]];
  }
}

// ---- prompts ----

static itg_status append(itg_text *text, const char *what, itg_diagnostic *diagnostic) {
  return itg_text_append(text, (itg_span){(const uint8_t *)what, strlen(what)}, diagnostic);
}

static itg_status append_times(itg_text *text, const char *what, size_t times, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < times; i++) ITG_TRY(append(text, what, diagnostic));
  return ITG_OK;
}

// Each tile is announced by its place in the grid; rows of tiles are lines.
static itg_status append_idefics3(const itg_vision_config *vision, const itg_vision_tiles *tiles,
                                  itg_diagnostic *diagnostic, itg_text *text) {
  const size_t tokens = (size_t)vision->tile_tokens;
  for (int32_t r = 1; r <= tiles->rows; r++) {
    for (int32_t c = 1; c <= tiles->columns; c++) {
      char place[80];
      snprintf(place, sizeof place, "<fake_token_around_image><row_%d_col_%d>", (int)r, (int)c);
      ITG_TRY(append(text, place, diagnostic));
      ITG_TRY(append_times(text, "<image>", tokens, diagnostic));
    }
    ITG_TRY(append(text, "\n", diagnostic));
  }
  if (tiles->rows) ITG_TRY(append(text, "\n", diagnostic));
  ITG_TRY(append(text, "<fake_token_around_image><global-img>", diagnostic));
  ITG_TRY(append_times(text, "<image>", tokens, diagnostic));
  return append(text, "<fake_token_around_image>", diagnostic);
}

static itg_status append_internvl(const itg_vision_config *vision, const itg_vision_tiles *tiles,
                                  itg_diagnostic *diagnostic, itg_text *text) {
  ITG_TRY(append(text, "<img>", diagnostic));
  ITG_TRY(append_times(text, "<IMG_CONTEXT>", tiles->count * (size_t)vision->tile_tokens, diagnostic));
  return append(text, "</img>", diagnostic);
}

itg_status itg_vision_expand_prompt(const itg_vision_config *vision, itg_span prompt, const itg_vision_tiles *tiles,
                                    size_t tile_count, itg_diagnostic *diagnostic, itg_text *text) {
  const bool internvl = vision->family == ITG_VISION_INTERNVL;
  const char *placeholder = internvl ? "<IMG_CONTEXT>" : "<image>";
  const size_t length = strlen(placeholder);
  size_t used = 0;
  while (prompt.size) {
    const uint8_t *found = memmem(prompt.data, prompt.size, placeholder, length);
    const size_t before = found ? (size_t)(found - prompt.data) : prompt.size;
    ITG_TRY(itg_text_append(text, (itg_span){prompt.data, before}, diagnostic));
    if (!found) break;
    if (used == tile_count)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the prompt has more places for pictures (%s) than the %zu given",
               placeholder, tile_count);
    ITG_TRY(internvl ? append_internvl(vision, &tiles[used], diagnostic, text)
                     : append_idefics3(vision, &tiles[used], diagnostic, text));
    used++;
    prompt = (itg_span){found + length, prompt.size - before - length};
  }
  if (used != tile_count)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "%zu pictures for %zu places in the prompt (%s)", tile_count, used,
             placeholder);
  return ITG_OK;
}
