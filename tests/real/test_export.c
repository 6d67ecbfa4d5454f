// Exported files in ONNX Runtime: QDQ models on the CPU against our session, NPU contexts on the vendor's library against ours.
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

#include "support/noise_model.h"
#include "support/npu_library.h"
#include "tensor/npy.h"

static char folder[] = "/tmp/intaglio-export-XXXXXX";

static char *in_folder(const char *name) {
  static char paths[4][96];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

// Runs our session on noise, which is also left in x0.npy, ..; outputs as floats, one after another.
static float *run_ours(const itg_model *model, const char *backend, size_t *total) {
  itg_session *session = NULL;
  itg_diagnostic why = {0};
  itg_session_options options;
  itg_session_options_default(&options);
  options.backend = backend;
  if (itg_session_create(model, &options, &why, &session) != ITG_OK) fail_msg("%s", why.message);
  uint32_t state = 4711;
  for (size_t i = 0; i < itg_model_input_count(model); i++) {
    const itg_tensor_info *input = itg_model_input(model, i);
    float *values = malloc(input->count * sizeof *values);
    assert_non_null(values);
    for (size_t k = 0; k < input->count; k++) values[k] = noise(&state);
    assert_int_equal(itg_session_set_input(session, i, values, input->count, NULL), ITG_OK);
    char name[32];
    snprintf(name, sizeof name, "x%zu.npy", i);
    assert_int_equal(itg_npy_write(in_folder(name), ITG_DTYPE_F32, &input->shape, values, NULL), ITG_OK);
    free(values);
  }
  assert_int_equal(itg_session_run(session, NULL), ITG_OK);
  *total = 0;
  for (size_t i = 0; i < itg_model_output_count(model); i++) *total += itg_model_output(model, i)->count;
  float *outputs = malloc(*total * sizeof *outputs), *to = outputs;
  assert_non_null(outputs);
  for (size_t i = 0; i < itg_model_output_count(model); i++) {
    const size_t count = itg_model_output(model, i)->count;
    assert_int_equal(itg_session_get_output(session, i, to, count, NULL), ITG_OK);
    to += count;
  }
  itg_session_destroy(session);
  return outputs;
}

// The lowest cosine over the outputs between ours and what ONNX Runtime left in y0.npy, ..
static double compare(const itg_model *model, const float *ours) {
  double lowest = 1;
  for (size_t i = 0; i < itg_model_output_count(model); i++) {
    const size_t count = itg_model_output(model, i)->count;
    char name[32];
    snprintf(name, sizeof name, "y%zu.npy", i);
    itg_npy file;
    assert_int_equal(itg_npy_open(in_folder(name), NULL, &file), ITG_OK);
    float *theirs = malloc(count * sizeof *theirs);
    assert_non_null(theirs);
    assert_int_equal(itg_npy_floats(&file, 0, count, NULL, theirs), ITG_OK);
    double ab = 0, aa = 1e-30, bb = 1e-30;
    for (size_t k = 0; k < count; k++) {
      ab += (double)ours[k] * theirs[k];
      aa += (double)ours[k] * ours[k];
      bb += (double)theirs[k] * theirs[k];
    }
    lowest = fmin(lowest, ab / sqrt(aa * bb));
    free(theirs);
    itg_npy_close(&file);
    ours += count;
  }
  return lowest;
}

static void run_onnxruntime(const char *model, const char *provider) {
  char command[4096];
  snprintf(command, sizeof command, "'%s' '%s/tests/real/export_oracle.py' '%s' %s '%s/y' '%s' >'%s/log' 2>&1",
           oracle_python(), ITG_SOURCE_DIR, model, provider, folder, in_folder("x0.npy"), folder);
  if (system(command) != 0) fail_msg("ONNX Runtime refuses %s; see %s/log", model, folder);
}

static void qdq_models_run_in_onnxruntime(void **state) {
  (void)state;
  // Outputs of noise in other precisions or sizes are next to nothing in some of these networks: no cosine to compare.
  static const struct {
    real_model model;
    double cosine;
  } cases[] = {
      {{"faceplugin/fr_feature.onnx", "a16w8", NULL}, 0.99999},
      {{"faceplugin/fr_feature.onnx", "a8w8+s16", NULL}, 0.99},
      {{"faceplugin/fr_detect.onnx", "a16w8", NULL}, 0.99999},
      {{"faceplugin/fr_age.onnx", "a16w8", NULL}, 0.99999},
      {{"nudenet/320n.onnx", "a16w8", "images=1x3x96x96"}, 0.99999},
      {{"rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "a16w8", "x=1x3x48x96"}, 0.9999},
      {{"rapidocr/PP-OCRv6_rec_small.onnx", "a16w8", "x=1x3x48x96"}, 0.9999},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    itg_model *model = NULL;
    itg_diagnostic why = {0};
    compile_on_noise(&cases[i].model, NULL, in_folder("m.itg"));
    assert_int_equal(itg_model_open(in_folder("m.itg"), NULL, &model), ITG_OK);
    if (itg_export_qdq(model, in_folder("m.onnx"), &why) != ITG_OK)
      fail_msg("%s: %s (%s)", cases[i].model.path, why.message, why.subject);
    size_t total;
    float *ours = run_ours(model, "cpu", &total);
    run_onnxruntime(in_folder("m.onnx"), "cpu");
    const double cosine = compare(model, ours);
    print_message("%s %s: cosine %.6f\n", cases[i].model.path, cases[i].model.precision, cosine);
    if (cosine < cases[i].cosine) fail_msg("%s: cosine %.6f", cases[i].model.path, cosine);
    free(ours);
    itg_model_close(model);
  }
}

static void contexts_run_in_onnxruntimes_provider(void **state) {
  (void)state;
  if (npu_skip()) skip();
  const real_model face = {"faceplugin/fr_feature.onnx", "a16w8", NULL};
  itg_model *model = NULL;
  itg_diagnostic why = {0};
  compile_on_noise(&face, "qcs6490", in_folder("npu.itg"));
  assert_int_equal(itg_model_open(in_folder("npu.itg"), NULL, &model), ITG_OK);
  // The raw context is exactly what lies in the file.
  assert_int_equal(itg_export_qnn_context(model, "qcs6490", in_folder("context.bin"), &why), ITG_OK);
  itg_mapped_file raw, file;
  assert_int_equal(itg_mapped_file_open(in_folder("context.bin"), NULL, &raw), ITG_OK);
  assert_int_equal(itg_mapped_file_open(in_folder("npu.itg"), NULL, &file), ITG_OK);
  assert_non_null(memmem(file.bytes.data, file.bytes.size, raw.bytes.data, raw.bytes.size));
  itg_mapped_file_close(&file);
  itg_mapped_file_close(&raw);
  assert_int_equal(itg_export_epcontext(model, NULL, in_folder("context.onnx"), &why), ITG_OK);
  size_t total;
  float *ours = run_ours(model, "qnn", &total);
  run_onnxruntime(in_folder("context.onnx"), "qnn");
  const double cosine = compare(model, ours);
  print_message("context in ONNX Runtime against our session on the same library: cosine %.7f\n", cosine);
  assert_true(cosine > 0.99999);
  free(ours);
  // A wrong name is refused with the names that there are, and leaves no file.
  assert_int_equal(itg_export_epcontext(model, "sm8550", in_folder("none.onnx"), &why), ITG_ERROR_DEVICE);
  assert_non_null(strstr(why.message, "qcs6490"));
  assert_false(oracle_exists(in_folder("none.onnx")));
  itg_model_close(model);
}

int main(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/rapidocr/PP-OCRv6_rec_small.onnx", oracle_models());
  if (!oracle_exists(path) || !oracle_has("numpy, onnxruntime")) {
    printf("skipped: %s or the Python package onnxruntime is missing\n", path);
    return 77;
  }
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(qdq_models_run_in_onnxruntime),
                                     cmocka_unit_test(contexts_run_in_onnxruntimes_provider)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) == 0 ? failed : 1;
}
