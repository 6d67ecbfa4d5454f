// See scrfd.h. Boxes and points are computed in single precision, as the reference does, so that they round alike.
#include "pipelines/scrfd.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "image/image.h"
#include "pipelines/face.h"

enum { LEVELS = 3, PARTS = 3, OUTPUTS = LEVELS * PARTS, MAX_SIDE = 4096 };
enum { SCORE, BOX, POINTS }; // Parts of a level.

static const int strides[LEVELS] = {8, 16, 32};
static const int64_t columns_of[PARTS] = {1, 4, 10};

struct itg_scrfd {
  itg_network network;
  int32_t width, height;
  int64_t anchors; // A cell.
  size_t index[LEVELS][PARTS];
  float *input;
  float *outputs[OUTPUTS]; // In the network's order.
  itg_face *candidates;    // Room for all anchors.
  int64_t row_count;
};

static int64_t cells_of(const itg_scrfd *s, int level) {
  return (int64_t)(s->height / strides[level]) * (s->width / strides[level]);
}

// Which level and part an output is; false for neither.
static bool place_output(itg_scrfd *s, const itg_shape *shape, size_t index) {
  if (shape->rank < 2 || shape->rank > 3 || (shape->rank == 3 && shape->dims[0] != 1)) return false;
  const int64_t rows = shape->dims[shape->rank - 2], columns = shape->dims[shape->rank - 1];
  for (int level = 0; level < LEVELS; level++) {
    for (int part = 0; part < PARTS; part++) {
      const int64_t cells = cells_of(s, level);
      if (columns != columns_of[part] || (rows != cells && rows != 2 * cells)) continue;
      if (s->index[level][part] != OUTPUTS || (s->anchors && s->anchors != rows / cells)) return false;
      s->anchors = rows / cells;
      s->index[level][part] = index;
      return true;
    }
  }
  return false;
}

static bool read_layout(itg_scrfd *s) {
  const itg_network *n = &s->network;
  if (!n->run || n->input_count != 1 || n->output_count != OUTPUTS) return false;
  const itg_shape *input = &n->input(n->context, 0)->shape;
  if (input->rank != 4 || input->dims[0] != 1 || input->dims[1] != 3) return false;
  for (int k = 2; k < 4; k++)
    if (input->dims[k] < 32 || input->dims[k] > MAX_SIDE || input->dims[k] % 32) return false;
  s->height = (int32_t)input->dims[2];
  s->width = (int32_t)input->dims[3];
  for (int level = 0; level < LEVELS; level++)
    for (int part = 0; part < PARTS; part++) s->index[level][part] = OUTPUTS;
  for (size_t i = 0; i < OUTPUTS; i++)
    if (!place_output(s, &n->output(n->context, i)->shape, i)) return false;
  for (int level = 0; level < LEVELS; level++) s->row_count += cells_of(s, level) * s->anchors;
  return true;
}

bool itg_face_detector_has_points(itg_network detector) {
  itg_scrfd probe = {.network = detector};
  return read_layout(&probe);
}

itg_status itg_scrfd_create(itg_network network, itg_diagnostic *diagnostic, itg_scrfd **out) {
  itg_scrfd *s = calloc(1, sizeof *s);
  ITG_TRY_MEMORY(s, diagnostic);
  s->network = network;
  itg_status status = ITG_OK;
  if (!read_layout(s)) {
    status = itg_fail(diagnostic, ITG_ERROR_SHAPE, "detector", __FILE__, __LINE__,
                      "not an SCRFD face detector: [1,3,h,w] -> scores, boxes and five points at strides 8, 16, 32");
  } else {
    s->input = calloc((size_t)s->width * (size_t)s->height * 3, sizeof *s->input);
    s->candidates = calloc((size_t)s->row_count, sizeof *s->candidates);
    bool all = s->input && s->candidates;
    for (size_t i = 0; i < OUTPUTS && all; i++)
      all = (s->outputs[i] = calloc(network.output(network.context, i)->count, sizeof(float))) != NULL;
    if (!all) status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  }
  if (status != ITG_OK) {
    itg_scrfd_destroy(s);
    return status;
  }
  *out = s;
  return ITG_OK;
}

void itg_scrfd_destroy(itg_scrfd *s) {
  if (!s) return;
  for (size_t i = 0; i < OUTPUTS; i++) free(s->outputs[i]);
  free(s->input);
  free(s->candidates);
  free(s);
}

// The picture, as large as fits, in the top left corner; returns the scale.
static itg_status fill_input(itg_scrfd *s, const itg_image *photograph, itg_diagnostic *diagnostic, double *scale) {
  const double proportion = (double)photograph->height / photograph->width;
  int64_t width = s->width, height = s->height;
  if (proportion > (double)s->height / s->width) {
    width = (int64_t)((double)height / proportion);
  } else {
    height = (int64_t)((double)width * proportion);
  }
  width = itg_max_i64(width, 1);
  height = itg_max_i64(height, 1);
  itg_image small = {0};
  ITG_TRY(itg_image_view_resize(itg_image_view_of(photograph), ITG_RESIZE_OPENCV_LINEAR, (int32_t)width,
                                (int32_t)height, diagnostic, &small));
  const size_t plane = (size_t)s->width * (size_t)s->height, channels = (size_t)small.channels;
  const float black = (0.0f - 127.5f) / 128.0f;
  for (size_t i = 0; i < 3 * plane; i++) s->input[i] = black;
  for (int64_t y = 0; y < height; y++) {
    const uint8_t *row = small.pixels + (size_t)(y * width) * channels;
    for (size_t c = 0; c < 3; c++) {
      float *out = s->input + c * plane + (size_t)(y * s->width);
      for (int64_t x = 0; x < width; x++) out[x] = ((float)row[(size_t)x * channels + c % channels] - 127.5f) / 128.0f;
    }
  }
  itg_image_free(&small);
  *scale = (double)height / photograph->height;
  return ITG_OK;
}

// Reads anchor `row` of a level.
static void read_face(const itg_scrfd *s, int level, int64_t row, float scale, itg_face *out) {
  const float stride = (float)strides[level];
  const int64_t cell = row / s->anchors, across = s->width / strides[level];
  const float centre[2] = {(float)(cell % across) * stride, (float)(cell / across) * stride};
  const float *box = s->outputs[s->index[level][BOX]] + row * 4;
  const float *points = s->outputs[s->index[level][POINTS]] + row * 10;
  for (int k = 0; k < 4; k++) {
    const float distance = box[k] * stride;
    out->box[k] = (k < 2 ? centre[k % 2] - distance : centre[k % 2] + distance) / scale;
  }
  for (int k = 0; k < 10; k++) out->points[k / 2][k % 2] = (centre[k % 2] + points[k] * stride) / scale;
}

static bool is_finite(const itg_face *face) {
  double sum = 0;
  for (int k = 0; k < 4; k++) sum += face->box[k];
  for (int k = 0; k < 10; k++) sum += face->points[k / 2][k % 2];
  return isfinite(sum);
}

// Best first; equal scores stay in the order of the anchors.
typedef struct ranked {
  double score;
  size_t index;
} ranked;
static int compare_ranked(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static size_t suppress(const itg_face *candidates, const ranked *order, size_t candidate_count, double max_overlap,
                       itg_face *faces, size_t capacity) {
  size_t found = 0;
  for (size_t i = 0; i < candidate_count && found < capacity; i++) {
    const itg_face *face = &candidates[order[i].index];
    bool hidden = false;
    for (size_t k = 0; k < found && !hidden; k++) hidden = itg_face_overlap(face->box, faces[k].box) > max_overlap;
    if (!hidden) faces[found++] = *face;
  }
  return found;
}

itg_status itg_scrfd_find(itg_scrfd *s, const itg_image *photograph, double min_score, double max_overlap,
                          itg_face *faces, size_t capacity, itg_diagnostic *diagnostic, size_t *count) {
  double scale = 1;
  ITG_TRY(itg_image_check(photograph, diagnostic));
  ITG_TRY(fill_input(s, photograph, diagnostic, &scale));
  const float *input = s->input;
  ITG_TRY(s->network.run(s->network.context, &input, s->outputs, diagnostic));
  size_t candidate_count = 0;
  for (int level = 0; level < LEVELS; level++) {
    const float *scores = s->outputs[s->index[level][SCORE]];
    for (int64_t row = 0; row < cells_of(s, level) * s->anchors; row++) {
      if (!(scores[row] >= min_score)) continue; // Also NaN.
      itg_face *face = &s->candidates[candidate_count];
      face->score = scores[row];
      read_face(s, level, row, (float)scale, face);
      candidate_count += is_finite(face);
    }
  }
  ranked *order = malloc((candidate_count + 1) * sizeof *order);
  ITG_TRY_MEMORY(order, diagnostic);
  for (size_t i = 0; i < candidate_count; i++) order[i] = (ranked){s->candidates[i].score, i};
  qsort(order, candidate_count, sizeof *order, compare_ranked);
  *count = suppress(s->candidates, order, candidate_count, max_overlap, faces, capacity);
  free(order);
  return ITG_OK;
}
