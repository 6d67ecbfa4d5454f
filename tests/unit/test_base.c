// Arena, map, shapes, multipliers: the small things that everything stands on.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/map.h"
#include "graph/graph.h"
#include "tensor/multiplier.h"
#include "tensor/requantize.h"

static void arena_gives_zeroed_aligned_memory(void **state) {
  (void)state;
  itg_arena arena = {0};
  for (size_t size = 1; size < 100000; size = size * 3 + 1) {
    unsigned char *memory = itg_arena_allocate(&arena, size);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % (size >= 64 ? 64 : 16), 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(memory[i], 0);
    memset(memory, 0xff, size);
  }
  assert_null(itg_arena_array(&arena, SIZE_MAX / 2, 4));
  itg_arena_free(&arena);
}

static void map_finds_what_was_set(void **state) {
  (void)state;
  static char keys[1000][8];
  itg_map map = {0};
  for (intptr_t i = 0; i < 1000; i++) {
    snprintf(keys[i], sizeof keys[i], "k%d", (int)i);
    assert_true(itg_map_set(&map, keys[i], strlen(keys[i]), (void *)(i + 1)));
  }
  for (intptr_t i = 0; i < 1000; i++) assert_ptr_equal(itg_map_get(&map, keys[i], strlen(keys[i])), (void *)(i + 1));
  assert_null(itg_map_get(&map, "absent", 6));
  itg_map_free(&map);
}

static void multipliers_requantize_within_half_a_code(void **state) {
  (void)state;
  for (double factor = 0x1p-30; factor < 0x1p20; factor *= 1.37) {
    int32_t multiplier, shift;
    assert_true(itg_multiplier_from_double(factor, &multiplier, &shift));
    assert_true(multiplier >= 1 << 30 && shift >= 1 && shift <= 62);
    const int64_t acc = (int64_t)(30000 / factor) % 2000000000;
    const double exact = (double)acc * factor;
    assert_true(fabs(itg_requantize(acc, multiplier, shift, 0, INT32_MIN, INT32_MAX) - exact) < 0.501);
  }
  int32_t multiplier, shift;
  assert_false(itg_multiplier_from_double(INFINITY, &multiplier, &shift));
  assert_true(itg_multiplier_from_double(0x1p-40, &multiplier, &shift));
  assert_int_equal(multiplier, 0);
  assert_int_equal(itg_pre_shift_for_bound(0), 0);
  assert_int_equal(itg_pre_shift_for_bound(0x7fffffff), 0);
  assert_int_equal(itg_pre_shift_for_bound(0x80000000), 1);
}

static void op_table_is_sorted_and_found(void **state) {
  (void)state;
#define ITG_OP(number, name, text, min_inputs, max_inputs, outputs, attribute, flags) \
  assert_string_equal(itg_op_name(number), text);
#include "graph/ops.def"
#undef ITG_OP
  assert_null(itg_op_get_info(0));
  assert_null(itg_op_get_info(100000));
  assert_int_equal(itg_op_get_info(ITG_OP_RELU)->attribute_size, 0);
  assert_int_equal(itg_op_get_info(ITG_OP_CONV)->attribute_size, sizeof(itg_conv_attributes));
}

static void graph_edits_keep_users_right(void **state) {
  (void)state;
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  const itg_shape shape = itg_shape_of(1, (int64_t[]){4});
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_F32, &shape);
  itg_tensor *y = itg_graph_add_tensor(graph, "y", ITG_DTYPE_F32, &shape);
  itg_tensor *z = itg_graph_add_tensor(graph, "y", ITG_DTYPE_F32, &shape);
  assert_string_not_equal(y->name, z->name);
  assert_true(itg_graph_add_input(graph, x) && itg_graph_add_output(graph, z));
  itg_graph_insert_node(graph, NULL, ITG_OP_ADD, "add", (itg_tensor *[]){y, y}, 2, &z, 1);
  itg_node *relu = itg_graph_insert_node(graph, NULL, ITG_OP_RELU, "relu", &x, 1, &y, 1);
  assert_int_equal(y->user_count, 2);
  assert_int_equal(itg_graph_sort(graph, NULL), ITG_OK);
  assert_ptr_equal(graph->first, relu);
  assert_true(itg_graph_replace_uses(graph, y, x));
  assert_int_equal(y->user_count, 0);
  assert_int_equal(x->user_count, 3);
  itg_graph_sweep(graph);
  assert_int_equal(graph->node_count, 1);
  assert_null(itg_graph_find(graph, "y"));
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_gives_zeroed_aligned_memory), cmocka_unit_test(map_finds_what_was_set),
      cmocka_unit_test(multipliers_requantize_within_half_a_code), cmocka_unit_test(op_table_is_sorted_and_found),
      cmocka_unit_test(graph_edits_keep_users_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
