// Sessions: right answers on every instruction set and thread count, arguments checked, models shared between threads.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "container/container.h"
#include "intaglio/intaglio.h"
#include "run/convert.h"
#include "support/integer_graph.h"
#include "support/naive.h"
#include "tensor/encoding.h"

static itg_graph *graph;
static uint8_t *bytes;
static size_t size;

static int make_file(void **state) {
  (void)state;
  static const itg_metadata_section sections[] = {{"provenance", "{}", 2, false}};
  graph = builder_small_graph();
  return itg_container_encode(graph, sections, 1, NULL, &bytes, &size) != ITG_OK;
}

static int free_file(void **state) {
  (void)state;
  itg_graph_destroy(graph);
  free(bytes);
  return 0;
}

static itg_model *open_model(void) {
  itg_model *model = NULL;
  itg_diagnostic diagnostic = {0};
  const itg_status status = itg_model_open_memory(bytes, size, &diagnostic, &model);
  if (status != ITG_OK) print_error("%s\n", diagnostic.message);
  assert_int_equal(status, ITG_OK);
  return model;
}

static void fill_image(uint8_t *image, uint32_t seed) {
  builder random = {.seed = seed};
  for (int i = 0; i < 108; i++) image[i] = (uint8_t)builder_random(&random);
}

static void check_answers(itg_session *session, uint32_t seed) {
  uint8_t image[108], sum[144];
  uint16_t code[5];
  int32_t expected_code[5], expected_sum[144];
  fill_image(image, seed);
  assert_int_equal(itg_session_set_input_codes(session, 0, image, sizeof image, NULL), ITG_OK);
  assert_int_equal(itg_session_run(session, NULL), ITG_OK);
  assert_int_equal(itg_session_get_output_codes(session, 0, code, sizeof code, NULL), ITG_OK);
  assert_int_equal(itg_session_get_output_codes(session, 1, sum, sizeof sum, NULL), ITG_OK);
  naive_small_graph(graph, image, expected_code, expected_sum);
  for (int i = 0; i < 5; i++) assert_int_equal(code[i], expected_code[i]);
  for (int i = 0; i < 144; i++) assert_int_equal(sum[i], expected_sum[i]);
}

static void answers_equal_the_plain_formulas(void **state) {
  (void)state;
  static const char *const cpus[] = {"reference", "avx2", "avxvnni", "avx512vnni", NULL};
  itg_model *model = open_model();
  for (int cpu = 0; cpu < 5; cpu++) {
    for (int threads = 0; threads < 4; threads++) {
      itg_session *session = NULL;
      itg_session_options options;
      itg_session_options_default(&options);
      options.cpu = cpus[cpu];
      options.thread_count = threads;
      assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_OK);
      for (uint32_t seed = 0; seed < 20; seed++) check_answers(session, seed);
      itg_session_destroy(session);
    }
  }
  itg_model_close(model);
}

// Steps that are large enough to be split give the same codes for any number of threads and any instruction set.
static void threads_split_large_steps(void **state) {
  (void)state;
  builder b = {.seed = 19};
  assert_int_equal(itg_graph_create(NULL, &b.graph), ITG_OK);
  itg_tensor *image = builder_activation(&b, "image", ITG_DTYPE_U8, 0.02, 120, SHAPE(1, 61, 67, 9));
  itg_tensor *map = builder_activation(&b, "map", ITG_DTYPE_U8, 0.05, 90, SHAPE(1, 61, 67, 40));
  itg_tensor *other = builder_activation(&b, "other", ITG_DTYPE_U8, 0.05, 90, SHAPE(1, 61, 67, 40));
  itg_tensor *sum = builder_activation(&b, "sum", ITG_DTYPE_U8, 0.05, 90, SHAPE(1, 61, 67, 40));
  itg_tensor *turned = builder_activation(&b, "turned", ITG_DTYPE_U8, 0.05, 90, SHAPE(1, 40, 61, 67));
  assert_true(itg_graph_add_input(b.graph, image));
  builder_conv(&b, "conv", image, map, 3, 1, 1, 0.003);
  builder_conv(&b, "depthwise", map, other, 3, 1, 40, 0.02);
  builder_add(&b, "add", map, other, sum);
  builder_node(&b, ITG_OP_TRANSPOSE, "turn", 1, &sum, turned)->attributes.permutation =
      (itg_permutation_attributes){{0, 3, 1, 2}};
  assert_true(itg_graph_add_output(b.graph, turned));
  b.graph->stage = ITG_STAGE_LEGAL;
  uint8_t *file = NULL;
  size_t file_size = 0;
  assert_int_equal(itg_container_encode(b.graph, NULL, 0, NULL, &file, &file_size), ITG_OK);
  itg_graph_destroy(b.graph);
  itg_model *model = NULL;
  assert_int_equal(itg_model_open_memory(file, file_size, NULL, &model), ITG_OK);
  enum { IN = 61 * 67 * 9, OUT = 61 * 67 * 40 };
  uint8_t *codes = malloc(IN), *expected = malloc(OUT), *out = malloc(OUT);
  for (int i = 0; i < IN; i++) codes[i] = (uint8_t)builder_random(&b);
  static const char *const cpus[] = {"reference", "avx2", NULL};
  for (int cpu = 0; cpu < 3; cpu++) {
    for (int threads = 1; threads <= 5; threads += cpu ? 1 : 4) {
      itg_session *session = NULL;
      itg_session_options options;
      itg_session_options_default(&options);
      options.cpu = cpus[cpu];
      options.thread_count = threads;
      assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_OK);
      assert_int_equal(itg_session_set_input_codes(session, 0, codes, IN, NULL), ITG_OK);
      for (int round = 0; round < 2; round++) {
        memset(out, 0, OUT);
        assert_int_equal(itg_session_run(session, NULL), ITG_OK);
        assert_int_equal(itg_session_get_output_codes(session, 0, out, OUT, NULL), ITG_OK);
        if (cpu == 0 && threads == 1) memcpy(expected, out, OUT);
        assert_memory_equal(out, expected, OUT);
      }
      itg_session_destroy(session);
    }
  }
  free(codes);
  free(expected);
  free(out);
  itg_model_close(model);
  free(file);
}

static void the_environment_names_the_instruction_set(void **state) {
  (void)state;
  itg_model *model = open_model();
  itg_session *session = NULL;
  itg_diagnostic diagnostic = {0};
  assert_int_equal(setenv("INTAGLIO_CPU", "reference", 1), 0);
  assert_int_equal(itg_session_create(model, NULL, NULL, &session), ITG_OK);
  assert_string_equal(itg_session_cpu(session), "reference");
  itg_session_destroy(session);
  session = NULL;
  assert_int_equal(setenv("INTAGLIO_CPU", "6502", 1), 0);
  assert_int_equal(itg_session_create(model, NULL, &diagnostic, &session), ITG_ERROR_ARGUMENT);
  assert_string_equal(diagnostic.subject, "6502");
  unsetenv("INTAGLIO_CPU");
  itg_model_close(model);
}

static void the_model_describes_itself(void **state) {
  (void)state;
  itg_model *model = open_model();
  assert_int_equal(itg_model_input_count(model), 1);
  assert_int_equal(itg_model_output_count(model), 2);
  const itg_tensor_info *image = itg_model_input(model, 0);
  assert_string_equal(image->name, "image");
  assert_int_equal(image->shape.rank, 4);
  assert_int_equal(image->count, 108);
  assert_int_equal(image->dtype, ITG_DTYPE_U8);
  assert_true(image->scale == 0.02);
  assert_int_equal(image->zero_point, 120);
  assert_string_equal(itg_model_output(model, 1)->name, "sum");
  assert_null(itg_model_input(model, 1));
  assert_null(itg_model_output(model, 2));
  size_t length = 0;
  assert_memory_equal(itg_model_metadata(model, "provenance", &length), "{}", 2);
  assert_int_equal(length, 2);
  assert_null(itg_model_metadata(model, "accuracy", &length));
  itg_model_close(model);
}

static void steps_have_names_and_times(void **state) {
  (void)state;
  itg_model *model = open_model();
  itg_session *session = NULL;
  itg_session_options options;
  itg_session_options_default(&options);
  options.profile = 1;
  options.cpu = "reference";
  assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_OK);
  assert_string_equal(itg_session_cpu(session), "reference");
  check_answers(session, 3);
  assert_int_equal(itg_session_step_count(session), 5); // The reshape costs nothing: it is no step.
  itg_step_info step;
  double total = 0;
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(itg_session_step(session, i, &step), ITG_OK);
    assert_true(step.microseconds >= 0);
    total += step.microseconds;
    if (i > 0) continue;
    assert_string_equal(step.name, "conv");
    assert_string_equal(step.op, "QConv");
    assert_int_equal(step.multiply_accumulates, 6 * 6 * 4 * 3 * 3 * 3);
  }
  assert_true(total > 0);
  assert_int_equal(itg_session_step(session, 5, &step), ITG_ERROR_ARGUMENT);
  itg_session_destroy(session);
  itg_model_close(model);
}

static void wrong_arguments_are_refused(void **state) {
  (void)state;
  itg_model *model = open_model();
  itg_session *session = NULL;
  itg_session_options options;
  itg_diagnostic diagnostic = {0};
  itg_session_options_default(&options);
  options.cpu = "pentium";
  assert_int_equal(itg_session_create(model, &options, &diagnostic, &session), ITG_ERROR_ARGUMENT);
  assert_string_equal(diagnostic.subject, "pentium");
  itg_session_options_default(&options);
  options.thread_count = -1;
  assert_int_equal(itg_session_create(model, &options, &diagnostic, &session), ITG_ERROR_ARGUMENT);
  itg_session_options_default(&options);
  options.struct_size = 0;
  assert_int_equal(itg_session_create(model, &options, &diagnostic, &session), ITG_ERROR_ARGUMENT);
  assert_null(session);
  assert_int_equal(itg_session_create(model, NULL, &diagnostic, &session), ITG_OK);
  assert_int_equal(itg_session_run(session, &diagnostic), ITG_ERROR_ARGUMENT); // The input was never set.
  assert_string_equal(diagnostic.subject, "image");
  float values[108] = {0};
  assert_int_equal(itg_session_set_input(session, 0, values, 107, &diagnostic), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_session_set_input(session, 1, values, 108, &diagnostic), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_session_set_input(session, 0, NULL, 108, &diagnostic), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_session_set_input_codes(session, 0, values, 107, &diagnostic), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_session_set_input(session, 0, values, 108, &diagnostic), ITG_OK);
  assert_int_equal(itg_session_run(session, &diagnostic), ITG_OK);
  assert_int_equal(itg_session_get_output(session, 0, values, 6, &diagnostic), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_session_get_output(session, 2, values, 5, &diagnostic), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_session_get_output(session, 0, values, 5, &diagnostic), ITG_OK);
  itg_session_destroy(session);
  itg_model_close(model);
  assert_int_equal(itg_model_open("/nonexistent/x.itg", &diagnostic, &model), ITG_ERROR_IO);
  assert_int_equal(itg_model_open_memory(bytes, 100, &diagnostic, &model), ITG_ERROR_FORMAT);
  itg_session_destroy(NULL);
  itg_model_close(NULL);
}

static void a_caller_may_supply_the_workspace(void **state) {
  (void)state;
  itg_model *model = open_model();
  itg_session_options options;
  itg_session_options_default(&options);
  options.thread_count = 2;
  size_t needed = 0;
  assert_int_equal(itg_session_workspace_size(model, &options, NULL, &needed), ITG_OK);
  assert_true(needed >= 108 + 144);
  uint8_t *block = NULL;
  assert_int_equal(posix_memalign((void **)&block, 64, needed + 64), 0);
  memset(block, 0xa5, needed + 64);
  itg_session *session = NULL;
  options.workspace = block;
  options.workspace_size = needed - 1;
  assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_ERROR_ARGUMENT);
  options.workspace = block + 1;
  options.workspace_size = needed;
  assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_ERROR_ARGUMENT);
  options.workspace = block;
  assert_int_equal(itg_session_create(model, &options, NULL, &session), ITG_OK);
  for (uint32_t seed = 0; seed < 5; seed++) check_answers(session, seed);
  for (size_t i = 0; i < 64; i++) assert_int_equal(block[needed + i], 0xa5);
  itg_session_destroy(session);
  free(block);
  itg_model_close(model);
}

static void unaligned_memory_is_copied(void **state) {
  (void)state;
  uint8_t *shifted = malloc(size + 128);
  uint8_t *odd = shifted + 64 - (uintptr_t)shifted % 64 + 1;
  memcpy(odd, bytes, size);
  itg_model *model = NULL;
  itg_session *session = NULL;
  assert_int_equal(itg_model_open_memory(odd, size, NULL, &model), ITG_OK);
  assert_int_equal(itg_session_create(model, NULL, NULL, &session), ITG_OK);
  check_answers(session, 9);
  itg_session_destroy(session);
  itg_model_close(model);
  free(shifted);
}

static void a_file_gives_the_same_as_memory(void **state) {
  (void)state;
  char path[] = "/tmp/itg-session-XXXXXX";
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  assert_int_equal(write(descriptor, bytes, size), (ssize_t)size);
  close(descriptor);
  itg_model *model = NULL;
  itg_session *session = NULL;
  assert_int_equal(itg_model_open(path, NULL, &model), ITG_OK);
  unlink(path);
  assert_int_equal(itg_session_create(model, NULL, NULL, &session), ITG_OK);
  check_answers(session, 1);
  itg_session_destroy(session);
  itg_model_close(model);
}

static void *run_many(void *argument) {
  const itg_model *model = argument;
  for (int round = 0; round < 5; round++) {
    itg_session *session = NULL;
    itg_session_options options;
    itg_session_options_default(&options);
    options.thread_count = 1;
    options.cpu = round % 2 ? "reference" : NULL;
    if (itg_session_create(model, &options, NULL, &session) != ITG_OK) return "create";
    for (uint32_t seed = 0; seed < 20; seed++) {
      uint8_t image[108];
      uint16_t code[5];
      int32_t expected[5], sum[144];
      fill_image(image, seed);
      naive_small_graph(graph, image, expected, sum);
      if (itg_session_set_input_codes(session, 0, image, sizeof image, NULL) != ITG_OK ||
          itg_session_run(session, NULL) != ITG_OK ||
          itg_session_get_output_codes(session, 0, code, sizeof code, NULL) != ITG_OK)
        return "run";
      for (int i = 0; i < 5; i++) {
        if (code[i] != expected[i]) return "answer";
      }
    }
    itg_session_destroy(session);
  }
  return NULL;
}

static void threads_share_a_model(void **state) {
  (void)state;
  itg_model *model = open_model();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_many, model), 0);
  for (int i = 0; i < 4; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  itg_model_close(model);
}

static void conversion_equals_its_definition(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  float *values = malloc(COUNT * sizeof *values);
  uint16_t *codes = malloc(COUNT * sizeof *codes);
  uint8_t *small = malloc(COUNT);
  builder random = {.seed = 5};
  static const double scales[] = {1.0 / 255, 0.0173, 3.1e-7, 1e-9, 250.0};
  static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
  for (int s = 0; s < 5; s++) {
    for (int32_t zero = 0; zero <= 255; zero += 51) {
      for (int i = 0; i < COUNT; i++) {
        // Around codes, halves between codes, and far outside.
        const double code = (double)(int32_t)(builder_random(&random) % 140000) - 70000;
        values[i] = (float)((code / (i % 3 == 0 ? 1 : 200) + (i % 2) * 0.5) * scales[s]);
      }
      memcpy(values, special, sizeof special);
      itg_encode_array(values, COUNT, ITG_DTYPE_U8, scales[s], zero, small);
      itg_encode_array(values, COUNT, ITG_DTYPE_U16, scales[s], zero * 257, codes);
      int differ = 0;
      for (int i = 0; i < COUNT; i++) {
        differ += small[i] != itg_encode(values[i], scales[s], zero, 0, 255);
        differ += codes[i] != itg_encode(values[i], scales[s], zero * 257, 0, 65535);
      }
      assert_int_equal(differ, 0);
    }
  }
  for (int i = 0; i < COUNT; i++) codes[i] = (uint16_t)i;
  itg_decode_array(codes, COUNT, ITG_DTYPE_U16, 0.0173, 1234, values);
  for (int i = 0; i < COUNT; i++) assert_true(values[i] == itg_decode(codes[i], 0.0173, 1234));
  int32_t integers[9];
  int64_t large[9];
  uint8_t flags[9];
  itg_encode_array(special, 9, ITG_DTYPE_S32, 1, 0, integers);
  itg_encode_array(special, 9, ITG_DTYPE_S64, 1, 0, large);
  itg_encode_array((float[]){0, 1, 0.4f, -3, 0.5f, NAN, 0, 0, 0}, 9, ITG_DTYPE_BOOL, 1, 0, flags);
  assert_memory_equal(integers, ((int32_t[]){0, INT32_MAX, INT32_MIN, 0, 0, 0, 0, INT32_MAX, INT32_MIN}), 36);
  assert_memory_equal(large, ((int64_t[]){0, INT64_MAX, INT64_MIN, 0, 0, 0, 0, INT64_MAX, INT64_MIN}), 72);
  assert_memory_equal(flags, ((uint8_t[]){0, 1, 0, 1, 1, 0, 0, 0, 0}), 9);
  free(values);
  free(codes);
  free(small);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_equal_the_plain_formulas),
      cmocka_unit_test(threads_split_large_steps),
      cmocka_unit_test(the_environment_names_the_instruction_set),
      cmocka_unit_test(the_model_describes_itself),
      cmocka_unit_test(steps_have_names_and_times),
      cmocka_unit_test(wrong_arguments_are_refused),
      cmocka_unit_test(a_caller_may_supply_the_workspace),
      cmocka_unit_test(unaligned_memory_is_copied),
      cmocka_unit_test(a_file_gives_the_same_as_memory),
      cmocka_unit_test(threads_share_a_model),
      cmocka_unit_test(conversion_equals_its_definition),
  };
  return cmocka_run_group_tests(tests, make_file, free_file);
}
