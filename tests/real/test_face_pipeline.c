// The face pipeline on the interpreter against the Python reference on ONNX Runtime: crops within 1 code, embeddings within
// 1e-3, on every photograph of the shared set.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "intaglio/compiler.h"
#include "intaglio/pipelines.h"
#include "support/oracle.h"
#include "tensor/npy.h"

static char tools[4096], models[4096], faces[4096];

static itg_status run(void *context, const float *const *inputs, float *const *outputs, itg_diagnostic *diagnostic) {
  const void *in[1] = {inputs[0]};
  void *out[2] = {NULL, NULL};
  for (size_t i = 0; i < itg_float_network_output_count(context); i++) out[i] = outputs[i];
  return itg_float_network_run(context, in, out, diagnostic);
}
static const itg_tensor_info *input(void *context, size_t index) { return itg_float_network_input(context, index); }
static const itg_tensor_info *output(void *context, size_t index) { return itg_float_network_output(context, index); }

static itg_network open_network(const char *name) {
  char path[8192];
  itg_float_network *network = NULL;
  itg_diagnostic why = {0};
  snprintf(path, sizeof path, "%s/%s", models, name);
  if (itg_float_network_open(path, NULL, &why, &network) != ITG_OK) fail_msg("%s: %s", path, why.message);
  return (itg_network){
      network, itg_float_network_input_count(network), itg_float_network_output_count(network), run, input, output};
}

static itg_npy open_array(const char *folder, const char *name) {
  char path[4200];
  itg_npy npy;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(itg_npy_open(path, NULL, &npy), ITG_OK);
  unlink(path); // The mapping keeps it.
  return npy;
}

static void pipeline_equals_the_reference(void **state) {
  (void)state;
  char folder[] = "/tmp/intaglio-faces-XXXXXX", command[20000];
  assert_non_null(mkdtemp(folder));
  snprintf(command, sizeof command, "'%s' '%s/tests/real/face_oracle.py' '%s' '%s' '%s' '%s'", oracle_python(),
           ITG_SOURCE_DIR, tools, models, faces, folder);
  if (system(command) != 0) fail_msg("the oracle failed: %s", command);
  itg_npy crops = open_array(folder, "crops.npy"), embeddings = open_array(folder, "embeddings.npy");
  rmdir(folder);

  const itg_network networks[3] = {open_network("fr_detect.onnx"), open_network("fr_landmark.onnx"),
                                   open_network("fr_feature.onnx")};
  itg_face_pipeline *pipeline = NULL;
  itg_diagnostic why = {0};
  if (itg_face_pipeline_create(networks[0], networks[1], networks[2], &why, &pipeline) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  const size_t size = itg_face_embedding_size(pipeline);
  assert_int_equal(embeddings.shape.dims[1], (int64_t)size);
  itg_image_list list = {0};
  assert_int_equal(itg_image_list_folder(faces, NULL, &list), ITG_OK);
  assert_int_equal(list.count, crops.shape.dims[0]);

  static uint8_t crop[112 * 112 * 3];
  float *expected = malloc(size * sizeof *expected), *actual = malloc(size * sizeof *actual);
  int worst_pixel = 0;
  size_t other_pixels = 0;
  double worst_number = 0;
  for (size_t i = 0; i < list.count; i++) {
    itg_image photo = {0};
    itg_face face, all[8];
    size_t found = 0;
    assert_int_equal(itg_image_read(list.paths[i], NULL, NULL, &photo), ITG_OK);
    if (itg_face_find(pipeline, &photo, &why, &face) != ITG_OK) fail_msg("%s: %s", list.paths[i], why.message);
    assert_int_equal(itg_face_find_all(pipeline, &photo, 0.7, 0.3, all, 8, NULL, &found), ITG_OK);
    assert_true(found >= 1 && memcmp(&all[0], &face, sizeof face) == 0);
    assert_int_equal(itg_face_crop(&photo, &face, NULL, crop), ITG_OK);
    assert_int_equal(itg_face_embed(pipeline, crop, NULL, actual, size), ITG_OK);
    assert_int_equal(itg_npy_floats(&embeddings, i * size, size, NULL, expected), ITG_OK);
    for (size_t k = 0; k < sizeof crop; k++) {
      const int difference = abs(crop[k] - crops.values[i * sizeof crop + k]);
      other_pixels += difference > 0;
      if (difference > worst_pixel) worst_pixel = difference;
    }
    for (size_t k = 0; k < size; k++) worst_number = fmax(worst_number, fabs((double)actual[k] - expected[k]));
    itg_image_free(&photo);
  }
  printf("%zu photographs: crops differ by at most %d (%zu of %zu values), embeddings by at most %.2e\n", list.count,
         worst_pixel, other_pixels, list.count * sizeof crop, worst_number);
  assert_true(worst_pixel <= 1);
  assert_true(worst_number <= 1e-3);
  free(expected);
  free(actual);
  itg_image_list_free(&list);
  itg_face_pipeline_destroy(pipeline);
  for (int i = 0; i < 3; i++) itg_float_network_close(networks[i].context);
  itg_npy_close(&crops);
  itg_npy_close(&embeddings);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(pipeline_equals_the_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
