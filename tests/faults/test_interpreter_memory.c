// Memory of the interpreter: every allocation may fail without harm, and running allocates nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "faults/fail_allocation.h"

#include "interpret/interpret.h"

// Convolution, activation, resize, matrix product, reshape, reduction, half constants: every kind of preparation.
static itg_graph *make_graph(void) {
  itg_graph *graph = NULL;
  if (itg_graph_create(NULL, &graph) != ITG_OK) return NULL;
  const itg_shape x_shape = itg_shape_of(4, (const int64_t[]){1, 6, 6, 3}),
                  w_shape = itg_shape_of(4, (const int64_t[]){8, 3, 3, 3});
  const itg_shape y_shape = itg_shape_of(4, (const int64_t[]){1, 6, 6, 8}),
                  big = itg_shape_of(4, (const int64_t[]){1, 12, 12, 8});
  const itg_shape flat = itg_shape_of(2, (const int64_t[]){144, 8}), matrix = itg_shape_of(2, (const int64_t[]){5, 8});
  const itg_shape product = itg_shape_of(2, (const int64_t[]){144, 5}), sum = itg_shape_of(1, (const int64_t[]){144});
  const itg_shape half_shape = itg_shape_of(1, (const int64_t[]){5});
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_F32, &x_shape);
  itg_tensor *w = itg_graph_add_constant(graph, "w", ITG_DTYPE_F32, &w_shape, NULL);
  itg_tensor *c = itg_graph_add_tensor(graph, "c", ITG_DTYPE_F32, &y_shape);
  itg_tensor *r = itg_graph_add_tensor(graph, "r", ITG_DTYPE_F32, &big);
  itg_tensor *f = itg_graph_add_tensor(graph, "f", ITG_DTYPE_F32, &flat);
  itg_tensor *m = itg_graph_add_constant(graph, "m", ITG_DTYPE_F32, &matrix, NULL);
  itg_tensor *p = itg_graph_add_tensor(graph, "p", ITG_DTYPE_F32, &product);
  itg_tensor *h = itg_graph_add_constant(graph, "h", ITG_DTYPE_F16, &half_shape, NULL);
  itg_tensor *g = itg_graph_add_tensor(graph, "g", ITG_DTYPE_F32, &product);
  itg_tensor *s = itg_graph_add_tensor(graph, "s", ITG_DTYPE_F32, &sum);
  itg_node *conv = itg_graph_insert_node(graph, NULL, ITG_OP_CONV, "conv", (itg_tensor *[]){x, w}, 2, &c, 1);
  conv->attributes.conv = (itg_conv_attributes){.window = {2, {3, 3, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
                                                .group = 1,
                                                .layout = ITG_LAYOUT_CHANNELS_LAST};
  itg_node *resize = itg_graph_insert_node(graph, NULL, ITG_OP_RESIZE, "resize", &c, 1, &r, 1);
  resize->attributes.resize = (itg_resize_attributes){.mode = ITG_RESIZE_LINEAR, .scale = {1, 2, 2, 1}};
  itg_graph_insert_node(graph, NULL, ITG_OP_RESHAPE, "flat", &r, 1, &f, 1);
  itg_node *product_node =
      itg_graph_insert_node(graph, NULL, ITG_OP_FULLY_CONNECTED, "product", (itg_tensor *[]){f, m}, 2, &p, 1);
  product_node->attributes.conv.group = 1;
  itg_graph_insert_node(graph, NULL, ITG_OP_ADD, "add", (itg_tensor *[]){p, h}, 2, &g, 1);
  itg_node *reduce = itg_graph_insert_node(graph, NULL, ITG_OP_REDUCE_SUM, "reduce", &g, 1, &s, 1);
  reduce->attributes.reduce = (itg_reduce_attributes){2, 0};
  itg_graph_add_input(graph, x);
  itg_graph_add_output(graph, s);
  return graph;
}

static itg_status run_once(const itg_graph *graph, itg_diagnostic *diagnostic, long *allocations_of_run) {
  itg_interpreter *interpreter = NULL;
  itg_interpreter_state *state = NULL;
  itg_status status = itg_interpreter_create(graph, diagnostic, &interpreter);
  if (status == ITG_OK) status = itg_interpreter_state_create(interpreter, diagnostic, &state);
  if (status == ITG_OK) {
    const float x[108] = {0};
    float y[144];
    const long before = allocation_count();
    status = itg_interpreter_run(state, (const void *const[]){x}, (void *const[]){y}, NULL, NULL, diagnostic);
    *allocations_of_run = allocation_count() - before;
  }
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  return status;
}

static itg_status fold_once(const itg_graph *graph, itg_diagnostic *diagnostic, long *allocations_of_run) {
  (void)graph;
  (void)allocations_of_run;
  itg_graph *constants = NULL;
  itg_status status = itg_graph_create(diagnostic, &constants);
  if (status != ITG_OK) return status;
  const itg_shape shape = itg_shape_of(2, (const int64_t[]){16, 16});
  itg_tensor *a = itg_graph_add_constant(constants, "a", ITG_DTYPE_F16, &shape, NULL);
  itg_tensor *y = itg_graph_add_tensor(constants, "y", ITG_DTYPE_F16, &shape);
  itg_node *node =
      a && y ? itg_graph_insert_node(constants, NULL, ITG_OP_MATMUL, "n", (itg_tensor *[]){a, a}, 2, &y, 1) : NULL;
  uint16_t out[256];
  if (node)
    status = itg_interpret_node(node, (void *const[]){out}, diagnostic);
  else
    status = diagnostic->status = ITG_ERROR_MEMORY; // Building does not fill the diagnostic.
  itg_graph_destroy(constants);
  return status;
}

typedef itg_status (*attempt)(const itg_graph *graph, itg_diagnostic *diagnostic, long *allocations_of_run);

// Lets the first, second, third, .. allocation fail until one attempt gets through.
static void every_failure_is_clean(attempt function) {
  itg_graph *graph = make_graph();
  assert_non_null(graph);
  const long before = live_blocks();
  long number = 1, allocations_of_run = -1;
  for (;; number++) {
    itg_diagnostic diagnostic = {0};
    fail_allocation(number);
    const itg_status status = function(graph, &diagnostic, &allocations_of_run);
    const bool reached = !fail_is_pending();
    fail_allocation(0);
    assert_int_equal(live_blocks(), before);
    if (!reached) {
      assert_int_equal(status, ITG_OK);
      break;
    }
    assert_int_equal(status, ITG_ERROR_MEMORY);
    assert_int_equal(diagnostic.status, ITG_ERROR_MEMORY);
  }
  assert_true(number > 4);
  if (function == run_once) assert_int_equal(allocations_of_run, 0);
  itg_graph_destroy(graph);
}

static void creating_survives_every_failure_and_running_allocates_nothing(void **state) {
  (void)state;
  every_failure_is_clean(run_once);
}
static void folding_survives_every_failure(void **state) {
  (void)state;
  every_failure_is_clean(fold_once);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(creating_survives_every_failure_and_running_allocates_nothing),
      cmocka_unit_test(folding_survives_every_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
