// The gate for integer graphs: whatever kernels rely on is refused when it is not so, by status and by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/verify.h"
#include "support/rich_graph.h"

static void expect(itg_graph *graph, itg_status status, const char *subject) {
  itg_diagnostic diagnostic = {0};
  const itg_status got = itg_graph_verify(graph, ITG_STAGE_LEGAL, &diagnostic);
  if (got != status) print_error("%s: %s\n", diagnostic.subject, diagnostic.message);
  assert_int_equal(got, status);
  if (status != ITG_OK) {
    assert_string_equal(diagnostic.subject, subject);
    assert_true(strlen(diagnostic.message) > 10);
  }
  itg_graph_destroy(graph);
}

static itg_node *node_of(itg_graph *graph, const char *name) {
  ITG_FOR_EACH_NODE(node, graph) {
    if (strcmp(node->name, name) == 0) return node;
  }
  fail();
  return NULL;
}

static int32_t *entries(itg_node *node, int32_t index) { return itg_tensor_writable(node->inputs[index]); }

// One statement on the small graph's node, and what must come of it.
#define BREAK(node_name, status, statement)     \
  do {                                          \
    itg_graph *graph = builder_small_graph();   \
    itg_node *node = node_of(graph, node_name); \
    statement;                                  \
    expect(graph, status, node_name);           \
  } while (0)

static void the_small_graph_is_legal(void **state) {
  (void)state;
  expect(builder_small_graph(), ITG_OK, NULL);
}

static void requantization_is_checked(void **state) {
  (void)state;
  BREAK("conv", ITG_ERROR_QUANTIZATION, entries(node, ITG_Q_CONV_SHIFT)[1] = 0);
  BREAK("conv", ITG_ERROR_QUANTIZATION, entries(node, ITG_Q_CONV_SHIFT)[3] = 63);
  BREAK("conv", ITG_ERROR_QUANTIZATION, entries(node, ITG_Q_CONV_MULTIPLIER)[0] = INT32_MIN);
  BREAK("conv", ITG_ERROR_QUANTIZATION, node->attributes.q_conv.high = 256);
  BREAK("conv", ITG_ERROR_QUANTIZATION, node->attributes.q_conv.low = -1);
  BREAK("conv", ITG_ERROR_QUANTIZATION, (node->attributes.q_conv.low = 9, node->attributes.q_conv.high = 8));
  BREAK("embed", ITG_OK, node->attributes.q_conv.high = 65535);
}

static void bounds_are_recomputed(void **state) {
  (void)state;
  BREAK("conv", ITG_ERROR_QUANTIZATION, node->attributes.q_conv.bound -= 1);
  BREAK("conv", ITG_ERROR_QUANTIZATION, node->attributes.q_conv.bound = -1);
  BREAK("conv", ITG_OK, node->attributes.q_conv.bound += 1000);
  BREAK("conv", ITG_ERROR_QUANTIZATION, node->attributes.q_conv.bound = (int64_t)1 << 31);
  BREAK("conv", ITG_ERROR_QUANTIZATION,
        (node->attributes.q_conv.bound = (int64_t)1 << 33, node->attributes.q_conv.wide = 1));
  BREAK("conv", ITG_OK,
        (node->attributes.q_conv.bound = (int64_t)1 << 33, node->attributes.q_conv.wide = 1,
         node->attributes.q_conv.pre_shift = 3));
  BREAK("conv", ITG_ERROR_QUANTIZATION, entries(node, ITG_Q_CONV_BIAS)[2] = 2000000000);
  // 127 and 127 side by side: 2 * 255 * 127 leaves 16 bits.
  BREAK("conv", ITG_ERROR_QUANTIZATION, {
    int8_t *weight = itg_tensor_writable(node->inputs[ITG_Q_CONV_WEIGHT]);
    weight[5] = weight[6] = 127;
    node->attributes.q_conv.bound *= 2;
  });
  BREAK("conv", ITG_OK, {
    int8_t *weight = itg_tensor_writable(node->inputs[ITG_Q_CONV_WEIGHT]);
    weight[5] = weight[6] = 127;
    node->attributes.q_conv.bound *= 2;
    node->attributes.q_conv.pair_sums_fit = 0;
  });
}

// A hostile file may hold any byte where block scales belong: 1..16 keep the products in 8 bits.
static void block_scales_are_checked(void **state) {
  (void)state;
  static const uint8_t scales[] = {1, 16, 0, 17};
  for (size_t i = 0; i < sizeof scales; i++) {
    itg_graph *graph = builder_rich_graph();
    ((uint8_t *)itg_tensor_writable(itg_graph_find(graph, "blocks")))[3] = scales[i];
    expect(graph, i < 2 ? ITG_OK : ITG_ERROR_QUANTIZATION, "QFullyConnected");
  }
  itg_graph *graph = builder_rich_graph();
  itg_graph_find(graph, "blocks")->shape.dims[1] = 3;
  expect(graph, ITG_ERROR_SHAPE, "QFullyConnected");
}

static void shapes_are_checked(void **state) {
  (void)state;
  BREAK("conv", ITG_ERROR_SHAPE, node->inputs[ITG_Q_CONV_BIAS]->shape.dims[0] = 3);
  BREAK("conv", ITG_ERROR_SHAPE, node->attributes.q_conv.window.pad_begin[0] = 0);
  BREAK("conv", ITG_ERROR_SHAPE, node->attributes.q_conv.window.stride[1] = 0);
  BREAK("conv", ITG_ERROR_SHAPE, node->attributes.q_conv.window.dilation[1] = -1);
  BREAK("conv", ITG_ERROR_SHAPE, node->attributes.q_conv.window.kernel[0] = 2);
  BREAK("conv", ITG_ERROR_LIMIT, node->attributes.q_conv.window.pad_end[0] = 1 << 30);
  BREAK("conv", ITG_ERROR_SHAPE, node->attributes.q_conv.group = 2);
  BREAK("conv", ITG_ERROR_SHAPE, node->attributes.q_conv.group = 0);
  BREAK("conv", ITG_ERROR_SHAPE, node->inputs[ITG_Q_CONV_WEIGHT]->dtype = ITG_DTYPE_U8);
  BREAK("embed", ITG_ERROR_SHAPE, node->inputs[ITG_Q_CONV_WEIGHT]->shape.dims[1] = 143);
  BREAK("flatten", ITG_ERROR_SHAPE, node->outputs[0]->shape.dims[1] = 143);
  BREAK("curve", ITG_ERROR_SHAPE, node->inputs[1]->shape.dims[0] = 255);
}

static void activations_need_encodings(void **state) {
  (void)state;
  itg_graph *graph = builder_small_graph();
  itg_graph_find(graph, "left")->encoding = NULL;
  expect(graph, ITG_ERROR_QUANTIZATION, "left");
  graph = builder_small_graph();
  builder b = {.graph = graph};
  itg_graph_find(graph, "left")->encoding = builder_encoding(&b, ITG_DTYPE_U8, 0.1, 256);
  expect(graph, ITG_ERROR_QUANTIZATION, "left");
  graph = builder_small_graph();
  b.graph = graph;
  itg_graph_find(graph, "flat")->encoding = builder_encoding(&b, ITG_DTYPE_U8, 0.04, 12); // Not that of its input.
  expect(graph, ITG_ERROR_QUANTIZATION, "flatten");
  graph = builder_small_graph();
  itg_graph_find(graph, "left")->dtype = ITG_DTYPE_F32;
  expect(graph, ITG_ERROR_UNSUPPORTED, "left");
}

static void additions_stay_in_range(void **state) {
  (void)state;
  BREAK("add", ITG_ERROR_QUANTIZATION, node->attributes.q_add.a = 1 << 21);
  BREAK("add", ITG_ERROR_QUANTIZATION, node->attributes.q_add.b = -(1 << 21));
  BREAK("add", ITG_ERROR_QUANTIZATION, node->attributes.q_add.shift = 32);
  BREAK("add", ITG_ERROR_QUANTIZATION, node->attributes.q_add.shift = 0);
  BREAK("add", ITG_OK, (node->attributes.q_add.a = (1 << 21) - 1, node->attributes.q_add.shift = 31));
}

// One node of another operation behind the small graph's `sum` (u8) or `code` (u16).
typedef struct extra {
  builder b;
  itg_node *node;
} extra;

static extra add_extra(itg_op op, const char *input, itg_dtype dtype, itg_shape shape, int count,
                       itg_tensor *const *constants) {
  extra e = {.b = {.graph = builder_small_graph(), .seed = 2}};
  itg_tensor *inputs[6] = {itg_graph_find(e.b.graph, input)};
  for (int i = 0; i < count; i++) {
    const itg_tensor *c = constants[i];
    inputs[1 + i] = itg_graph_add_constant(e.b.graph, c->name, c->dtype, &c->shape, c->data);
    inputs[1 + i]->encoding = c->encoding;
  }
  itg_tensor *out = builder_activation(&e.b, "extra_out", dtype, 0.06, 77, shape);
  e.node = builder_node(&e.b, op, "extra", 1 + count, inputs, out);
  assert_true(itg_graph_add_output(e.b.graph, out));
  return e;
}

#define CONSTANT(type, itg_type, rows, ...) \
  (&(itg_tensor){.name = "c", .dtype = itg_type, .shape = {1, {rows}}, .data = (const type[]){__VA_ARGS__}})

static void tables_softmax_and_norms_stay_in_range(void **state) {
  (void)state;
  static int32_t nodes[(65536 >> 5) + 1];
  const itg_tensor table = {.name = "t", .dtype = ITG_DTYPE_S32, .shape = {1, {2049}}, .data = nodes};
  for (int round = 0; round < 4; round++) {
    extra e = add_extra(ITG_OP_Q_TABLE, "code", ITG_DTYPE_U16, SHAPE(1, 5), 1, (itg_tensor *[]){(itg_tensor *)&table});
    e.node->attributes.q_table = (itg_q_table_attributes){.node_bits = 5, .high = 65535};
    if (round == 1) e.node->attributes.q_table.node_bits = 6;
    if (round == 2) entries(e.node, 1)[700] = (1 << 25) + 1;
    if (round == 3) e.node->attributes.q_table.high = 65536;
    expect(e.b.graph, round ? ITG_ERROR_QUANTIZATION : ITG_OK, "extra");
  }
  for (int round = 0; round < 4; round++) {
    extra e = add_extra(ITG_OP_Q_SOFTMAX, "code", ITG_DTYPE_U8, SHAPE(1, 5), 0, NULL);
    e.node->attributes.q_softmax = (itg_q_softmax_attributes){1 << 30, 40, 1 << 30, 40, 0, 255};
    if (round == 1) e.node->attributes.q_softmax.k = -1;
    if (round == 2) e.node->attributes.q_softmax.k_shift = 0;
    if (round == 3) e.node->attributes.q_softmax.shift = 63;
    expect(e.b.graph, round ? ITG_ERROR_QUANTIZATION : ITG_OK, "extra");
  }
  for (int round = 0; round < 4; round++) {
    extra e = add_extra(ITG_OP_Q_NORM, "code", ITG_DTYPE_U16, SHAPE(1, 5), 1,
                        (itg_tensor *[]){CONSTANT(int32_t, ITG_DTYPE_S32, 5, 1, 2, 3, 4, 5)});
    e.node->attributes.q_norm = (itg_q_norm_attributes){ITG_NORM_LAYER, 20, 100, 0, 65535};
    if (round == 1) e.node->attributes.q_norm.epsilon = (int64_t)1 << 61;
    if (round == 2) e.node->attributes.q_norm.shift = 4;
    if (round == 3) e.node->attributes.q_norm.kind = 7;
    expect(e.b.graph, round == 3 ? ITG_ERROR_UNSUPPORTED : round ? ITG_ERROR_QUANTIZATION : ITG_OK, "extra");
  }
}

static void affines_and_divisions_stay_in_range(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++) {
    extra e = add_extra(ITG_OP_Q_AFFINE, "sum", ITG_DTYPE_U8, SHAPE(1, 6, 6, 4), 3,
                        (itg_tensor *[]){CONSTANT(int32_t, ITG_DTYPE_S32, 1, 1 << 30),
                                         CONSTANT(int64_t, ITG_DTYPE_S64, 1, -((int64_t)1 << 61)),
                                         CONSTANT(int32_t, ITG_DTYPE_S32, 1, 62)});
    e.node->attributes.requantize.high = 255;
    if (round == 1) *(int64_t *)itg_tensor_writable(e.node->inputs[2]) = INT64_MIN;
    if (round == 2) entries(e.node, 3)[0] = 63;
    expect(e.b.graph, round ? ITG_ERROR_QUANTIZATION : ITG_OK, "extra");
  }
  for (int round = 0; round < 4; round++) {
    const uint8_t ones[4] = {1, 1, 1, 1};
    builder scratch = {.graph = builder_small_graph()};
    itg_tensor divisor = {.name = "d", .dtype = ITG_DTYPE_U8, .shape = {1, {4}}, .data = ones};
    divisor.encoding = itg_graph_find(scratch.graph, "sum")->encoding;
    extra e = add_extra(ITG_OP_Q_DIV, "sum", ITG_DTYPE_U8, SHAPE(1, 6, 6, 4), 1, (itg_tensor *[]){&divisor});
    e.node->attributes.q_div = (itg_q_div_attributes){1 << 30, 46, -1, 0, 255};
    if (round == 1) e.node->attributes.q_div.shift = 47;
    if (round == 2) e.node->attributes.q_div.divisor_sign = 0;
    if (round == 3) e.node->attributes.q_div.high = 300;
    expect(e.b.graph, round ? ITG_ERROR_QUANTIZATION : ITG_OK, "extra");
    itg_graph_destroy(scratch.graph);
  }
}

static void windows_and_indices_stay_inside(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++) {
    extra e = add_extra(ITG_OP_MAX_POOL, "sum", ITG_DTYPE_U8, round ? SHAPE(1, 8, 8, 4) : SHAPE(1, 6, 6, 4), 0, NULL);
    itg_pool_attributes *pool = &e.node->attributes.pool;
    pool->layout = ITG_LAYOUT_CHANNELS_LAST;
    pool->window = (itg_window){2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    if (round) pool->window = (itg_window){2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}; // Corners are padding only.
    if (round == 2) pool->window.stride[0] = -1;
    expect(e.b.graph, round ? ITG_ERROR_SHAPE : ITG_OK, "extra");
  }
  for (int round = 0; round < 3; round++) {
    extra e = add_extra(ITG_OP_GATHER, "sum", ITG_DTYPE_U8, SHAPE(1, 6, 2, 4), 1,
                        (itg_tensor *[]){CONSTANT(int32_t, ITG_DTYPE_S32, 2, 5, -6)});
    e.node->attributes.axis.axis = 2;
    if (round) entries(e.node, 1)[1] = round == 1 ? 6 : -7;
    expect(e.b.graph, round ? ITG_ERROR_FORMAT : ITG_OK, "extra");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_small_graph_is_legal),
      cmocka_unit_test(requantization_is_checked),
      cmocka_unit_test(bounds_are_recomputed),
      cmocka_unit_test(block_scales_are_checked),
      cmocka_unit_test(shapes_are_checked),
      cmocka_unit_test(activations_need_encodings),
      cmocka_unit_test(additions_stay_in_range),
      cmocka_unit_test(tables_softmax_and_norms_stay_in_range),
      cmocka_unit_test(affines_and_divisions_stay_in_range),
      cmocka_unit_test(windows_and_indices_stay_inside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
