// The numbers of the accuracy record and the collapse guard, against cases whose answer is known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/report.h"

enum { SAMPLES = 8, ELEMENTS = 32 };

static float random_value(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-23f - 1;
}

typedef void (*distortion)(float *values, const float *mean, uint32_t *state);

static void keep(float *values, const float *mean, uint32_t *state) { (void)values, (void)mean, (void)state; }
static void add_noise(float *values, const float *mean, uint32_t *state) {
  (void)mean;
  for (int i = 0; i < ELEMENTS; i++) values[i] += 0.01f * random_value(state);
}
// What a broken embedding looks like: everything near the mean.
static void squeeze(float *values, const float *mean, uint32_t *state) {
  (void)state;
  for (int i = 0; i < ELEMENTS; i++) values[i] = mean[i] + 0.05f * (values[i] - mean[i]);
}
static void shuffle(float *values, const float *mean, uint32_t *state) {
  for (int i = 0; i < ELEMENTS; i++) values[i] = mean[i] + 0.3f * random_value(state);
}

static itg_accuracy measure(distortion distort, const char *const *groups) {
  float mean[ELEMENTS] = {0}, values[SAMPLES][ELEMENTS];
  uint32_t state = 1;
  for (int s = 0; s < SAMPLES; s++) {
    for (int i = 0; i < ELEMENTS; i++) {
      values[s][i] = 1 + 0.3f * random_value(&state);
      mean[i] += values[s][i] / SAMPLES;
    }
  }
  itg_accuracy accuracy;
  assert_int_equal(itg_accuracy_begin("y", SAMPLES, ELEMENTS, NULL, &accuracy), ITG_OK);
  for (int s = 0; s < SAMPLES; s++) {
    float other[ELEMENTS];
    memcpy(other, values[s], sizeof other);
    distort(other, mean, &state);
    itg_accuracy_add(&accuracy, (size_t)s, values[s], other);
  }
  assert_int_equal(itg_accuracy_finish(&accuracy, groups, NULL), ITG_OK);
  return accuracy;
}

static void test_equal(void **state) {
  (void)state;
  itg_accuracy accuracy = measure(keep, NULL);
  char reason[200];
  assert_float_equal(accuracy.summary.cosine_mean, 1, 1e-12);
  assert_float_equal(accuracy.summary.cosine_min, 1, 1e-12);
  assert_float_equal(accuracy.summary.centred_cosine_mean, 1, 1e-12);
  assert_float_equal(accuracy.summary.spread_ratio, 1, 1e-12);
  assert_float_equal(accuracy.summary.pair_agreement, 1, 1e-12);
  assert_float_equal(accuracy.summary.pair_error_mean, 0, 1e-12);
  assert_float_equal(accuracy.summary.pair_shift, 0, 1e-12);
  assert_float_equal(accuracy.summary.norm_ratio, 1, 1e-12);
  assert_float_equal(accuracy.summary.retrieval_overlap, 1, 1e-12);
  assert_int_equal(accuracy.summary.retrieval_neighbours, 3); // Half of the seven others.
  assert_float_equal(accuracy.summary.noise, 0, 1e-12);
  assert_true(isinf(accuracy.summary.sqnr_db));
  assert_true(isnan(accuracy.summary.float_margin));
  assert_false(itg_accuracy_collapsed(&accuracy, 1, reason, sizeof reason));
  itg_accuracy_free(&accuracy);
}

static void test_noise(void **state) {
  (void)state;
  itg_accuracy accuracy = measure(add_noise, NULL);
  char reason[200];
  // Noise of 0.01/sqrt(3) on values around 1: 10*log10((1 + 0.03)/(1e-4/3)) = 44.9 dB.
  assert_float_equal(accuracy.summary.sqnr_db, 44.9, 1);
  assert_true(accuracy.summary.cosine_mean < 1 && accuracy.summary.cosine_mean > 0.9999);
  assert_true(accuracy.summary.centred_cosine_mean > 0.995 && accuracy.summary.centred_cosine_mean < 1);
  assert_false(itg_accuracy_collapsed(&accuracy, 1, reason, sizeof reason));
  itg_accuracy_free(&accuracy);
}

static void halve(float *values, const float *mean, uint32_t *state) {
  (void)mean, (void)state;
  for (int i = 0; i < ELEMENTS; i++) values[i] *= 0.5f;
}

static void test_lengths_and_neighbours(void **state) {
  (void)state;
  itg_accuracy accuracy = measure(halve, NULL);
  assert_float_equal(accuracy.summary.norm_ratio, 0.5, 1e-6);
  assert_float_equal(accuracy.summary.retrieval_overlap, 1, 1e-12); // Directions are what neighbours are found by.
  itg_accuracy_free(&accuracy);
  accuracy = measure(squeeze, NULL);
  assert_true(accuracy.summary.pair_shift > 0.02); // Everything looks alike.
  itg_accuracy_free(&accuracy);
  accuracy = measure(shuffle, NULL);
  assert_true(accuracy.summary.retrieval_overlap < 0.8);
  assert_true(accuracy.summary.noise > 1); // More noise than there is to tell.
  itg_accuracy_free(&accuracy);
}

static void test_collapse_is_seen_where_cosine_is_blind(void **state) {
  (void)state;
  char reason[200] = "";
  itg_accuracy squeezed = measure(squeeze, NULL);
  assert_true(squeezed.summary.cosine_mean > 0.95); // Blind.
  assert_true(squeezed.summary.spread_ratio < 0.1);
  assert_true(itg_accuracy_collapsed(&squeezed, 1, reason, sizeof reason));
  assert_non_null(strstr(reason, "spread"));
  itg_accuracy_free(&squeezed);
  itg_accuracy shuffled = measure(shuffle, NULL);
  assert_true(shuffled.summary.cosine_mean > 0.9);
  assert_true(shuffled.summary.centred_cosine_mean < 0.5);
  assert_true(itg_accuracy_collapsed(&shuffled, 1, reason, sizeof reason));
  assert_non_null(strstr(reason, "centred"));
  itg_accuracy_free(&shuffled);
}

static void test_few_samples_are_judged_by_cosine(void **state) {
  (void)state;
  const float reference[3] = {1, 0, 0}, opposite[3] = {-1, 0.1f, 0};
  char reason[200];
  itg_accuracy accuracy;
  assert_int_equal(itg_accuracy_begin("y", 1, 3, NULL, &accuracy), ITG_OK);
  itg_accuracy_add(&accuracy, 0, reference, opposite);
  assert_int_equal(itg_accuracy_finish(&accuracy, NULL, NULL), ITG_OK);
  assert_true(isnan(accuracy.summary.centred_cosine_mean) && isnan(accuracy.summary.spread_ratio));
  assert_true(itg_accuracy_collapsed(&accuracy, 1, reason, sizeof reason));
  itg_accuracy_free(&accuracy);
}

static void test_constant_output_is_no_collapse(void **state) {
  (void)state;
  const float values[4] = {1, 2, 3, 4};
  char reason[200];
  itg_accuracy accuracy;
  assert_int_equal(itg_accuracy_begin("y", 5, 4, NULL, &accuracy), ITG_OK);
  for (size_t s = 0; s < 5; s++) itg_accuracy_add(&accuracy, s, values, values);
  assert_int_equal(itg_accuracy_finish(&accuracy, NULL, NULL), ITG_OK);
  assert_true(isnan(accuracy.summary.spread_ratio));
  assert_false(itg_accuracy_collapsed(&accuracy, 1, reason, sizeof reason));
  itg_accuracy_free(&accuracy);
}

// A broken program, and samples that float itself hardly tells apart: the message says that they may be what is wrong.
static void test_samples_that_are_nearly_equal(void **state) {
  (void)state;
  char reason[256];
  uint32_t seed = 3;
  itg_accuracy accuracy;
  assert_int_equal(itg_accuracy_begin("y", 6, 4, NULL, &accuracy), ITG_OK);
  for (size_t s = 0; s < 6; s++) {
    float reference[4], result[4];
    for (int i = 0; i < 4; i++) {
      reference[i] = 1 + 0.01f * random_value(&seed);
      result[i] = 1 + 0.02f * random_value(&seed);
    }
    itg_accuracy_add(&accuracy, s, reference, result);
  }
  assert_int_equal(itg_accuracy_finish(&accuracy, NULL, NULL), ITG_OK);
  assert_true(accuracy.summary.float_variation > 0.002 && accuracy.summary.float_variation < 0.01);
  assert_true(itg_accuracy_collapsed(&accuracy, 1, reason, sizeof reason));
  assert_non_null(strstr(reason, "different enough"));
  itg_accuracy_free(&accuracy);
}

static void test_identities(void **state) {
  (void)state;
  // Two people of two photographs each, on the axes; the integer network turns one photograph of "b" towards "a".
  const float values[4][2] = {{1, 0}, {1, 0.1f}, {0, 1}, {0.1f, 1}};
  const float turned[4][2] = {{1, 0}, {1, 0.1f}, {0, 1}, {1, 0.2f}};
  const char *const groups[] = {"a", "a", "b", "b"};
  itg_accuracy accuracy;
  assert_int_equal(itg_accuracy_begin("y", 4, 2, NULL, &accuracy), ITG_OK);
  for (size_t s = 0; s < 4; s++) itg_accuracy_add(&accuracy, s, values[s], turned[s]);
  assert_int_equal(itg_accuracy_finish(&accuracy, groups, NULL), ITG_OK);
  // Float: same 1/sqrt(1.01) = .9950; different at most (.1 + .1)/1.01 = .1980.
  assert_float_equal(accuracy.summary.float_margin, 0.9950372 - 0.1980198, 1e-5);
  assert_float_equal(accuracy.summary.float_verification, 1, 1e-12);
  // Integer: "b" with itself .2/sqrt(1.04) = .1961, the turned one with (1, .1): 1.02/sqrt(1.01*1.04) = .9952.
  assert_float_equal(accuracy.summary.integer_margin, 0.1961161 - 0.9952267, 1e-5);
  // Best threshold, just above .0995: both same pairs stay and two of four different ones are rejected.
  assert_float_equal(accuracy.summary.integer_verification, 0.75, 1e-12);
  itg_accuracy_free(&accuracy);
}

static void test_values_that_are_not_finite(void **state) {
  (void)state;
  const float reference[4] = {1, INFINITY, NAN, 1}, result[4] = {1, 5, 5, 1};
  itg_accuracy accuracy;
  assert_int_equal(itg_accuracy_begin("y", 1, 4, NULL, &accuracy), ITG_OK);
  itg_accuracy_add(&accuracy, 0, reference, result);
  assert_int_equal(itg_accuracy_finish(&accuracy, NULL, NULL), ITG_OK);
  assert_float_equal(accuracy.summary.cosine_mean, 1, 1e-12);
  itg_accuracy_free(&accuracy);
}

static void test_large_outputs_are_sampled(void **state) {
  (void)state;
  const size_t elements = (size_t)9 << 20;
  float *values = calloc(elements, sizeof *values);
  assert_non_null(values);
  itg_accuracy accuracy;
  assert_int_equal(itg_accuracy_begin("y", 3, elements, NULL, &accuracy), ITG_OK);
  assert_true(accuracy.stride > 1 && accuracy.kept * accuracy.stride >= elements);
  for (size_t s = 0; s < 3; s++) {
    for (size_t i = 0; i < elements; i++) values[i] = (float)(i % (7 + s));
    itg_accuracy_add(&accuracy, s, values, values);
  }
  assert_int_equal(itg_accuracy_finish(&accuracy, NULL, NULL), ITG_OK);
  assert_float_equal(accuracy.summary.spread_ratio, 1, 1e-9);
  itg_accuracy_free(&accuracy);
  free(values);
}

static void test_report_of_awkward_names(void **state) {
  (void)state;
  itg_accuracy accuracy = measure(add_noise, NULL);
  accuracy.summary.name = "<b>&\"";
  const char *names[SAMPLES] = {"<script>", "\xff not UTF-8"};
  const itg_report report = {.command = "compile",
                             .source = "a<b>.onnx",
                             .judge_count = SAMPLES,
                             .outputs = &accuracy,
                             .output_count = 1,
                             .names = names};
  char *json = itg_report_json(&report);
  assert_non_null(json);
  assert_non_null(strstr(json, "\"<script>\""));
  assert_non_null(strstr(json, "\"float_margin\": null"));
  free(json);
  char path[] = "/tmp/intaglio-report-XXXXXX";
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0 && close(descriptor) == 0);
  assert_int_equal(itg_report_write_html(&report, path, NULL), ITG_OK);
  char *page = calloc(1, 1 << 20);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_true(fread(page, 1, (1 << 20) - 1, file) > 1000);
  fclose(file);
  remove(path);
  assert_null(strstr(page, "<script"));
  assert_non_null(strstr(page, "&lt;script&gt;"));
  assert_null(strstr(page, "http")); // Nothing from outside.
  free(page);
  itg_accuracy_free(&accuracy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal),
      cmocka_unit_test(test_noise),
      cmocka_unit_test(test_collapse_is_seen_where_cosine_is_blind),
      cmocka_unit_test(test_few_samples_are_judged_by_cosine),
      cmocka_unit_test(test_constant_output_is_no_collapse),
      cmocka_unit_test(test_lengths_and_neighbours),
      cmocka_unit_test(test_samples_that_are_nearly_equal),
      cmocka_unit_test(test_identities),
      cmocka_unit_test(test_values_that_are_not_finite),
      cmocka_unit_test(test_large_outputs_are_sampled),
      cmocka_unit_test(test_report_of_awkward_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
