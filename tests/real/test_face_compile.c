// The main job with real models and photographs, through the command: even photographs calibrate, odd ones judge.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/command.h"

static char models[1024], faces[1024];

static bool find_data(void) {
  const char *set = getenv("ITG_MODELS"), *home = getenv("HOME"), *shared = getenv("ITG_SHARED");
  if (set)
    snprintf(models, sizeof models, "%s/faceplugin", set);
  else
    snprintf(models, sizeof models, "%s/.cache/intaglio/models/faceplugin", home ? home : "");
  snprintf(faces, sizeof faces, "%s/data/faces", shared ? shared : ITG_SOURCE_DIR "/../shared");
  char path[1100];
  snprintf(path, sizeof path, "%s/fr_feature.onnx", models);
  if (access(path, R_OK) != 0) {
    printf("skipped: no face models in %s\n", models);
    return false;
  }
  if (access(faces, R_OK) != 0) {
    printf("skipped: no photographs in %s\n", faces);
    return false;
  }
  return true;
}

// even/<person>/<photograph> and odd/..., as links, by the number of the photograph.
static void link_photographs(const char *person) {
  char folder[2048], from[2400], to[600];
  for (int odd = 0; odd < 2; odd++) {
    snprintf(to, sizeof to, "%s/%.250s", odd ? "odd" : "even", person);
    if (mkdir(to, 0777) != 0) abort();
  }
  snprintf(folder, sizeof folder, "%s/%.250s", faces, person);
  DIR *stream = opendir(folder);
  for (const struct dirent *entry; stream && (entry = readdir(stream));) {
    const int number = atoi(entry->d_name);
    if (number == 0) continue;
    snprintf(from, sizeof from, "%s/%s", folder, entry->d_name);
    snprintf(to, sizeof to, "%s/%.250s/%.250s", number % 2 ? "odd" : "even", person, entry->d_name);
    if (symlink(from, to) != 0) abort();
  }
  if (stream) closedir(stream);
}

static int prepare(void **state) {
  if (enter_work_folder(state) != 0 || mkdir("even", 0777) != 0 || mkdir("odd", 0777) != 0) return -1;
  DIR *stream = opendir(faces);
  for (const struct dirent *entry; stream && (entry = readdir(stream));) {
    if (strncmp(entry->d_name, "person", 6) == 0) link_photographs(entry->d_name);
  }
  if (stream) closedir(stream);
  return 0;
}

typedef struct outcome {
  double mean, min, float_margin, integer_margin, verification;
} outcome;

static outcome compile(const char *precision) {
  char line[4000];
  snprintf(line, sizeof line,
           "compile %s/fr_feature.onnx -o face.itg --kind face-recognition --calibration even --judge odd -p %s --json "
           "--quiet --report face.html",
           models, precision);
  assert_int_equal(command(line), 0);
  json_t *root = json_loads(command_stdout, 0, NULL);
  json_t *accuracy = json_object_get(root, "accuracy");
  json_t *output = json_array_get(json_object_get(accuracy, "outputs"), 0);
  const outcome result = {json_real_value(json_object_get(output, "cosine_mean")),
                          json_real_value(json_object_get(output, "cosine_min")),
                          json_real_value(json_object_get(output, "float_margin")),
                          json_real_value(json_object_get(output, "integer_margin")),
                          json_real_value(json_object_get(output, "integer_verification"))};
  assert_int_equal(json_integer_value(json_object_get(accuracy, "samples")), 25);
  json_decref(root);
  printf("%s: cosine %.5f (min %.5f), margin %+.4f (float %+.4f)\n", precision, result.mean, result.min,
         result.integer_margin, result.float_margin);
  return result;
}

static void test_default_precision(void **state) {
  (void)state;
  const outcome result = compile("a8w8+s16");
  assert_true(result.mean >= 0.992);
  assert_true(result.min >= 0.985);
  assert_true(result.verification == 1);
  assert_true(result.integer_margin > result.float_margin - 0.02);
  assert_true(exists("face.html"));
}

static void test_wide_precision(void **state) {
  (void)state;
  const outcome result = compile("a16w8");
  assert_true(result.mean >= 0.9985);
  assert_true(result.verification == 1);
}

// The compiled file remembers that it takes photographs.
static void test_photograph_in(void **state) {
  (void)state;
  char line[4000];
  snprintf(line, sizeof line, "run face.itg --face-models %s --input %s/person_01/01.jpg --output e.npy", models,
           faces);
  assert_int_equal(command(line), 0);
  itg_npy embedding;
  assert_int_equal(itg_npy_open("e.npy", NULL, &embedding), ITG_OK);
  assert_int_equal(embedding.count, 512);
  itg_npy_close(&embedding);
  snprintf(line, sizeof line, "compare face.itg --float %s/fr_feature.onnx --data odd --min-cosine 0.99", models);
  assert_int_equal(command(line), 0);
}

// Pictures through a preprocessing description, which the compiled file remembers.
static void test_picture_folder(void **state) {
  (void)state;
  char line[4000];
  snprintf(
      line, sizeof line,
      "compile %s/fr_pose.onnx -o pose.itg --calibration even --preprocess raw-255 --limit 20 --split --quiet -p a16w8",
      models);
  assert_int_equal(command(line), 0);
  snprintf(line, sizeof line, "run pose.itg --input %s/person_01/01.jpg --output output=y.npy", faces);
  assert_int_equal(command(line), 0);
  assert_int_equal(command("run pose.itg --input odd --samples --output output=rows.npy --quiet"), 0);
  itg_npy rows;
  assert_int_equal(itg_npy_open("rows.npy", NULL, &rows), ITG_OK);
  assert_int_equal(rows.shape.dims[0], 25);
  itg_npy_close(&rows);
}

int main(void) {
  if (!find_data()) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_default_precision),
      cmocka_unit_test(test_wide_precision),
      cmocka_unit_test(test_photograph_in),
      cmocka_unit_test(test_picture_folder),
  };
  return cmocka_run_group_tests(tests, prepare, leave_work_folder);
}
