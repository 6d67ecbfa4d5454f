// Every real ONNX model imports: all shapes are static, the outputs are what the models' makers say, shape arithmetic is
// gone, and what is left passes the verifier.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "graph/verify.h"
#include "import/import.h"

typedef struct real_model {
  const char *path;
  const char *input; // NULL: the model's own shapes are static.
  int64_t dims[4];   // Of that input.
  int output_count;
  const char *first_output; // Its shape, printed.
  int64_t most_nodes;       // The graph must not be larger: shape arithmetic left behind would show.
} real_model;

static const real_model models[] = {
    {"faceplugin/fr_age.onnx", NULL, {0}, 9, "1x3", 100},
    {"faceplugin/fr_detect.onnx", NULL, {0}, 2, "1x4420x2", 135},
    {"faceplugin/fr_expression.onnx", NULL, {0}, 1, "1x7", 370},
    {"faceplugin/fr_eye.onnx", NULL, {0}, 1, "1x2", 40},
    {"faceplugin/fr_feature.onnx", NULL, {0}, 1, "1x512", 96},
    {"faceplugin/fr_gender.onnx", NULL, {0}, 9, "1x3", 91},
    {"faceplugin/fr_landmark.onnx", NULL, {0}, 1, "1x136", 79},
    {"faceplugin/fr_liveness.onnx", NULL, {0}, 1, "1x3", 117},
    {"faceplugin/fr_pose.onnx", NULL, {0}, 3, "1x66", 190},
    {"minilm/minilm.onnx", NULL, {0}, 1, "1x384", 216},
    {"nudenet/320n.onnx", "images", {1, 3, 320, 320}, 1, "1x22x2100", 245},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "x", {1, 3, 320, 320}, 1, "1x1x320x320", 331},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "x", {1, 3, 48, 320}, 1, "1x40x6625", 405},
    {"rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer.onnx", "x", {1, 3, 48, 192}, 1, "1x2", 236},
    {"rapidocr/PP-OCRv6_det_small.onnx", "x", {1, 3, 320, 320}, 1, "1x1x320x320", 318},
    {"rapidocr/PP-OCRv6_rec_small.onnx", "x", {1, 3, 48, 320}, 1, "1x40x18710", 337},
    {"rapidocr/ch_ppocr_mobile_v2.0_cls_mobile.onnx", "x", {1, 3, 48, 192}, 1, "1x2", 236},
};

static const char *folder(void) {
  static char path[1024];
  const char *given = getenv("ITG_MODELS"), *home = getenv("HOME");
  snprintf(path, sizeof path, "%s%s", given ? given : home ? home : "", given ? "" : "/.cache/intaglio/models");
  return path;
}

static void check_graph(const itg_graph *graph, const real_model *model) {
  char text[96];
  assert_int_equal(graph->output_count, model->output_count);
  assert_string_equal(itg_shape_print(&graph->outputs[0]->shape, text, sizeof text), model->first_output);
  assert_true(graph->node_count <= model->most_nodes);
  for (size_t i = 0; i < graph->tensor_count; i++) {
    size_t count;
    assert_true(itg_shape_count(&graph->tensors[i]->shape, &count));
    assert_true(count > 0);
  }
  // Integers are left only where the model's own inputs are integers (token ids and what is looked up with them).
  ITG_FOR_EACH_NODE(node, graph) {
    for (int32_t i = 0; i < node->output_count; i++) assert_true(itg_dtype_is_float(node->outputs[i]->dtype));
  }
  itg_diagnostic why = {0};
  if (itg_graph_verify(graph, ITG_STAGE_IMPORTED, &why) != ITG_OK)
    fail_msg("%s: %s: %s", model->path, why.subject, why.message);
}

static void every_model_imports(void **state) {
  (void)state;
  int tried = 0;
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
    char path[2048];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder(), models[i].path);
    if (stat(path, &info) != 0) {
      printf("not there: %s\n", models[i].path);
      continue;
    }
    const itg_import_shape shape = {models[i].input, itg_shape_of(4, models[i].dims)};
    const itg_import_options options = {.shapes = &shape, .shape_count = models[i].input ? 1 : 0};
    itg_graph *graph = NULL;
    itg_diagnostic why = {0};
    if (itg_import_onnx(path, &options, NULL, &why, &graph) != ITG_OK)
      fail_msg("%s: %s: %s", models[i].path, why.subject, why.message);
    printf("%-60s %4lld nodes, %zu KiB of own memory\n", models[i].path, (long long)graph->node_count,
           graph->arena.total / 1024);
    check_graph(graph, &models[i]);
    itg_graph_destroy(graph);
    tried++;
  }
  assert_true(tried > 0);
}

static void unknown_dimensions_are_named(void **state) {
  (void)state;
  char path[2048];
  struct stat info;
  snprintf(path, sizeof path, "%s/nudenet/320n.onnx", folder());
  if (stat(path, &info) != 0) skip();
  itg_graph *graph = NULL;
  itg_diagnostic why = {0};
  assert_int_equal(itg_import_onnx(path, NULL, NULL, &why, &graph), ITG_ERROR_SHAPE);
  assert_string_equal(why.subject, "images");
  assert_non_null(strstr(why.message, "--shape images=1x3x"));
}

int main(void) {
  struct stat info;
  if (stat(folder(), &info) != 0) {
    printf("skipped: no models in %s; run ./setup or set ITG_MODELS\n", folder());
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_model_imports),
      cmocka_unit_test(unknown_dimensions_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
