// Shape inference by hand-made nodes: results of the less obvious rules, and what must be refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/infer.h"

#define DIMS(...) \
  itg_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static itg_diagnostic why;

// Infers a node over up to three f32 inputs (rank -1: absent); `output` holds what the builder sets, then the result.
static itg_status infer(itg_op op, const itg_attributes *attributes, const itg_shape *shapes, int count,
                        itg_tensor *output) {
  itg_tensor inputs[3] = {{0}};
  itg_tensor *pointers[3] = {0};
  for (int i = 0; i < count; i++) {
    inputs[i] = (itg_tensor){.name = "input", .dtype = ITG_DTYPE_F32, .shape = shapes[i]};
    if (shapes[i].rank >= 0) pointers[i] = &inputs[i];
  }
  itg_node node = {
      .op = op, .name = "node", .inputs = pointers, .outputs = &output, .input_count = count, .output_count = 1};
  if (attributes) node.attributes = *attributes;
  return itg_infer_node(&node, &why);
}

static void expect(itg_op op, const itg_attributes *attributes, const itg_shape *shapes, int count,
                   const char *result) {
  itg_tensor output = {.name = "output"};
  char text[96];
  if (infer(op, attributes, shapes, count, &output) != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  assert_string_equal(itg_shape_print(&output.shape, text, sizeof text), result);
}

static void expect_failure(itg_op op, const itg_attributes *attributes, const itg_shape *shapes, int count,
                           const itg_shape *declared, itg_status status) {
  itg_tensor output = {.name = "output"};
  if (declared) output.shape = *declared;
  assert_int_equal(infer(op, attributes, shapes, count, &output), status);
  assert_string_equal(why.subject, "node");
}

static void elementwise_operations_broadcast(void **state) {
  (void)state;
  const itg_shape pair[] = {DIMS(4, 1, 6), DIMS(5, 1)}, wrong[] = {DIMS(4, 3), DIMS(2, 3)},
                  slope[] = {DIMS(3), DIMS(2, 3)};
  expect(ITG_OP_ADD, NULL, pair, 2, "4x5x6");
  expect_failure(ITG_OP_ADD, NULL, wrong, 2, NULL, ITG_ERROR_SHAPE);
  expect_failure(ITG_OP_PRELU, NULL, slope, 2, NULL, ITG_ERROR_SHAPE); // The slope may not enlarge x.
  expect_failure(ITG_OP_AND, NULL, pair, 2, NULL, ITG_ERROR_UNSUPPORTED);
  expect_failure(ITG_OP_ADD, NULL, pair, 1, NULL, ITG_ERROR_SHAPE);
  const itg_shape huge[] = {DIMS((int64_t)1 << 30, 1), DIMS((int64_t)1 << 30)};
  expect_failure(ITG_OP_ADD, NULL, huge, 2, NULL, ITG_ERROR_LIMIT);
}

static void convolutions_follow_their_geometry(void **state) {
  (void)state;
  itg_attributes conv = {.conv = {.window = {2, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, .group = 2}};
  const itg_shape first[] = {DIMS(1, 4, 7, 8), DIMS(6, 2, 3, 3), DIMS(6)},
                  last[] = {DIMS(1, 7, 8, 4), DIMS(6, 3, 3, 2)};
  expect(ITG_OP_CONV, &conv, first, 3, "1x6x4x4");
  conv.conv.layout = ITG_LAYOUT_CHANNELS_LAST;
  expect(ITG_OP_CONV, &conv, last, 2, "1x4x4x6");
  conv.conv.layout = ITG_LAYOUT_CHANNELS_FIRST;
  conv.conv.group = 3;
  expect_failure(ITG_OP_CONV, &conv, first, 3, NULL, ITG_ERROR_SHAPE);
  conv.conv.group = 2;
  conv.conv.window.dilation[0] = 5; // 11 rows of window over 9 of padded input.
  expect_failure(ITG_OP_CONV, &conv, first, 3, NULL, ITG_ERROR_SHAPE);
  conv.conv.window.dilation[0] = 1;
  conv.conv.window.stride[1] = 0;
  expect_failure(ITG_OP_CONV, &conv, first, 3, NULL, ITG_ERROR_SHAPE);

  const itg_attributes up = {
      .conv = {.window = {2, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, .group = 1, .output_padding = {1, 1}}};
  const itg_shape transposed[] = {DIMS(1, 4, 5, 6), DIMS(4, 2, 3, 3)};
  expect(ITG_OP_CONV_TRANSPOSE, &up, transposed, 2, "1x2x10x12");
}

static void pools_need_less_padding_than_window(void **state) {
  (void)state;
  itg_attributes pool = {.pool = {.window = {1, {3}, {2}, {1}, {1}, {2}}, .declared_pad_end = {1}}};
  const itg_shape x[] = {DIMS(1, 2, 6)};
  expect(ITG_OP_MAX_POOL, &pool, x, 1, "1x2x4");
  pool.pool.window.pad_end[0] = 3;
  expect_failure(ITG_OP_MAX_POOL, &pool, x, 1, NULL, ITG_ERROR_SHAPE);
  pool.pool.window.pad_end[0] = 0;
  expect_failure(ITG_OP_AVERAGE_POOL, &pool, x, 1, NULL, ITG_ERROR_SHAPE); // Declared more than there is.
}

static void products_broadcast_their_leading_dimensions(void **state) {
  (void)state;
  const itg_attributes swap = {.gemm = {.transpose_b = 1}};
  const itg_shape plain[] = {DIMS(5, 1, 2, 3), DIMS(4, 3, 7)}, turned[] = {DIMS(2, 3), DIMS(9, 7, 3)},
                  wrong[] = {DIMS(2, 3), DIMS(4, 7)};
  expect(ITG_OP_MATMUL, NULL, plain, 2, "5x4x2x7");
  expect(ITG_OP_MATMUL, &swap, turned, 2, "9x2x7");
  expect_failure(ITG_OP_MATMUL, NULL, wrong, 2, NULL, ITG_ERROR_SHAPE);
}

static void declared_shapes_are_checked(void **state) {
  (void)state;
  const itg_shape x[] = {DIMS(4, 6)}, wrong = DIMS(5, 5), repeated = DIMS(8, 9), part = DIMS(2, 6);
  expect_failure(ITG_OP_RESHAPE, NULL, x, 1, &wrong, ITG_ERROR_SHAPE);
  expect_failure(ITG_OP_EXPAND, NULL, x, 1, &wrong, ITG_ERROR_SHAPE);
  expect_failure(ITG_OP_TILE, NULL, x, 1, &repeated, ITG_ERROR_SHAPE);
  const itg_attributes outside = {.slice = {{3, 0}, {1, 1}}}, backwards = {.slice = {{0, 0}, {-1, 1}}};
  expect_failure(ITG_OP_SLICE, &outside, x, 1, &part, ITG_ERROR_SHAPE); // Rows 3 and 4 of 4.
  expect_failure(ITG_OP_SLICE, &backwards, x, 1, &part, ITG_ERROR_SHAPE);
  const itg_attributes overflow = {.slice = {{1, 0}, {INT64_MAX, 1}}};
  expect_failure(ITG_OP_SLICE, &overflow, x, 1, &part, ITG_ERROR_SHAPE);
  const itg_attributes twice = {.permutation = {{1, 1}}}, turn = {.permutation = {{1, 0}}};
  expect_failure(ITG_OP_TRANSPOSE, &twice, x, 1, NULL, ITG_ERROR_SHAPE);
  expect(ITG_OP_TRANSPOSE, &turn, x, 1, "6x4");
  const itg_attributes reflect = {.pad = {{4, 0}, {0, 0}, ITG_PAD_REFLECT, 0, 0}},
                       crop = {.pad = {{-3, 1}, {0, 2}, 0, 0, 0}};
  expect_failure(ITG_OP_PAD, &reflect, x, 1, NULL, ITG_ERROR_SHAPE); // Only 3 rows lie behind the border.
  expect(ITG_OP_PAD, &crop, x, 1, "1x9");
  const itg_attributes axis = {.axis = {2, 0}}, rows = {.reduce = {1, 0}}, beyond = {.reduce = {4, 0}};
  expect_failure(ITG_OP_SOFTMAX, &axis, x, 1, NULL, ITG_ERROR_SHAPE);
  expect(ITG_OP_REDUCE_SUM, &rows, x, 1, "6");
  expect_failure(ITG_OP_REDUCE_SUM, &beyond, x, 1, NULL, ITG_ERROR_SHAPE);
  expect_failure((itg_op)9999, NULL, x, 1, NULL, ITG_ERROR_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise_operations_broadcast),
      cmocka_unit_test(convolutions_follow_their_geometry),
      cmocka_unit_test(pools_need_less_padding_than_window),
      cmocka_unit_test(products_broadcast_their_leading_dimensions),
      cmocka_unit_test(declared_shapes_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
