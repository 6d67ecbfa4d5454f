// Face detectors of SCRFD's layout (made weights) against insightface's way of running them with OpenCV and ONNX Runtime:
// the same faces in the same order, boxes and points within 1/100 pixel, scores within 1e-5, crops within one code.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "intaglio/compiler.h"
#include "intaglio/pipelines.h"
#include "support/oracle.h"
#include "support/take.h"

enum { MOST_FACES = 256, CROP = 112 * 112 * 3 };

static char folder[] = "/tmp/intaglio-scrfd-XXXXXX", photographs[4096], faces[4096];
static itg_image_list list;

// Every seventh of the shared faces, and whole photographs with groups of people.
static int run_oracle(void **state) {
  (void)state;
  char command[65536];
  itg_image_list groups = {0}, single = {0};
  if (!mkdtemp(folder)) return -1;
  assert_int_equal(itg_image_list_folder(faces, NULL, &single), ITG_OK);
  assert_int_equal(itg_image_list_folder(photographs, NULL, &groups), ITG_OK);
  list.paths = calloc(single.count + groups.count, sizeof *list.paths);
  for (size_t i = 0; i < single.count; i += 7) list.paths[list.count++] = strdup(single.paths[i]);
  for (size_t i = 0; i < groups.count; i++) list.paths[list.count++] = strdup(groups.paths[i]);
  itg_image_list_free(&single);
  itg_image_list_free(&groups);
  int length = snprintf(command, sizeof command, "'%s' '%s/tests/real/scrfd_oracle.py' '%s'", oracle_python(),
                        ITG_SOURCE_DIR, folder);
  for (size_t i = 0; i < list.count; i++)
    length += snprintf(command + length, sizeof command - (size_t)length, " '%s'", list.paths[i]);
  return system(command) == 0 ? 0 : -1;
}

static int remove_oracle(void **state) {
  (void)state;
  char command[256];
  itg_image_list_free(&list);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static void compare_face(const itg_image *photo, const itg_face *face, itg_span *rest, const char *path) {
  double expected[15];
  uint8_t crop[CROP];
  memcpy(expected, take(rest, sizeof expected), sizeof expected);
  const uint8_t *reference = take(rest, CROP);
  for (int k = 0; k < 4; k++)
    if (fabs(face->box[k] - expected[k]) > 0.01) fail_msg("%s: side %d %f %f", path, k, face->box[k], expected[k]);
  assert_true(fabs(face->score - expected[4]) <= 1e-5);
  for (int k = 0; k < 10; k++) assert_true(fabs(face->points[k / 2][k % 2] - expected[5 + k]) <= 0.01);
  assert_int_equal(itg_face_crop(photo, face, NULL, crop), ITG_OK);
  for (int i = 0; i < CROP; i++)
    if (abs(crop[i] - reference[i]) > 1) fail_msg("%s: value %d of the crop: %d %d", path, i, crop[i], reference[i]);
}

static void compare_model(const char *name) {
  static const char *const shapes[] = {"1x3x640x640"};
  const itg_source_options options = {sizeof options, shapes, 1};
  char path[256];
  itg_diagnostic why = {0};
  itg_mapped_file file;
  itg_float_network *network = NULL;
  itg_face_pipeline *pipeline = NULL;
  snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
  if (itg_float_network_open(path, &options, &why, &network) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  const itg_network detector = itg_network_from_float(network);
  assert_true(itg_face_detector_has_points(detector));
  assert_int_equal(itg_face_pipeline_create(detector, (itg_network){0}, (itg_network){0}, &why, &pipeline), ITG_OK);
  snprintf(path, sizeof path, "%s/%s.bin", folder, name);
  assert_int_equal(itg_mapped_file_open(path, NULL, &file), ITG_OK);
  itg_span rest = file.bytes;
  size_t total = 0;
  for (size_t i = 0; i < list.count; i++) {
    itg_image photo = {0};
    itg_face found[MOST_FACES], best;
    size_t count = 0;
    int32_t expected;
    assert_int_equal(itg_image_read(list.paths[i], NULL, NULL, &photo), ITG_OK);
    assert_int_equal(itg_face_find_all(pipeline, &photo, 0.5, 0.4, found, MOST_FACES, &why, &count), ITG_OK);
    memcpy(&expected, take(&rest, sizeof expected), sizeof expected);
    if ((size_t)expected != count) fail_msg("%s, %s: %zu faces, not %d", name, list.paths[i], count, expected);
    for (size_t k = 0; k < count; k++) compare_face(&photo, &found[k], &rest, list.paths[i]);
    assert_int_equal(itg_face_find(pipeline, &photo, &why, &best), ITG_OK);
    if (count) assert_memory_equal(&best, &found[0], sizeof best);
    total += count;
    itg_image_free(&photo);
  }
  assert_int_equal(rest.size, 0);
  assert_true(total > 20);
  printf("%s: %zu faces in %zu photographs\n", name, total, list.count);
  itg_mapped_file_close(&file);
  itg_face_pipeline_destroy(pipeline);
  itg_float_network_close(network);
}

static void flat_outputs_equal_the_reference(void **state) {
  (void)state;
  compare_model("flat");
}
static void batched_outputs_equal_the_reference(void **state) {
  (void)state;
  compare_model("batched");
}

int main(void) {
  snprintf(faces, sizeof faces, "%s/data/faces", oracle_shared());
  snprintf(photographs, sizeof photographs, "%s/../photos/calibrate", oracle_models());
  if (!oracle_exists(faces) || !oracle_exists(photographs) || !oracle_has("cv2, onnxruntime, onnx")) {
    printf("skipped: needs the photographs and Python with OpenCV, ONNX and ONNX Runtime\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(flat_outputs_equal_the_reference),
                                     cmocka_unit_test(batched_outputs_equal_the_reference)};
  return cmocka_run_group_tests(tests, run_oracle, remove_oracle);
}
