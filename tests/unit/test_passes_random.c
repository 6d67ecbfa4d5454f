// Random graphs of convolutions, pools, movement, reductions and arithmetic: the canonical graph gives the same outputs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "adapt/adapt.h"
#include "passes/passes.h"
#include "support/random_graph.h"

static const char *last_pass;
static void remember_pass(void *context, const char *pass, const itg_graph *graph) {
  (void)context;
  (void)graph;
  last_pass = pass;
}

static void check_random_graphs(int first, int count, int steps) {
  for (int i = first; i < first + count; i++) {
    random_state = (uint64_t)i * 7919 + 3;
    itg_graph *graph = random_graph(random_int(2, steps)), *copy = NULL;
    itg_diagnostic diagnostic = {0};
    assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
    itg_status status = itg_passes_run(copy, remember_pass, NULL, &diagnostic);
    if (status == ITG_OK) status = itg_adapt_run(copy, NULL, &diagnostic);
    if (status != ITG_OK) {
      itg_graph_print(graph, stderr);
      itg_graph_print(copy, stderr);
      fail_msg("graph %d, around %s: %s: %s", i, last_pass, diagnostic.subject, diagnostic.message);
    }
    assert_graphs_equal(graph, copy, 1e-4);
    itg_graph_destroy(copy);
    itg_graph_destroy(graph);
  }
}

static void short_random_graphs_keep_their_meaning(void **state) {
  (void)state;
  check_random_graphs(0, 1000, 5);
}

static void long_random_graphs_keep_their_meaning(void **state) {
  (void)state;
  const char *more = getenv("ITG_RANDOM_GRAPHS");
  check_random_graphs(100000, more ? atoi(more) : 400, 30);
}

// 10^5 nodes: a chain of residual blocks. Quadratic passes would take minutes.
static void large_graphs_take_seconds(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *y = add_input(graph, "x", DIMS(1, 2, 3, 3));
  itg_attributes conv = {.conv = {.window = {2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, .group = 1}};
  itg_tensor *weight = add_random(graph, DIMS(2, 2, 1, 1), -0.1, 0.1);
  for (int i = 0; i < 20000; i++) {
    itg_tensor *branch = add_batch_norm(graph, y, 1);
    branch = ADD_NODE(graph, ITG_OP_CONV, &conv, branch, weight);
    branch = ADD_NODE(graph, ITG_OP_RELU, NULL, branch);
    branch = ADD_NODE(graph, ITG_OP_MUL, NULL, branch, ADD_NODE(graph, ITG_OP_SIGMOID, NULL, branch));
    y = ADD_NODE(graph, ITG_OP_ADD, NULL, y, branch);
  }
  assert_true(itg_graph_add_output(graph, y));
  assert_true(graph->node_count >= 100000);
  const clock_t start = clock();
  assert_int_equal(itg_passes_run(graph, NULL, NULL, NULL), ITG_OK);
  const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  print_message("%.2f s\n", seconds);
  assert_true(seconds < 30);
  assert_true(count_op(graph, ITG_OP_TRANSPOSE) <= 2);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_random_graphs_keep_their_meaning),
      cmocka_unit_test(long_random_graphs_keep_their_meaning),
      cmocka_unit_test(large_graphs_take_seconds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
