// The compiler behind compiler.h: results, cancellation at every step, what a failed compile leaves behind.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "intaglio/compiler.h"
#include "support/onnx_writer.h"
#include "tensor/half.h"

enum { SIDE = 12, INPUT = 3 * SIDE * SIDE, SAMPLES = 6 };
static char folder[] = "/tmp/intaglio-compile-XXXXXX";

static int prepare(void **state) {
  (void)state;
  if (!mkdtemp(folder) || chdir(folder) != 0) return -1;
  const onnx_bytes model = onnx_small_embedder(SIDE, NULL);
  onnx_write_file("m.onnx", model.data, model.size);
  free(model.data);
  return 0;
}
static int clean_up(void **state) {
  (void)state;
  char line[128];
  snprintf(line, sizeof line, "rm -rf %s", folder);
  return chdir("/") == 0 ? system(line) : -1;
}

static size_t reads;
static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  uint32_t seed = 100 + (uint32_t)index + *(const uint32_t *)context;
  float tint = 0;
  for (size_t i = 0; i < INPUT; i++) {
    if (i % (SIDE * SIDE) == 0) tint = onnx_random(&seed);
    ((float *)inputs[0])[i] = tint + 0.3f * onnx_random(&seed);
  }
  reads++;
  return ITG_OK;
}

static const char *sample_group(void *context, size_t index) {
  (void)context;
  return index % 2 ? "odd" : "even";
}

static uint32_t calibration_seed = 1, judge_seed = 5000;

static itg_compile_options good_options(void) {
  itg_compile_options options;
  itg_compile_options_default(&options);
  options.calibration = (itg_samples){&calibration_seed, SAMPLES, read_sample, NULL, NULL};
  options.judge = (itg_samples){&judge_seed, SAMPLES, read_sample, NULL, sample_group};
  options.thread_count = 2;
  return options;
}

static itg_compiler *open_compiler(void) {
  itg_compiler *compiler = NULL;
  itg_diagnostic diagnostic = {0};
  if (itg_compiler_open("m.onnx", NULL, &diagnostic, &compiler) != ITG_OK) fail_msg("%s", diagnostic.message);
  return compiler;
}

static void test_result(void **state) {
  (void)state;
  itg_compiler *compiler = open_compiler();
  assert_int_equal(itg_compiler_input_count(compiler), 1);
  assert_string_equal(itg_compiler_input(compiler, 0)->name, "x");
  assert_null(itg_compiler_input(compiler, 1));
  itg_compile_options options = good_options();
  options.preprocessing = "{\"name\":\"mine\"}";
  for (int i = 0; i < 2; i++) { // A compiler can be used again.
    itg_compile_result result;
    itg_diagnostic diagnostic = {0};
    if (itg_compiler_compile(compiler, &options, "m.itg", &diagnostic, &result) != ITG_OK)
      fail_msg("%s", diagnostic.message);
    assert_int_equal(result.output_count, 1);
    assert_string_equal(result.outputs[0].name, "y");
    assert_true(result.outputs[0].cosine_mean > 0.99 && result.outputs[0].cosine_min <= result.outputs[0].cosine_mean);
    assert_false(isnan(result.outputs[0].float_margin));
    assert_false(result.judged_on_calibration);
    assert_int_equal(result.judge_count, SAMPLES);
    assert_true(result.step_count > 2 && result.file_bytes > 1000 && result.source_bytes > 1000);
    assert_non_null(strstr(result.json, "\"cosine_mean\""));
  }
  itg_compiler_close(compiler);

  itg_model *model;
  assert_int_equal(itg_model_open("m.itg", NULL, &model), ITG_OK);
  size_t size;
  const char *text = itg_model_metadata(model, "preprocessing", &size);
  assert_non_null(text);
  assert_int_equal(size, strlen(options.preprocessing));
  assert_memory_equal(text, options.preprocessing, size);
  text = itg_model_metadata(model, "provenance", &size);
  assert_non_null(text);
  assert_non_null(memmem(text, size, "m.onnx", 6));
  assert_null(memmem(text, size, folder, strlen(folder))); // No paths of this machine.
  assert_non_null(itg_model_metadata(model, "accuracy", &size));
  itg_model_close(model);
}

// The samples reach the steps that read them again: fitted four-bit weights lose less than those chosen without samples.
static void test_weights_are_fitted(void **state) {
  (void)state;
  double sqnr[2];
  static const char *const methods[] = {"mse", "gptq"};
  for (int i = 0; i < 2; i++) {
    char text[100];
    const int size = snprintf(text, sizeof text, "{\"precision\": \"a16w4\", \"weight_method\": \"%s\"}", methods[i]);
    onnx_write_file("recipe.json", text, (size_t)size);
    itg_compiler *compiler = open_compiler();
    itg_compile_options options = good_options();
    options.recipe = "recipe.json";
    itg_compile_result result;
    itg_diagnostic diagnostic = {0};
    if (itg_compiler_compile(compiler, &options, "fitted.itg", &diagnostic, &result) != ITG_OK)
      fail_msg("%s", diagnostic.message);
    sqnr[i] = result.outputs[0].sqnr_db;
    itg_compiler_close(compiler);
  }
  print_message("four-bit weights: %.1f dB, fitted %.1f dB\n", sqnr[0], sqnr[1]);
  assert_true(sqnr[1] > sqnr[0] + 1);
  unlink("recipe.json");
  unlink("fitted.itg");
}

// Half precision from end to end: x and y are floats to whoever runs the program.
static void test_half_precision(void **state) {
  (void)state;
  enum { FLOAT16 = 10 };
  const int64_t dims[] = {1, 3, SIDE, SIDE}, weight[] = {3, 3, 1, 1};
  static const float values[9] = {1, -0.5f, 0.25f, 0.5f, 1, -0.25f, -0.5f, 0.25f, 1};
  uint16_t halves[9];
  onnx_bytes graph = {0};
  for (int i = 0; i < 9; i++) halves[i] = itg_f32_to_f16(values[i]);
  onnx_node(&graph, "Conv", "conv", (const char *const[3]){"x", "w"}, "c", NULL);
  onnx_node(&graph, "Relu", "relu", (const char *const[3]){"c"}, "y", NULL);
  onnx_typed_weights(&graph, "w", FLOAT16, sizeof halves[0], 4, weight, halves);
  onnx_typed_value(&graph, 11, "x", FLOAT16, 4, dims);
  onnx_typed_value(&graph, 12, "y", FLOAT16, 4, dims);
  onnx_typed_value(&graph, 12, "c", FLOAT16, 4, dims); // An output that is read as well.
  const onnx_bytes bytes = onnx_model(graph);
  onnx_write_file("half.onnx", bytes.data, bytes.size);
  free(bytes.data);
  itg_diagnostic diagnostic = {0};
  itg_compiler *compiler;
  assert_int_equal(itg_compiler_open("half.onnx", NULL, &diagnostic, &compiler), ITG_OK);
  itg_compile_options options = good_options();
  itg_compile_result result;
  if (itg_compiler_compile(compiler, &options, "half.itg", &diagnostic, &result) != ITG_OK)
    fail_msg("%s", diagnostic.message);
  assert_int_equal(result.output_count, 2);
  for (size_t i = 0; i < 2; i++) assert_true(result.outputs[i].cosine_min > 0.999);
  itg_compiler_close(compiler);
  itg_model *model;
  assert_int_equal(itg_model_open("half.itg", NULL, &model), ITG_OK);
  assert_string_equal(itg_model_input(model, 0)->name, "x");
  assert_string_equal(itg_model_output(model, 0)->name, "y");
  assert_string_equal(itg_model_output(model, 1)->name, "c");
  itg_model_close(model);
}

static void test_arguments(void **state) {
  (void)state;
  itg_compiler *compiler = open_compiler();
  itg_compile_options options = good_options();
  itg_diagnostic diagnostic;
  options.calibration.count = 0;
  assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", &diagnostic, NULL), ITG_ERROR_ARGUMENT);
  options = good_options();
  options.precision = "b4w4";
  assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", &diagnostic, NULL), ITG_ERROR_ARGUMENT);
  options = good_options();
  options.dump_after = "never heard of";
  options.dump = stderr;
  assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", &diagnostic, NULL), ITG_ERROR_ARGUMENT);
  options = good_options();
  reads = 0;
  assert_int_equal(itg_compiler_compile(compiler, &options, "no/folder/x.itg", &diagnostic, NULL), ITG_ERROR_IO);
  assert_int_equal(reads, 0); // Found before the work was done.
  assert_int_equal(access("x.itg", F_OK), -1);
  assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", NULL, NULL), ITG_OK);
  assert_int_equal(unlink("x.itg"), 0);
  itg_compiler_close(compiler);
}

static itg_status failing_read(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  if (index < 3) return read_sample(context, index, inputs, diagnostic);
  diagnostic->status = ITG_ERROR_FORMAT;
  strcpy(diagnostic->message, "the third picture is broken");
  return ITG_ERROR_FORMAT;
}

static void test_errors_of_samples_come_through(void **state) {
  (void)state;
  itg_compiler *compiler = open_compiler();
  for (int judged = 0; judged < 2; judged++) {
    itg_compile_options options = good_options();
    *(judged ? &options.judge.read : &options.calibration.read) = failing_read;
    itg_diagnostic diagnostic = {0};
    assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", &diagnostic, NULL), ITG_ERROR_FORMAT);
    assert_string_equal(diagnostic.message, "the third picture is broken");
    assert_int_equal(access("x.itg", F_OK), -1);
  }
  itg_compiler_close(compiler);
}

static int cancel_later(void *context, const char *stage, long long done, long long total) {
  assert_true(stage && done >= 0 && total >= 0);
  return (*(int *)context)-- == 0;
}

static void test_cancel_at_every_step(void **state) {
  (void)state;
  itg_compiler *compiler = open_compiler();
  itg_status status = ITG_ERROR_CANCELLED;
  int steps = 0;
  for (; status == ITG_ERROR_CANCELLED && steps < 200; steps++) {
    itg_compile_options options = good_options();
    int left = steps;
    options.ablate = 1;
    options.progress = cancel_later;
    options.progress_context = &left;
    status = itg_compiler_compile(compiler, &options, "cancelled.itg", NULL, NULL);
    if (status == ITG_ERROR_CANCELLED) assert_int_equal(access("cancelled.itg", F_OK), -1);
  }
  assert_int_equal(status, ITG_OK);
  assert_true(steps > 5);
  assert_int_equal(access("cancelled.itg", F_OK), 0);
  itg_compiler_close(compiler);
}

static void test_collapse_is_refused(void **state) {
  (void)state;
  const onnx_bytes model = onnx_fragile_network(SIDE);
  onnx_write_file("fragile.onnx", model.data, model.size);
  free(model.data);
  itg_compiler *compiler;
  assert_int_equal(itg_compiler_open("fragile.onnx", NULL, NULL, &compiler), ITG_OK);
  itg_compile_options options = good_options();
  itg_compile_result result = {0};
  itg_diagnostic diagnostic = {0};
  options.precision = "a8w8";
  assert_int_equal(itg_compiler_compile(compiler, &options, "fragile.itg", &diagnostic, &result),
                   ITG_ERROR_QUANTIZATION);
  assert_non_null(strstr(diagnostic.message, "collapsed"));
  assert_non_null(strstr(diagnostic.message, "a16w8"));  // What to try.
  assert_non_null(strstr(diagnostic.message, "loss: ")); // Where it comes from.
  assert_true(result.collapsed && result.output_count == 1 && result.file_bytes == 0);
  assert_int_equal(access("fragile.itg", F_OK), -1);
  options.allow_collapse = 1;
  assert_int_equal(itg_compiler_compile(compiler, &options, "fragile.itg", &diagnostic, &result), ITG_OK);
  assert_true(result.collapsed && result.file_bytes > 0);
  options.allow_collapse = 0;
  options.precision = "a16w8"; // The remedy works.
  assert_int_equal(itg_compiler_compile(compiler, &options, "fragile.itg", &diagnostic, &result), ITG_OK);
  assert_false(result.collapsed);
  itg_compiler_close(compiler);
}

// On the network that 8 bits destroy nothing helps; on the embedder every row has its numbers, and the first is the program.
static void test_ablation(void **state) {
  (void)state;
  itg_compiler *compiler = open_compiler();
  itg_compile_options options = good_options();
  itg_compile_result result = {0};
  options.ablate = 1;
  options.precision = "a8w8";
  assert_int_equal(itg_compiler_compile(compiler, &options, "ablated.itg", NULL, &result), ITG_OK);
  assert_true(result.ablation_count > 3);
  const itg_ablation *rows = result.ablation;
  assert_true(rows[0].cosine_mean == result.outputs[0].cosine_mean);
  assert_true(rows[0].cosine_min == result.outputs[0].cosine_min);
  assert_true(rows[0].bought_db == 0);
  bool differs = false;
  int other_weights = 0;
  for (size_t i = 1; i < result.ablation_count; i++) {
    assert_null(rows[i].failure);
    if (strncmp(rows[i].method, "with ", 5) == 0) {
      other_weights++;
      assert_true(rows[i].noise != rows[0].noise);
    }
    assert_true(rows[i].cosine_mean > 0.9 && isfinite(rows[i].bought_db));
    differs |= rows[i].noise != rows[0].noise;
    if (strcmp(rows[i].method, "scale-snapping") == 0) assert_true(rows[i].bought_db == 0); // Only for NPUs.
  }
  assert_int_equal(other_weights, 2); // Of nearest, seqmse and gptq those that the recipe has not.
  assert_true(differs);               // Some method does something here.
  assert_non_null(strstr(result.json, "\"ablation\""));
  // The file does not depend on it.
  itg_compile_result plain = {0};
  options.ablate = 0;
  assert_int_equal(itg_compiler_compile(compiler, &options, "plain.itg", NULL, &plain), ITG_OK);
  assert_null(plain.ablation);
  assert_int_equal(system("cmp -s ablated.itg plain.itg"), 0);
  itg_compiler_close(compiler);

  // A comparison finds the recipe in the file and gives the same rows.
  itg_float_network *network;
  assert_int_equal(itg_float_network_open("m.onnx", NULL, NULL, &network), ITG_OK);
  itg_compare_options compare;
  itg_compare_options_default(&compare);
  compare.samples = good_options().judge;
  compare.thread_count = 2;
  compare.ablate = 1;
  itg_comparison comparison;
  itg_diagnostic diagnostic = {0};
  assert_int_equal(itg_compare("ablated.itg", network, &compare, &diagnostic, &comparison), ITG_ERROR_ARGUMENT);
  compare.calibration = good_options().calibration;
  assert_int_equal(itg_compare("ablated.itg", network, &compare, &diagnostic, &comparison), ITG_OK);
  assert_true(comparison.ablation_count > 3);
  assert_true(comparison.ablation[0].cosine_mean == comparison.outputs[0].cosine_mean);
  itg_comparison_free(&comparison);
  itg_float_network_close(network);
}

static json_t *compile_mixed(const char *model, const char *budget, int threads, const char *output) {
  itg_compiler *compiler;
  assert_int_equal(itg_compiler_open(model, NULL, NULL, &compiler), ITG_OK);
  itg_compile_options options = good_options();
  options.calibration.count = 12;
  options.precision = "mixed";
  options.budget = budget;
  options.recipe_output = "found.json";
  options.thread_count = threads;
  options.allow_collapse = 1;
  itg_compile_result result = {0};
  itg_diagnostic diagnostic = {0};
  if (itg_compiler_compile(compiler, &options, output, &diagnostic, &result) != ITG_OK)
    fail_msg("%s: %s", budget, diagnostic.message);
  assert_int_equal(result.calibration_count, 9); // The other three select.
  json_t *root = json_loads(result.json, 0, NULL);
  itg_compiler_close(compiler);
  assert_non_null(root);
  return root;
}

static double number_of(json_t *root, const char *key) {
  return json_number_value(json_object_get(json_object_get(root, "mixed"), key));
}

static void test_mixed_precision(void **state) {
  (void)state;
  const onnx_bytes model = onnx_fragile_network(SIDE);
  onnx_write_file("fragile.onnx", model.data, model.size);
  free(model.data);
  // What 8 bits destroy is repaired by widening the one tensor that matters, far below the price of 16 bits for all.
  json_t *least = compile_mixed("fragile.onnx", "cost=1", 2, "least.itg");
  json_t *good = compile_mixed("fragile.onnx", "cosine=0.99", 2, "good.itg");
  json_t *all = compile_mixed("fragile.onnx", "cost=100", 2, "all.itg");
  assert_true(number_of(least, "cost") <= 1);
  assert_true(number_of(least, "noise") > 0.5);
  assert_true(number_of(good, "cosine_mean") >= 0.99);
  assert_true(number_of(good, "wide") < number_of(all, "wide") && number_of(good, "noise") < 0.05);
  assert_true(number_of(good, "cost") <= number_of(all, "cost"));
  assert_int_equal(number_of(all, "selecting_samples"), 3);
  json_decref(least);
  json_decref(good);
  json_decref(all);
  // The budget holds, more of it does not hurt, and threads change nothing.
  double noise = 1;
  static const char *const budgets[] = {"cost=1", "cost=1.2", "cost=1.6"};
  for (size_t i = 0; i < 3; i++) {
    json_t *root = compile_mixed("m.onnx", budgets[i], 1, "one.itg");
    assert_true(number_of(root, "cost") <= atof(budgets[i] + 5));
    assert_true(number_of(root, "noise") <= 1.05 * noise); // What few samples leave out of the ranges stays.
    noise = number_of(root, "noise");
    json_decref(root);
    json_decref(compile_mixed("m.onnx", budgets[i], 2, "two.itg"));
    assert_int_equal(system("cmp -s one.itg two.itg"), 0);
  }
  // With everything wide, channels are not made alike for 8-bit operands.
  json_t *wide = compile_mixed("m.onnx", "cost=100", 2, "wide.itg");
  json_t *found = json_load_file("found.json", 0, NULL);
  assert_int_equal(json_integer_value(json_object_get(found, "equalize_for")), 16);
  assert_string_equal(json_string_value(json_object_get(found, "weight_method")), "gptq");
  assert_true(number_of(wide, "noise") <= noise);
  json_decref(found);
  json_decref(wide);
  // What was found is a recipe like any other.
  itg_compiler *compiler = open_compiler();
  itg_compile_options options = good_options();
  options.recipe = "found.json";
  assert_int_equal(itg_compiler_compile(compiler, &options, "again.itg", NULL, NULL), ITG_OK);
  static const char *const wrong[] = {"cost", "cost=", "cost=0.5", "cost=x", "cosine=1", "cosine=-1", "time=3", ""};
  options = good_options();
  options.precision = "mixed";
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    options.budget = wrong[i];
    assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", NULL, NULL), ITG_ERROR_ARGUMENT);
  }
  itg_diagnostic diagnostic = {0};
  options.budget = "cosine=0.99999999";
  assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", &diagnostic, NULL), ITG_ERROR_QUANTIZATION);
  assert_non_null(strstr(diagnostic.message, "16 bits"));
  options.precision = "a8w8";
  assert_int_equal(itg_compiler_compile(compiler, &options, "x.itg", NULL, NULL), ITG_ERROR_ARGUMENT);
  itg_compiler_close(compiler);
}

// What is wrong with the model is not blamed on the samples.
static void test_damaged_weights(void **state) {
  (void)state;
  const int64_t dims[] = {1, 3, SIDE, SIDE}, weight[] = {3, 3, 1, 1};
  static const float values[9] = {1, -0.5f, 0.25f, 0.5f, NAN, -0.25f, -0.5f, 0.25f, 1};
  onnx_bytes graph = {0};
  onnx_node(&graph, "Conv", "conv", (const char *const[3]){"x", "w"}, "y", NULL);
  onnx_weights(&graph, "w", 4, weight, values);
  onnx_value(&graph, 11, "x", 4, dims);
  onnx_value(&graph, 12, "y", 4, dims);
  const onnx_bytes bytes = onnx_model(graph);
  onnx_write_file("nan.onnx", bytes.data, bytes.size);
  free(bytes.data);
  itg_compiler *compiler;
  assert_int_equal(itg_compiler_open("nan.onnx", NULL, NULL, &compiler), ITG_OK);
  itg_compile_options options = good_options();
  itg_diagnostic diagnostic = {0};
  assert_int_equal(itg_compiler_compile(compiler, &options, "nan.itg", &diagnostic, NULL), ITG_ERROR_QUANTIZATION);
  assert_non_null(strstr(diagnostic.message, "the model file itself is damaged"));
  assert_int_equal(diagnostic.subject[0], 'w');
  itg_compiler_close(compiler);
}

enum { IDS = 4, ROWS = 7, WIDTH = 8 };
static itg_status read_ids(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)context;
  (void)diagnostic;
  for (size_t i = 0; i < IDS; i++) ((int64_t *)inputs[0])[i] = (int64_t)((index + i * i) % ROWS);
  return ITG_OK;
}

static void test_ids_beyond_their_table(void **state) {
  (void)state;
  enum { INT64 = 7 };
  const int64_t ids[] = {1, IDS}, table[] = {ROWS, WIDTH}, output[] = {1, IDS, WIDTH};
  static float values[ROWS * WIDTH];
  uint32_t seed = 9;
  for (int i = 0; i < ROWS * WIDTH; i++) values[i] = onnx_random(&seed);
  onnx_bytes graph = {0};
  onnx_node(&graph, "Gather", "gather", (const char *const[3]){"table", "ids"}, "g", NULL);
  onnx_node(&graph, "Relu", "relu", (const char *const[3]){"g"}, "y", NULL);
  onnx_weights(&graph, "table", 2, table, values);
  onnx_typed_value(&graph, 11, "ids", INT64, 2, ids);
  onnx_value(&graph, 12, "y", 3, output);
  const onnx_bytes bytes = onnx_model(graph);
  onnx_write_file("ids.onnx", bytes.data, bytes.size);
  free(bytes.data);
  itg_compiler *compiler;
  assert_int_equal(itg_compiler_open("ids.onnx", NULL, NULL, &compiler), ITG_OK);
  itg_compile_options options = good_options();
  options.calibration.read = read_ids;
  options.judge = (itg_samples){0};
  itg_diagnostic diagnostic = {0};
  if (itg_compiler_compile(compiler, &options, "ids.itg", &diagnostic, NULL) != ITG_OK)
    fail_msg("%s", diagnostic.message);
  itg_compiler_close(compiler);
  itg_model *model;
  itg_session *session;
  assert_int_equal(itg_model_open("ids.itg", NULL, &model), ITG_OK);
  assert_int_equal(itg_session_create(model, NULL, NULL, &session), ITG_OK);
  const int64_t good[IDS] = {0, ROWS - 1, -1, -ROWS}, high[IDS] = {0, ROWS, 0, 0}, low[IDS] = {0, 0, 0, -ROWS - 1};
  assert_int_equal(itg_session_set_input_codes(session, 0, good, sizeof good, &diagnostic), ITG_OK);
  assert_int_equal(itg_session_run(session, &diagnostic), ITG_OK);
  assert_int_equal(itg_session_set_input_codes(session, 0, high, sizeof high, &diagnostic), ITG_ERROR_ARGUMENT);
  assert_non_null(strstr(diagnostic.message, "value 1 is 7"));
  assert_int_equal(itg_session_run(session, &diagnostic), ITG_ERROR_ARGUMENT); // The bad ids do not run.
  assert_int_equal(itg_session_set_input_codes(session, 0, low, sizeof low, &diagnostic), ITG_ERROR_ARGUMENT);
  itg_session_destroy(session);
  itg_model_close(model);
}

static void test_float_network(void **state) {
  (void)state;
  itg_float_network *network;
  assert_int_equal(itg_float_network_open("m.onnx", NULL, NULL, &network), ITG_OK);
  assert_int_equal(itg_float_network_input_count(network), 1);
  assert_int_equal(itg_float_network_output_count(network), 1);
  assert_int_equal(itg_float_network_input(network, 0)->count, INPUT);
  assert_int_equal(itg_float_network_output(network, 0)->count, 16);
  assert_null(itg_float_network_output(network, 1));
  float x[INPUT], y[2][16];
  void *inputs[] = {x};
  assert_int_equal(read_sample(&calibration_seed, 0, inputs, NULL), ITG_OK);
  for (int i = 0; i < 2; i++)
    assert_int_equal(itg_float_network_run(network, (const void *const[]){x}, (void *const[]){y[i]}, NULL), ITG_OK);
  assert_memory_equal(y[0], y[1], sizeof y[0]);
  itg_diagnostic diagnostic;
  assert_int_equal(itg_float_network_run(network, (const void *const[]){NULL}, (void *const[]){y[0]}, &diagnostic),
                   ITG_ERROR_ARGUMENT);
  itg_float_network_close(network);
  itg_float_network_close(NULL);
}

static void test_shape_texts(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "x", "=1x2", "x=", "x=1x", "x=0x2", "x=-1", "x=1y2", "x=1x2x3x4x5x6x7x8x9", "x=99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    const itg_source_options options = {sizeof options, &wrong[i], 1};
    itg_float_network *network;
    assert_int_equal(itg_float_network_open("m.onnx", &options, NULL, &network), ITG_ERROR_ARGUMENT);
  }
  const char *right = "x=1x3x12x12";
  const itg_source_options options = {sizeof options, &right, 1};
  itg_float_network *network;
  assert_int_equal(itg_float_network_open("m.onnx", &options, NULL, &network), ITG_OK);
  itg_float_network_close(network);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_result),
      cmocka_unit_test(test_weights_are_fitted),
      cmocka_unit_test(test_half_precision),
      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_errors_of_samples_come_through),
      cmocka_unit_test(test_cancel_at_every_step),
      cmocka_unit_test(test_collapse_is_refused),
      cmocka_unit_test(test_ablation),
      cmocka_unit_test(test_damaged_weights),
      cmocka_unit_test(test_ids_beyond_their_table),
      cmocka_unit_test(test_mixed_precision),
      cmocka_unit_test(test_float_network),
      cmocka_unit_test(test_shape_texts),
  };
  return cmocka_run_group_tests(tests, prepare, clean_up);
}
