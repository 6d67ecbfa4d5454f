// The real face embedder on the vendor's real library: compiled for a chip, run on photographs, compared with the float
// network and with our own executor in native and in the chip's arithmetic.
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

#include "adapt/adapt.h"
#include "calibrate/calibrate.h"
#include "container/container.h"
#include "import/import.h"
#include "interpret/interpret.h"
#include "lower/legalize.h"
#include "lower/qnn/prepare.h"
#include "passes/passes.h"
#include "quantize/quantize.h"
#include "tensor/npy.h"

enum { PIXELS = 3 * 112 * 112, NUMBERS = 512 };

static char folder[512];
static itg_npy calibrate_rows, judge_rows, float_rows;

static itg_status read_row(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)context;
  (void)diagnostic;
  memcpy(inputs[0], (const float *)calibrate_rows.values + index * PIXELS, PIXELS * sizeof(float));
  return ITG_OK;
}

static void must(itg_status status, const itg_diagnostic *why) {
  if (status != ITG_OK) fail_msg("%s: %s (%s:%d)", why->subject, why->message, why->origin_file, why->origin_line);
}

static itg_graph *compile(const char *precision, const itg_target *target) {
  itg_diagnostic why = {0};
  char path[600];
  snprintf(path, sizeof path, "%s/faceplugin/fr_feature.onnx", getenv("ITG_MODELS"));
  itg_graph *graph = NULL, *legal = NULL;
  itg_statistics *statistics = NULL;
  itg_recipe recipe;
  itg_pool *pool = NULL;
  must(itg_pool_create(0, &why, &pool), &why);
  const itg_import_options options = {.batch_is_one = true};
  must(itg_import_onnx(path, &options, NULL, &why, &graph), &why);
  must(itg_passes_run(graph, NULL, NULL, &why), &why);
  must(itg_adapt_run(graph, target, &why), &why);
  const itg_sample_source source = {NULL, (size_t)calibrate_rows.shape.dims[0], read_row};
  must(itg_recipe_builtin(precision, &why, &recipe), &why);
  const itg_equalization equalization = itg_recipe_equalization(&recipe, target);
  must(itg_calibrate_and_equalize(graph, &equalization, &source, pool, NULL, NULL, &why, &statistics), &why);
  must(itg_quantize(graph, statistics, &recipe, target, pool, &why), &why);
  must(itg_legalize(graph, target, &why, &legal), &why);
  itg_statistics_destroy(statistics);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
  itg_pool_destroy(pool);
  return legal;
}

static double cosine(const float *a, const float *b) {
  double ab = 0, aa = 0, bb = 0;
  for (int i = 0; i < NUMBERS; i++) {
    ab += (double)a[i] * b[i];
    aa += (double)a[i] * a[i];
    bb += (double)b[i] * b[i];
  }
  return ab / sqrt(aa * bb);
}

static itg_session *open_session(const itg_model *model, const char *cpu) {
  itg_session_options options;
  itg_session_options_default(&options);
  options.cpu = cpu;
  itg_session *session = NULL;
  itg_diagnostic why = {0};
  must(itg_session_create(model, &options, &why, &session), &why);
  return session;
}

static void embed(itg_session *session, const float *pixels, float *out) {
  itg_diagnostic why = {0};
  must(itg_session_set_input(session, 0, pixels, PIXELS, &why), &why);
  must(itg_session_run(session, &why), &why);
  must(itg_session_get_output(session, 0, out, NUMBERS, &why), &why);
}

static void check_network(const char *precision, const char *name, double to_float, double to_native,
                          double to_profile) {
  const itg_target *target = NULL;
  itg_diagnostic why = {0};
  must(itg_target_find(name, &why, &target), &why);
  itg_graph *graph = compile(precision, target);
  char path[600];
  snprintf(path, sizeof path, "%s/face.itg", folder);
  must(itg_container_write(path, graph, NULL, 0, &why), &why);
  itg_model *model = NULL;
  must(itg_model_open(path, &why, &model), &why);
  itg_session *native = open_session(model, NULL),
              *predicted = open_session(model, target->arch < 73 ? "htp-v68" : "htp-v73");
  itg_qnn_blob blob = {0};
  const itg_qnn_prepare_options options = {0};
  must(itg_qnn_prepare_isolated(graph, target, &options, &why, &blob), &why);
  itg_qnn_library library;
  itg_qnn_context *context = NULL;
  must(itg_qnn_library_open(NULL, "libQnnHtp.so", target, &why, &library), &why);
  must(itg_qnn_context_open(&library, blob.data, blob.size, ITG_QNN_GRAPH_NAME, blob.inputs, blob.input_count,
                            blob.outputs, blob.output_count, &why, &context),
       &why);
  const itg_tensor *x = graph->inputs[0], *y = graph->outputs[0];
  void *in = malloc(blob.inputs[0].bytes), *out = malloc(blob.outputs[0].bytes);
  const size_t photographs = getenv("ITG_QNN_FACES") ? (size_t)atoi(getenv("ITG_QNN_FACES")) : 3;
  double sum = 0, lowest = 1, to_ours = 0, to_prediction = 0;
  itg_qnn_run_profile profile = {0};
  for (size_t i = 0; i < photographs && i < (size_t)judge_rows.shape.dims[0]; i++) {
    const float *pixels = (const float *)judge_rows.values + i * PIXELS,
                *want = (const float *)float_rows.values + i * NUMBERS;
    float theirs[NUMBERS], ours[NUMBERS], ours_htp[NUMBERS];
    for (int k = 0; k < PIXELS; k++) {
      const int32_t code =
          itg_encode(pixels[k], x->encoding->scales[0], x->encoding->zero_points[0], 0, itg_code_max(x->dtype));
      if (x->dtype == ITG_DTYPE_U8)
        ((uint8_t *)in)[k] = (uint8_t)code;
      else
        ((uint16_t *)in)[k] = (uint16_t)code;
    }
    must(itg_qnn_context_run(context, (const void *const[]){in}, &out, &profile, &why), &why);
    for (int k = 0; k < NUMBERS; k++) {
      const int32_t code = y->dtype == ITG_DTYPE_U8 ? ((uint8_t *)out)[k] : ((uint16_t *)out)[k];
      theirs[k] = itg_decode(code, y->encoding->scales[0], y->encoding->zero_points[0]);
    }
    embed(native, pixels, ours);
    embed(predicted, pixels, ours_htp);
    sum += cosine(theirs, want);
    lowest = fmin(lowest, cosine(theirs, want));
    to_ours += cosine(theirs, ours) / (double)photographs;
    to_prediction += cosine(theirs, ours_htp) / (double)photographs;
  }
  const double mean = sum / (double)photographs;
  print_message("%s %s: to float %.5f (min %.5f), to our native arithmetic %.5f, to our %s arithmetic %.6f; %zu ops, "
                "%zu KiB, %llu cycles\n",
                name, precision, mean, lowest, to_ours, target->arch < 73 ? "htp-v68" : "htp-v73", to_prediction,
                blob.op_count, blob.size / 1024, (unsigned long long)profile.accelerator_cycles);
  assert_true(mean >= to_float);
  assert_true(to_ours >= to_native && to_prediction >= to_profile);
  free(in);
  free(out);
  itg_qnn_context_close(context);
  itg_qnn_library_close(&library);
  itg_qnn_blob_free(&blob);
  itg_session_destroy(native);
  itg_session_destroy(predicted);
  itg_model_close(model);
  itg_graph_destroy(graph);
}

static void a8w8_s16_survives_on_v68(void **state) {
  (void)state;
  check_network("a8w8+s16", "qcs6490", .99, .995, .9975);
}
static void a16w8_survives_on_v68(void **state) {
  (void)state;
  check_network("a16w8", "qcs6490", .997, .9998, .99999);
}
static void a16w8_survives_on_v73(void **state) {
  (void)state;
  check_network("a16w8", "sm8550", .997, .9998, .99999);
}

static bool read_rows(const char *name, itg_npy *out) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return itg_npy_open(path, NULL, out) == ITG_OK;
}

int main(void) {
  const char *python = getenv("ITG_PYTHON"), *shared = getenv("ITG_SHARED");
  itg_qnn_library probe = {0};
  itg_diagnostic why = {0};
  if (!python || !shared || !getenv("ITG_MODELS")) {
    printf("skipped: ITG_PYTHON, ITG_SHARED and ITG_MODELS must be set\n");
    return 77;
  }
  if (itg_qnn_library_open(NULL, "libQnnHtp.so", NULL, &why, &probe) != ITG_OK) {
    printf("skipped: %s\n", why.message);
    return 77;
  }
  itg_qnn_library_close(&probe);
  snprintf(folder, sizeof folder, "%s/faces", ITG_BINARY_DIR);
  char command[2048];
  snprintf(command, sizeof command,
           "mkdir -p '%s' && '%s' -c 'import sys; sys.path.insert(0, \"%s/bench\"); import face_accuracy; "
           "face_accuracy.prepare(\"%s\")' >/dev/null",
           folder, python, ITG_SOURCE_DIR, folder);
  if (system(command) != 0 || !read_rows("calibrate.npy", &calibrate_rows) || !read_rows("judge.npy", &judge_rows) ||
      !read_rows("float.npy", &float_rows)) {
    printf("the reference pipeline failed\n");
    return 1;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(a8w8_s16_survives_on_v68),
                                     cmocka_unit_test(a16w8_survives_on_v68), cmocka_unit_test(a16w8_survives_on_v73)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
