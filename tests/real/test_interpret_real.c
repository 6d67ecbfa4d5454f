// The interpreter against ONNX Runtime on every real model: outputs within a relative bound, and both times.
//
// Each model runs as imported (channels first) and after the passes (channels last, fused). The oracle script makes the
// inputs and ONNX Runtime's outputs. The error is max |difference| / max |expected| of an output.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "import/import.h"
#include "interpret/interpret.h"
#include "passes/passes.h"
#include "tensor/npy.h"

typedef struct real_model {
  const char *path, *kind; // Relative to ITG_MODELS; the oracle script's KIND.
  const char *input;       // Input whose shape is given, or NULL.
  itg_shape shape;
  double bound;
} real_model;

static const real_model models[] = {
    {"faceplugin/fr_detect.onnx", "signed", NULL, {0}, 1e-4},
    {"faceplugin/fr_landmark.onnx", "unit", NULL, {0}, 1e-4},
    {"faceplugin/fr_feature.onnx", "signed", NULL, {0}, 1e-4},
    {"faceplugin/fr_expression.onnx", "signed", NULL, {0}, 1e-4},
    {"faceplugin/fr_pose.onnx", "signed", NULL, {0}, 1e-4},
    {"faceplugin/fr_age.onnx", "unit", NULL, {0}, 1e-4},
    {"faceplugin/fr_gender.onnx", "unit", NULL, {0}, 1e-4},
    {"faceplugin/fr_eye.onnx", "unit", NULL, {0}, 1e-4},
    {"faceplugin/fr_liveness.onnx", "unit", NULL, {0}, 1e-4},
    {"nudenet/320n.onnx", "unit", "images", {4, {1, 3, 320, 320}}, 1e-4},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "page", "x", {4, {1, 3, 320, 480}}, 1e-3},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "page", "x", {4, {1, 3, 48, 320}}, 1e-3},
    {"rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx", "page", "x", {4, {1, 3, 48, 192}}, 1e-3},
    {"rapidocr/PP-OCRv6_det_small.onnx", "page", "x", {4, {1, 3, 320, 480}}, 1e-3},
    {"rapidocr/PP-OCRv6_rec_small.onnx", "page", "x", {4, {1, 3, 48, 320}}, 1e-3},
    {"rapidocr/ch_ppocr_mobile_v2.0_cls_mobile.onnx", "page", "x", {4, {1, 3, 48, 192}}, 1e-3},
    {"minilm/minilm.onnx", "text", NULL, {0}, 1e-4},
};
enum { MODELS = sizeof models / sizeof models[0], MAX_VALUES = 16 };

static char models_folder[2048], python[2048];

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void run_oracle(const real_model *model, const char *path, const char *folder) {
  char command[16384], shape[256] = "", dims[128] = "";
  if (model->input) {
    snprintf(shape, sizeof shape, "'%s=%s'", model->input, itg_shape_print(&model->shape, dims, sizeof dims));
  }
  snprintf(command, sizeof command, "'%s' '%s/tests/real/onnx_oracle.py' '%s' '%s' %s 7 %s", python, ITG_SOURCE_DIR,
           path, folder, model->kind, shape);
  if (system(command) != 0) fail_msg("the oracle failed: %s", command);
}

static double oracle_time(const char *folder) {
  char path[4200];
  double value = 0;
  snprintf(path, sizeof path, "%s/time.txt", folder);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lf", &value), 1);
  fclose(file);
  return value;
}

static itg_npy open_value(const char *folder, const char *what, int32_t index) {
  char path[4200];
  itg_diagnostic diagnostic = {0};
  itg_npy npy;
  snprintf(path, sizeof path, "%s/%s_%d.npy", folder, what, index);
  if (itg_npy_open(path, &diagnostic, &npy) != ITG_OK) fail_msg("%s: %s", path, diagnostic.message);
  return npy;
}

static double relative_error(const float *actual, const float *expected, size_t count) {
  double difference = 0, scale = 0;
  for (size_t i = 0; i < count; i++) {
    const double d = fabs((double)actual[i] - (double)expected[i]);
    if (!(d <= difference)) difference = d; // NaN counts as a difference.
    if (fabs((double)expected[i]) > scale) scale = fabs((double)expected[i]);
  }
  return scale > 0 ? difference / scale : difference;
}

// Runs the graph on the oracle's inputs; returns the largest relative error of its outputs and the least time.
static double compare(const itg_graph *graph, const char *folder, double *time_taken) {
  itg_diagnostic diagnostic = {0};
  itg_interpreter *interpreter = NULL;
  itg_interpreter_state *state = NULL;
  if (itg_interpreter_create(graph, &diagnostic, &interpreter) != ITG_OK)
    fail_msg("%s: %s", diagnostic.subject, diagnostic.message);
  assert_int_equal(itg_interpreter_state_create(interpreter, &diagnostic, &state), ITG_OK);
  assert_true(graph->input_count <= MAX_VALUES && graph->output_count <= MAX_VALUES);
  itg_npy in[MAX_VALUES];
  const void *inputs[MAX_VALUES];
  void *outputs[MAX_VALUES];
  for (int32_t i = 0; i < graph->input_count; i++) {
    in[i] = open_value(folder, "input", i);
    assert_int_equal(in[i].dtype, graph->inputs[i]->dtype);
    assert_true(itg_shape_equal(&in[i].shape, &graph->inputs[i]->shape));
    inputs[i] = in[i].values;
  }
  for (int32_t i = 0; i < graph->output_count; i++) {
    size_t bytes;
    assert_true(itg_shape_bytes(&graph->outputs[i]->shape, graph->outputs[i]->dtype, &bytes));
    outputs[i] = malloc(bytes + 1);
    assert_non_null(outputs[i]);
  }
  *time_taken = INFINITY;
  const double begin = milliseconds();
  do {
    const double start = milliseconds();
    if (itg_interpreter_run(state, inputs, outputs, NULL, NULL, &diagnostic) != ITG_OK)
      fail_msg("%s: %s", diagnostic.subject, diagnostic.message);
    const double taken = milliseconds() - start;
    if (taken < *time_taken) *time_taken = taken;
  } while (milliseconds() - begin < 1000);
  double worst = 0;
  for (int32_t i = 0; i < graph->output_count; i++) {
    itg_npy expected = open_value(folder, "output", i);
    assert_int_equal(graph->outputs[i]->dtype, ITG_DTYPE_F32);
    assert_true(itg_shape_equal(&expected.shape, &graph->outputs[i]->shape));
    const double error = relative_error(outputs[i], (const float *)(const void *)expected.values, expected.count);
    if (!(error <= worst)) worst = error;
    itg_npy_close(&expected);
    free(outputs[i]);
  }
  for (int32_t i = 0; i < graph->input_count; i++) itg_npy_close(&in[i]);
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  return worst;
}

static void check_model(const real_model *model) {
  char path[4096], folder[4096];
  snprintf(path, sizeof path, "%s/%s", models_folder, model->path);
  if (access(path, R_OK) != 0) {
    print_message("skipped: no %s\n", path);
    return;
  }
  const char *name = strrchr(model->path, '/') + 1;
  snprintf(folder, sizeof folder, "%s/interpret_oracle", ITG_BINARY_DIR);
  mkdir(folder, 0777); // Exists already after the first model.
  snprintf(folder, sizeof folder, "%s/interpret_oracle/%s", ITG_BINARY_DIR, name);
  run_oracle(model, path, folder);
  const double reference = oracle_time(folder);
  itg_import_options options = {.batch_is_one = true};
  const itg_import_shape shape = {model->input, model->shape};
  if (model->input) {
    options.shapes = &shape;
    options.shape_count = 1;
  }
  itg_graph *graph = NULL;
  itg_diagnostic diagnostic = {0};
  if (itg_import_onnx(path, &options, NULL, &diagnostic, &graph) != ITG_OK)
    fail_msg("%s: %s: %s", model->path, diagnostic.subject, diagnostic.message);
  double imported_time, canonical_time;
  const double imported = compare(graph, folder, &imported_time);
  if (itg_passes_run(graph, NULL, NULL, &diagnostic) != ITG_OK)
    fail_msg("%s: %s: %s", model->path, diagnostic.subject, diagnostic.message);
  const double canonical = compare(graph, folder, &canonical_time);
  itg_graph_destroy(graph);
  print_message("%-40s ort %8.3f ms | imported %8.3f ms (%.2fx), error %.1e | canonical %8.3f ms (%.2fx), error %.1e\n",
                name, reference, imported_time, imported_time / reference, imported, canonical_time,
                canonical_time / reference, canonical);
  assert_true(imported <= model->bound);
  assert_true(canonical <= model->bound);
}

static void model_agrees_with_onnx_runtime(void **state) { check_model(*state); }

int main(int argc, char **argv) {
  const char *home = getenv("HOME"), *models_variable = getenv("ITG_MODELS"), *python_variable = getenv("ITG_PYTHON");
  const char *only = argc > 1 ? argv[1] : NULL; // Run the models whose path holds it.
  snprintf(models_folder, sizeof models_folder, models_variable ? "%s" : "%s/.cache/intaglio/models",
           models_variable ? models_variable
           : home          ? home
                           : "");
  snprintf(python, sizeof python, python_variable ? "%s" : "%s/.cache/intaglio/python/bin/python",
           python_variable ? python_variable
           : home          ? home
                           : "");
  if (access(python, X_OK) != 0 || access(models_folder, R_OK) != 0) {
    printf("skipped: no interpreter at %s or no models in %s\n", python, models_folder);
    return 77;
  }
  struct CMUnitTest tests[MODELS];
  size_t count = 0;
  for (size_t i = 0; i < MODELS; i++) {
    if (only && !strstr(models[i].path, only)) continue;
    tests[count++] = (struct CMUnitTest){
        .name = models[i].path, .test_func = model_agrees_with_onnx_runtime, .initial_state = (void *)&models[i]};
  }
  return _cmocka_run_group_tests("interpreter against ONNX Runtime", tests, count, NULL, NULL);
}
