// Fitting weights to what a layer sees: the moments against plain sums, the factorization against its definition, and that
// the fitted codes lose less than rounded ones, on data that had no part in choosing them.
#include "support/integer_net.h"

#include "quantize/weight_fit/feedback.h"
#include "quantize/weight_fit/fit.h"
#include "quantize/weight_fit/moments.h"

// Inputs that move together, so that the error of one weight can be taken back by others.
static void correlated(float *values, int64_t rows, int64_t length, uint64_t seed) {
  net_random_state = seed;
  for (int64_t r = 0; r < rows; r++) {
    const float common = net_uniform(-1, 1), second = net_uniform(-1, 1);
    for (int64_t k = 0; k < length; k++)
      values[r * length + k] = common + (float)(k % 5) * 0.3f * second + 0.2f * net_uniform(-1, 1) + 0.5f;
  }
}

static void the_factorization_keeps_its_promise(void **state) {
  (void)state;
  enum { N = 37, ROWS = 90 };
  static float x[ROWS * N];
  static double h[N * N];
  correlated(x, ROWS, N, 5);
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) {
      h[i * N + j] = 0;
      for (int r = 0; r < ROWS; r++) h[i * N + j] += (double)x[r * N + i] * (double)x[r * N + j];
    }
  }
  double added = 0;
  for (int i = 0; i < N; i++) added += 0.01 * h[i * N + i] / N;
  itg_arena arena = {0};
  itg_feedback f;
  assert_int_equal(itg_feedback_create(h, N, &arena, NULL, &f), ITG_OK);
  for (int k = 1; k < N; k++) assert_true(h[f.order[k - 1] * N + f.order[k - 1]] >= h[f.order[k] * N + f.order[k]]);
  double e[N], direct = 0, stepwise = 0;
  for (int i = 0; i < N; i++) e[i] = (double)net_uniform(-1, 1);
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) direct += e[i] * e[j] * (h[i * N + j] + (i == j ? added : 0));
  }
  for (int k = 0; k < N; k++) {
    const double pivot = f.factor[(N - 1 - k) * N + N - 1 - k];
    double sum = e[f.order[k]];
    for (int j = 0; j < k; j++) sum += e[f.order[j]] * (double)f.feedback[k * N + j];
    stepwise += pivot * pivot * sum * sum;
  }
  assert_true(fabs(direct - stepwise) < 1e-5 * direct);
  double solution[N], scratch[N];
  itg_feedback_solve(&f, e, solution, scratch);
  for (int i = 0; i < N; i++) {
    double sum = added * solution[i];
    for (int j = 0; j < N; j++) sum += h[i * N + j] * solution[j];
    assert_true(fabs(sum - e[i]) < 1e-8);
  }
  itg_arena_free(&arena);
}

// Moments of an input that hardly moves are what rounding left of a difference: no matrix of squares. Its weights are rounded one
// by one, and only what is not a number is refused.
static void moments_of_rounding_errors_are_survived(void **state) {
  (void)state;
  enum { N = 9 };
  double h[N * N];
  const double diagonals[] = {1, 1e-9, 0, -1};
  for (size_t d = 0; d < sizeof diagonals / sizeof diagonals[0]; d++) {
    for (int i = 0; i < N * N; i++) h[i] = i % (N + 1) ? 1.5 * diagonals[0] : diagonals[d];
    itg_arena arena = {0};
    itg_feedback f;
    assert_int_equal(itg_feedback_create(h, N, &arena, NULL, &f), ITG_OK);
    for (int k = 0; k < N; k++) {
      for (int j = 0; j < k; j++) assert_true(isfinite(f.feedback[k * N + j]));
    }
    itg_arena_free(&arena);
  }
  itg_arena arena = {0};
  itg_feedback f;
  itg_diagnostic why;
  h[3] = h[3 * N] = NAN;
  assert_int_equal(itg_feedback_create(h, N, &arena, &why, &f), ITG_ERROR_QUANTIZATION);
  assert_non_null(strstr(why.message, "not finite"));
  itg_arena_free(&arena);
}

// A grouped, strided, padded convolution: every moment against the plain sum over its windows.
static void moments_are_those_of_the_windows(void **state) {
  (void)state;
  enum { H = 7, W = 6, C = 6, GROUP = 2, IN = C / GROUP, OUT_H = 4, OUT_W = 6, K = 9 * IN, SAMPLES = 4 };
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, H, W, C));
  const itg_window window = {
      .rank = 2, .kernel = {3, 3}, .stride = {2, 1}, .dilation = {1, 1}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
  itg_tensor *y =
      NET_NODE(graph, ITG_OP_CONV,
               ((itg_attributes){.conv = {.window = window, .group = GROUP, .layout = ITG_LAYOUT_CHANNELS_LAST}}), NULL,
               x, net_weight(graph, net_shape(4, 8, 3, 3, IN)));
  static float exact[SAMPLES][H * W * C], rounded[SAMPLES][H * W * C];
  const float *exact_rows[SAMPLES], *rounded_rows[SAMPLES];
  for (int s = 0; s < SAMPLES; s++) {
    for (int i = 0; i < H * W * C; i++) {
      exact[s][i] = net_uniform(-1, 2);
      rounded[s][i] = exact[s][i] + net_uniform(-0.2f, 0.1f);
    }
    exact_rows[s] = exact[s];
    rounded_rows[s] = rounded[s];
  }
  itg_arena arena = {0};
  itg_moments m;
  assert_int_equal(itg_moments_collect(y->producer, exact_rows, rounded_rows, SAMPLES, 1000, NULL, &arena, NULL, &m),
                   ITG_OK);
  assert_int_equal(m.groups, GROUP);
  assert_int_equal(m.length, K);
  assert_int_equal(m.part_count, GROUP);
  for (int g = 0; g < GROUP; g++) {
    for (int set = 0; set < 2; set++) {
      static double a[2 * OUT_H * OUT_W][K], b[2 * OUT_H * OUT_W][K]; // Exact and rounded windows of the set.
      int n = 0;
      for (int s = set; s < SAMPLES; s += 2) {
        for (int p = 0; p < OUT_H * OUT_W; p++, n++) {
          for (int k = 0; k < K; k++) {
            const int row = p / OUT_W * 2 - 1 + k / IN / 3, column = p % OUT_W - 1 + k / IN % 3;
            const bool inside = row >= 0 && row < H && column >= 0 && column < W;
            const int at = (row * W + column) * C + g * IN + k % IN;
            a[n][k] = inside ? (double)exact[s][at] : 0;
            b[n][k] = inside ? (double)rounded[s][at] : 0;
          }
        }
      }
      assert_true(m.count[set] == n);
      double mean_a[K] = {0}, mean_b[K] = {0};
      for (int w = 0; w < n; w++) {
        for (int k = 0; k < K; k++) {
          mean_a[k] += a[w][k] / n;
          mean_b[k] += b[w][k] / n;
        }
      }
      for (int i = 0; i < K; i++) {
        for (int j = 0; j < K; j++) {
          double h = 0, t = 0;
          for (int w = 0; w < n; w++) {
            h += (b[w][i] - mean_b[i]) * (b[w][j] - mean_b[j]);
            t += (a[w][i] - mean_a[i] - b[w][i] + mean_b[i]) * (b[w][j] - mean_b[j]);
          }
          assert_true(fabs(m.parts[g].h[set][i * K + j] - h) < 1e-4);
          assert_true(fabs(m.parts[g].t[set][i * K + j] - t) < 1e-4);
        }
      }
    }
  }
  itg_arena_free(&arena);
  itg_graph_destroy(graph);
}

enum { LENGTH = 64, ROWS = 12, SAMPLES = 8, POSITIONS = 40 };

// Squared error of the outputs over `count` rows of x, for four-bit codes chosen in one way.
static double error_of(const itg_weight_rows *rows, const float *x, int64_t count) {
  double error = 0;
  for (int64_t p = 0; p < count; p++) {
    for (int64_t r = 0; r < rows->rows; r++) {
      double difference = rows->bias_codes[r] * (rows->input_scale * rows->scales[r]);
      for (int64_t k = 0; k < rows->length; k++)
        difference += (rows->codes[r * rows->length + k] * itg_weight_unit(rows, r, k) -
                       (double)rows->weight[r * rows->length + k]) *
                      (double)x[p * rows->length + k];
      error += difference * difference;
    }
  }
  return error;
}

static void fitted_codes_lose_less_on_new_data(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, POSITIONS, LENGTH, 0, 0));
  itg_tensor *w = net_constant(graph, net_shape(2, ROWS, LENGTH, 0, 0), -1, 1);
  itg_tensor *y = NET_NODE(graph, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x, w);
  static float samples[SAMPLES][POSITIONS * LENGTH], fresh[POSITIONS * LENGTH];
  const float *values[SAMPLES];
  for (int s = 0; s < SAMPLES; s++) {
    correlated(samples[s], POSITIONS, LENGTH, (uint64_t)(100 + s));
    values[s] = samples[s];
  }
  correlated(fresh, POSITIONS, LENGTH, 7777);
  for (int block = 0; block <= 16; block += 16) {
    double scales[ROWS], errors[3];
    int8_t codes[3][ROWS * LENGTH];
    uint8_t block_scales[ROWS * LENGTH];
    int32_t bias_codes[ROWS] = {0};
    itg_weight_rows rows = {.weight = w->data,
                            .rows = ROWS,
                            .length = LENGTH,
                            .outputs = ROWS,
                            .width = LENGTH,
                            .group = 1,
                            .input_scale = 1e-4,
                            .most = 7,
                            .block = block,
                            .scales = scales,
                            .block_scales = block_scales,
                            .bias_codes = bias_codes};
    rows.codes = codes[0];
    itg_weight_round(&rows);
    errors[0] = error_of(&rows, fresh, POSITIONS);
    for (int threads = 1; threads <= 3; threads += 2) {
      itg_pool *pool;
      itg_arena arena = {0};
      itg_moments moments;
      assert_int_equal(itg_pool_create(threads, NULL, &pool), ITG_OK);
      assert_int_equal(itg_moments_collect(y->producer, values, values, SAMPLES, 1000, pool, &arena, NULL, &moments),
                       ITG_OK);
      const itg_weight_fit_options options = {.feedback = true, .target = true, .gain = true};
      rows.codes = codes[threads / 2 + 1];
      assert_int_equal(itg_weight_fit(&rows, &moments, &options, pool, NULL), ITG_OK);
      errors[threads / 2 + 1] = error_of(&rows, fresh, POSITIONS);
      itg_arena_free(&arena);
      itg_pool_destroy(pool);
    }
    assert_memory_equal(codes[1], codes[2], sizeof codes[1]); // Whatever the number of threads.
    for (int i = 0; i < ROWS * LENGTH; i++) assert_true(abs(codes[1][i]) <= 7);
    if (!(errors[1] < 0.3 * errors[0])) fail_msg("block %d: %g, rounded %g", block, errors[1], errors[0]);
    assert_true(errors[1] == errors[2]);
  }
  itg_graph_destroy(graph);
}

// Two convolutions with an activation between: the whole path from a recipe to the integer program.
static void a_network_of_four_bits_gains(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  const itg_window window = {
      .rank = 2, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
  const itg_attributes attributes = {.conv = {.window = window,
                                              .group = 1,
                                              .layout = ITG_LAYOUT_CHANNELS_LAST,
                                              .activation = {.kind = ITG_ACTIVATION_CLIP, .high = INFINITY}}};
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 9, 9, 8));
  itg_tensor *y = x;
  for (int layer = 0; layer < 3; layer++)
    y = NET_NODE(graph, ITG_OP_CONV, attributes, NULL, y, net_constant(graph, net_shape(4, 8, 3, 3, 8), -1, 1));
  assert_true(itg_graph_add_output(graph, y));
  double sqnr[3];
  static const char *const methods[] = {"nearest", "seqmse", "gptq"};
  for (int i = 0; i < 3; i++) {
    char text[100];
    snprintf(text, sizeof text, "{\"precision\": \"a16w4\", \"weight_method\": \"%s\"}", methods[i]);
    itg_recipe recipe;
    assert_int_equal(itg_recipe_parse((itg_span){(const uint8_t *)text, strlen(text)}, NULL, &recipe), ITG_OK);
    itg_graph *quantized, *legal;
    const net_samples samples = {graph, -1, 3, 5, 99};
    net_quantize(graph, &samples, &recipe, 2, &quantized, &legal);
    sqnr[i] = net_compare(graph, legal, 5, 3).sqnr_db;
    itg_graph_destroy(legal);
    itg_graph_destroy(quantized);
    itg_recipe_free(&recipe);
  }
  print_message("nearest %.1f dB, seqmse %.1f dB, gptq %.1f dB\n", sqnr[0], sqnr[1], sqnr[2]);
  assert_true(sqnr[1] > sqnr[0] && sqnr[2] > sqnr[0] + 1);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_factorization_keeps_its_promise), cmocka_unit_test(moments_of_rounding_errors_are_survived),
      cmocka_unit_test(moments_are_those_of_the_windows),    cmocka_unit_test(fitted_codes_lose_less_on_new_data),
      cmocka_unit_test(a_network_of_four_bits_gains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
