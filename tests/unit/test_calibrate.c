// Statistics: right, the same for any number of threads, and clear about samples that are not numbers.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "calibrate/calibrate.h"

enum { ROWS = 50, CHANNELS = 7, SAMPLES = 11, COUNT = ROWS * CHANNELS };

// x -> Add (a constant a channel) -> Relu.
static itg_graph *small_graph(void) {
  itg_graph *graph;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  const itg_shape shape = itg_shape_of(3, (const int64_t[]){1, ROWS, CHANNELS});
  const itg_shape vector = itg_shape_of(1, (const int64_t[]){CHANNELS});
  float offsets[CHANNELS];
  for (int c = 0; c < CHANNELS; c++) offsets[c] = (float)c * 0.25f - 1;
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_F32, &shape);
  itg_tensor *sum = itg_graph_add_tensor(graph, "sum", ITG_DTYPE_F32, &shape);
  itg_tensor *y = itg_graph_add_tensor(graph, "y", ITG_DTYPE_F32, &shape);
  itg_tensor *constant = itg_graph_add_constant(graph, "offsets", ITG_DTYPE_F32, &vector, offsets);
  assert_true(itg_graph_add_input(graph, x));
  assert_non_null(itg_graph_insert_node(graph, NULL, ITG_OP_ADD, "add", (itg_tensor *[]){x, constant}, 2, &sum, 1));
  assert_non_null(itg_graph_insert_node(graph, NULL, ITG_OP_RELU, "relu", &sum, 1, &y, 1));
  assert_true(itg_graph_add_output(graph, y));
  return graph;
}

static float value_at(size_t sample, size_t i) {
  uint32_t bits = (uint32_t)(sample * 1000003u + i * 7919u) * 2654435761u;
  bits ^= bits >> 15;
  return (float)(int32_t)(bits % 20011) / 5000.0f - 2.0f;
}

typedef struct source_state {
  size_t next, bad_sample; // Samples must be asked for in order; bad_sample holds a NaN.
  float bad_value;
} source_state;

static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  source_state *source = context;
  assert_int_equal(index, source->next);
  source->next = (source->next + 1) % SAMPLES;
  float *x = inputs[0];
  for (size_t i = 0; i < COUNT; i++) x[i] = value_at(index, i);
  if (index == source->bad_sample) x[3] = source->bad_value;
  return ITG_OK;
}

static itg_status calibrate(itg_graph *graph, int threads, source_state *source, itg_diagnostic *why,
                            itg_statistics **out) {
  itg_pool *pool;
  assert_int_equal(itg_pool_create(threads, NULL, &pool), ITG_OK);
  const itg_sample_source samples = {source, SAMPLES, read_sample};
  const itg_status status = itg_calibrate(graph, &samples, pool, NULL, NULL, why, out);
  itg_pool_destroy(pool);
  return status;
}

static void statistics_are_those_of_the_values(void **state) {
  (void)state;
  itg_graph *graph = small_graph();
  source_state source = {0, SIZE_MAX, 0};
  itg_statistics *statistics;
  assert_int_equal(calibrate(graph, 2, &source, NULL, &statistics), ITG_OK);
  const itg_tensor_statistics *y = itg_statistics_of(statistics, itg_graph_find(graph, "y"));
  assert_non_null(y);
  assert_null(itg_statistics_of(statistics, itg_graph_find(graph, "offsets")));
  double low = 1e9, high = -1e9, sum = 0, squares = 0, channel_sum[CHANNELS] = {0};
  for (size_t s = 0; s < SAMPLES; s++) {
    for (size_t i = 0; i < COUNT; i++) {
      const float added = value_at(s, i) + ((float)(i % CHANNELS) * 0.25f - 1);
      const double v = added > 0 ? (double)added : 0;
      low = fmin(low, v);
      high = fmax(high, v);
      sum += v;
      squares += v * v;
      channel_sum[i % CHANNELS] += v;
    }
  }
  assert_true(y->low == low && y->high == high);
  assert_int_equal(y->count, SAMPLES * COUNT);
  assert_int_equal(y->channels, CHANNELS);
  assert_int_equal(y->channel_count, SAMPLES * ROWS);
  assert_true(fabs(y->sum - sum) < 1e-9 * sum && fabs(y->sum_squares - squares) < 1e-9 * squares);
  for (int c = 0; c < CHANNELS; c++) assert_true(fabs(y->channel_sum[c] - channel_sum[c]) < 1e-9 * sum);
  uint64_t total = 0, upper_half = 0;
  for (int b = 0; b < ITG_HISTOGRAM_BINS; b++) {
    total += y->histogram[b];
    if (b >= ITG_HISTOGRAM_BINS / 2) upper_half += y->histogram[b];
  }
  assert_int_equal(total, y->count);
  uint64_t expected = 0;
  for (size_t s = 0; s < SAMPLES; s++) {
    for (size_t i = 0; i < COUNT; i++)
      expected += value_at(s, i) + ((float)(i % CHANNELS) * 0.25f - 1) >= (float)(high / 2);
  }
  assert_true(llabs((long long)upper_half - (long long)expected) <= 2); // Values on the very edge may round either way.
  assert_true(y->histogram[0] > 0);                                     // The zeros of the Relu.
  itg_statistics_destroy(statistics);
  itg_graph_destroy(graph);
}

static void threads_do_not_change_a_bit(void **state) {
  (void)state;
  itg_graph *graph = small_graph();
  const char *const names[] = {"x", "sum", "y"};
  itg_statistics *reference = NULL;
  for (int threads = 1; threads <= 4; threads++) {
    source_state source = {0, SIZE_MAX, 0};
    itg_statistics *statistics;
    assert_int_equal(calibrate(graph, threads, &source, NULL, &statistics), ITG_OK);
    if (!reference) {
      reference = statistics;
      continue;
    }
    for (int i = 0; i < 3; i++) {
      const itg_tensor_statistics *a = itg_statistics_of(reference, itg_graph_find(graph, names[i]));
      const itg_tensor_statistics *b = itg_statistics_of(statistics, itg_graph_find(graph, names[i]));
      assert_memory_equal(&a->sum, &b->sum, sizeof a->sum);
      assert_memory_equal(&a->sum_squares, &b->sum_squares, sizeof a->sum);
      assert_memory_equal(a->channel_squares, b->channel_squares, CHANNELS * sizeof(double));
      assert_memory_equal(a->channel_low, b->channel_low, CHANNELS * sizeof(float));
      assert_memory_equal(a->histogram, b->histogram, ITG_HISTOGRAM_BINS * sizeof(uint64_t));
    }
    itg_statistics_destroy(statistics);
  }
  itg_statistics_destroy(reference);
  itg_graph_destroy(graph);
}

static void samples_that_are_not_finite_are_named(void **state) {
  (void)state;
  itg_graph *graph = small_graph();
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    source_state source = {0, 5, bad[i]};
    itg_diagnostic why;
    itg_statistics *statistics = NULL;
    assert_int_equal(calibrate(graph, 2, &source, &why, &statistics), ITG_ERROR_QUANTIZATION);
    assert_string_equal(why.subject, "x");
    assert_non_null(strstr(why.message, "sample 5"));
    assert_null(statistics);
  }
  itg_graph_destroy(graph);
}

static int cancel(void *context, const char *stage, long long done, long long total) {
  (void)context;
  (void)stage;
  assert_int_equal(total, 2 * SAMPLES);
  return done > 3;
}

static void calibration_can_be_cancelled_and_needs_samples(void **state) {
  (void)state;
  itg_graph *graph = small_graph();
  source_state source = {0, SIZE_MAX, 0};
  itg_sample_source samples = {&source, SAMPLES, read_sample};
  itg_statistics *statistics = NULL;
  itg_diagnostic why;
  assert_int_equal(itg_calibrate(graph, &samples, NULL, cancel, NULL, &why, &statistics), ITG_ERROR_CANCELLED);
  samples.count = 0;
  assert_int_equal(itg_calibrate(graph, &samples, NULL, NULL, NULL, &why, &statistics), ITG_ERROR_ARGUMENT);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics_are_those_of_the_values),
      cmocka_unit_test(threads_do_not_change_a_bit),
      cmocka_unit_test(samples_that_are_not_finite_are_named),
      cmocka_unit_test(calibration_can_be_cancelled_and_needs_samples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
