// Perplexity, divergence and agreement of token distributions; sequences joined and lengthened.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "compile/language/perplexity.h"
#include "graph/infer.h"
#include "graph/sequence.h"

static void equal_distributions_do_not_diverge(void **state) {
  (void)state;
  itg_token_accuracy accuracy = {0};
  const float logits[4] = {1, 5, -2, 0.5f};
  for (int i = 0; i < 3; i++)
    assert_int_equal(itg_token_accuracy_add(&accuracy, logits, logits, 4, i == 2 ? -1 : i, NULL), ITG_OK);
  const itg_token_summary summary = itg_token_accuracy_summary(&accuracy);
  assert_true(summary.positions == 3 && summary.tokens == 2);
  assert_true(summary.ratio == 1 && summary.divergence_mean < 1e-7 && summary.top1 == 1);
  itg_token_accuracy_free(&accuracy);
}

static void measures_follow_their_formulas(void **state) {
  (void)state;
  itg_token_accuracy accuracy = {0};
  const float reference[3] = {0, 1, 2}, result[3] = {2, 1, 0};
  assert_int_equal(itg_token_accuracy_add(&accuracy, reference, result, 3, 2, NULL), ITG_OK);
  const double sum = exp(0) + exp(1) + exp(2), p[3] = {exp(0) / sum, exp(1) / sum, exp(2) / sum};
  double divergence = 0;
  for (int i = 0; i < 3; i++) divergence += p[i] * log(p[i] / p[2 - i]);
  const itg_token_summary summary = itg_token_accuracy_summary(&accuracy);
  assert_true(fabs(summary.float_perplexity - 1 / p[2]) < 1e-5);
  assert_true(fabs(summary.integer_perplexity - 1 / p[0]) < 1e-4);
  assert_true(fabs(summary.divergence_mean - divergence) < 1e-5);
  assert_true(summary.top1 == 0);
  itg_token_accuracy_free(&accuracy);
}

// x [1,T,4] -> Relu -> reshape [1,T,2,2] -> named output.
static itg_graph *part(const char *input, const char *output, int64_t rows) {
  itg_graph *graph = NULL;
  assert_int_equal(itg_graph_create(NULL, &graph), ITG_OK);
  const itg_shape flat = itg_shape_of(3, (const int64_t[]){1, rows, 4}),
                  split = itg_shape_of(4, (const int64_t[]){1, rows, 2, 2});
  itg_tensor *x = itg_graph_add_tensor(graph, input, ITG_DTYPE_F32, &flat);
  itg_tensor *inner = itg_graph_add_tensor(graph, "inner", ITG_DTYPE_F32, &flat);
  itg_tensor *heads = itg_graph_add_tensor(graph, "heads", ITG_DTYPE_F32, &split);
  itg_tensor *y = itg_graph_add_tensor(graph, output, ITG_DTYPE_F32, &flat);
  assert_true(itg_graph_add_input(graph, x));
  assert_non_null(itg_graph_insert_node(graph, NULL, ITG_OP_RELU, "relu", &x, 1, &inner, 1));
  assert_non_null(itg_graph_insert_node(graph, NULL, ITG_OP_RESHAPE, "split", &inner, 1, &heads, 1));
  assert_non_null(itg_graph_insert_node(graph, NULL, ITG_OP_RESHAPE, "join", &heads, 1, &y, 1));
  ITG_FOR_EACH_NODE(node, graph) { assert_int_equal(itg_infer_node(node, NULL), ITG_OK); }
  assert_true(itg_graph_add_output(graph, y));
  return graph;
}

static void graphs_take_another_length_and_join(void **state) {
  (void)state;
  itg_graph *first = part("a", "b", 5), *second = part("b", "c", 5), *whole = NULL;
  itg_tensor *output;
  assert_int_equal(itg_graph_set_rows(first, 7, 9, NULL), ITG_OK);
  assert_int_equal(first->outputs[0]->shape.dims[1], 7);
  assert_int_equal(itg_graph_find(first, "heads")->shape.dims[1], 7);
  assert_int_equal(itg_graph_set_rows(first, 8, 7, NULL), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_graph_create(NULL, &whole), ITG_OK);
  assert_int_equal(itg_graph_append(whole, first, NULL, &output), ITG_OK);
  assert_string_equal(output->name, "b");
  assert_int_equal(itg_graph_append(whole, second, NULL, &output), ITG_ERROR_SHAPE); // 5 rows behind 7.
  itg_graph_destroy(whole);
  assert_int_equal(itg_graph_set_rows(second, 7, 7, NULL), ITG_OK);
  assert_int_equal(itg_graph_create(NULL, &whole), ITG_OK);
  assert_int_equal(itg_graph_append(whole, first, NULL, NULL), ITG_OK);
  assert_int_equal(itg_graph_append(whole, second, NULL, &output), ITG_OK);
  assert_true(whole->input_count == 1 && whole->node_count == 6);
  assert_string_equal(output->name, "c");
  assert_ptr_equal(itg_graph_find(whole, "b")->users[0]->outputs[0]->producer, itg_graph_find(whole, "b")->users[0]);
  itg_graph_destroy(whole);
  itg_graph_destroy(first);
  itg_graph_destroy(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(equal_distributions_do_not_diverge),
                                     cmocka_unit_test(measures_follow_their_formulas),
                                     cmocka_unit_test(graphs_take_another_length_and_join)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
