// Migration of scales and shifts: outputs stay the same, outlier channels disappear from what fully connected layers read, and
// tensors without outliers are left alone.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calibrate/calibrate.h"
#include "support/float_graph.h"

enum { SAMPLES = 6, ROWS = 7, CHANNELS = 24, OUTLIER = 5 };

static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)context;
  (void)diagnostic;
  random_state = 1000 + index;
  for (size_t k = 0; k < ROWS * CHANNELS; k++) ((float *)inputs[0])[k] = random_float(-1, 1);
  return ITG_OK;
}

static itg_tensor *add_layer(itg_graph *graph, itg_tensor *x, int outputs, bool has_bias) {
  itg_tensor *weight = add_random(graph, DIMS(outputs, x->shape.dims[x->shape.rank - 1]), -0.5, 0.5);
  return has_bias ? ADD_NODE(graph, ITG_OP_FULLY_CONNECTED, NULL, x, weight, add_random(graph, DIMS(outputs), -1, 1))
                  : ADD_NODE(graph, ITG_OP_FULLY_CONNECTED, NULL, x, weight);
}

// A norm with one loud and shifted channel, its readers, and with `residual` one more reader that needs the norm as it is.
static itg_graph *norm_network(uint64_t seed, double gain, bool residual) {
  random_state = seed;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(1, ROWS, CHANNELS));
  itg_tensor *gamma = add_random(graph, DIMS(CHANNELS), 0.8, 1.2), *beta = add_random(graph, DIMS(CHANNELS), -0.2, 0.2);
  ((float *)itg_tensor_writable(gamma))[OUTLIER] *= (float)gain;
  if (gain > 1) ((float *)itg_tensor_writable(beta))[OUTLIER] += 5;
  const itg_attributes attributes = {.norm = {.epsilon = 1e-5, .axis = 2}};
  itg_tensor *norm = random_bool() ? ADD_NODE(graph, ITG_OP_LAYER_NORM, &attributes, x, gamma, beta)
                                   : ADD_NODE(graph, ITG_OP_LAYER_NORM, &attributes, x, gamma);
  itg_tensor *y = add_layer(graph, norm, CHANNELS, random_bool()), *z = add_layer(graph, norm, CHANNELS, random_bool());
  itg_tensor *sum = ADD_NODE(graph, ITG_OP_ADD, NULL, y, z);
  if (residual) sum = ADD_NODE(graph, ITG_OP_ADD, NULL, sum, norm);
  assert_true(itg_graph_add_output(graph, sum));
  return graph;
}

static int count_nodes(const itg_graph *graph, itg_op op) {
  int count = 0;
  ITG_FOR_EACH_NODE(node, graph) count += node->op == op;
  return count;
}

// The range of what the first fully connected layer reads.
static double width_of_operand(const itg_graph *graph, const itg_statistics *statistics) {
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op != ITG_OP_FULLY_CONNECTED) continue;
    const itg_tensor_statistics *entry = itg_statistics_of(statistics, node->inputs[0]);
    assert_non_null(entry);
    assert_non_null(entry->histogram);
    return entry->high - entry->low;
  }
  return 0;
}

static itg_statistics *equalize(itg_graph *graph, itg_equalization equalization) {
  itg_diagnostic why;
  itg_statistics *statistics;
  const itg_sample_source source = {NULL, SAMPLES, read_sample};
  if (itg_calibrate_and_equalize(graph, &equalization, &source, NULL, NULL, NULL, &why, &statistics) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  return statistics;
}

// Equalizes a clone and compares it with its source. Returns how many times narrower the operand became.
static double narrowed(const itg_graph *graph, itg_equalization equalization, int *affines) {
  itg_graph *changed;
  assert_int_equal(itg_graph_clone(graph, NULL, &changed), ITG_OK);
  itg_statistics *after = equalize(changed, equalization);
  itg_statistics *before = NULL;
  const itg_sample_source source = {NULL, SAMPLES, read_sample};
  assert_int_equal(itg_calibrate(graph, &source, NULL, NULL, NULL, NULL, &before), ITG_OK);
  assert_graphs_equal(graph, changed, 1e-5);
  *affines = count_nodes(changed, ITG_OP_AFFINE);
  const double ratio = width_of_operand(graph, before) / width_of_operand(changed, after);
  itg_statistics_destroy(before);
  itg_statistics_destroy(after);
  itg_graph_destroy(changed);
  return ratio;
}

static void norms_take_scale_and_shift_when_nobody_else_reads_them(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    itg_graph *graph = norm_network(seed, 20, false);
    int affines;
    assert_true(narrowed(graph, (itg_equalization){.operand_bits = 8}, &affines) > 3);
    assert_int_equal(affines, 0);
    itg_graph_destroy(graph);
  }
}

static void an_affine_serves_the_readers_when_others_need_the_norm(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    itg_graph *graph = norm_network(seed, 20, true);
    int affines;
    assert_true(narrowed(graph, (itg_equalization){.operand_bits = 8, .wide_stream = true}, &affines) > 3);
    assert_int_equal(affines, 1);
    // Without 16-bit tensors beside the operands the affine would read what has lost its bits already.
    assert_true(narrowed(graph, (itg_equalization){.operand_bits = 8}, &affines) == 1);
    assert_int_equal(affines, 0);
    itg_graph_destroy(graph);
  }
}

static void what_needs_no_migration_is_left_alone(void **state) {
  (void)state;
  itg_graph *quiet = norm_network(3, 1, true), *loud = norm_network(3, 20, false);
  const itg_methods_off off = (itg_methods_off)1 << ITG_METHOD_SCALE_MIGRATION;
  int affines;
  assert_true(narrowed(quiet, (itg_equalization){.operand_bits = 8, .wide_stream = true}, &affines) == 1);
  assert_int_equal(affines, 0);
  assert_true(narrowed(loud, (itg_equalization){.operand_bits = 8, .methods_off = off}, &affines) == 1);
  itg_graph_destroy(quiet);
  itg_graph_destroy(loud);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms_take_scale_and_shift_when_nobody_else_reads_them),
      cmocka_unit_test(an_affine_serves_the_readers_when_others_need_the_norm),
      cmocka_unit_test(what_needs_no_migration_is_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
