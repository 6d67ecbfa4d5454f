// The face pipeline around made-up networks: what it feeds them, how it reads them, and what it refuses.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "image/image.h"
#include "pipelines/face.h"

enum { BOXES = 6 };

// A network that keeps its input and answers with what it was told.
typedef struct fake {
  itg_tensor_info in, out[2];
  const float *answer[2];
  float seen[3 * 240 * 320];
  itg_status status;
} fake;

static itg_status fake_run(void *context, const float *const *inputs, float *const *outputs,
                           itg_diagnostic *diagnostic) {
  fake *f = context;
  (void)diagnostic;
  memcpy(f->seen, inputs[0], f->in.count * sizeof(float));
  for (int i = 0; i < 2; i++)
    if (f->answer[i]) memcpy(outputs[i], f->answer[i], f->out[i].count * sizeof(float));
  return f->status;
}
static const itg_tensor_info *fake_input(void *context, size_t index) { return index ? NULL : &((fake *)context)->in; }
static const itg_tensor_info *fake_output(void *context, size_t index) { return &((fake *)context)->out[index]; }

static itg_tensor_info info(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  itg_tensor_info result = {
      .name = "t", .shape = {.rank = rank, .dims = {a, b, c, d}}, .dtype = ITG_DTYPE_F32, .count = 1};
  for (int i = 0; i < rank; i++) result.count *= (size_t)result.shape.dims[i];
  return result;
}

static float scores[BOXES * 2], boxes[BOXES * 4], landmarks[136], embedding[8];
static fake detector, landmarker, embedder;

static itg_network network(fake *f, size_t outputs) {
  return (itg_network){f, 1, outputs, fake_run, fake_input, fake_output, NULL};
}

// Boxes come as the first output, scores as the second, to see that they are told apart by shape.
static itg_face_pipeline *start(void) {
  memset(scores, 0, sizeof scores);
  memset(boxes, 0, sizeof boxes);
  detector =
      (fake){info(4, 1, 3, 240, 320), {info(3, 1, BOXES, 4, 0), info(3, 1, BOXES, 2, 0)}, {boxes, scores}, {0}, 0};
  landmarker = (fake){info(4, 1, 1, 64, 64), {info(2, 1, 136, 0, 0)}, {landmarks, NULL}, {0}, 0};
  embedder = (fake){info(4, 1, 3, 112, 112), {info(2, 1, 8, 0, 0)}, {embedding, NULL}, {0}, 0};
  for (int i = 0; i < 68; i++) landmarks[2 * i] = landmarks[2 * i + 1] = 0.5f;
  // Eyes, nose and mouth of an upright face.
  for (int i = 36; i < 42; i++) landmarks[2 * i] = 0.3f, landmarks[2 * i + 1] = 0.4f;
  for (int i = 42; i < 48; i++) landmarks[2 * i] = 0.7f, landmarks[2 * i + 1] = 0.4f;
  landmarks[96] = 0.35f, landmarks[97] = 0.75f, landmarks[108] = 0.65f, landmarks[109] = 0.75f;
  itg_face_pipeline *p = NULL;
  assert_int_equal(
      itg_face_pipeline_create(network(&detector, 2), network(&landmarker, 1), network(&embedder, 1), NULL, &p),
      ITG_OK);
  return p;
}

static void set_box(int i, float score, float x1, float y1, float x2, float y2) {
  scores[2 * i + 1] = score;
  memcpy(boxes + 4 * i, (float[]){x1, y1, x2, y2}, 16);
}

static itg_image picture(int width, int height, int channels) {
  itg_image image = {0};
  assert_int_equal(itg_image_create(width, height, channels, NULL, &image), ITG_OK);
  for (int i = 0; i < width * height * channels; i++) image.pixels[i] = (uint8_t)(i * 7 + i / 251);
  return image;
}

static void the_best_box_becomes_five_points(void **state) {
  (void)state;
  itg_face_pipeline *p = start();
  itg_image photo = picture(200, 100, 3);
  set_box(1, 0.5f, 0, 0, 1, 1);
  set_box(4, 0.9f, 0.25f, 0.1f, 0.5f, 0.6f);
  set_box(5, 0.9f, 0, 0, 1, 1); // As certain, but later.
  itg_face face;
  assert_int_equal(itg_face_find(p, &photo, NULL, &face), ITG_OK);
  assert_true(fabs(face.score - 0.9) < 1e-6);
  assert_true(fabs(face.box[0] - 50) < 1e-4 && fabs(face.box[1] - 10) < 1e-4 && fabs(face.box[2] - 100) < 1e-4 &&
              fabs(face.box[3] - 60) < 1e-4);
  // The crop is x 50 .. 100 and y 10 .. 60, or a pixel less by truncation.
  assert_true(fabs(face.points[0][0] - 65) < 1.1 && fabs(face.points[0][1] - 30) < 1.1);
  assert_true(fabs(face.points[1][0] - 85) < 1.1 && fabs(face.points[4][1] - 47.5) < 1.1);
  // What the detector saw: RGB planes of the squashed picture.
  itg_image small;
  assert_int_equal(itg_image_resize(&photo, ITG_RESIZE_OPENCV_LINEAR, 320, 240, NULL, &small), ITG_OK);
  for (int c = 0; c < 3; c++)
    for (int i = 0; i < 240 * 320; i += 997)
      assert_true(detector.seen[c * 240 * 320 + i] == ((float)small.pixels[3 * i + c] - 127.0f) / 128.0f);
  itg_image_free(&small);
  itg_image_free(&photo);
  itg_face_pipeline_destroy(p);
}

static void overlapping_boxes_are_one_face(void **state) {
  (void)state;
  itg_face_pipeline *p = start();
  itg_image photo = picture(100, 100, 1);
  set_box(0, 0.8f, 0.1f, 0.1f, 0.4f, 0.4f);
  set_box(1, 0.9f, 0.12f, 0.1f, 0.42f, 0.4f);
  set_box(2, 0.75f, 0.6f, 0.6f, 0.9f, 0.9f);
  set_box(3, 0.99f, 0.5f, 0.5f, 0.5f, 0.7f); // Empty.
  set_box(4, NAN, 0, 0, 1, 1);
  set_box(5, 0.95f, NAN, 0, 1, 1);
  itg_face faces[BOXES];
  size_t count = 99;
  assert_int_equal(itg_face_find_all(p, &photo, 0.7, 0.3, faces, BOXES, NULL, &count), ITG_OK);
  assert_int_equal(count, 2);
  assert_true(faces[0].score > 0.89 && faces[1].score < 0.76);
  assert_int_equal(itg_face_find_all(p, &photo, 0.7, 0.95, faces, BOXES, NULL, &count), ITG_OK);
  assert_int_equal(count, 3);
  assert_int_equal(itg_face_find_all(p, &photo, 0.7, 0.3, faces, 1, NULL, &count), ITG_OK);
  assert_int_equal(count, 1);
  assert_int_equal(itg_face_find_all(p, &photo, 0.999, 0.3, faces, BOXES, NULL, &count), ITG_OK);
  assert_int_equal(count, 0);
  itg_image_free(&photo);
  itg_face_pipeline_destroy(p);
}

static void boxes_at_the_border_are_cut_and_empty_ones_refused(void **state) {
  (void)state;
  itg_face_pipeline *p = start();
  static const struct {
    int width, height;
    float box[4];
    itg_status status;
  } cases[] = {{100, 80, {-0.5f, -0.5f, 1.5f, 1.5f}, ITG_OK},
               {100, 80, {0.9f, 0.9f, 5, 5}, ITG_OK},
               {100, 80, {0.5f, 0.5f, 0.5f, 0.5f}, ITG_ERROR_SHAPE},
               {100, 80, {0.6f, 0.1f, 0.4f, 0.9f}, ITG_ERROR_SHAPE},
               {100, 80, {1.2f, 0.1f, 1.4f, 0.9f}, ITG_ERROR_SHAPE},
               {100, 80, {-3, -3, -2, -2}, ITG_ERROR_SHAPE},
               {100, 80, {NAN, 0, 1, 1}, ITG_ERROR_SHAPE},
               {100, 80, {0, 0, INFINITY, 1}, ITG_ERROR_SHAPE},
               {100, 80, {-1e30f, 0, 1, 1}, ITG_ERROR_SHAPE},
               {1, 1, {0, 0, 1, 1}, ITG_ERROR_SHAPE},
               {2, 2, {0, 0, 1, 1}, ITG_OK}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int channels = 1; channels <= 3; channels += 2) {
      itg_image photo = picture(cases[i].width, cases[i].height, channels);
      itg_face face;
      itg_diagnostic why = {0};
      memset(scores, 0, sizeof scores);
      set_box(2, 1, cases[i].box[0], cases[i].box[1], cases[i].box[2], cases[i].box[3]);
      assert_int_equal(itg_face_find(p, &photo, &why, &face), cases[i].status);
      if (cases[i].status != ITG_OK) assert_non_null(strstr(why.message, "no face"));
      itg_image_free(&photo);
    }
  }
  itg_face_pipeline_destroy(p);
}

static void similarity_transform_undoes_rotation_and_scale(void **state) {
  (void)state;
  const double target[5][2] = {{38, 51}, {73, 52}, {56, 71}, {41, 92}, {70, 93}};
  for (int step = 0; step < 24; step++) {
    const double angle = step * 0.2618, scale = 0.3 + step * 0.2, c = scale * cos(angle), s = scale * sin(angle);
    double source[5][2], matrix[6];
    for (int i = 0; i < 5; i++) {
      source[i][0] = c * target[i][0] - s * target[i][1] + 17;
      source[i][1] = s * target[i][0] + c * target[i][1] - 230;
    }
    assert_int_equal(itg_similarity_transform(source, target, 5, NULL, matrix), ITG_OK);
    for (int i = 0; i < 5; i++)
      for (int k = 0; k < 2; k++)
        assert_true(fabs(matrix[3 * k] * source[i][0] + matrix[3 * k + 1] * source[i][1] + matrix[3 * k + 2] -
                         target[i][k]) < 1e-9);
  }
  // A mirrored face: the best transform without mirroring, never a reflection.
  double mirrored[5][2], matrix[6];
  for (int i = 0; i < 5; i++) mirrored[i][0] = -target[i][0], mirrored[i][1] = target[i][1];
  assert_int_equal(itg_similarity_transform(mirrored, target, 5, NULL, matrix), ITG_OK);
  assert_true(matrix[0] * matrix[4] - matrix[1] * matrix[3] > 0);
  double same[5][2] = {{3, 4}, {3, 4}, {3, 4}, {3, 4}, {3, 4}};
  assert_int_equal(itg_similarity_transform(same, target, 5, NULL, matrix), ITG_ERROR_SHAPE);
  same[2][1] = NAN;
  assert_int_equal(itg_similarity_transform(same, target, 5, NULL, matrix), ITG_ERROR_SHAPE);
}

static void crops_and_embeddings(void **state) {
  (void)state;
  itg_face_pipeline *p = start();
  static uint8_t crop[112 * 112 * 3], grey[112 * 112 * 3];
  itg_image photo = picture(112, 112, 3), dark = picture(112, 112, 1);
  // The reference points themselves: the crop is the picture.
  itg_face face = {
      .points = {{38.2946, 51.6963}, {73.5318, 51.5014}, {56.0252, 71.7366}, {41.5493, 92.3655}, {70.7299, 92.2041}}};
  assert_int_equal(itg_face_crop(&photo, &face, NULL, crop), ITG_OK);
  int different = 0;
  for (size_t i = 0; i < sizeof crop; i++) different += abs(crop[i] - photo.pixels[i]) > 1;
  assert_true(different < 112 * 3 * 4); // Rounding may move the outermost pixels to the border.
  assert_int_equal(itg_face_crop(&dark, &face, NULL, grey), ITG_OK);
  for (size_t i = 0; i < 112 * 112; i++) assert_true(grey[3 * i] == grey[3 * i + 1] && grey[3 * i] == grey[3 * i + 2]);
  assert_int_equal(itg_face_embedding_size(p), 8);
  float out[8], *none = out;
  for (int i = 0; i < 8; i++) embedding[i] = (float)i;
  assert_int_equal(itg_face_embed(p, crop, NULL, out, 7), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_face_embed(p, crop, NULL, none, 8), ITG_OK);
  assert_memory_equal(out, embedding, sizeof out);
  // Planes in the order blue, green, red.
  assert_true(embedder.seen[0] == ((float)crop[2] - 127.0f) / 128.0f);
  assert_true(embedder.seen[2 * 112 * 112 + 5] == ((float)crop[15] - 127.0f) / 128.0f);
  embedder.status = landmarker.status = ITG_ERROR_DEVICE;
  assert_int_equal(itg_face_embed(p, crop, NULL, out, 8), ITG_ERROR_DEVICE);
  set_box(0, 1, 0, 0, 1, 1);
  assert_int_equal(itg_face_find(p, &photo, NULL, &face), ITG_ERROR_DEVICE);
  itg_image_free(&photo);
  itg_image_free(&dark);
  itg_face_pipeline_destroy(p);
}

static void networks_of_another_layout_are_refused(void **state) {
  (void)state;
  itg_face_pipeline *p = start(), *other = NULL;
  itg_diagnostic why;
  const itg_network d = network(&detector, 2), l = network(&landmarker, 1), e = network(&embedder, 1);
  assert_int_equal(itg_face_pipeline_create(l, l, e, &why, &other), ITG_ERROR_SHAPE);
  assert_string_equal(why.subject, "detector");
  assert_int_equal(itg_face_pipeline_create(d, e, e, &why, &other), ITG_ERROR_SHAPE);
  assert_string_equal(why.subject, "landmarks");
  assert_int_equal(itg_face_pipeline_create(d, l, d, &why, &other), ITG_ERROR_SHAPE);
  assert_string_equal(why.subject, "embedder");
  detector.out[0] = info(3, 1, BOXES + 1, 4, 0);
  assert_int_equal(itg_face_pipeline_create(d, l, e, &why, &other), ITG_ERROR_SHAPE);
  detector.out[0] = info(3, 1, BOXES, 2, 0);
  assert_int_equal(itg_face_pipeline_create(d, l, e, &why, &other), ITG_ERROR_SHAPE);
  detector.out[0] = info(3, 1, BOXES, 4, 0);
  assert_int_equal(itg_face_pipeline_create(d, l, (itg_network){0}, NULL, &other), ITG_OK);
  float out[8];
  static const uint8_t crop[112 * 112 * 3];
  assert_int_equal(itg_face_embedding_size(other), 0);
  assert_int_equal(itg_face_embed(other, crop, NULL, out, 8), ITG_ERROR_ARGUMENT);
  itg_face_pipeline_destroy(other);
  itg_face_pipeline_destroy(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_box_becomes_five_points),
                                     cmocka_unit_test(overlapping_boxes_are_one_face),
                                     cmocka_unit_test(boxes_at_the_border_are_cut_and_empty_ones_refused),
                                     cmocka_unit_test(similarity_transform_undoes_rotation_and_scale),
                                     cmocka_unit_test(crops_and_embeddings),
                                     cmocka_unit_test(networks_of_another_layout_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
