// Verification of graphs: what holds, and that each broken rule is found. Also clone and print.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/print.h"
#include "graph/verify.h"

// x -> Conv(w, b) -> Relu -> y
static itg_graph *make_graph(void) {
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  const itg_shape image = itg_shape_of(4, (int64_t[]){1, 4, 4, 2}), out = itg_shape_of(4, (int64_t[]){1, 2, 2, 3});
  const itg_shape weights = itg_shape_of(4, (int64_t[]){3, 3, 3, 2}), bias = itg_shape_of(1, (int64_t[]){3});
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_F32, &image);
  itg_tensor *w = itg_graph_add_constant(graph, "w", ITG_DTYPE_F32, &weights, NULL);
  itg_tensor *b = itg_graph_add_constant(graph, "b", ITG_DTYPE_F32, &bias, NULL);
  itg_tensor *c = itg_graph_add_tensor(graph, "c", ITG_DTYPE_F32, &out);
  itg_tensor *y = itg_graph_add_tensor(graph, "y", ITG_DTYPE_F32, &out);
  assert_true(itg_graph_add_input(graph, x) && itg_graph_add_output(graph, y));
  itg_node *conv = itg_graph_insert_node(graph, NULL, ITG_OP_CONV, "conv", (itg_tensor *[]){x, w, b}, 3, &c, 1);
  conv->attributes.conv = (itg_conv_attributes){
      .window = {2, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}}, .group = 1, .layout = ITG_LAYOUT_CHANNELS_LAST};
  itg_graph_insert_node(graph, NULL, ITG_OP_RELU, "relu", &c, 1, &y, 1);
  return graph;
}

// A pool that is not channels-last.
static itg_graph *make_pool(void) {
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  const itg_shape in = itg_shape_of(4, (int64_t[]){1, 2, 4, 4}), out = itg_shape_of(4, (int64_t[]){1, 2, 2, 2});
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_F32, &in);
  itg_tensor *y = itg_graph_add_tensor(graph, "y", ITG_DTYPE_F32, &out);
  assert_true(itg_graph_add_input(graph, x) && itg_graph_add_output(graph, y));
  itg_node *pool = itg_graph_insert_node(graph, NULL, ITG_OP_MAX_POOL, "pool", &x, 1, &y, 1);
  pool->attributes.pool.window = (itg_window){2, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
  return graph;
}

static void expect(itg_graph *graph, itg_stage stage, itg_status status, const char *subject) {
  itg_diagnostic diagnostic = {0};
  assert_int_equal(itg_graph_verify(graph, stage, &diagnostic), status);
  if (subject) assert_string_equal(diagnostic.subject, subject);
  itg_graph_destroy(graph);
}

static void a_sound_graph_passes(void **state) {
  (void)state;
  expect(make_graph(), ITG_STAGE_IMPORTED, ITG_OK, NULL);
  expect(make_graph(), ITG_STAGE_CANONICAL, ITG_OK, NULL);
}

static void broken_links_are_found(void **state) {
  (void)state;
  itg_graph *graph = make_graph();
  graph->first->next = NULL;
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_FORMAT, NULL);

  graph = make_graph(); // Wrong order.
  itg_node *conv = graph->first, *relu = graph->last;
  graph->first = relu;
  graph->last = conv;
  relu->next = conv;
  conv->previous = relu;
  relu->previous = conv->next = NULL;
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_FORMAT, "relu");

  graph = make_graph(); // A reader that is not listed.
  graph->first->outputs[0]->user_count = 0;
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_FORMAT, "c");

  graph = make_graph(); // An input that nobody writes.
  itg_node_set_output(graph->first, 0, itg_graph_add_tensor(graph, "z", ITG_DTYPE_F32, &graph->outputs[0]->shape));
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_FORMAT, "relu");

  graph = make_graph();
  graph->outputs[0]->name = "x";
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_FORMAT, "x");

  graph = make_graph();
  assert_true(itg_node_resize_inputs(graph, graph->first, 1));
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_FORMAT, "conv");

  graph = make_graph();
  graph->last->op = (itg_op)9999;
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_FORMAT, "relu");
}

static void stage_rules_are_checked(void **state) {
  (void)state;
  itg_graph *graph = make_graph();
  graph->first->attributes.conv.layout = ITG_LAYOUT_CHANNELS_FIRST; // The shapes no longer fit.
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_SHAPE, "conv");
  expect(make_pool(), ITG_STAGE_IMPORTED, ITG_OK, NULL);
  expect(make_pool(), ITG_STAGE_CANONICAL, ITG_ERROR_FORMAT, "pool");
  expect(make_graph(), ITG_STAGE_QUANTIZED, ITG_ERROR_QUANTIZATION, "conv");
  expect(make_graph(), ITG_STAGE_LEGAL, ITG_ERROR_UNSUPPORTED, "conv");

  graph = make_graph();
  const double scale = -1;
  const itg_encoding encoding = {ITG_DTYPE_U8, -1, 1, 0, &scale, NULL};
  graph->inputs[0]->encoding = &encoding;
  expect(graph, ITG_STAGE_IMPORTED, ITG_ERROR_QUANTIZATION, "x");
}

static char *print(const itg_graph *graph) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  assert_non_null(stream);
  itg_graph_print(graph, stream);
  fclose(stream);
  return text;
}

static void clones_are_equal_and_print_names_everything(void **state) {
  (void)state;
  itg_graph *graph = make_graph(), *copy = NULL;
  const double scale = 0.5;
  const int32_t zero = 7;
  const itg_encoding encoding = {ITG_DTYPE_U8, -1, 1, 0, &scale, &zero};
  graph->inputs[0]->encoding = &encoding;
  graph->stage = ITG_STAGE_CANONICAL;
  assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
  assert_int_equal(itg_graph_verify(copy, ITG_STAGE_CANONICAL, NULL), ITG_OK);
  assert_ptr_not_equal(copy->inputs[0]->encoding->scales, &scale);
  char *first = print(graph), *second = print(copy);
  assert_string_equal(first, second);
  assert_non_null(strstr(first, "%x:f32[1x4x4x2]<u8 0.5 z7>"));
  assert_non_null(
      strstr(first, "%c:f32[1x2x2x3] = Conv(%x, %w:f32[3x3x3x2], %b:f32[3]) {kernel 3x3, stride 2x2, pad begin 1x1}"));
  free(first);
  free(second);
  itg_graph_destroy(graph);
  itg_graph_destroy(copy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sound_graph_passes),
      cmocka_unit_test(broken_links_are_found),
      cmocka_unit_test(stage_rules_are_checked),
      cmocka_unit_test(clones_are_equal_and_print_names_everything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
