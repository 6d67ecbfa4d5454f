// The plan: buffers that live at the same time never overlap, and every node becomes the task that its operation means.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "container/container.h"
#include "intaglio/intaglio.h"
#include "plan/memory.h"
#include "plan/plan.h"
#include "support/integer_graph.h"

static void buffers_alive_together_do_not_overlap(void **state) {
  (void)state;
  builder random = {.seed = 11};
  for (int round = 0; round < 200; round++) {
    itg_buffer buffers[60];
    const size_t count = 1 + builder_random(&random) % 60;
    size_t sum = 0, total = 0;
    for (size_t i = 0; i < count; i++) {
      const int64_t first = builder_random(&random) % 30;
      buffers[i] = (itg_buffer){
          .size = 64 * (1 + builder_random(&random) % 50), .first = first, .last = first + builder_random(&random) % 8};
      sum += buffers[i].size;
    }
    assert_int_equal(itg_memory_place(buffers, count, NULL, &total), ITG_OK);
    assert_true(total <= sum);
    for (size_t i = 0; i < count; i++) {
      assert_int_equal(buffers[i].offset % 64, 0);
      assert_true(buffers[i].offset + buffers[i].size <= total);
      for (size_t j = 0; j < i; j++) {
        const bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        const bool apart = buffers[i].offset + buffers[i].size <= buffers[j].offset ||
                           buffers[j].offset + buffers[j].size <= buffers[i].offset;
        assert_true(!together || apart);
      }
    }
  }
}

static void a_chain_needs_two_buffers(void **state) {
  (void)state;
  itg_buffer buffers[10];
  size_t total = 0;
  for (int i = 0; i < 10; i++) buffers[i] = (itg_buffer){.size = 1024, .first = i, .last = i + 1};
  assert_int_equal(itg_memory_place(buffers, 10, NULL, &total), ITG_OK);
  assert_int_equal(total, 2048);
  buffers[3].size = SIZE_MAX - 100;
  assert_int_equal(itg_memory_place(buffers, 10, NULL, &total), ITG_ERROR_LIMIT);
}

// A graph of one node from u8 inputs (and constants) to one output.
typedef struct fixture {
  builder b;
  itg_tensor *inputs[4], *output;
  int input_count;
} fixture;

static fixture start(void) {
  fixture f = {.b = {.seed = 3}};
  assert_int_equal(itg_graph_create(NULL, &f.b.graph), ITG_OK);
  f.b.graph->stage = ITG_STAGE_LEGAL;
  return f;
}

static itg_tensor *add_input(fixture *f, itg_shape shape) {
  itg_tensor *tensor = builder_activation(&f->b, "x", ITG_DTYPE_U8, 0.1, 9, shape);
  assert_true(itg_graph_add_input(f->b.graph, tensor));
  return f->inputs[f->input_count++] = tensor;
}

static itg_node *add_node(fixture *f, itg_op op, int count, itg_tensor *const *inputs, itg_shape shape) {
  f->output = builder_activation(&f->b, "y", ITG_DTYPE_U8, 0.1, 9, shape);
  itg_node *node = builder_node(&f->b, op, "node", count, inputs, f->output);
  assert_true(itg_graph_add_output(f->b.graph, f->output));
  return node;
}

// Input i holds (position*37 + 11*i) mod 251. Runs the graph through a file and frees it; returns the codes.
static uint8_t code_at(int input, int64_t position) { return (uint8_t)((position * 37 + 11 * input) % 251); }

static uint8_t *run(fixture *f, size_t *steps) {
  uint8_t *bytes = NULL;
  size_t size = 0, count = 0;
  itg_diagnostic diagnostic = {0};
  itg_status status = itg_container_encode(f->b.graph, NULL, 0, &diagnostic, &bytes, &size);
  if (status != ITG_OK) print_error("%s: %s\n", diagnostic.subject, diagnostic.message);
  assert_int_equal(status, ITG_OK);
  itg_model *model = NULL;
  itg_session *session = NULL;
  assert_int_equal(itg_model_open_memory(bytes, size, NULL, &model), ITG_OK);
  assert_int_equal(itg_session_create(model, NULL, NULL, &session), ITG_OK);
  for (int i = 0; i < f->input_count; i++) {
    assert_true(itg_shape_count(&f->inputs[i]->shape, &count));
    uint8_t *codes = malloc(count);
    for (size_t j = 0; j < count; j++) codes[j] = code_at(i, (int64_t)j);
    assert_int_equal(itg_session_set_input_codes(session, (size_t)i, codes, count, NULL), ITG_OK);
    free(codes);
  }
  assert_int_equal(itg_session_run(session, NULL), ITG_OK);
  assert_true(itg_shape_count(&f->output->shape, &count));
  uint8_t *out = malloc(count);
  assert_int_equal(itg_session_get_output_codes(session, 0, out, count, NULL), ITG_OK);
  if (steps) *steps = itg_session_step_count(session);
  itg_session_destroy(session);
  itg_model_close(model);
  free(bytes);
  itg_graph_destroy(f->b.graph);
  return out;
}

static void transpose_moves_codes(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(2, 3, 4, 5));
  itg_node *node = add_node(&f, ITG_OP_TRANSPOSE, 1, &x, SHAPE(2, 4, 5, 3));
  node->attributes.permutation = (itg_permutation_attributes){{0, 2, 3, 1}};
  uint8_t *y = run(&f, NULL);
  int64_t at = 0;
  for (int n = 0; n < 2; n++)
    for (int h = 0; h < 4; h++)
      for (int w = 0; w < 5; w++)
        for (int c = 0; c < 3; c++) assert_int_equal(y[at++], code_at(0, ((n * 3 + c) * 4 + h) * 5 + w));
  free(y);
}

static void a_transpose_that_moves_nothing_is_no_step(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(1, 1, 4, 5));
  itg_node *node = add_node(&f, ITG_OP_TRANSPOSE, 1, &x, SHAPE(1, 4, 5, 1));
  node->attributes.permutation = (itg_permutation_attributes){{0, 2, 3, 1}};
  size_t steps = 9;
  uint8_t *y = run(&f, &steps);
  assert_int_equal(steps, 0);
  for (int i = 0; i < 20; i++) assert_int_equal(y[i], code_at(0, i));
  free(y);
}

static void slice_walks_forward_and_backward(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(6, 7));
  itg_node *node = add_node(&f, ITG_OP_SLICE, 1, &x, SHAPE(2, 3));
  node->attributes.slice = (itg_slice_attributes){{1, 6}, {3, -2}};
  uint8_t *y = run(&f, NULL);
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++) assert_int_equal(y[i * 3 + j], code_at(0, (1 + 3 * i) * 7 + 6 - 2 * j));
  free(y);
}

static void the_step_of_a_single_element_may_be_huge(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(6, 7));
  itg_node *node = add_node(&f, ITG_OP_SLICE, 1, &x, SHAPE(1, 3));
  node->attributes.slice = (itg_slice_attributes){{2, 1}, {INT64_MAX / 3, 2}};
  uint8_t *y = run(&f, NULL);
  for (int j = 0; j < 3; j++) assert_int_equal(y[j], code_at(0, 2 * 7 + 1 + 2 * j));
  free(y);
}

static void expand_and_tile_repeat(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(3, 1));
  add_node(&f, ITG_OP_EXPAND, 1, &x, SHAPE(2, 3, 4));
  uint8_t *y = run(&f, NULL);
  for (int i = 0; i < 24; i++) assert_int_equal(y[i], code_at(0, i / 4 % 3));
  free(y);
  f = start();
  x = add_input(&f, SHAPE(2, 3));
  add_node(&f, ITG_OP_TILE, 1, &x, SHAPE(4, 9));
  y = run(&f, NULL);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 9; j++) assert_int_equal(y[i * 9 + j], code_at(0, i % 2 * 3 + j % 3));
  free(y);
}

static void blocks_move_between_depth_and_space(void **state) {
  (void)state;
  for (int mode = 0; mode < 2; mode++) { // Channels last, depth 3, block 2: DCR and CRD.
    fixture f = start();
    itg_tensor *x = add_input(&f, SHAPE(1, 2, 3, 12));
    itg_node *node = add_node(&f, ITG_OP_DEPTH_TO_SPACE, 1, &x, SHAPE(1, 4, 6, 3));
    node->attributes.block = (itg_block_attributes){2, ITG_LAYOUT_CHANNELS_LAST, mode, 0};
    uint8_t *y = run(&f, NULL);
    for (int h = 0; h < 4; h++)
      for (int w = 0; w < 6; w++)
        for (int c = 0; c < 3; c++) {
          const int i = h % 2, j = w % 2, channel = mode ? c * 4 + i * 2 + j : (i * 2 + j) * 3 + c;
          assert_int_equal(y[(h * 6 + w) * 3 + c], code_at(0, ((h / 2) * 3 + w / 2) * 12 + channel));
        }
    free(y);
  }
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(1, 4, 6, 3));
  itg_node *node = add_node(&f, ITG_OP_SPACE_TO_DEPTH, 1, &x, SHAPE(1, 2, 3, 12));
  node->attributes.block = (itg_block_attributes){2, ITG_LAYOUT_CHANNELS_LAST, 0, 0};
  uint8_t *y = run(&f, NULL);
  for (int h = 0; h < 2; h++)
    for (int w = 0; w < 3; w++)
      for (int c = 0; c < 12; c++)
        assert_int_equal(y[(h * 3 + w) * 12 + c], code_at(0, ((h * 2 + c / 6) * 6 + w * 2 + c / 3 % 2) * 3 + c % 3));
  free(y);
}

static void concat_joins_along_any_axis(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *inputs[3] = {add_input(&f, SHAPE(2, 2, 3)), add_input(&f, SHAPE(2, 1, 3))};
  inputs[2] = inputs[0]; // The same tensor twice.
  add_node(&f, ITG_OP_CONCAT, 3, inputs, SHAPE(2, 5, 3))->attributes.axis.axis = 1;
  uint8_t *y = run(&f, NULL);
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 5; j++)
      for (int k = 0; k < 3; k++)
        assert_int_equal(y[(i * 5 + j) * 3 + k], j == 2  ? code_at(1, i * 3 + k)
                                                 : j < 2 ? code_at(0, (i * 2 + j) * 3 + k)
                                                         : code_at(0, (i * 2 + j - 3) * 3 + k));
  free(y);
}

static void pad_and_gather_find_their_codes(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(2, 3));
  itg_node *node = add_node(&f, ITG_OP_PAD, 1, &x, SHAPE(4, 4));
  node->attributes.pad = (itg_pad_attributes){.begin = {1, 2}, .end = {1, -1}, .code = 200};
  uint8_t *y = run(&f, NULL);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      const bool inside = i >= 1 && i < 3 && j >= 2;
      assert_int_equal(y[i * 4 + j], inside ? code_at(0, (i - 1) * 3 + j - 2) : 200);
    }
  free(y);
  f = start();
  itg_tensor *inputs[2] = {add_input(&f, SHAPE(2, 4, 3))};
  inputs[1] = itg_graph_add_constant(f.b.graph, "i", ITG_DTYPE_S32, &(itg_shape){1, {2}}, (int32_t[]){3, -3});
  add_node(&f, ITG_OP_GATHER, 2, inputs, SHAPE(2, 2, 3))->attributes.axis.axis = 1;
  y = run(&f, NULL);
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      for (int k = 0; k < 3; k++) assert_int_equal(y[(i * 2 + j) * 3 + k], code_at(0, (i * 4 + (j ? 1 : 3)) * 3 + k));
  free(y);
}

static void a_constant_takes_part_like_an_activation(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *inputs[2] = {add_input(&f, SHAPE(2, 3, 4))};
  uint8_t codes[3] = {10, 100, 250};
  inputs[1] = itg_graph_add_constant(f.b.graph, "c", ITG_DTYPE_U8, &(itg_shape){2, {3, 1}}, codes);
  inputs[1]->encoding = inputs[0]->encoding;
  add_node(&f, ITG_OP_MAX, 2, inputs, SHAPE(2, 3, 4));
  uint8_t *y = run(&f, NULL);
  for (int i = 0; i < 24; i++) {
    const uint8_t x = code_at(0, i), c = codes[i / 4 % 3];
    assert_int_equal(y[i], x > c ? x : c);
  }
  free(y);
}

static void matrix_products_broadcast(void **state) {
  (void)state;
  for (int transposed = 0; transposed < 2; transposed++) {
    fixture f = start();
    itg_tensor *inputs[2] = {add_input(&f, SHAPE(2, 1, 3, 5)),
                             add_input(&f, transposed ? SHAPE(4, 2, 5) : SHAPE(4, 5, 2))};
    itg_node *node = add_node(&f, ITG_OP_Q_MATMUL, 2, inputs, SHAPE(2, 4, 3, 2));
    node->attributes.requantize =
        (itg_requantize_attributes){.multiplier = 1 << 30, .shift = 41, .high = 255, .transpose_b = transposed};
    uint8_t *y = run(&f, NULL);
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 4; j++)
        for (int m = 0; m < 3; m++)
          for (int n = 0; n < 2; n++) {
            int64_t acc = 0;
            for (int k = 0; k < 5; k++)
              acc += (code_at(0, (i * 3 + m) * 5 + k) - 9) *
                     (code_at(1, j * 10 + (transposed ? n * 5 + k : k * 2 + n)) - 9);
            const int64_t code = 9 + ((acc + 1024) >> 11);
            assert_int_equal(y[((i * 4 + j) * 3 + m) * 2 + n], code < 0 ? 0 : code > 255 ? 255 : code);
          }
    free(y);
  }
}

static void sums_run_over_any_axes(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(2, 3, 4));
  itg_node *node = add_node(&f, ITG_OP_Q_REDUCE_SUM, 1, &x, SHAPE(1, 3, 1));
  node->attributes.requantize =
      (itg_requantize_attributes){.multiplier = 1 << 30, .shift = 33, .high = 255, .axes = 1 | 4};
  uint8_t *y = run(&f, NULL);
  for (int j = 0; j < 3; j++) {
    int64_t sum = 0;
    for (int i = 0; i < 2; i++)
      for (int k = 0; k < 4; k++) sum += code_at(0, (i * 3 + j) * 4 + k) - 9;
    assert_int_equal(y[j], 9 + ((sum + 4) >> 3));
  }
  free(y);
}

static void plans_reuse_memory(void **state) {
  (void)state;
  fixture f = start();
  itg_tensor *x = add_input(&f, SHAPE(1, 64, 64, 4));
  for (int i = 0; i < 6; i++) {
    itg_tensor *y = builder_activation(&f.b, "y", ITG_DTYPE_U8, 0.1, 9, x->shape);
    builder_table(&f.b, "table", x, y);
    x = y;
  }
  assert_true(itg_graph_add_output(f.b.graph, x));
  itg_plan *plan = NULL;
  assert_int_equal(itg_plan_create(f.b.graph, 1, NULL, &plan), ITG_OK);
  assert_int_equal(plan->step_count, 6);
  assert_true(plan->activation_bytes <= 3 * (64 * 64 * 4 + 64)); // The input, which stays, and two others in turn.
  itg_plan_destroy(plan);
  itg_graph_destroy(f.b.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_alive_together_do_not_overlap),
      cmocka_unit_test(a_chain_needs_two_buffers),
      cmocka_unit_test(transpose_moves_codes),
      cmocka_unit_test(a_transpose_that_moves_nothing_is_no_step),
      cmocka_unit_test(slice_walks_forward_and_backward),
      cmocka_unit_test(the_step_of_a_single_element_may_be_huge),
      cmocka_unit_test(expand_and_tile_repeat),
      cmocka_unit_test(blocks_move_between_depth_and_space),
      cmocka_unit_test(concat_joins_along_any_axis),
      cmocka_unit_test(pad_and_gather_find_their_codes),
      cmocka_unit_test(a_constant_takes_part_like_an_activation),
      cmocka_unit_test(matrix_products_broadcast),
      cmocka_unit_test(sums_run_over_any_axes),
      cmocka_unit_test(plans_reuse_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
