// The face pipeline: detector, landmarks, embedder. Equal to the project's Python reference (OpenCV + ONNX Runtime).
#include "pipelines/face.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "image/image.h"
#include "pipelines/scrfd.h"
#include "tensor/dtype.h"

enum { LANDMARK_NUMBERS = 136, MAX_BOXES = 1000000, MAX_SIDE = 4096 };

typedef struct candidate {
  double score;
  int64_t index; // Among the detector's boxes.
  double box[4]; // Pixels of the photograph.
} candidate;

struct itg_face_pipeline {
  itg_network detector, landmarks, embedder;
  itg_scrfd *scrfd; // NULL: the detector needs the landmark network.
  int32_t detector_width, detector_height, landmark_width, landmark_height;
  size_t box_count, scores_output, boxes_output, embedding_size;
  float *detector_input, *scores, *boxes;
  float *landmark_input, *embedder_input;
  uint8_t *grey;
  candidate *candidates;
};

bool itg_face_pixel_box(const double box[4], const itg_image *photograph, itg_pixel_box *out) {
  for (int i = 0; i < 4; i++)
    if (!(fabs(box[i]) < 1e9)) return false; // Also NaN.
  const itg_pixel_box b = {itg_max_i64(0, (int64_t)box[0]), itg_max_i64(0, (int64_t)box[1]),
                           itg_min_i64(photograph->width - 1, (int64_t)box[2]),
                           itg_min_i64(photograph->height - 1, (int64_t)box[3])};
  *out = b;
  return b.x1 < b.x2 && b.y1 < b.y2;
}

double itg_face_overlap(const double a[4], const double b[4]) {
  const double width = fmin(a[2], b[2]) - fmax(a[0], b[0]), height = fmin(a[3], b[3]) - fmax(a[1], b[1]);
  if (!(width > 0 && height > 0)) return 0;
  const double both = width * height;
  return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both);
}

// ---- creation ----

static bool is_picture(const itg_tensor_info *info, int64_t channels, int32_t *width, int32_t *height) {
  const itg_shape *shape = &info->shape;
  if (shape->rank != 4 || shape->dims[0] != 1 || shape->dims[1] != channels) return false;
  if (shape->dims[2] < 1 || shape->dims[2] > MAX_SIDE || shape->dims[3] < 1 || shape->dims[3] > MAX_SIDE) return false;
  *height = (int32_t)shape->dims[2];
  *width = (int32_t)shape->dims[3];
  return true;
}

static itg_status check_detector(itg_face_pipeline *p, itg_diagnostic *diagnostic) {
  const itg_network *n = &p->detector;
  bool good = n->run && n->input_count == 1 && n->output_count == 2 &&
              is_picture(n->input(n->context, 0), 3, &p->detector_width, &p->detector_height);
  int64_t count[2] = {0, 0};
  p->scores_output = p->boxes_output = 2; // Neither found yet.
  for (size_t i = 0; good && i < 2; i++) {
    const itg_shape *shape = &n->output(n->context, i)->shape;
    good = shape->rank == 3 && shape->dims[0] == 1 && (shape->dims[2] == 2 || shape->dims[2] == 4);
    if (!good) break;
    count[i] = shape->dims[1];
    if (shape->dims[2] == 2) p->scores_output = i;
    if (shape->dims[2] == 4) p->boxes_output = i;
  }
  if (!good || p->scores_output + p->boxes_output != 1 || count[0] != count[1] || count[0] < 1 || count[0] > MAX_BOXES)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, "detector",
             "not a face detector of the known layout: [1,3,h,w] -> scores [1,n,2] and boxes [1,n,4]");
  p->box_count = (size_t)count[0];
  return ITG_OK;
}

static itg_status check_embedder(itg_face_pipeline *p, itg_diagnostic *diagnostic) {
  const itg_network *n = &p->embedder;
  if (!n->run) return ITG_OK;
  int32_t width = 0, height = 0;
  if (n->input_count != 1 || n->output_count != 1 || !is_picture(n->input(n->context, 0), 3, &width, &height) ||
      width != ITG_FACE_CROP_SIDE || height != ITG_FACE_CROP_SIDE || n->output(n->context, 0)->count < 1)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, "embedder",
             "not a face embedder of the known layout: [1,3,%d,%d] -> embedding", ITG_FACE_CROP_SIDE,
             ITG_FACE_CROP_SIDE);
  p->embedding_size = n->output(n->context, 0)->count;
  return ITG_OK;
}

static itg_status check_networks(itg_face_pipeline *p, itg_diagnostic *diagnostic) {
  ITG_TRY(check_embedder(p, diagnostic));
  if (itg_face_detector_has_points(p->detector)) return itg_scrfd_create(p->detector, diagnostic, &p->scrfd);
  ITG_TRY(check_detector(p, diagnostic));
  const itg_network *n = &p->landmarks;
  if (!n->run || n->input_count != 1 || n->output_count != 1 ||
      !is_picture(n->input(n->context, 0), 1, &p->landmark_width, &p->landmark_height) ||
      n->output(n->context, 0)->count != LANDMARK_NUMBERS)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, "landmarks",
             "not a landmark network of the known layout: [1,1,h,w] -> %d numbers", LANDMARK_NUMBERS);
  return ITG_OK;
}

static itg_status allocate(itg_face_pipeline *p, itg_diagnostic *diagnostic) {
  if (p->embedder.run) {
    p->embedder_input = calloc((size_t)ITG_FACE_CROP_SIDE * ITG_FACE_CROP_SIDE * 3, sizeof(float));
    ITG_TRY_MEMORY(p->embedder_input, diagnostic);
  }
  if (p->scrfd) return ITG_OK;
  const size_t landmark_pixels = (size_t)p->landmark_width * (size_t)p->landmark_height;
  p->detector_input = calloc((size_t)p->detector_width * (size_t)p->detector_height * 3, sizeof(float));
  p->scores = calloc(p->box_count * 2, sizeof(float));
  p->boxes = calloc(p->box_count * 4, sizeof(float));
  p->candidates = calloc(p->box_count, sizeof *p->candidates);
  p->landmark_input = calloc(landmark_pixels, sizeof(float));
  p->grey = calloc(landmark_pixels, 1);
  ITG_TRY_MEMORY(p->detector_input && p->scores && p->boxes && p->candidates && p->landmark_input && p->grey,
                 diagnostic);
  return ITG_OK;
}

itg_status itg_face_pipeline_create(itg_network detector, itg_network landmarks, itg_network embedder,
                                    itg_diagnostic *diagnostic, itg_face_pipeline **out) {
  itg_face_pipeline *p = calloc(1, sizeof *p);
  ITG_TRY_MEMORY(p, diagnostic);
  p->detector = detector;
  p->landmarks = landmarks;
  p->embedder = embedder;
  itg_status status = check_networks(p, diagnostic);
  if (status == ITG_OK) status = allocate(p, diagnostic);
  if (status != ITG_OK) {
    itg_face_pipeline_destroy(p);
    return status;
  }
  *out = p;
  return ITG_OK;
}

void itg_face_pipeline_destroy(itg_face_pipeline *p) {
  if (!p) return;
  itg_scrfd_destroy(p->scrfd);
  free(p->detector_input);
  free(p->scores);
  free(p->boxes);
  free(p->candidates);
  free(p->landmark_input);
  free(p->grey);
  free(p->embedder_input);
  free(p);
}

// ---- finding ----

static itg_status detect(itg_face_pipeline *p, const itg_image *photograph, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_image_check(photograph, diagnostic));
  itg_image small = {0};
  ITG_TRY(itg_image_view_resize(itg_image_view_of(photograph), ITG_RESIZE_OPENCV_LINEAR, p->detector_width,
                                p->detector_height, diagnostic, &small));
  const size_t count = (size_t)small.width * (size_t)small.height, channels = (size_t)small.channels;
  for (size_t c = 0; c < 3; c++)
    for (size_t i = 0; i < count; i++)
      p->detector_input[c * count + i] = ((float)small.pixels[i * channels + c % channels] - 127.0f) / 128.0f;
  itg_image_free(&small);
  const float *input = p->detector_input;
  float *outputs[2];
  outputs[p->scores_output] = p->scores;
  outputs[p->boxes_output] = p->boxes;
  return p->detector.run(p->detector.context, &input, outputs, diagnostic);
}

static void scale_box(const itg_face_pipeline *p, size_t index, const itg_image *photograph, double box[4]) {
  for (int k = 0; k < 4; k++)
    box[k] = (double)p->boxes[index * 4 + (size_t)k] * (k % 2 ? photograph->height : photograph->width);
}

// Mean of landmarks [first, first + count).
static void mean_point(const float *numbers, int first, int count, const itg_pixel_box *box, double out[2]) {
  const double size[2] = {(double)(box->x2 - box->x1), (double)(box->y2 - box->y1)};
  const double corner[2] = {(double)box->x1, (double)box->y1};
  for (int k = 0; k < 2; k++) {
    double sum = 0;
    for (int i = first; i < first + count; i++) sum += (double)numbers[2 * i + k] * size[k] + corner[k];
    out[k] = sum / count;
  }
}

static itg_status find_points(itg_face_pipeline *p, const itg_image *photograph, const itg_pixel_box *box,
                              itg_diagnostic *diagnostic, double points[5][2]) {
  itg_image_view view;
  itg_image small = {0};
  ITG_TRY(itg_image_view_cut(photograph, box->x1, box->y1, box->x2 - box->x1, box->y2 - box->y1, diagnostic, &view));
  ITG_TRY(
      itg_image_view_resize(view, ITG_RESIZE_OPENCV_LINEAR, p->landmark_width, p->landmark_height, diagnostic, &small));
  const size_t count = (size_t)small.width * (size_t)small.height;
  if (small.channels == 3) {
    itg_grey_opencv(small.pixels, count, p->grey);
  } else {
    memcpy(p->grey, small.pixels, count);
  }
  itg_image_free(&small);
  for (size_t i = 0; i < count; i++) p->landmark_input[i] = (float)p->grey[i] / 256.0f;
  float numbers[LANDMARK_NUMBERS];
  const float *input = p->landmark_input;
  float *output = numbers;
  ITG_TRY(p->landmarks.run(p->landmarks.context, &input, &output, diagnostic));
  // 68 points in the usual order: 36..41 and 42..47 are the eyes, 30 the tip of the nose, 48 and 54 the mouth's corners.
  mean_point(numbers, 36, 6, box, points[0]);
  mean_point(numbers, 42, 6, box, points[1]);
  mean_point(numbers, 30, 1, box, points[2]);
  mean_point(numbers, 48, 1, box, points[3]);
  mean_point(numbers, 54, 1, box, points[4]);
  return ITG_OK;
}

itg_status itg_face_find(itg_face_pipeline *pipeline, const itg_image *photograph, itg_diagnostic *diagnostic,
                         itg_face *out) {
  if (pipeline->scrfd) {
    size_t count = 0;
    ITG_TRY(itg_scrfd_find(pipeline->scrfd, photograph, -INFINITY, 1, out, 1, diagnostic, &count));
    if (count == 0) ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL, "no face: the detector's numbers are not finite");
    return ITG_OK;
  }
  ITG_TRY(detect(pipeline, photograph, diagnostic));
  size_t best = 0;
  for (size_t i = 1; i < pipeline->box_count; i++)
    if (pipeline->scores[2 * i + 1] > pipeline->scores[2 * best + 1] || isnan(pipeline->scores[2 * best + 1])) best = i;
  itg_face face = {.score = pipeline->scores[2 * best + 1]};
  itg_pixel_box box;
  scale_box(pipeline, best, photograph, face.box);
  if (!itg_face_pixel_box(face.box, photograph, &box))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, NULL,
             "no face: the best box of a picture of %d x %d pixels is empty (%.1f, %.1f to %.1f, %.1f; score %.3f)",
             photograph->width, photograph->height, face.box[0], face.box[1], face.box[2], face.box[3], face.score);
  ITG_TRY(find_points(pipeline, photograph, &box, diagnostic, face.points));
  *out = face;
  return ITG_OK;
}

static int compare_candidates(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

itg_status itg_face_find_all(itg_face_pipeline *pipeline, const itg_image *photograph, double min_score,
                             double max_overlap, itg_face *faces, size_t capacity, itg_diagnostic *diagnostic,
                             size_t *count) {
  if (pipeline->scrfd)
    return itg_scrfd_find(pipeline->scrfd, photograph, min_score, max_overlap, faces, capacity, diagnostic, count);
  ITG_TRY(detect(pipeline, photograph, diagnostic));
  candidate *candidates = pipeline->candidates;
  size_t candidate_count = 0, found = 0;
  for (size_t i = 0; i < pipeline->box_count; i++) {
    const double score = pipeline->scores[2 * i + 1];
    if (!(score >= min_score)) continue;
    candidate c = {.score = score, .index = (int64_t)i};
    itg_pixel_box box;
    scale_box(pipeline, i, photograph, c.box);
    if (itg_face_pixel_box(c.box, photograph, &box)) candidates[candidate_count++] = c;
  }
  qsort(candidates, candidate_count, sizeof *candidates, compare_candidates);
  for (size_t i = 0; i < candidate_count && found < capacity; i++) {
    bool hidden = false;
    for (size_t k = 0; k < found && !hidden; k++)
      hidden = itg_face_overlap(candidates[i].box, faces[k].box) > max_overlap;
    if (hidden) continue;
    itg_face face = {.score = candidates[i].score};
    itg_pixel_box box;
    memcpy(face.box, candidates[i].box, sizeof face.box);
    if (!itg_face_pixel_box(face.box, photograph, &box)) continue;
    ITG_TRY(find_points(pipeline, photograph, &box, diagnostic, face.points));
    faces[found++] = face;
  }
  *count = found;
  return ITG_OK;
}

size_t itg_face_embedding_size(const itg_face_pipeline *pipeline) { return pipeline->embedding_size; }

itg_status itg_face_embed(itg_face_pipeline *pipeline, const uint8_t *crop, itg_diagnostic *diagnostic, float *out,
                          size_t count) {
  if (!pipeline->embedder.run) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the pipeline has no embedder");
  if (count != pipeline->embedding_size)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "room for %zu numbers, the embedding has %zu", count,
             pipeline->embedding_size);
  itg_face_embedder_input(crop, pipeline->embedder_input);
  const float *input = pipeline->embedder_input;
  return pipeline->embedder.run(pipeline->embedder.context, &input, &out, diagnostic);
}
