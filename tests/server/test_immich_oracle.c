// The whole service against a reference in Python (ONNX Runtime, OpenCV, Pillow): multipart bodies as Immich's server builds
// them, with every photograph at hand and several lowest scores. Same faces, boxes exact, scores and embeddings within 1e-3.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "intaglio/pipelines.h"
#include "server/service.h"

enum { MOST_BODIES = 200 };
static const double scores[] = {0.7, 0.9, 0.3, 0.5};
static char photographs[2][4096], tools[4096], models[4096];

static int write_bodies(void) {
  int count = 0;
  for (int f = 0; f < 2; f++) {
    itg_image_list list = {0};
    if (itg_image_list_folder(photographs[f], NULL, &list) != ITG_OK) continue;
    for (size_t i = 0; i < list.count && count < MOST_BODIES; i++) {
      char entries[512], path[8192];
      size_t size;
      char *image = service_read_file(list.paths[i], &size);
      snprintf(entries, sizeof entries, FACES_ENTRIES, scores[i % 4]);
      const body b = body_of(entries, image, size, NULL);
      snprintf(path, sizeof path, "%s/%03d.body", service_folder, count);
      FILE *file = fopen(path, "wb");
      assert_int_equal(fwrite(b.data, 1, b.size, file), b.size);
      fclose(file);
      snprintf(path, sizeof path, "%03d.type", count++);
      service_write(path, BODY_TYPE);
      free(b.data);
      free(image);
    }
    itg_image_list_free(&list);
  }
  return count;
}

typedef struct differences {
  double score, embedding;
  int faces, ties, twins; // Ties of rounding a box, and of two boxes' scores.
} differences;

static bool same_box(const json_t *got, const json_t *wanted, int *ties) {
  static const char *const names[] = {"x1", "y1", "x2", "y2"};
  int halves = 0;
  for (size_t k = 0; k < 4; k++) {
    const double a = json_number_value(json_object_get(json_object_get(got, "boundingBox"), names[k]));
    const double b = json_number_value(json_object_get(json_object_get(wanted, "boundingBox"), names[k]));
    const double exact = json_number_value(json_array_get(json_object_get(wanted, "exactBox"), k));
    // Two ways of adding floats may fall on two sides of a half; nothing else may differ.
    if (a == b) continue;
    if (fabs(a - b) > 1 || fabs(fabs(exact - floor(exact)) - 0.5) > 2e-3) return false;
    halves++;
  }
  *ties += halves;
  return true;
}

static void compare_face(int index, const json_t *got, const json_t *wanted, differences *worst) {
  if (!same_box(got, wanted, &worst->ties)) {
    const json_t *twins = json_object_get(wanted, "twins");
    size_t i = 0;
    while (i < json_array_size(twins) && !same_box(got, json_array_get(twins, i), &worst->ties)) i++;
    if (i == json_array_size(twins)) fail_msg("body %d: a box that the reference has not", index);
    wanted = json_array_get(twins, i);
    worst->twins++;
  }
  worst->score = fmax(worst->score, fabs(json_number_value(json_object_get(got, "score")) -
                                         json_number_value(json_object_get(wanted, "score"))));
  json_t *embedding = json_loads(json_string_value(json_object_get(got, "embedding")), 0, NULL);
  const json_t *reference = json_object_get(wanted, "embedding");
  assert_int_equal(json_array_size(embedding), 512);
  assert_int_equal(json_array_size(reference), 512);
  for (size_t i = 0; i < 512; i++)
    worst->embedding = fmax(worst->embedding, fabs(json_number_value(json_array_get(embedding, i)) -
                                                   json_number_value(json_array_get(reference, i))));
  json_decref(embedding);
  worst->faces++;
}

static void compare(uint16_t port, int index, differences *worst) {
  char path[4096];
  body b;
  snprintf(path, sizeof path, "%s/%03d.body", service_folder, index);
  b.data = service_read_file(path, &b.size);
  http_reply reply = body_post(port, &b);
  assert_int_equal(reply.status, 200);
  assert_string_equal(http_find_header(&reply, "content-type"), "application/json");
  json_t *got = json_loadb(reply.body, reply.size, 0, NULL);
  snprintf(path, sizeof path, "%s/%03d.json", service_folder, index);
  json_t *wanted = json_load_file(path, 0, NULL);
  assert_non_null(got);
  assert_non_null(wanted);
  assert_int_equal(json_object_size(got), 3);
  assert_true(json_equal(json_object_get(got, "imageHeight"), json_object_get(wanted, "imageHeight")));
  assert_true(json_equal(json_object_get(got, "imageWidth"), json_object_get(wanted, "imageWidth")));
  const json_t *faces = json_object_get(got, "facial-recognition");
  const json_t *reference = json_object_get(wanted, "facial-recognition");
  if (json_array_size(faces) != json_array_size(reference))
    fail_msg("body %d: %zu faces, not %zu", index, json_array_size(faces), json_array_size(reference));
  for (size_t i = 0; i < json_array_size(faces); i++)
    compare_face(index, json_array_get(faces, i), json_array_get(reference, i), worst);
  json_decref(got);
  json_decref(wanted);
  free(b.data);
  http_free(&reply);
}

static void answers_as_the_reference(void **state) {
  (void)state;
  char command[16384];
  const int count = write_bodies();
  assert_true(count >= 60);
  snprintf(command, sizeof command, "'%s' '%s/tests/server/immich_reference.py' '%s' '%s' '%s'", oracle_python(),
           ITG_SOURCE_DIR, models, tools, service_folder);
  assert_int_equal(system(command), 0);
  service s = {0};
  differences worst = {0};
  service_start(&s, (itg_models_options){0}, (itg_immich_options){0});
  for (int i = 0; i < count; i++) compare(s.port, i, &worst);
  service_stop(&s);
  print_message("%d bodies, %d faces: boxes equal but for %d ties of rounding and %d of scores; scores within %.1e, "
                "embeddings within %.1e\n",
                count, worst.faces, worst.ties, worst.twins, worst.score, worst.embedding);
  assert_true(worst.faces >= 60);
  assert_true(worst.ties <= 2);
  assert_true(worst.twins <= 5);
  assert_true(worst.score <= 1e-3);
  assert_true(worst.embedding <= 1e-3);
}

int main(void) {
  snprintf(tools, sizeof tools, "%s/tools", oracle_shared());
  snprintf(photographs[0], sizeof photographs[0], "%s/data/faces", oracle_shared());
  snprintf(photographs[1], sizeof photographs[1], "%s/../photos", oracle_models());
  snprintf(models, sizeof models, "%s/faceplugin", oracle_models());
  if (!oracle_exists(photographs[0]) || !oracle_exists(photographs[1]) || !oracle_has("cv2, onnxruntime, PIL") ||
      !service_prepare()) {
    printf("skipped: needs the face models, the photographs, and Python with cv2, onnxruntime, PIL\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_as_the_reference)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  service_remove();
  return failed;
}
