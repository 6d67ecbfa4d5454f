// The service with integer models beside the service with float ones, on photographs that did not calibrate: the same faces, and
// for every pair of faces the same answer to Immich's question whether they are one person (cosine distance below .5). In the
// crowds (111 faces) pairs stand so close to the threshold that a few fall on its other side.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "intaglio/pipelines.h"
#include "server/service.h"

enum { SIZE = 512, MOST_FACES = 1000 };

typedef struct found_face {
  double box[4], score;
  float embedding[SIZE];
} found_face;

static found_face float_faces[MOST_FACES], integer_faces[MOST_FACES];
static char calibration[4096], photographs[4096];

static void compile(const char *place, const char *options) {
  char command[16384];
  const char *base = "models/facial-recognition/integer";
  snprintf(command, sizeof command,
           "'%s/intaglio' compile '%s/%s/%s.onnx' -o '%s/%s/%s.itg' --calibration '%s/even' %s --quiet >/dev/null 2>&1",
           ITG_BINARY_DIR, service_folder, base, place, service_folder, base, place, service_folder, options);
  assert_int_equal(system(command), 0);
}

// Even photographs calibrate, odd ones are judged on.
static void prepare_models(void) {
  char command[16384];
  snprintf(
      command, sizeof command,
      "cp -r %s/models/facial-recognition/faceplugin %s/models/facial-recognition/integer && mkdir %s/even %s/odd && "
      "for f in '%s'/*/*.jpg; do n=$(basename \"$f\" .jpg); p=$(basename \"$(dirname \"$f\")\"); "
      "if [ $((10#$n %% 2)) = 0 ]; then d=even; else d=odd; fi; mkdir -p %s/$d/$p; cp \"$f\" %s/$d/$p/; done",
      service_folder, service_folder, service_folder, service_folder, calibration, service_folder, service_folder);
  char *words[] = {"bash", "-c", command, NULL};
  const pid_t child = fork();
  if (child == 0) {
    execvp("bash", words);
    _exit(127);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  char faces[4200];
  snprintf(faces, sizeof faces,
           "--kind face-recognition --face-models '%s/models/facial-recognition/integer/detection'", service_folder);
  compile("recognition/model", faces);
  compile("detection/model", "--preprocess faceplugin-detector --precision a16w8");
}

static size_t ask(uint16_t port, const char *model, double min_score, const char *image, size_t image_size,
                  found_face *faces) {
  char entries[512];
  snprintf(entries, sizeof entries,
           "{\"facial-recognition\":{\"detection\":{\"modelName\":\"%s\",\"options\":{\"minScore\":%g}},"
           "\"recognition\":{\"modelName\":\"%s\"}}}",
           model, min_score, model);
  const body b = body_of(entries, image, image_size, NULL);
  http_reply reply = body_post(port, &b);
  assert_int_equal(reply.status, 200);
  json_t *root = json_loadb(reply.body, reply.size, 0, NULL);
  const json_t *list = json_object_get(root, "facial-recognition");
  const size_t count = json_array_size(list);
  assert_true(count <= MOST_FACES);
  for (size_t i = 0; i < count; i++) {
    static const char *const names[] = {"x1", "y1", "x2", "y2"};
    const json_t *face = json_array_get(list, i);
    for (size_t k = 0; k < 4; k++)
      faces[i].box[k] = json_number_value(json_object_get(json_object_get(face, "boundingBox"), names[k]));
    faces[i].score = json_number_value(json_object_get(face, "score"));
    json_t *numbers = json_loads(json_string_value(json_object_get(face, "embedding")), 0, NULL);
    for (size_t k = 0; k < SIZE; k++) faces[i].embedding[k] = (float)json_number_value(json_array_get(numbers, k));
    json_decref(numbers);
  }
  json_decref(root);
  http_free(&reply);
  free(b.data);
  return count;
}

static double overlap(const double *a, const double *b) {
  const double width = fmin(a[2], b[2]) - fmax(a[0], b[0]), height = fmin(a[3], b[3]) - fmax(a[1], b[1]);
  if (width <= 0 || height <= 0) return 0;
  return width * height / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height);
}

static double cosine(const float *a, const float *b) {
  double ab = 0, aa = 0, bb = 0;
  for (int i = 0; i < SIZE; i++) {
    ab += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i];
    bb += (double)b[i] * (double)b[i];
  }
  return ab / sqrt(aa * bb);
}

static void finds_and_groups_as_float_does(void **state) {
  (void)state;
  prepare_models();
  char odd[128];
  snprintf(odd, sizeof odd, "%s/odd", service_folder);
  char apart[4200], crowds[4200];
  snprintf(apart, sizeof apart, "%s/judge", photographs);
  snprintf(crowds, sizeof crowds, "%s/calibrate", photographs);
  const char *folders[] = {odd, apart, crowds};
  service s = {0};
  service_start(&s, (itg_models_options){0}, (itg_immich_options){0});
  size_t pairs = 0, total = 0, photos = 0, strict = 0; // Pairs before the crowds.
  double worst = 1, sum = 0;
  found_face *found = calloc(MOST_FACES, sizeof *found);
  for (int f = 0; f < 3; f++) {
    itg_image_list list = {0};
    if (f == 2) strict = pairs;
    assert_int_equal(itg_image_list_folder(folders[f], NULL, &list), ITG_OK);
    for (size_t i = 0; i < list.count; i++, photos++) {
      size_t size;
      char *image = service_read_file(list.paths[i], &size);
      assert_true(pairs + 200 < MOST_FACES);
      const size_t wanted = ask(s.port, "faceplugin", 0.7, image, size, float_faces + pairs);
      const size_t got = ask(s.port, "integer", 0.7, image, size, found);
      for (size_t k = 0; k < wanted; k++) {
        size_t best = 0;
        double most = 0;
        for (size_t j = 0; j < got; j++) {
          const double o = overlap(float_faces[pairs].box, found[j].box);
          if (o > most) most = o, best = j;
        }
        total++;
        if (most < 0.5) { // Not found: the next float face takes this one's place.
          memmove(&float_faces[pairs], &float_faces[pairs + 1], (wanted - k) * sizeof *float_faces);
          continue;
        }
        integer_faces[pairs] = found[best];
        const double c = cosine(float_faces[pairs].embedding, integer_faces[pairs].embedding);
        sum += c;
        worst = fmin(worst, c);
        pairs++;
      }
      free(image);
    }
    itg_image_list_free(&list);
  }
  free(found);
  service_stop(&s);
  size_t compared = 0, different = 0, same = 0, strict_different = 0;
  double farthest = 0; // From the threshold in float, of a pair that is told otherwise.
  for (size_t i = 0; i < pairs; i++)
    for (size_t j = 0; j < i; j++, compared++) {
      const double distance = 1 - cosine(float_faces[i].embedding, float_faces[j].embedding);
      const bool in_float = distance < 0.5;
      const bool in_integers = 1 - cosine(integer_faces[i].embedding, integer_faces[j].embedding) < 0.5;
      same += in_float;
      different += in_float != in_integers;
      strict_different += i < strict && in_float != in_integers;
      if (in_float != in_integers) farthest = fmax(farthest, fabs(distance - 0.5));
    }
  print_message(
      "%zu photographs, %zu faces in float, %zu found by integers (%.2f %%); cosine to float %.4f, lowest %.4f\n",
      photos, total, pairs, 100.0 * (double)pairs / (double)total, sum / (double)pairs, worst);
  print_message("%zu pairs, %zu of one person: %zu told otherwise, at most %.3f from the threshold; %zu of them "
                "outside the crowds\n",
                compared, same, different, farthest, strict_different);
  assert_true(total >= 40);
  assert_true((double)pairs >= 0.99 * (double)total);
  assert_true(same >= 30);
  assert_int_equal(strict_different, 0);
  assert_true((double)different <= 0.001 * (double)compared);
  assert_true(farthest < 0.04);
}

int main(void) {
  snprintf(calibration, sizeof calibration, "%s/data/faces", oracle_shared());
  snprintf(photographs, sizeof photographs, "%s/../photos", oracle_models());
  if (!oracle_exists(calibration) || !oracle_exists(photographs) || !service_prepare()) {
    printf("skipped: needs the face models, the package photographs and the shared ones\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds_and_groups_as_float_does)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  service_remove();
  return failed;
}
