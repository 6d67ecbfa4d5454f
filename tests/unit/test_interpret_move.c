// The interpreter's element-wise and moving operations: known values, every dtype, broadcasting, hostile indices.
#include "interpret_support.h"

static void unary_functions_give_known_values(void **state) {
  (void)state;
  const float x[6] = {-2.5f, -0.5f, 0, 0.5f, 1.5f, 3};
  static const struct {
    itg_op op;
    double alpha, beta;
    float expected[6];
  } cases[] = {
      {ITG_OP_ABS, 0, 0, {2.5f, .5f, 0, .5f, 1.5f, 3}},
      {ITG_OP_NEG, 0, 0, {2.5f, .5f, 0, -.5f, -1.5f, -3}},
      {ITG_OP_CEIL, 0, 0, {-2, 0, 0, 1, 2, 3}},
      {ITG_OP_FLOOR, 0, 0, {-3, -1, 0, 0, 1, 3}},
      {ITG_OP_ROUND, 0, 0, {-2, 0, 0, 0, 2, 3}},
      {ITG_OP_SIGN, 0, 0, {-1, -1, 0, 1, 1, 1}},
      {ITG_OP_RELU, 0, 0, {0, 0, 0, .5f, 1.5f, 3}},
      {ITG_OP_LEAKY_RELU, .1, 0, {-.25f, -.05f, 0, .5f, 1.5f, 3}},
      {ITG_OP_CLIP, -1, 1, {-1, -.5f, 0, .5f, 1, 1}},
      {ITG_OP_THRESHOLDED_RELU, 1, 0, {0, 0, 0, 0, 1.5f, 3}},
      {ITG_OP_HARD_SIGMOID, .2, .5, {0, .4f, .5f, .6f, .8f, 1}},
      {ITG_OP_HARD_SWISH, 0, 0, {-.208333333f, -.208333333f, 0, .291666667f, 1.125f, 3}},
      {ITG_OP_SOFTSIGN, 0, 0, {-.714285714f, -.333333333f, 0, .333333333f, .6f, .75f}},
      {ITG_OP_SHRINK, 1, .25, {-2.25f, 0, 0, 0, 1.25f, 2.75f}},
      {ITG_OP_RECIPROCAL, 0, 0, {-.4f, -2, INFINITY, 2, .666666667f, .333333333f}},
      {ITG_OP_EXP, 0, 0, {.0820849986f, .60653066f, 1, 1.64872127f, 4.48168907f, 20.0855369f}},
      {ITG_OP_SIGMOID, 0, 0, {.0758581800f, .377540669f, .5f, .622459331f, .817574476f, .952574127f}},
      {ITG_OP_SILU, 0, 0, {-.18964545f, -.188770335f, 0, .311229666f, 1.22636171f, 2.85772238f}},
      {ITG_OP_QUICK_GELU, 1.702, 0, {-0.034986165f, -0.149611563f, 0, 0.350388437f, 1.3916622f, 2.98192869f}},
      {ITG_OP_GELU, 0, 0, {-.0155241611f, -.154268771f, 0, .345731229f, 1.39978919f, 2.9959503f}},
      {ITG_OP_GELU, 1, 0, {-0.0150842661f, -0.15428599f, 0, 0.34571401f, 1.39957158f, 2.99636261f}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    itg_attributes attributes = {.scalar = {cases[c].alpha, cases[c].beta}};
    float y[6];
    test_f32(cases[c].op, &attributes, (const test_value[]){{ITG_DTYPE_F32, DIMS(2, 3), x}}, 1, DIMS(2, 3), y);
    assert_close(y, cases[c].expected, 6, 2e-6);
  }
}

static void unary_functions_agree_with_libm(void **state) {
  (void)state;
  static const struct {
    itg_op op;
    double (*function)(double);
    float low, high;
  } cases[] = {
      {ITG_OP_SQRT, sqrt, 0, 50},     {ITG_OP_EXP, exp, -30, 30},  {ITG_OP_LOG, log, 1e-6f, 100},
      {ITG_OP_ERF, erf, -5, 5},       {ITG_OP_SIN, sin, -10, 10},  {ITG_OP_COS, cos, -10, 10},
      {ITG_OP_TAN, tan, -1.5f, 1.5f}, {ITG_OP_ASIN, asin, -1, 1},  {ITG_OP_ACOS, acos, -1, 1},
      {ITG_OP_ATAN, atan, -9, 9},     {ITG_OP_SINH, sinh, -5, 5},  {ITG_OP_COSH, cosh, -5, 5},
      {ITG_OP_ASINH, asinh, -9, 9},   {ITG_OP_ACOSH, acosh, 1, 9}, {ITG_OP_ATANH, atanh, -.99f, .99f},
      {ITG_OP_TANH, tanh, -10, 10},
  };
  enum { COUNT = 1000 };
  float x[COUNT], y[COUNT], expected[COUNT];
  double wide[COUNT], y64[COUNT];
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    for (int i = 0; i < COUNT; i++) {
      x[i] = cases[c].low + (cases[c].high - cases[c].low) * (float)i / (COUNT - 1);
      wide[i] = x[i];
      expected[i] = (float)cases[c].function(x[i]);
    }
    test_f32(cases[c].op, NULL, (const test_value[]){{ITG_DTYPE_F32, DIMS(COUNT), x}}, 1, DIMS(COUNT), y);
    assert_close(y, expected, COUNT, 1e-6);
    const itg_shape shape = DIMS(COUNT);
    assert_int_equal(test_run_node(cases[c].op, NULL, (const test_value[]){{ITG_DTYPE_F64, shape, wide}}, 1,
                                   (const itg_dtype[]){ITG_DTYPE_F64}, &shape, (void *const[]){y64}, 1),
                     ITG_OK);
    for (int i = 0; i < COUNT; i++) assert_true(y64[i] == cases[c].function(wide[i]));
  }
}

static void integers_wrap_and_never_trap(void **state) {
  (void)state;
  const itg_shape shape = DIMS(4);
  const test_value inputs[] = {S32(shape, INT32_MIN, 7, -7, 5), S32(shape, -1, 0, 2, 3)};
  int32_t y[4];
  const itg_attributes floored = {.axis = {0, 0}}, truncated = {.axis = {0, 1}};
#define CHECK(op, attributes, ...)                                                                                 \
  assert_int_equal(                                                                                                \
      test_run_node(op, attributes, inputs, 2, (const itg_dtype[]){ITG_DTYPE_S32}, &shape, (void *const[]){y}, 1), \
      ITG_OK);                                                                                                     \
  assert_memory_equal(y, ((const int32_t[]){__VA_ARGS__}), sizeof y)
  CHECK(ITG_OP_DIV, NULL, INT32_MIN, 0, -3, 1);
  CHECK(ITG_OP_MOD, &floored, 0, 0, 1, 2);
  CHECK(ITG_OP_MOD, &truncated, 0, 0, -1, 2);
  CHECK(ITG_OP_ADD, NULL, INT32_MAX, 7, -5, 8);
  CHECK(ITG_OP_SUB, NULL, INT32_MIN + 1, 7, -9, 2);
  CHECK(ITG_OP_MUL, NULL, INT32_MIN, 0, -14, 15);
  CHECK(ITG_OP_POW, NULL, 0, 1, 49, 125);
  CHECK(ITG_OP_MIN, NULL, INT32_MIN, 0, -7, 3);
  CHECK(ITG_OP_MAX, NULL, -1, 7, 2, 5);
  CHECK(ITG_OP_BITWISE_XOR, NULL, INT32_MAX, 7, -5, 6);
#undef CHECK
}

static void broadcasting_follows_numpy(void **state) {
  (void)state;
  uint64_t seed = 5;
  for (int trial = 0; trial < 200; trial++) {
    const int rank = 1 + (int)(test_random(&seed) % 4);
    itg_shape a = {.rank = rank}, b = {.rank = 1 + (int)(test_random(&seed) % (uint32_t)rank)}, y;
    for (int i = 0; i < rank; i++) a.dims[i] = 1 + test_random(&seed) % 4;
    for (int i = 0; i < b.rank; i++) {
      const int64_t other = a.dims[rank - b.rank + i];
      b.dims[i] = test_random(&seed) % 2 ? other : (other == 1 ? 3 : 1);
    }
    assert_true(itg_shape_broadcast(&a, &b, &y));
    size_t na, nb, ny;
    assert_true(itg_shape_count(&a, &na) && itg_shape_count(&b, &nb) && itg_shape_count(&y, &ny));
    float *xa = test_random_floats(&seed, na), *xb = test_random_floats(&seed, nb);
    float *out = test_random_floats(&seed, ny), *expected = test_random_floats(&seed, ny);
    for (size_t i = 0; i < ny; i++) {
      size_t rest = i, ia = 0, ib = 0, sa = 1, sb = 1;
      for (int d = 1; d <= y.rank; d++) {
        const size_t c = rest % (size_t)y.dims[y.rank - d];
        rest /= (size_t)y.dims[y.rank - d];
        if (d <= a.rank && a.dims[a.rank - d] > 1) ia += c * sa;
        if (d <= b.rank && b.dims[b.rank - d] > 1) ib += c * sb;
        if (d <= a.rank) sa *= (size_t)a.dims[a.rank - d];
        if (d <= b.rank) sb *= (size_t)b.dims[b.rank - d];
      }
      expected[i] = xa[ia] - xb[ib];
    }
    test_f32(ITG_OP_SUB, NULL, (const test_value[]){{ITG_DTYPE_F32, a, xa}, {ITG_DTYPE_F32, b, xb}}, 2, y, out);
    assert_memory_equal(out, expected, ny * sizeof(float));
    free(xa);
    free(xb);
    free(out);
    free(expected);
  }
}

static void comparisons_and_where(void **state) {
  (void)state;
  const itg_shape shape = DIMS(3);
  const test_value inputs[] = {F32(shape, 1, 2, NAN), F32(shape, 2, 2, 2)};
  uint8_t y[3];
  static const struct {
    itg_op op;
    uint8_t expected[3];
  } cases[] = {{ITG_OP_EQUAL, {0, 1, 0}},
               {ITG_OP_LESS, {1, 0, 0}},
               {ITG_OP_LESS_OR_EQUAL, {1, 1, 0}},
               {ITG_OP_GREATER, {0, 0, 0}},
               {ITG_OP_GREATER_OR_EQUAL, {0, 1, 0}}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    assert_int_equal(
        test_run_node(cases[c].op, NULL, inputs, 2, (const itg_dtype[]){ITG_DTYPE_BOOL}, &shape, (void *const[]){y}, 1),
        ITG_OK);
    assert_memory_equal(y, cases[c].expected, 3);
  }
  float chosen[4];
  test_f32(ITG_OP_WHERE, NULL, (const test_value[]){BOOLS(DIMS(2, 1), 1, 0), F32(DIMS(2), 1, 2), F32(SCALAR, -1)}, 3,
           DIMS(2, 2), chosen);
  assert_memory_equal(chosen, ((const float[]){1, 2, -1, -1}), sizeof chosen);
}

static void casts_saturate_and_round(void **state) {
  (void)state;
  const itg_shape shape = DIMS(6);
  const test_value x = F32(shape, -1.7f, 300.9f, NAN, INFINITY, -INFINITY, 0.4f);
  uint8_t bytes[6];
  int64_t longs[6];
  uint16_t halves[6];
  float back[6];
  assert_int_equal(test_run_node(ITG_OP_CAST, &(itg_attributes){.cast = {ITG_DTYPE_U8, 1}}, &x, 1,
                                 (const itg_dtype[]){ITG_DTYPE_U8}, &shape, (void *const[]){bytes}, 1),
                   ITG_OK);
  assert_memory_equal(bytes, ((const uint8_t[]){0, 255, 0, 255, 0, 0}), 6);
  assert_int_equal(test_run_node(ITG_OP_CAST, &(itg_attributes){.cast = {ITG_DTYPE_S64, 1}}, &x, 1,
                                 (const itg_dtype[]){ITG_DTYPE_S64}, &shape, (void *const[]){longs}, 1),
                   ITG_OK);
  assert_memory_equal(longs, ((const int64_t[]){-1, 300, 0, INT64_MAX, INT64_MIN, 0}), sizeof longs);
  assert_int_equal(test_run_node(ITG_OP_CAST, &(itg_attributes){.cast = {ITG_DTYPE_F16, 1}}, &x, 1,
                                 (const itg_dtype[]){ITG_DTYPE_F16}, &shape, (void *const[]){halves}, 1),
                   ITG_OK);
  assert_int_equal(halves[3], 0x7c00);
  test_f32(ITG_OP_CAST, &(itg_attributes){.cast = {ITG_DTYPE_F32, 1}},
           (const test_value[]){{ITG_DTYPE_F16, shape, halves}}, 1, shape, back);
  assert_close(back, x.data, 6, 0x1p-11);
}

static void half_inputs_are_widened_and_results_narrowed(void **state) {
  (void)state;
  const uint16_t a[3] = {0x3c00, 0x4000, 0xc200}, b[3] = {0x3800, 0x3c00, 0x0001}; // 1 2 -3; .5 1 2^-24
  const itg_shape shape = DIMS(3);
  uint16_t y[3];
  assert_int_equal(test_run_node(ITG_OP_ADD, NULL,
                                 (const test_value[]){{ITG_DTYPE_F16, shape, a}, {ITG_DTYPE_F16, shape, b}}, 2,
                                 (const itg_dtype[]){ITG_DTYPE_F16}, &shape, (void *const[]){y}, 1),
                   ITG_OK);
  assert_memory_equal(y, ((const uint16_t[]){0x3e00, 0x4200, 0xc200}), sizeof y);
}

static void moving_operations_place_every_element(void **state) {
  (void)state;
  const test_value x = F32(DIMS(2, 3), 0, 1, 2, 3, 4, 5);
  float y[32];
  test_f32(ITG_OP_TRANSPOSE, &(itg_attributes){.permutation = {{1, 0}}}, &x, 1, DIMS(3, 2), y);
  assert_memory_equal(y, ((const float[]){0, 3, 1, 4, 2, 5}), 24);
  test_f32(ITG_OP_RESHAPE, NULL, &x, 1, DIMS(6), y);
  assert_memory_equal(y, x.data, 24);
  test_f32(ITG_OP_SLICE, &(itg_attributes){.slice = {{1, 2}, {-1, -2}}}, &x, 1, DIMS(2, 2), y);
  assert_memory_equal(y, ((const float[]){5, 3, 2, 0}), 16);
  test_f32(ITG_OP_EXPAND, NULL, &x, 1, DIMS(2, 2, 3), y);
  assert_memory_equal(y, ((const float[]){0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}), 48);
  test_f32(ITG_OP_TILE, NULL, &x, 1, DIMS(2, 6), y);
  assert_memory_equal(y, ((const float[]){0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}), 48);
  test_f32(ITG_OP_CONCAT, &(itg_attributes){.axis = {1, 0}}, (const test_value[]){x, F32(DIMS(2, 1), 8, 9)}, 2,
           DIMS(2, 4), y);
  assert_memory_equal(y, ((const float[]){0, 1, 2, 8, 3, 4, 5, 9}), 32);
  itg_attributes pad = {.pad = {{0, 1}, {1, 1}, ITG_PAD_CONSTANT, 0, 7}};
  test_f32(ITG_OP_PAD, &pad, &x, 1, DIMS(3, 5), y);
  assert_memory_equal(y, ((const float[]){7, 0, 1, 2, 7, 7, 3, 4, 5, 7, 7, 7, 7, 7, 7}), 60);
  pad.pad.mode = ITG_PAD_REFLECT;
  test_f32(ITG_OP_PAD, &pad, &x, 1, DIMS(3, 5), y);
  assert_memory_equal(y, ((const float[]){1, 0, 1, 2, 1, 4, 3, 4, 5, 4, 1, 0, 1, 2, 1}), 60);
  pad.pad.mode = ITG_PAD_EDGE;
  test_f32(ITG_OP_PAD, &pad, &x, 1, DIMS(3, 5), y);
  assert_memory_equal(y, ((const float[]){0, 0, 1, 2, 2, 3, 3, 4, 5, 5, 3, 3, 4, 5, 5}), 60);
  pad.pad.mode = ITG_PAD_WRAP;
  test_f32(ITG_OP_PAD, &pad, &x, 1, DIMS(3, 5), y);
  assert_memory_equal(y, ((const float[]){2, 0, 1, 2, 0, 5, 3, 4, 5, 3, 2, 0, 1, 2, 0}), 60);
  itg_attributes crop = {.pad = {{0, -1}, {0, 1}, ITG_PAD_CONSTANT, 0, 7}};
  test_f32(ITG_OP_PAD, &crop, &x, 1, DIMS(2, 3), y);
  assert_memory_equal(y, ((const float[]){1, 2, 7, 4, 5, 7}), 24);
  test_f32(ITG_OP_TRILU, &(itg_attributes){.axis = {1, 1}}, &x, 1, DIMS(2, 3), y);
  assert_memory_equal(y, ((const float[]){0, 1, 2, 0, 0, 5}), 24);
  test_f32(ITG_OP_TRILU, &(itg_attributes){.axis = {0, 0}}, &x, 1, DIMS(2, 3), y);
  assert_memory_equal(y, ((const float[]){0, 0, 0, 3, 4, 0}), 24);
  test_f32(ITG_OP_REVERSE_SEQUENCE, &(itg_attributes){.axis = {1, 0}}, (const test_value[]){x, S64(DIMS(2), 2, 3)}, 2,
           DIMS(2, 3), y);
  assert_memory_equal(y, ((const float[]){1, 0, 2, 5, 4, 3}), 24);
}

static void blocks_move_between_depth_and_space(void **state) {
  (void)state;
  float x[16], y[16], back[16];
  for (int i = 0; i < 16; i++) x[i] = (float)i;
  // [1, 8, 1, 2] with block 2: DCR takes channels 0, 2, 4, 6 for the first output channel; CRD takes 0..3.
  itg_attributes attributes = {.block = {2, ITG_LAYOUT_CHANNELS_FIRST, 0, 0}};
  test_f32(ITG_OP_DEPTH_TO_SPACE, &attributes, (const test_value[]){{ITG_DTYPE_F32, DIMS(1, 8, 1, 2), x}}, 1,
           DIMS(1, 2, 2, 4), y);
  assert_memory_equal(y, ((const float[]){0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15}), 64);
  test_f32(ITG_OP_SPACE_TO_DEPTH, &attributes, (const test_value[]){{ITG_DTYPE_F32, DIMS(1, 2, 2, 4), y}}, 1,
           DIMS(1, 8, 1, 2), back);
  assert_memory_equal(back, x, 64);
  attributes.block.column_row_depth = 1;
  test_f32(ITG_OP_DEPTH_TO_SPACE, &attributes, (const test_value[]){{ITG_DTYPE_F32, DIMS(1, 8, 1, 2), x}}, 1,
           DIMS(1, 2, 2, 4), y);
  assert_memory_equal(y, ((const float[]){0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}), 64);
  attributes = (itg_attributes){.block = {2, ITG_LAYOUT_CHANNELS_LAST, 0, 0}};
  test_f32(ITG_OP_DEPTH_TO_SPACE, &attributes, (const test_value[]){{ITG_DTYPE_F32, DIMS(1, 1, 2, 8), x}}, 1,
           DIMS(1, 2, 4, 2), y);
  assert_memory_equal(y, ((const float[]){0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}), 64);
  test_f32(ITG_OP_SPACE_TO_DEPTH, &attributes, (const test_value[]){{ITG_DTYPE_F32, DIMS(1, 2, 4, 2), y}}, 1,
           DIMS(1, 1, 2, 8), back);
  assert_memory_equal(back, x, 64);
}

static void gathers_and_scatters_follow_their_indices(void **state) {
  (void)state;
  const test_value x = F32(DIMS(2, 3), 0, 1, 2, 3, 4, 5);
  float y[12];
  test_f32(ITG_OP_GATHER, &(itg_attributes){.axis = {1, 0}}, (const test_value[]){x, S64(DIMS(2), -1, 0)}, 2,
           DIMS(2, 2), y);
  assert_memory_equal(y, ((const float[]){2, 0, 5, 3}), 16);
  test_f32(ITG_OP_GATHER_ELEMENTS, &(itg_attributes){.axis = {1, 0}},
           (const test_value[]){x, S32(DIMS(2, 2), 2, 0, 1, -1)}, 2, DIMS(2, 2), y);
  assert_memory_equal(y, ((const float[]){2, 0, 4, 5}), 16);
  test_f32(ITG_OP_GATHER_ND, &(itg_attributes){.axis = {0, 0}}, (const test_value[]){x, S64(DIMS(2, 2), 1, 2, 0, 0)}, 2,
           DIMS(2), y);
  assert_memory_equal(y, ((const float[]){5, 0}), 8);
  test_f32(ITG_OP_GATHER_ND, &(itg_attributes){.axis = {0, 1}}, (const test_value[]){x, S64(DIMS(2, 1), 1, 2)}, 2,
           DIMS(2), y);
  assert_memory_equal(y, ((const float[]){1, 5}), 8);
  test_f32(ITG_OP_SCATTER_ELEMENTS, &(itg_attributes){.axis = {0, 1}},
           (const test_value[]){x, S64(DIMS(1, 3), 1, 0, 1), F32(DIMS(1, 3), 10, 20, 30)}, 3, DIMS(2, 3), y);
  assert_memory_equal(y, ((const float[]){0, 21, 2, 13, 4, 35}), 24);
  test_f32(ITG_OP_SCATTER_ND, &(itg_attributes){.axis = {0, 0}},
           (const test_value[]){x, S64(DIMS(1, 1), -1), F32(DIMS(1, 3), 7, 8, 9)}, 3, DIMS(2, 3), y);
  assert_memory_equal(y, ((const float[]){0, 1, 2, 7, 8, 9}), 24);
  test_f32(ITG_OP_ONE_HOT, &(itg_attributes){.axis = {1, 0}},
           (const test_value[]){S64(DIMS(3), 1, -1, 9), F32(DIMS(2), 0, 5)}, 2, DIMS(3, 3), y);
  assert_memory_equal(y, ((const float[]){0, 5, 0, 0, 0, 5, 0, 0, 0}), 36);
}

static void an_index_out_of_range_is_an_error(void **state) {
  (void)state;
  const test_value inputs[] = {F32(DIMS(3), 1, 2, 3), S64(DIMS(1), 3)};
  const itg_shape shape = DIMS(1);
  float y[1];
  assert_int_equal(
      test_run_node(ITG_OP_GATHER, NULL, inputs, 2, (const itg_dtype[]){ITG_DTYPE_F32}, &shape, (void *const[]){y}, 1),
      ITG_ERROR_ARGUMENT);
  assert_int_equal(
      test_run_node(ITG_OP_NOT, NULL, inputs, 1, (const itg_dtype[]){ITG_DTYPE_F32}, &shape, (void *const[]){y}, 1),
      ITG_ERROR_UNSUPPORTED);
}

// A chain with reshapes, in-place candidates and a tensor that is read late: every intermediate value as the observer sees
// it must be right, and buffers must be shared.
typedef struct observed {
  int count;
  bool stop;
} observed;
static bool check_value(void *context, const itg_tensor *tensor, const void *data) {
  observed *o = context;
  const float *v = data;
  const float expected = strcmp(tensor->name, "x") == 0   ? 3
                         : strcmp(tensor->name, "a") == 0 ? -3
                         : strcmp(tensor->name, "b") == 0 ? -3
                         : strcmp(tensor->name, "c") == 0 ? 3
                         : strcmp(tensor->name, "d") == 0 ? 6
                                                          : 3;
  for (int i = 0; i < 1024; i++) assert_true(v[i] == expected);
  o->count++;
  return !o->stop;
}
static void graphs_share_buffers_and_show_every_value(void **state) {
  (void)state;
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  const itg_shape flat = DIMS(1024), square = DIMS(32, 32);
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_F32, &flat);
  itg_tensor *a = itg_graph_add_tensor(graph, "a", ITG_DTYPE_F32, &flat);
  itg_tensor *b = itg_graph_add_tensor(graph, "b", ITG_DTYPE_F32, &square);
  itg_tensor *c = itg_graph_add_tensor(graph, "c", ITG_DTYPE_F32, &square);
  itg_tensor *d = itg_graph_add_tensor(graph, "d", ITG_DTYPE_F32, &square);
  itg_tensor *e = itg_graph_add_tensor(graph, "e", ITG_DTYPE_F32, &square);
  assert_true(itg_graph_add_input(graph, x) && itg_graph_add_output(graph, e) && itg_graph_add_output(graph, x));
  itg_graph_insert_node(graph, NULL, ITG_OP_NEG, "a", &x, 1, &a, 1);
  itg_graph_insert_node(graph, NULL, ITG_OP_RESHAPE, "b", &a, 1, &b, 1);
  itg_graph_insert_node(graph, NULL, ITG_OP_ABS, "c", &b, 1, &c, 1);
  itg_graph_insert_node(graph, NULL, ITG_OP_ADD, "d", (itg_tensor *[]){c, c}, 2, &d, 1);
  itg_graph_insert_node(graph, NULL, ITG_OP_ADD, "e", (itg_tensor *[]){d, b}, 2, &e, 1);
  itg_interpreter *interpreter = NULL;
  itg_interpreter_state *run = NULL;
  assert_int_equal(itg_interpreter_create(graph, NULL, &interpreter), ITG_OK);
  assert_int_equal(itg_interpreter_state_size(interpreter), 2 * 4096);
  assert_int_equal(itg_interpreter_state_create(interpreter, NULL, &run), ITG_OK);
  float in[1024], out[1024], same[1024];
  for (int i = 0; i < 1024; i++) in[i] = 3;
  observed seen = {0, false};
  for (int repeat = 1; repeat <= 2; repeat++) {
    assert_int_equal(
        itg_interpreter_run(run, (const void *const[]){in}, (void *const[]){out, same}, check_value, &seen, NULL),
        ITG_OK);
    assert_int_equal(seen.count, 6 * repeat);
    for (int i = 0; i < 1024; i++) assert_true(out[i] == 3 && same[i] == 3);
  }
  seen.stop = true;
  assert_int_equal(itg_interpreter_run(run, (const void *const[]){in}, NULL, check_value, &seen, NULL),
                   ITG_ERROR_CANCELLED);
  itg_interpreter_state_destroy(run);
  itg_interpreter_destroy(interpreter);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unary_functions_give_known_values),
      cmocka_unit_test(unary_functions_agree_with_libm),
      cmocka_unit_test(integers_wrap_and_never_trap),
      cmocka_unit_test(broadcasting_follows_numpy),
      cmocka_unit_test(comparisons_and_where),
      cmocka_unit_test(casts_saturate_and_round),
      cmocka_unit_test(half_inputs_are_widened_and_results_narrowed),
      cmocka_unit_test(moving_operations_place_every_element),
      cmocka_unit_test(blocks_move_between_depth_and_space),
      cmocka_unit_test(gathers_and_scatters_follow_their_indices),
      cmocka_unit_test(an_index_out_of_range_is_an_error),
      cmocka_unit_test(graphs_share_buffers_and_show_every_value),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
