// Reductions, orderings, normalisations, resize and the quantized operations: known values and naive formulas.
#include "interpret_support.h"

static void reductions_follow_their_formulas(void **state) {
  (void)state;
  enum { A = 3, B = 5, C = 37, COUNT = A * B * C };
  static const itg_op ops[] = {ITG_OP_REDUCE_SUM,       ITG_OP_REDUCE_MEAN,    ITG_OP_REDUCE_MAX,
                               ITG_OP_REDUCE_MIN,       ITG_OP_REDUCE_PROD,    ITG_OP_REDUCE_L1,
                               ITG_OP_REDUCE_L2,        ITG_OP_REDUCE_LOG_SUM, ITG_OP_REDUCE_LOG_SUM_EXP,
                               ITG_OP_REDUCE_SUM_SQUARE};
  uint64_t seed = 1;
  float *x = test_random_floats(&seed, COUNT);
  for (int i = 0; i < COUNT; i++) x[i] += 1.2f; // Positive: the logarithm of the sum exists.
  const int dims[3] = {A, B, C};
  for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
    for (uint32_t axes = 0; axes < 8; axes++) {
      double acc[COUNT];
      int kept[3], count = 1, reduced = 1;
      for (int d = 0; d < 3; d++) {
        kept[d] = axes >> d & 1 ? 1 : dims[d];
        count *= kept[d];
        reduced *= axes >> d & 1 ? dims[d] : 1;
      }
      const double start = ops[o] == ITG_OP_REDUCE_MAX   ? -INFINITY
                           : ops[o] == ITG_OP_REDUCE_MIN ? INFINITY
                                                         : ops[o] == ITG_OP_REDUCE_PROD;
      for (int i = 0; i < count; i++) acc[i] = start;
      for (int i = 0; i < COUNT; i++) {
        const int at[3] = {i / (B * C), i / C % B, i % C};
        int to = 0;
        for (int d = 0; d < 3; d++) to = to * kept[d] + (axes >> d & 1 ? 0 : at[d]);
        const double v = (double)x[i];
        switch (ops[o]) {
        case ITG_OP_REDUCE_MAX: acc[to] = fmax(acc[to], v); break;
        case ITG_OP_REDUCE_MIN: acc[to] = fmin(acc[to], v); break;
        case ITG_OP_REDUCE_PROD: acc[to] *= v; break;
        case ITG_OP_REDUCE_L2:
        case ITG_OP_REDUCE_SUM_SQUARE: acc[to] += v * v; break;
        case ITG_OP_REDUCE_LOG_SUM_EXP: acc[to] += exp(v); break;
        default: acc[to] += v; break;
        }
      }
      float expected[COUNT], y[COUNT];
      for (int i = 0; i < count; i++) {
        if (ops[o] == ITG_OP_REDUCE_MEAN) acc[i] /= reduced;
        if (ops[o] == ITG_OP_REDUCE_L2) acc[i] = sqrt(acc[i]);
        if (ops[o] == ITG_OP_REDUCE_LOG_SUM || ops[o] == ITG_OP_REDUCE_LOG_SUM_EXP) acc[i] = log(acc[i]);
        expected[i] = (float)acc[i];
      }
      test_f32(ops[o], &(itg_attributes){.reduce = {axes, 1}}, (const test_value[]){{ITG_DTYPE_F32, DIMS(A, B, C), x}},
               1, DIMS(kept[0], kept[1], kept[2]), y);
      assert_close(y, expected, (size_t)count, 1e-6);
    }
  }
  free(x);
}

static void integer_reductions_are_exact(void **state) {
  (void)state;
  const test_value x = S64(DIMS(2, 2), INT64_MAX, 1, -3, 7);
  const itg_shape shape = DIMS(2);
  int64_t y[2];
#define CHECK(op, first, second)                                                                                  \
  do {                                                                                                            \
    const itg_attributes attributes = {.reduce = {2, 0}};                                                         \
    assert_int_equal(                                                                                             \
        test_run_node(op, &attributes, &x, 1, (const itg_dtype[]){ITG_DTYPE_S64}, &shape, (void *const[]){y}, 1), \
        ITG_OK);                                                                                                  \
    assert_true(y[0] == (first) && y[1] == (second));                                                             \
  } while (0)
  CHECK(ITG_OP_REDUCE_SUM, INT64_MIN, 4);
  CHECK(ITG_OP_REDUCE_MAX, INT64_MAX, 7);
  CHECK(ITG_OP_REDUCE_MIN, 1, -3);
  CHECK(ITG_OP_REDUCE_PROD, INT64_MAX, -21);
  CHECK(ITG_OP_REDUCE_MEAN, INT64_MIN / 2, 2);
#undef CHECK
}

static void orderings_break_ties_by_position(void **state) {
  (void)state;
  const test_value x = F32(DIMS(2, 4), 1, 3, 3, -2, -0.0f, 0, -5, -5);
  const itg_shape flat = DIMS(2), pairs = DIMS(2, 2);
  int64_t y[4];
  float values[4];
  itg_attributes attributes = {.axis = {1, 0}};
  const itg_dtype s64[] = {ITG_DTYPE_S64}, both[] = {ITG_DTYPE_F32, ITG_DTYPE_S64};
  assert_int_equal(test_run_node(ITG_OP_ARG_MAX, &attributes, &x, 1, s64, &flat, (void *const[]){y}, 1), ITG_OK);
  assert_true(y[0] == 1 && y[1] == 0);
  attributes.axis.flag = 2;
  assert_int_equal(test_run_node(ITG_OP_ARG_MAX, &attributes, &x, 1, s64, &flat, (void *const[]){y}, 1), ITG_OK);
  assert_true(y[0] == 2 && y[1] == 1);
  assert_int_equal(test_run_node(ITG_OP_ARG_MIN, &attributes, &x, 1, s64, &flat, (void *const[]){y}, 1), ITG_OK);
  assert_true(y[0] == 3 && y[1] == 3);
  attributes.axis.flag = 3;
  assert_int_equal(test_run_node(ITG_OP_TOP_K, &attributes, &x, 1, both, (const itg_shape[]){pairs, pairs},
                                 (void *const[]){values, y}, 2),
                   ITG_OK);
  assert_true(values[0] == 3 && values[1] == 3 && values[2] == 0 && values[3] == 0);
  assert_true(y[0] == 1 && y[1] == 2 && y[2] == 0 && y[3] == 1);
  attributes.axis.flag = 2;
  assert_int_equal(test_run_node(ITG_OP_TOP_K, &attributes, &x, 1, both, (const itg_shape[]){pairs, pairs},
                                 (void *const[]){values, y}, 2),
                   ITG_OK);
  assert_true(values[0] == -2 && values[1] == 1 && y[2] == 2 && y[3] == 3);
  float sums[8];
  const float forward[4] = {1, 4, 7, 5}, exclusive_reverse[4] = {4, 1, -2, 0};
  test_f32(ITG_OP_CUM_SUM, &(itg_attributes){.axis = {1, 0}}, &x, 1, DIMS(2, 4), sums);
  assert_memory_equal(sums, forward, sizeof forward);
  test_f32(ITG_OP_CUM_SUM, &(itg_attributes){.axis = {1, 3}}, &x, 1, DIMS(2, 4), sums);
  assert_memory_equal(sums, exclusive_reverse, sizeof exclusive_reverse);
}

static void softmax_sums_to_one_and_keeps_order(void **state) {
  (void)state;
  uint64_t seed = 9;
  enum { ROWS = 3, N = 45, INNER = 2, COUNT = ROWS * N * INNER };
  float *x = test_random_floats(&seed, COUNT), *y = test_random_floats(&seed, COUNT);
  float *expected = test_random_floats(&seed, COUNT), *logarithms = test_random_floats(&seed, COUNT);
  for (int i = 0; i < COUNT; i++) x[i] *= 20;
  for (int r = 0; r < ROWS * INNER; r++) {
    const int base = r / INNER * N * INNER + r % INNER;
    double sum = 0, maximum = -INFINITY;
    for (int i = 0; i < N; i++) maximum = fmax(maximum, (double)x[base + i * INNER]);
    for (int i = 0; i < N; i++) sum += exp((double)x[base + i * INNER] - maximum);
    for (int i = 0; i < N; i++) {
      const double v = (double)x[base + i * INNER] - maximum;
      expected[base + i * INNER] = (float)(exp(v) / sum);
      logarithms[base + i * INNER] = (float)(v - log(sum));
    }
  }
  const test_value input = {ITG_DTYPE_F32, DIMS(ROWS, N, INNER), x};
  test_f32(ITG_OP_SOFTMAX, &(itg_attributes){.axis = {1, 0}}, &input, 1, DIMS(ROWS, N, INNER), y);
  assert_close(y, expected, COUNT, 3e-7);
  test_f32(ITG_OP_LOG_SOFTMAX, &(itg_attributes){.axis = {1, 0}}, &input, 1, DIMS(ROWS, N, INNER), y);
  assert_close(y, logarithms, COUNT, 1e-6);
  float hard[3];
  test_f32(ITG_OP_HARDMAX, &(itg_attributes){.axis = {0, 0}}, (const test_value[]){F32(DIMS(3), 2, 5, 5)}, 1, DIMS(3),
           hard);
  assert_memory_equal(hard, ((const float[]){0, 1, 0}), sizeof hard);
  free(x);
  free(y);
  free(expected);
  free(logarithms);
}

// One formula for all: groups of channels of x [N, C, P] or [N, P, C], normalised over the group and the pixels.
static void normalisations_follow_their_formulas(void **state) {
  (void)state;
  enum { N = 2, C = 6, P = 11, COUNT = N * C * P };
  uint64_t seed = 3;
  float *x = test_random_floats(&seed, COUNT), *gamma = test_random_floats(&seed, C),
        *beta = test_random_floats(&seed, C);
  float *y = test_random_floats(&seed, COUNT), *expected = test_random_floats(&seed, COUNT);
  for (int i = 0; i < COUNT; i++) x[i] += 50; // A large mean must not cost accuracy.
  const test_value scale = {ITG_DTYPE_F32, DIMS(C), gamma}, bias = {ITG_DTYPE_F32, DIMS(C), beta};
  for (int last = 0; last < 2; last++) {
    for (int groups = 2; groups <= C; groups *= 3) {
      const int width = C / groups;
      for (int n = 0; n < N; n++) {
        for (int g = 0; g < groups; g++) {
          double mean = 0, variance = 0;
#define AT(c, p) (last ? (n * P + (p)) * C + (c) : (n * C + (c)) * P + (p))
          for (int i = 0; i < width * P; i++) mean += (double)x[AT(g * width + i / P, i % P)] / (width * P);
          for (int i = 0; i < width * P; i++)
            variance += pow((double)x[AT(g * width + i / P, i % P)] - mean, 2) / (width * P);
          for (int i = 0; i < width * P; i++) {
            const int c = g * width + i / P;
            expected[AT(c, i % P)] =
                (float)(((double)x[AT(c, i % P)] - mean) / sqrt(variance + 1e-3) * (double)gamma[c] + (double)beta[c]);
          }
#undef AT
        }
      }
      const itg_shape shape = last ? DIMS(N, P, C) : DIMS(N, C, P);
      itg_attributes attributes = {.norm = {.epsilon = 1e-3, .axis = last ? 2 : 1, .groups = groups}};
      const test_value inputs[] = {{ITG_DTYPE_F32, shape, x}, scale, bias};
      test_f32(groups == C ? ITG_OP_INSTANCE_NORM : ITG_OP_GROUP_NORM, &attributes, inputs, 3, shape, y);
      assert_close(y, expected, COUNT, 1e-5);
    }
  }
  // Rows of C: LayerNorm, RMSNorm, L2.
  const itg_shape rows = DIMS(N * P, C);
  const test_value inputs[] = {{ITG_DTYPE_F32, rows, x}, scale, bias};
  for (int kind = 0; kind < 3; kind++) {
    for (int r = 0; r < N * P; r++) {
      double mean = 0, square = 0;
      for (int c = 0; c < C; c++) mean += (double)x[r * C + c] / C;
      if (kind > 0) mean = 0;
      for (int c = 0; c < C; c++) square += pow((double)x[r * C + c] - mean, 2) / (kind == 2 ? 1 : C);
      for (int c = 0; c < C; c++) {
        const double v = ((double)x[r * C + c] - mean) / sqrt(square + (kind == 2 ? 0 : 1e-5));
        expected[r * C + c] = (float)(kind == 2 ? v : v * (double)gamma[c] + (kind == 0 ? (double)beta[c] : 0));
      }
    }
    const itg_op op = (itg_op[]){ITG_OP_LAYER_NORM, ITG_OP_RMS_NORM, ITG_OP_LP_NORM}[kind];
    const itg_attributes attributes = {.norm = {.epsilon = 1e-5, .axis = 1, .groups = 2}};
    test_f32(op, &attributes, inputs, 3 - kind, rows, y);
    assert_close(y, expected, COUNT, 2e-5);
  }
  free(x);
  free(gamma);
  free(beta);
  free(y);
  free(expected);
}

static void affine_operations_follow_their_formulas(void **state) {
  (void)state;
  const test_value x = F32(DIMS(1, 2, 2), 1, 2, 3, 4), b = F32(DIMS(1, 2, 2), 4, 3, 2, 1);
  const test_value scale = F32(DIMS(2), 2, -1), bias = F32(DIMS(2), 1, 10);
  float y[4], second[4];
  test_f32(ITG_OP_AFFINE, NULL, (const test_value[]){x, scale, bias}, 3, DIMS(1, 2, 2), y);
  assert_memory_equal(y, ((const float[]){3, 8, 7, 6}), sizeof y);
  const itg_shape shape = DIMS(1, 2, 2);
  assert_int_equal(test_run_node(ITG_OP_ADD_AFFINE, NULL, (const test_value[]){x, b, scale, bias}, 4,
                                 (const itg_dtype[]){ITG_DTYPE_F32, ITG_DTYPE_F32}, (const itg_shape[]){shape, shape},
                                 (void *const[]){y, second}, 2),
                   ITG_OK);
  assert_memory_equal(y, ((const float[]){5, 5, 5, 5}), sizeof y);
  assert_memory_equal(second, ((const float[]){11, 5, 11, 5}), sizeof second);
  // BatchNorm along dimension 1: (x - mean)/sqrt(variance)*scale + bias.
  const itg_attributes attributes = {.norm = {.epsilon = 0, .axis = 1}};
  test_f32(ITG_OP_BATCH_NORM, &attributes, (const test_value[]){x, scale, bias, F32(DIMS(2), 1, 3), F32(DIMS(2), 4, 1)},
           5, shape, y);
  assert_close(y, (const float[]){1, 2, 10, 9}, 4, 1e-6);
  // LRN of one channel and size 1: x / (bias + alpha*x^2)^beta.
  const itg_attributes lrn = {.norm = {.axis = 1, .groups = 1, .alpha = 1, .beta = .5, .bias = 1}};
  test_f32(ITG_OP_LRN, &lrn, &x, 1, shape, y);
  assert_close(y, (const float[]){.707106781f, .894427191f, .948683298f, .970142500f}, 4, 1e-6);
}

static void resizes_follow_onnx(void **state) {
  (void)state;
  const test_value x = F32(DIMS(1, 1, 2, 2), 1, 2, 3, 4);
  float y[16];
  itg_attributes attributes = {.resize = {.mode = ITG_RESIZE_LINEAR, .scale = {1, 1, 2, 2}}};
  test_f32(ITG_OP_RESIZE, &attributes, &x, 1, DIMS(1, 1, 4, 4), y);
  assert_close(
      y, (const float[]){1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3, 3.25f, 3.75f, 4},
      16, 1e-6);
  attributes.resize.coordinates = ITG_RESIZE_ALIGN_CORNERS;
  test_f32(ITG_OP_RESIZE, &attributes, &x, 1, DIMS(1, 1, 4, 4), y);
  assert_close(y,
               (const float[]){1, 1.33333333f, 1.66666667f, 2, 1.66666667f, 2, 2.33333333f, 2.66666667f, 2.33333333f,
                               2.66666667f, 3, 3.33333333f, 3, 3.33333333f, 3.66666667f, 4},
               16, 1e-6);
  attributes.resize = (itg_resize_attributes){.mode = ITG_RESIZE_NEAREST,
                                              .coordinates = ITG_RESIZE_ASYMMETRIC,
                                              .nearest_rounding = ITG_NEAREST_FLOOR,
                                              .scale = {1, 1, 2, 2}};
  test_f32(ITG_OP_RESIZE, &attributes, &x, 1, DIMS(1, 1, 4, 4), y);
  assert_memory_equal(y, ((const float[]){1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}), sizeof y);
  // Cubic interpolation reproduces a straight line away from the borders.
  const test_value line = F32(DIMS(1, 1, 1, 8), 0, 1, 2, 3, 4, 5, 6, 7);
  attributes.resize = (itg_resize_attributes){.mode = ITG_RESIZE_CUBIC, .cubic_a = -.75, .scale = {1, 1, 1, 2}};
  test_f32(ITG_OP_RESIZE, &attributes, &line, 1, DIMS(1, 1, 1, 16), y);
  for (int i = 4; i < 12; i++) assert_true(fabs((double)y[i] - (i / 2.0 - .25)) < .07);
  // The same pixels with channels last.
  const test_value pixels = F32(DIMS(1, 1, 2, 2), 1, 10, 3, 30);
  attributes.resize = (itg_resize_attributes){.mode = ITG_RESIZE_LINEAR, .scale = {1, 1, 2, 1}};
  test_f32(ITG_OP_RESIZE, &attributes, &pixels, 1, DIMS(1, 1, 4, 2), y);
  assert_close(y, (const float[]){1, 10, 1.5f, 15, 2.5f, 25, 3, 30}, 8, 1e-6);
}

static void hostile_scales_do_no_harm(void **state) {
  (void)state;
  const test_value x = F32(DIMS(1, 1, 1, 3), 1, 1, 1);
  float y[2];
  for (int mode = ITG_RESIZE_NEAREST; mode <= ITG_RESIZE_CUBIC; mode++) {
    for (int antialias = 0; antialias < 2; antialias++) {
      static const double scales[] = {1e-300, 0, -1, NAN, INFINITY, 1e300};
      for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        const itg_attributes attributes = {
            .resize = {.mode = mode, .antialias = antialias, .cubic_a = -.75, .scale = {1, 1, 1, scales[i]}}};
        const itg_shape shape = DIMS(1, 1, 1, 2);
        const bool valid = scales[i] > 0 && isfinite(scales[i]);
        assert_int_equal(test_run_node(ITG_OP_RESIZE, &attributes, &x, 1, (const itg_dtype[]){ITG_DTYPE_F32}, &shape,
                                       (void *const[]){y}, 1),
                         valid ? ITG_OK : ITG_ERROR_FORMAT);
        if (valid && mode == ITG_RESIZE_NEAREST)
          assert_true(y[0] == 1 && y[1] == 1); // Any pixel, but one of the input.
      }
    }
  }
}

static void quantized_operations_round_half_to_even_and_saturate(void **state) {
  (void)state;
  const itg_shape shape = DIMS(6), scalar = SCALAR;
  const test_value x = F32(shape, .5f, 1.5f, 2.5f, -1000, 1000, NAN);
  uint8_t codes[6];
  itg_attributes attributes = {.axis = {-1, 0}};
  assert_int_equal(test_run_node(ITG_OP_QUANTIZE_LINEAR, &attributes,
                                 (const test_value[]){x, F32(SCALAR, 1), U8(SCALAR, 128)}, 3,
                                 (const itg_dtype[]){ITG_DTYPE_U8}, &shape, (void *const[]){codes}, 1),
                   ITG_OK);
  assert_memory_equal(codes, ((const uint8_t[]){128, 130, 130, 0, 255, 128}), 6);
  float y[6];
  attributes.axis.axis = 0;
  const itg_shape rows = DIMS(2, 3);
  test_f32(ITG_OP_DEQUANTIZE_LINEAR, &attributes,
           (const test_value[]){S8(rows, -128, 0, 127, 1, 2, 3), F32(DIMS(2), .5f, 2), S8(DIMS(2), 0, 1)}, 3, rows, y);
  assert_memory_equal(y, ((const float[]){-64, 0, 63.5f, 0, 2, 4}), sizeof y);
  // Packed s4 constants: low nibble first; blocks of two along axis 1.
  const uint8_t nibbles[2] = {0x8f, 0x71}; // -1 -8 1 7
  attributes.axis.axis = 1;
  test_f32(ITG_OP_DEQUANTIZE_LINEAR, &attributes,
           (const test_value[]){{ITG_DTYPE_S4, DIMS(1, 4), nibbles}, F32(DIMS(1, 2), 1, 10)}, 2, DIMS(1, 4), y);
  assert_memory_equal(y, ((const float[]){-1, -8, 10, 70}), 16);
  float scale;
  uint8_t zero;
  assert_int_equal(test_run_node(ITG_OP_DYNAMIC_QUANTIZE, NULL, (const test_value[]){F32(DIMS(3), -1, 0, 1.55f)}, 1,
                                 (const itg_dtype[]){ITG_DTYPE_U8, ITG_DTYPE_F32, ITG_DTYPE_U8},
                                 (const itg_shape[]){DIMS(3), scalar, scalar}, (void *const[]){codes, &scale, &zero},
                                 3),
                   ITG_OK);
  assert_true(scale == 2.55f / 255 && zero == 100 && codes[0] == 0 && codes[1] == 100 && codes[2] == 255);
  int32_t sums[4];
  const itg_shape square = DIMS(2, 2);
  assert_int_equal(test_run_node(ITG_OP_MATMUL_INTEGER, NULL,
                                 (const test_value[]){U8(square, 255, 0, 1, 2), S8(square, -128, 127, 1, 2),
                                                      U8(SCALAR, 1), S8(DIMS(2), 0, 1)},
                                 4, (const itg_dtype[]){ITG_DTYPE_S32}, &square, (void *const[]){sums}, 1),
                   ITG_OK);
  assert_memory_equal(sums, ((const int32_t[]){254 * -128 - 1, 254 * 126 - 1, 1, 1}), sizeof sums);
  // A 1x2 kernel of ones over [1 2 3] with zero point 1 and one column of padding: sums of neighbours less one.
  const itg_shape image = DIMS(1, 1, 1, 3), kernel = DIMS(1, 1, 1, 2), out = DIMS(1, 1, 1, 4);
  const itg_attributes conv = {
      .conv = {.window = {2, {1, 2, 0}, {1, 1, 0}, {1, 1, 0}, {0, 1, 0}, {0, 1, 0}}, .group = 1}};
  assert_int_equal(test_run_node(ITG_OP_CONV_INTEGER, &conv,
                                 (const test_value[]){U8(image, 1, 2, 3), U8(kernel, 1, 1), U8(SCALAR, 1)}, 3,
                                 (const itg_dtype[]){ITG_DTYPE_S32}, &out, (void *const[]){sums}, 1),
                   ITG_OK);
  assert_memory_equal(sums, ((const int32_t[]){0, 1, 3, 2}), sizeof sums);
}

static void matrix_products_broadcast_their_batches(void **state) {
  (void)state;
  uint64_t seed = 12;
  enum { A = 3, B = 2, M = 13, N = 35, K = 9 };
  float *a = test_random_floats(&seed, B * M * K), *b = test_random_floats(&seed, A * K * N);
  float *y = test_random_floats(&seed, A * B * M * N), *expected = test_random_floats(&seed, A * B * M * N);
  for (int transposed = 0; transposed < 4; transposed++) {
    const int ta = transposed & 1, tb = transposed >> 1;
    for (int i = 0; i < A * B * M * N; i++) {
      const int col = i % N, row = i / N % M, batch = i / N / M;
      double sum = 0;
      for (int k = 0; k < K; k++) {
        const float va = a[batch % B * M * K + (ta ? k * M + row : row * K + k)];
        const float vb = b[batch / B * K * N + (tb ? col * K + k : k * N + col)];
        sum += (double)va * (double)vb;
      }
      expected[i] = (float)sum;
    }
    const itg_attributes attributes = {.gemm = {1, 0, ta, tb}};
    const test_value inputs[] = {{ITG_DTYPE_F32, ta ? DIMS(B, K, M) : DIMS(B, M, K), a},
                                 {ITG_DTYPE_F32, tb ? DIMS(A, 1, N, K) : DIMS(A, 1, K, N), b}};
    test_f32(ITG_OP_MATMUL, &attributes, inputs, 2, DIMS(A, B, M, N), y);
    assert_close(y, expected, A * B * M * N, 1e-6);
  }
  free(a);
  free(b);
  free(y);
  free(expected);
  float dot[1];
  test_f32(ITG_OP_MATMUL, NULL, (const test_value[]){F32(DIMS(3), 1, 2, 3), F32(DIMS(3), 4, 5, 6)}, 2, SCALAR, dot);
  assert_true(dot[0] == 32);
  double wide[1];
  const itg_shape scalar = SCALAR;
  const test_value doubles[] = {{ITG_DTYPE_F64, DIMS(2), (const double[]){1e9, 1}},
                                {ITG_DTYPE_F64, DIMS(2), (const double[]){1, 1e-7}}};
  assert_int_equal(test_run_node(ITG_OP_MATMUL, NULL, doubles, 2, (const itg_dtype[]){ITG_DTYPE_F64}, &scalar,
                                 (void *const[]){wide}, 1),
                   ITG_OK);
  assert_true(wide[0] == 1e9 + 1e-7);
  float g[4];
  const itg_attributes attributes = {.gemm = {2, .5, 0, 0}};
  test_f32(ITG_OP_GEMM, &attributes,
           (const test_value[]){F32(DIMS(2, 1), 1, 2), F32(DIMS(1, 2), 3, 4), F32(DIMS(2), 10, 20)}, 3, DIMS(2, 2), g);
  assert_memory_equal(g, ((const float[]){11, 18, 17, 26}), sizeof g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reductions_follow_their_formulas),
      cmocka_unit_test(integer_reductions_are_exact),
      cmocka_unit_test(orderings_break_ties_by_position),
      cmocka_unit_test(softmax_sums_to_one_and_keeps_order),
      cmocka_unit_test(normalisations_follow_their_formulas),
      cmocka_unit_test(affine_operations_follow_their_formulas),
      cmocka_unit_test(resizes_follow_onnx),
      cmocka_unit_test(hostile_scales_do_no_harm),
      cmocka_unit_test(quantized_operations_round_half_to_even_and_saturate),
      cmocka_unit_test(matrix_products_broadcast_their_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
