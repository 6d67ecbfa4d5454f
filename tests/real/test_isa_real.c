// The real models, compiled, give the same codes on every instruction set and thread count as with the reference kernels.
// Calibration and inputs are noise: the arithmetic is judged here, not the accuracy.
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
#include "tensor/dtype.h"

static const real_model models[] = {
    {"faceplugin/fr_feature.onnx", "a8w8+s16", NULL},
    {"faceplugin/fr_feature.onnx", "a16w8", NULL},
    {"faceplugin/fr_detect.onnx", "a8w8", NULL},
    {"faceplugin/fr_landmark.onnx", "a8w8+s16", NULL},
    {"nudenet/320n.onnx", "a8w8", "images=1x3x96x96"},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_det_infer.onnx", "a8w8+s16", "x=1x3x96x96"},
    {"rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx", "a8w8+s16", "x=1x3x48x96"},
};
enum { MODELS = sizeof models / sizeof models[0] };

static size_t output_bytes(const itg_model *model, size_t index) {
  const itg_tensor_info *output = itg_model_output(model, index);
  return output->count * (size_t)itg_dtype_size(output->dtype);
}

// All outputs' codes one after another; the caller frees them.
static uint8_t *run(const itg_model *model, const char *cpu, int threads, size_t *size) {
  itg_session *session = NULL;
  itg_session_options options;
  itg_session_options_default(&options);
  options.cpu = cpu;
  options.thread_count = threads;
  assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_OK);
  uint32_t state = 4711;
  for (size_t i = 0; i < itg_model_input_count(model); i++) {
    const size_t count = itg_model_input(model, i)->count;
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t k = 0; k < count; k++) values[k] = noise(&state);
    assert_int_equal(itg_session_set_input(session, i, values, count, NULL), ITG_OK);
    free(values);
  }
  assert_int_equal(itg_session_run(session, NULL), ITG_OK);
  *size = 0;
  for (size_t i = 0; i < itg_model_output_count(model); i++) *size += output_bytes(model, i);
  uint8_t *codes = malloc(*size), *to = codes;
  assert_non_null(codes);
  for (size_t i = 0; i < itg_model_output_count(model); i++) {
    const size_t bytes = output_bytes(model, i);
    assert_int_equal(itg_session_get_output_codes(session, i, to, bytes, NULL), ITG_OK);
    to += bytes;
  }
  itg_session_destroy(session);
  return codes;
}

static void every_instruction_set_gives_the_reference_codes(void **state) {
  (void)state;
  static const char *const cpus[] = {"avx2", "avxvnni", "avx512vnni", "neon", "neondot"};
  for (int i = 0; i < MODELS; i++) {
    char output[64];
    itg_model *model = NULL;
    size_t size, other_size;
    snprintf(output, sizeof output, "/tmp/intaglio-isa-%d.itg", (int)getpid());
    compile_on_noise(&models[i], NULL, output);
    assert_int_equal(itg_model_open(output, NULL, &model), ITG_OK);
    unlink(output);
    uint8_t *expected = run(model, "reference", 0, &size);
    for (size_t c = 0; c < sizeof cpus / sizeof cpus[0]; c++) {
      for (int threads = 1; threads <= 3; threads += 2) {
        uint8_t *got = run(model, cpus[c], threads, &other_size);
        assert_int_equal(size, other_size);
        if (memcmp(got, expected, size) != 0)
          fail_msg("%s %s differs on %s", models[i].path, models[i].precision, cpus[c]);
        free(got);
      }
    }
    free(expected);
    itg_model_close(model);
  }
}

int main(void) {
  char path[4096];
  for (int i = 0; i < MODELS; i++) {
    snprintf(path, sizeof path, "%s/%s", oracle_models(), models[i].path);
    if (!oracle_exists(path)) {
      printf("skipped: %s is missing\n", path);
      return 77;
    }
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_instruction_set_gives_the_reference_codes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
