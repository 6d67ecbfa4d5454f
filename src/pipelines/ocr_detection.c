// Text detection with PP-OCR's detectors: [1,3,h,w] BGR x/127.5 - 1 -> probabilities of h x w pixels. See services.h.
#include <math.h>
#include <stdlib.h>

#include "image/image.h"
#include "pipelines/canvas.h"
#include "pipelines/service.h"
#include "pipelines/text_regions.h"

enum { STEP = 32, MIN_PICTURE = 32 };
// Of a canvas of free size; larger pages are made smaller (a page of 736 pixels may be 15 times as long).
static const double MAX_CANVAS_PIXELS = 8388608;

static const itg_region_options region_defaults = {.threshold = 0.3, .unclip_ratio = 1.6, .max_regions = 1000};

// The nearest multiple of 32, at least one; half to even, as Python rounds.
static int32_t round_to_step(double side) {
  const double steps = rint(side / STEP);
  return (int32_t)(steps < 1 ? 1 : steps > 65535 ? 65535 : steps) * STEP;
}

// The canvas on which the page has to shrink least; among those the smallest.
static itg_canvas choose(const itg_canvases *c, itg_canvas content) {
  itg_canvas best = content;
  double best_scale = -1;
  for (size_t i = 0; i < c->count; i++) {
    const itg_canvas at = c->sizes[i];
    const double scale = fmin(fmin((double)at.height / content.height, (double)at.width / content.width), 1);
    const bool smaller = (double)at.height * at.width < (double)best.height * best.width;
    if (scale < best_scale || (scale == best_scale && !smaller)) continue;
    best = at;
    best_scale = scale;
  }
  return best;
}

static itg_canvas shrink(itg_canvas content, double scale, itg_canvas canvas) {
  const itg_canvas smaller = {round_to_step(content.height * scale), round_to_step(content.width * scale)};
  return (itg_canvas){smaller.height < canvas.height ? smaller.height : canvas.height,
                      smaller.width < canvas.width ? smaller.width : canvas.width};
}

static void plan_sizes(const itg_canvases *c, const itg_image *image, int32_t max_resolution, itg_canvas *canvas,
                       itg_canvas *content) {
  const int32_t shorter = image->width < image->height ? image->width : image->height;
  const double ratio = fmin((double)max_resolution / shorter, 1);
  *content = (itg_canvas){round_to_step(image->height * ratio), round_to_step(image->width * ratio)};
  const double pixels = (double)content->height * content->width;
  if (c->count == 0 && pixels > MAX_CANVAS_PIXELS)
    *content = shrink(*content, sqrt(MAX_CANVAS_PIXELS / pixels), *content);
  *canvas = choose(c, *content);
  const double scale = fmin(fmin((double)canvas->height / content->height, (double)canvas->width / content->width), 1);
  *content = shrink(*content, scale, *canvas);
}

static void fill_input(const itg_image *page, itg_canvas canvas, float *input) {
  const size_t plane = (size_t)canvas.height * (size_t)canvas.width, channels = (size_t)page->channels;
  const float scale = 1.0f / 127.5f;
  for (size_t i = 0; i < 3 * plane; i++) input[i] = -1.0f; // Black.
  for (int32_t y = 0; y < page->height; y++) {
    const uint8_t *row = page->pixels + (size_t)y * (size_t)page->width * channels;
    for (size_t c = 0; c < 3; c++) {
      float *out = input + (2 - c) * plane + (size_t)y * (size_t)canvas.width;
      for (int32_t x = 0; x < page->width; x++) out[x] = (float)row[(size_t)x * channels + c % channels] * scale - 1.0f;
    }
  }
}

static itg_status run_canvas(itg_canvases *c, const itg_image *page, itg_canvas canvas, itg_diagnostic *diagnostic,
                             float *input, float *map) {
  const itg_network *network;
  ITG_TRY(itg_canvases_network(c, canvas, diagnostic, &network));
  if (network->output(network->context, 0)->count != (size_t)canvas.height * (size_t)canvas.width)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, c->path, "not a text detector: one probability a pixel was expected");
  fill_input(page, canvas, input);
  const float *const inputs[] = {input};
  return network->run(network->context, inputs, &map, diagnostic);
}

static itg_status find_text(void *state, const itg_image *image, const itg_text_options *options,
                            itg_diagnostic *diagnostic, itg_text_box **boxes, size_t *count) {
  itg_canvases *canvases = state;
  *boxes = NULL;
  *count = 0;
  if (image->width < MIN_PICTURE || image->height < MIN_PICTURE) return ITG_OK;
  if (options->max_resolution < 1)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "a resolution of %d pixels", options->max_resolution);
  itg_canvas canvas, content;
  plan_sizes(canvases, image, options->max_resolution, &canvas, &content);
  itg_image page = {0};
  ITG_TRY(itg_image_view_resize(itg_image_view_of(image), ITG_RESIZE_PILLOW_LANCZOS, content.width, content.height,
                                diagnostic, &page));
  const size_t pixels = (size_t)canvas.height * (size_t)canvas.width;
  float *input = malloc(3 * pixels * sizeof *input), *map = malloc(pixels * sizeof *map);
  itg_status status = input && map ? run_canvas(canvases, &page, canvas, diagnostic, input, map)
                                   : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  itg_image_free(&page);
  free(input);
  if (status == ITG_OK) {
    const itg_probability_map inside = {map, content.width, content.height, (size_t)canvas.width};
    itg_region_options regions = region_defaults;
    regions.min_score = options->min_score;
    regions.slow_score = options->slow_score;
    status = itg_text_regions(&inside, &regions, image->width, image->height, diagnostic, boxes, count);
  }
  free(map);
  if (status == ITG_OK) status = itg_text_reading_order(*boxes, *count, diagnostic);
  if (status != ITG_OK) {
    free(*boxes);
    *boxes = NULL;
    *count = 0;
  }
  return status;
}

static void close_detection(void *state) {
  itg_canvases_close(state);
  free(state);
}

static const itg_service_calls calls = {.close = close_detection, .find_text = find_text};

itg_status itg_open_ocr_detection(const char *folder, const itg_network_source *source, itg_diagnostic *diagnostic,
                                  itg_service *service) {
  itg_canvases *canvases = calloc(1, sizeof *canvases);
  ITG_TRY_MEMORY(canvases, diagnostic);
  const itg_status status = itg_canvases_open(canvases, folder, source, diagnostic);
  if (status != ITG_OK) {
    close_detection(canvases);
    return status;
  }
  service->calls = &calls;
  service->state = canvases;
  return ITG_OK;
}
