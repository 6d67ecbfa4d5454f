// The face pipeline against the Python reference (OpenCV + ONNX Runtime) on every photograph of the shared set.
//
// Fed with the outputs of ONNX Runtime's networks the crops must be equal. On the interpreter they may differ by 1 code,
// and embeddings of the same crops by 1e-3. A detector's scores saturate near 1, so that two overlapping boxes may tie but
// for rounding; where the interpreter prefers another box, the reference must have had it within 1e-5 of the best.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "intaglio/pipelines.h"
#include "support/float_network.h"
#include "support/oracle.h"
#include "tensor/npy.h"

static char tools[4096], models[4096], faces[4096];

static itg_network open_network(const char *name) {
  char path[8192];
  itg_diagnostic why = {0};
  snprintf(path, sizeof path, "%s/%s", models, name);
  const itg_network network = float_network_open(path, &why);
  if (!network.run) fail_msg("%s: %s", path, why.message);
  return network;
}

static itg_npy open_array(const char *folder, const char *name) {
  char path[4200];
  itg_npy npy;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(itg_npy_open(path, NULL, &npy), ITG_OK);
  unlink(path); // The mapping keeps it.
  return npy;
}

// What the oracle wrote.
static itg_npy crops, embeddings, scores, boxes, landmarks;
static itg_image_list photographs;
static const size_t crop_size = 112 * 112 * 3;

static int run_oracle(void **state) {
  (void)state;
  char folder[] = "/tmp/intaglio-faces-XXXXXX", command[20000];
  if (!mkdtemp(folder)) return -1;
  snprintf(command, sizeof command, "'%s' '%s/tests/real/face_oracle.py' '%s' '%s' '%s' '%s'", oracle_python(),
           ITG_SOURCE_DIR, tools, models, faces, folder);
  if (system(command) != 0) return -1;
  crops = open_array(folder, "crops.npy");
  embeddings = open_array(folder, "embeddings.npy");
  scores = open_array(folder, "scores.npy");
  boxes = open_array(folder, "boxes.npy");
  landmarks = open_array(folder, "landmarks.npy");
  rmdir(folder);
  assert_int_equal(itg_image_list_folder(faces, NULL, &photographs), ITG_OK);
  assert_int_equal(photographs.count, crops.shape.dims[0]);
  return 0;
}

static int forget_oracle(void **state) {
  (void)state;
  itg_npy *const arrays[] = {&crops, &embeddings, &scores, &boxes, &landmarks};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) itg_npy_close(arrays[i]);
  itg_image_list_free(&photographs);
  return 0;
}

// A network that repeats what ONNX Runtime gave for photograph `row`.
typedef struct replay {
  itg_tensor_info in, out[2];
  const itg_npy *arrays[2];
  size_t row;
} replay;

static itg_status replay_run(void *context, const float *const *inputs, float *const *outputs,
                             itg_diagnostic *diagnostic) {
  const replay *r = context;
  (void)inputs;
  for (int i = 0; i < 2; i++)
    if (r->arrays[i])
      ITG_TRY(itg_npy_floats(r->arrays[i], r->row * r->out[i].count, r->out[i].count, diagnostic, outputs[i]));
  return ITG_OK;
}
static const itg_tensor_info *replay_input(void *context, size_t index) {
  return index ? NULL : &((replay *)context)->in;
}
static const itg_tensor_info *replay_output(void *context, size_t index) { return &((replay *)context)->out[index]; }

static itg_tensor_info info(itg_shape shape) {
  itg_tensor_info result = {.name = "t", .shape = shape, .dtype = ITG_DTYPE_F32};
  assert_true(itg_shape_count(&shape, &result.count));
  return result;
}

static void crops_equal_the_reference(void **state) {
  (void)state;
  const int64_t count = scores.shape.dims[1];
  replay detector = {info((itg_shape){4, {1, 3, 240, 320}}),
                     {info((itg_shape){3, {1, count, 2}}), info((itg_shape){3, {1, count, 4}})},
                     {&scores, &boxes},
                     0};
  replay landmarker = {info((itg_shape){4, {1, 1, 64, 64}}), {info((itg_shape){2, {1, 136}})}, {&landmarks, NULL}, 0};
  const itg_network networks[2] = {{&detector, 1, 2, replay_run, replay_input, replay_output, NULL},
                                   {&landmarker, 1, 1, replay_run, replay_input, replay_output, NULL}};
  itg_face_pipeline *pipeline = NULL;
  assert_int_equal(itg_face_pipeline_create(networks[0], networks[1], (itg_network){0}, NULL, &pipeline), ITG_OK);
  static uint8_t crop[112 * 112 * 3];
  for (size_t i = 0; i < photographs.count; i++) {
    itg_image photo = {0};
    itg_face face;
    detector.row = landmarker.row = i;
    assert_int_equal(itg_image_read(photographs.paths[i], NULL, NULL, &photo), ITG_OK);
    assert_int_equal(itg_face_find(pipeline, &photo, NULL, &face), ITG_OK);
    assert_int_equal(itg_face_crop(&photo, &face, NULL, crop), ITG_OK);
    if (memcmp(crop, crops.values + i * crop_size, crop_size) != 0) fail_msg("%s: another crop", photographs.paths[i]);
    itg_image_free(&photo);
  }
  itg_face_pipeline_destroy(pipeline);
}

// How far the box is below the reference's best one, in the reference's own scores; `same`: it is that one.
static double score_deficit(size_t photograph, const itg_image *photo, const itg_face *face, bool *same) {
  const size_t count = (size_t)scores.shape.dims[1];
  size_t best = 0, own = count;
  double best_score = -1, own_score = -1;
  for (size_t k = 0; k < count; k++) {
    float score[2], box[4];
    assert_int_equal(itg_npy_floats(&scores, (photograph * count + k) * 2, 2, NULL, score), ITG_OK);
    assert_int_equal(itg_npy_floats(&boxes, (photograph * count + k) * 4, 4, NULL, box), ITG_OK);
    double distance = 0;
    for (int j = 0; j < 4; j++)
      distance = fmax(distance, fabs((double)box[j] * (j % 2 ? photo->height : photo->width) - face->box[j]));
    if (score[1] > best_score) best = k, best_score = score[1];
    if (distance < 0.01 && score[1] > own_score) own = k, own_score = score[1];
  }
  assert_true(own < count); // It is one of the reference's boxes.
  *same = own == best;
  return best_score - own_score;
}

static void pipeline_on_the_interpreter_equals_the_reference(void **state) {
  (void)state;
  const itg_network networks[3] = {open_network("fr_detect.onnx"), open_network("fr_landmark.onnx"),
                                   open_network("fr_feature.onnx")};
  itg_face_pipeline *pipeline = NULL;
  itg_diagnostic why = {0};
  if (itg_face_pipeline_create(networks[0], networks[1], networks[2], &why, &pipeline) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  const size_t size = itg_face_embedding_size(pipeline);
  assert_int_equal(embeddings.shape.dims[1], (int64_t)size);

  static uint8_t crop[112 * 112 * 3];
  float *expected = malloc(size * sizeof *expected), *actual = malloc(size * sizeof *actual);
  size_t other_values = 0, ties = 0;
  double worst_number = 0, worst_deficit = 0;
  for (size_t i = 0; i < photographs.count; i++) {
    itg_image photo = {0};
    itg_face face, all[8];
    size_t found = 0, different = 0;
    int worst = 0;
    assert_int_equal(itg_image_read(photographs.paths[i], NULL, NULL, &photo), ITG_OK);
    if (itg_face_find(pipeline, &photo, &why, &face) != ITG_OK) fail_msg("%s: %s", photographs.paths[i], why.message);
    assert_int_equal(itg_face_find_all(pipeline, &photo, 0.7, 0.3, all, 8, NULL, &found), ITG_OK);
    assert_true(found >= 1 && memcmp(&all[0], &face, sizeof face) == 0);
    assert_int_equal(itg_face_crop(&photo, &face, NULL, crop), ITG_OK);
    const uint8_t *reference = crops.values + i * crop_size;
    for (size_t k = 0; k < crop_size; k++) {
      const int difference = abs(crop[k] - reference[k]);
      different += difference > 0;
      if (difference > worst) worst = difference;
    }
    bool same = false;
    worst_deficit = fmax(worst_deficit, score_deficit(i, &photo, &face, &same));
    if (!same) {
      ties++;
    } else {
      assert_true(worst <= 1);
      other_values += different;
    }
    assert_int_equal(itg_face_embed(pipeline, reference, NULL, actual, size), ITG_OK);
    assert_int_equal(itg_npy_floats(&embeddings, i * size, size, NULL, expected), ITG_OK);
    for (size_t k = 0; k < size; k++) worst_number = fmax(worst_number, fabs((double)actual[k] - expected[k]));
    itg_image_free(&photo);
  }
  printf("%zu photographs: %zu of %zu values of the crops differ by 1; %zu chose another box within %.1e of the best; "
         "embeddings differ by at most %.2e\n",
         photographs.count, other_values, (photographs.count - ties) * crop_size, ties, worst_deficit, worst_number);
  assert_true(worst_deficit <= 1e-5);
  assert_true(ties * 10 <= photographs.count);
  assert_true(worst_number <= 1e-3);
  free(expected);
  free(actual);
  itg_face_pipeline_destroy(pipeline);
  for (int i = 0; i < 3; i++) itg_float_network_close(networks[i].context);
}

int main(void) {
  snprintf(tools, sizeof tools, "%s/tools", oracle_shared());
  snprintf(models, sizeof models, "%s/faceplugin", oracle_models());
  snprintf(faces, sizeof faces, "%s/data/faces", oracle_shared());
  if (!oracle_exists(tools) || !oracle_exists(models) || !oracle_exists(faces) || !oracle_has("cv2, onnxruntime")) {
    printf(
        "skipped: needs the face models, the shared photographs and tools, and Python with OpenCV and ONNX Runtime\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(crops_equal_the_reference),
                                     cmocka_unit_test(pipeline_on_the_interpreter_equals_the_reference)};
  return cmocka_run_group_tests(tests, run_oracle, forget_oracle);
}
