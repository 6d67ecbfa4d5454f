// Text recognition with PP-OCR's recognizers: [1,3,48,w] BGR x/127.5 - 1 -> probabilities of characters. See services.h.
//
// Lines are read in the order of their proportions, so that each width of the network is opened once a page. A line takes
// the narrowest width that holds it; what is left over at its right is 0, as in training.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "image/image.h"
#include "pipelines/canvas.h"
#include "pipelines/ctc.h"
#include "pipelines/service.h"
#include "pipelines/text_crop.h"

enum { LINE_HEIGHT = 48, MAX_LINES = 10000 };
// Of a float model, which takes any width.
static const int32_t free_widths[] = {320, 480, 640, 960, 1280, 1920, 2560};

typedef struct ocr_recognition {
  itg_canvases canvases;
  itg_charset charset; // Read with the first network; empty before.
} ocr_recognition;

// ---- characters ----

static itg_status charset_from_json(const char *json, size_t size, itg_diagnostic *diagnostic, itg_charset *out) {
  json_t *root = json ? json_loadb(json, size, 0, NULL) : NULL;
  const json_t *characters = json_object_get(root, "character");
  itg_status status = ITG_OK;
  if (json_is_string(characters)) {
    const itg_span lines = {(const uint8_t *)json_string_value(characters), json_string_length(characters)};
    status = itg_charset_read(lines, diagnostic, out);
  }
  json_decref(root);
  return status;
}

static itg_status charset_from_file(const char *folder, itg_diagnostic *diagnostic, itg_charset *out) {
  char path[ITG_SERVICE_PATH];
  itg_mapped_file file;
  ITG_TRY(itg_service_path(folder, "charset.txt", diagnostic, path));
  if (access(path, R_OK) != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, path,
             "the model does not hold its characters (metadata \"character\"), and this file is not there");
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  const itg_status status = itg_charset_read(file.bytes, diagnostic, out);
  itg_mapped_file_close(&file);
  return status;
}

static itg_status read_charset(ocr_recognition *r, const itg_network *network, itg_diagnostic *diagnostic) {
  const itg_shape *shape = &network->output(network->context, 0)->shape;
  if (shape->rank != 3 || shape->dims[0] != 1 || shape->dims[2] < 2)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, r->canvases.path,
             "not a text recognizer: [1, steps, characters] was expected of its output");
  if (r->charset.count == 0) {
    size_t size = 0;
    const char *json = network->text ? network->text(network->context, "source", &size) : NULL;
    ITG_TRY(charset_from_json(json, size, diagnostic, &r->charset));
    if (r->charset.count == 0) ITG_TRY(charset_from_file(r->canvases.path, diagnostic, &r->charset));
  }
  return itg_charset_check(&r->charset, (size_t)shape->dims[2], diagnostic);
}

// ---- lines ----

typedef struct line {
  size_t box;
  double proportion; // Of the upright crop.
  itg_canvas canvas;
  char *text;
  float score;
} line;

static int by_proportion(const void *a, const void *b) {
  const line *x = a, *y = b;
  if (x->proportion != y->proportion) return x->proportion < y->proportion ? -1 : 1;
  return x->box < y->box ? -1 : 1;
}
static int by_box(const void *a, const void *b) {
  const line *x = a, *y = b;
  return x->box < y->box ? -1 : x->box > y->box;
}

// The narrowest canvas of at least the line's width, else the widest.
static itg_canvas choose(const itg_canvases *c, double proportion) {
  const size_t count = c->count ? c->count : sizeof free_widths / sizeof free_widths[0];
  itg_canvas narrowest = {0}, widest = {0};
  for (size_t i = 0; i < count; i++) {
    const itg_canvas at = c->count ? c->sizes[i] : (itg_canvas){LINE_HEIGHT, free_widths[i]};
    const bool holds = at.width >= (int32_t)(at.height * proportion);
    if (holds && (!narrowest.width || at.width < narrowest.width)) narrowest = at;
    if (at.width > widest.width) widest = at;
  }
  return narrowest.width ? narrowest : widest;
}

static void fill_input(const itg_image *text, itg_canvas canvas, float *input) {
  const size_t plane = (size_t)canvas.height * (size_t)canvas.width, channels = (size_t)text->channels;
  const float scale = 1.0f / 127.5f;
  for (size_t i = 0; i < 3 * plane; i++) input[i] = 0;
  for (int32_t y = 0; y < text->height; y++) {
    const uint8_t *row = text->pixels + (size_t)y * (size_t)text->width * channels;
    for (size_t c = 0; c < 3; c++) {
      float *out = input + (2 - c) * plane + (size_t)y * (size_t)canvas.width;
      for (int32_t x = 0; x < text->width; x++) out[x] = (float)row[(size_t)x * channels + c % channels] * scale - 1.0f;
    }
  }
}

static itg_status prepare_line(const itg_image *image, const itg_text_box *box, itg_canvas canvas, double proportion,
                               itg_diagnostic *diagnostic, float *input) {
  itg_image crop, small;
  const double wanted = ceil(canvas.height * proportion);
  const int32_t width = wanted < 1 ? 1 : wanted > canvas.width ? canvas.width : (int32_t)wanted;
  ITG_TRY(itg_text_crop(image, box, diagnostic, &crop));
  const itg_status status = itg_image_view_resize(itg_image_view_of(&crop), ITG_RESIZE_OPENCV_LINEAR, width,
                                                  canvas.height, diagnostic, &small);
  itg_image_free(&crop);
  ITG_TRY(status);
  fill_input(&small, canvas, input);
  itg_image_free(&small);
  return ITG_OK;
}

itg_status itg_text_line_values(const itg_image *image, const itg_text_box *box, const itg_shape *shape,
                                itg_diagnostic *diagnostic, float *out) {
  ITG_TRY(itg_image_check(image, diagnostic));
  if (shape->rank != 4 || shape->dims[0] != 1 || shape->dims[1] != 3 || shape->dims[2] < 1 || shape->dims[3] < 1 ||
      shape->dims[2] > ITG_MAX_IMAGE_SIDE || shape->dims[3] > ITG_MAX_IMAGE_SIDE)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL, "a text recognizer reads [1,3,height,width]");
  const itg_canvas canvas = {(int32_t)shape->dims[2], (int32_t)shape->dims[3]};
  return prepare_line(image, box, canvas, itg_text_proportion(box), diagnostic, out);
}

static itg_status read_line(ocr_recognition *r, const itg_image *image, const itg_text_box *box, line *out,
                            itg_diagnostic *diagnostic) {
  const itg_network *network;
  ITG_TRY(itg_canvases_network(&r->canvases, out->canvas, diagnostic, &network));
  ITG_TRY(read_charset(r, network, diagnostic));
  const itg_tensor_info *info = network->output(network->context, 0);
  float *input = malloc(3 * (size_t)out->canvas.height * (size_t)out->canvas.width * sizeof *input);
  float *probabilities = malloc(info->count * sizeof *probabilities);
  itg_status status = input && probabilities
                          ? prepare_line(image, box, out->canvas, out->proportion, diagnostic, input)
                          : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (status == ITG_OK)
    status = network->run(network->context, (const float *const[]){input}, &probabilities, diagnostic);
  if (status == ITG_OK)
    status = itg_ctc_decode(&r->charset, probabilities, (size_t)info->shape.dims[1], (size_t)info->shape.dims[2],
                            diagnostic, &out->text, &out->score);
  free(input);
  free(probabilities);
  return status;
}

// ---- the call ----

// Hands out what is certain enough, in the order of the boxes; the other texts stay with the lines.
static itg_status hand_out(line *lines, size_t count, double min_score, itg_diagnostic *diagnostic, itg_text_line **out,
                           size_t *out_count) {
  itg_text_line *kept = malloc((count + 1) * sizeof *kept);
  size_t kept_count = 0;
  ITG_TRY_MEMORY(kept, diagnostic);
  if (count) qsort(lines, count, sizeof *lines, by_box);
  for (size_t i = 0; i < count; i++) {
    if (!(lines[i].score > min_score)) continue;
    kept[kept_count++] = (itg_text_line){lines[i].box, lines[i].text, lines[i].score};
    lines[i].text = NULL;
  }
  if (kept_count == 0) {
    free(kept);
    kept = NULL;
  }
  *out = kept;
  *out_count = kept_count;
  return ITG_OK;
}

static itg_status read_text(void *state, const itg_image *image, const itg_text_box *boxes, size_t count,
                            double min_score, itg_diagnostic *diagnostic, itg_text_line **out, size_t *out_count) {
  ocr_recognition *r = state;
  if (count > MAX_LINES) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "%zu boxes; at most %d", count, MAX_LINES);
  line *lines = calloc(count + 1, sizeof *lines);
  ITG_TRY_MEMORY(lines, diagnostic);
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    const double proportion = itg_text_proportion(&boxes[i]);
    if (!(proportion > 0)) continue; // No area: no text.
    lines[used++] = (line){.box = i, .proportion = proportion, .canvas = choose(&r->canvases, proportion)};
  }
  if (used) qsort(lines, used, sizeof *lines, by_proportion);
  itg_status status = ITG_OK;
  for (size_t i = 0; i < used && status == ITG_OK; i++)
    status = read_line(r, image, &boxes[lines[i].box], &lines[i], diagnostic);
  if (status == ITG_OK) status = hand_out(lines, used, min_score, diagnostic, out, out_count);
  for (size_t i = 0; i < used; i++) free(lines[i].text);
  free(lines);
  return status;
}

static void close_recognition(void *state) {
  ocr_recognition *r = state;
  itg_canvases_close(&r->canvases);
  itg_charset_free(&r->charset);
  free(r);
}

static const itg_service_calls calls = {.close = close_recognition, .read_text = read_text};

itg_status itg_open_ocr_recognition(const char *folder, const itg_network_source *source, itg_diagnostic *diagnostic,
                                    itg_service *service) {
  ocr_recognition *r = calloc(1, sizeof *r);
  ITG_TRY_MEMORY(r, diagnostic);
  const itg_network *network;
  itg_status status = itg_canvases_open(&r->canvases, folder, source, diagnostic);
  // The first network shows now whether the characters are there and fit.
  if (status == ITG_OK) status = itg_canvases_network(&r->canvases, choose(&r->canvases, 1), diagnostic, &network);
  if (status == ITG_OK) status = read_charset(r, network, diagnostic);
  if (status != ITG_OK) {
    close_recognition(r);
    return status;
  }
  service->calls = &calls;
  service->state = r;
  return ITG_OK;
}
