// The rewrites on real models: outputs before and after agree within 1e-4 relative, and the canonical graphs have few Transposes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapt/adapt.h"
#include "import/import.h"
#include "passes/passes.h"
#include "support/float_graph.h"

typedef struct model {
  const char *file;
  const char *input; // The input whose shape is given, or NULL.
  int64_t dims[4];
  int most_transposes, most_affines;
} model;

static const model models[] = {
    {"faceplugin/fr_feature.onnx", NULL, {0}, 1, 0},
    {"faceplugin/fr_detect.onnx", NULL, {0}, 4, 0},
    {"faceplugin/fr_landmark.onnx", NULL, {0}, 4, 0},
    {"faceplugin/fr_expression.onnx", NULL, {0}, 4, 62},
    {"faceplugin/fr_pose.onnx", NULL, {0}, 20, 0},
    {"faceplugin/fr_age.onnx", NULL, {0}, 8, 0},
    {"faceplugin/fr_gender.onnx", NULL, {0}, 8, 0},
    {"faceplugin/fr_eye.onnx", NULL, {0}, 1, 0},
    {"faceplugin/fr_liveness.onnx", NULL, {0}, 2, 0},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "x", {1, 3, 160, 192}, 4, 100},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "x", {1, 3, 48, 160}, 20, 100},
    {"rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx", "x", {1, 3, 48, 192}, 4, 0},
    {"rapidocr/PP-OCRv6_det_small.onnx", "x", {1, 3, 160, 192}, 8, 100},
    {"rapidocr/PP-OCRv6_rec_small.onnx", "x", {1, 3, 48, 160}, 20, 100},
    {"nudenet/320n.onnx", "images", {1, 3, 160, 160}, 8, 0},
    {"minilm/minilm.onnx", NULL, {0}, 30, 0},
};

static itg_graph *import(const char *path, const model *entry) {
  itg_import_shape shape = {.input = entry->input, .shape = itg_shape_of(4, entry->dims)};
  const itg_import_options options = {.shapes = &shape, .shape_count = entry->input ? 1 : 0, .batch_is_one = true};
  itg_graph *graph = NULL;
  itg_diagnostic diagnostic = {0};
  if (itg_import_onnx(path, &options, NULL, &diagnostic, &graph) != ITG_OK)
    fail_msg("%s: %s: %s", path, diagnostic.subject, diagnostic.message);
  return graph;
}

// Canonicalises and adapts a copy and compares; returns it. The caller destroys both.
static itg_graph *check(const itg_graph *graph, const char *path) {
  itg_graph *copy = NULL;
  itg_diagnostic diagnostic = {0};
  assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
  itg_status status = itg_passes_run(copy, NULL, NULL, &diagnostic);
  if (status == ITG_OK) status = itg_adapt_run(copy, NULL, &diagnostic);
  if (status != ITG_OK) fail_msg("%s: %s: %s", path, diagnostic.subject, diagnostic.message);
  print_message("%s: %d nodes, %d Transpose, %d Reshape, %d Affine, %d AddAffine\n", path, (int)copy->node_count,
                count_op(copy, ITG_OP_TRANSPOSE), count_op(copy, ITG_OP_RESHAPE), count_op(copy, ITG_OP_AFFINE),
                count_op(copy, ITG_OP_ADD_AFFINE));
  if (getenv("ITG_PRINT_GRAPHS")) itg_graph_print(copy, stdout);
  assert_graphs_equal(graph, copy, 1e-4);
  return copy;
}

static const char *models_folder(void) {
  static char folder[4096];
  const char *given = getenv("ITG_MODELS"), *home = getenv("HOME");
  if (given) return given;
  snprintf(folder, sizeof folder, "%s/.cache/intaglio/models", home ? home : "");
  return folder;
}

static void real_models_keep_their_outputs(void **state) {
  (void)state;
  int found = 0;
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", models_folder(), models[i].file);
    if (access(path, R_OK) != 0) {
      print_message("%s is not there\n", path);
      continue;
    }
    found++;
    itg_graph *graph = import(path, &models[i]), *copy = check(graph, models[i].file);
    assert_true(count_op(copy, ITG_OP_TRANSPOSE) <= models[i].most_transposes);
    assert_true(count_op(copy, ITG_OP_AFFINE) <= models[i].most_affines);
    itg_graph_destroy(copy);
    itg_graph_destroy(graph);
  }
  if (!found) {
    puts("skipped: no real models; set ITG_MODELS");
    exit(77);
  }
}

// The face embedder in pre-activation form, made by the project's shared tool: BatchNorm behind residual sums; with --padded
// also in front of zero-padded convolutions, with a shift.
static void preactivation_form_keeps_its_outputs(void **state) {
  (void)state;
  char source[4200], tool[4200], target[256], python[4200], command[16000];
  const char *shared = getenv("ITG_SHARED"), *given = getenv("ITG_PYTHON"), *home = getenv("HOME");
  snprintf(source, sizeof source, "%s/faceplugin/fr_feature.onnx", models_folder());
  snprintf(tool, sizeof tool, "%s/tools/preactivation_face.py", shared ? shared : ITG_SOURCE_DIR "/../shared");
  snprintf(python, sizeof python, "%s/.cache/intaglio/python/bin/python", home ? home : "");
  if (given) snprintf(python, sizeof python, "%s", given);
  if (access(source, R_OK) != 0 || access(tool, R_OK) != 0 || access(python, X_OK) != 0) {
    print_message("skipped: needs the face embedder, ITG_SHARED and ITG_PYTHON\n");
    return;
  }
  for (int padded = 0; padded < 2; padded++) {
    snprintf(target, sizeof target, "/tmp/itg-preactivation-%d-%d.onnx", (int)getpid(), padded);
    snprintf(command, sizeof command, "'%s' '%s' '%s' '%s' 1.6 7 %s >/dev/null", python, tool, source, target,
             padded ? "--padded" : "");
    assert_int_equal(system(command), 0);
    const model entry = {0};
    itg_graph *graph = import(target, &entry), *copy = check(graph, padded ? "padded" : "pre-activation");
    assert_true(count_op(copy, ITG_OP_ADD_AFFINE) >= 12);
    assert_int_equal(count_op(copy, ITG_OP_TRANSPOSE), 1);
    itg_graph_destroy(copy);
    itg_graph_destroy(graph);
    assert_int_equal(unlink(target), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(real_models_keep_their_outputs),
      cmocka_unit_test(preactivation_form_keeps_its_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
