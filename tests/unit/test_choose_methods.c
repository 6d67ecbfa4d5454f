// Which methods a compile leaves out (compile/choose_methods.h): the one that hurts a network is found, the others stay, and
// nothing is tried where nothing can be learnt.
#include "compile/choose_methods.h"

#include "support/integer_net.h"

enum { SIDE = 16, CHANNELS = 8, COUNT = SIDE * SIDE * CHANNELS };

static const itg_window plain1x1 = {.rank = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};

static itg_tensor *convolution(itg_graph *graph, itg_tensor *x, float gain, float bias, itg_activation activation) {
  const itg_attributes attributes = {
      .conv = {.window = plain1x1, .group = 1, .layout = ITG_LAYOUT_CHANNELS_LAST, .activation = activation}};
  itg_tensor *weight = net_constant(graph, net_shape(4, CHANNELS, 1, 1, CHANNELS), 0, 0);
  for (int c = 0; c < CHANNELS; c++) ((float *)itg_tensor_writable(weight))[c * CHANNELS + c] = gain;
  return NET_NODE(graph, ITG_OP_CONV, attributes, NULL, x, weight,
                  net_constant(graph, net_shape(1, CHANNELS, 0, 0, 0), bias, bias));
}

// Two convolutions that together change nothing, with other codes in between; what lies between `low` and `high` reaches the output.
static itg_graph *window(float low, float high) {
  itg_graph *graph = net_create();
  const itg_activation clip = {.kind = ITG_ACTIVATION_CLIP, .low = 0, .high = high - low};
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, SIDE, SIDE, CHANNELS));
  itg_tensor *same = convolution(graph, x, 0.7f, 0.1f, (itg_activation){0});
  assert_true(itg_graph_add_output(graph, convolution(graph, same, 1 / 0.7f, -0.1f / 0.7f - low, clip)));
  return graph;
}

// Noise, and in a few places of each sample something strong.
static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  if (context) ++*(size_t *)context;
  net_random_state = 1 + index * 7919;
  float *x = inputs[0];
  for (int i = 0; i < COUNT; i++) x[i] = net_uniform(-1, 1);
  for (int i = 0; i < 2; i++) x[net_random() % COUNT] = net_uniform(3.2f, 4);
  return ITG_OK;
}

static itg_methods_off choose(float low, float high, const char *precision, size_t samples, size_t *reads) {
  itg_diagnostic why = {0};
  itg_graph *graph = window(low, high), *copy;
  itg_float_network *network;
  itg_recipe recipe;
  itg_pool *pool;
  assert_int_equal(itg_graph_clone(graph, &why, &copy), ITG_OK);
  assert_int_equal(itg_float_network_from_graph(copy, &why, &network), ITG_OK);
  assert_int_equal(itg_pool_create(1, &why, &pool), ITG_OK);
  assert_int_equal(itg_recipe_builtin(precision, &why, &recipe), ITG_OK);
  *reads = 0;
  const itg_build_options build = {.pool = pool,
                                   .calibration = {.context = reads, .count = samples, .read = read_sample}};
  if (itg_choose_methods(itg_float_network_graph(network), network, &build, &recipe, &why) != ITG_OK)
    fail_msg("%s: %s", why.subject, why.message);
  const itg_methods_off off = recipe.methods_off;
  itg_recipe_free(&recipe);
  itg_pool_destroy(pool);
  itg_float_network_close(network);
  itg_graph_destroy(graph);
  return off;
}

static void what_hurts_is_left_out_and_nothing_else(void **state) {
  (void)state;
  size_t reads;
  assert_int_equal(choose(3, 9, "a8w8+s16", 24, &reads), (itg_methods_off)1 << ITG_METHOD_MSE_RANGES);
  assert_true(reads > 24);
  assert_int_equal(choose(-1, 1, "a8w8+s16", 24, &reads), 0); // What is strong is of no account.
}

static void nothing_is_tried_where_nothing_can_be_learnt(void **state) {
  (void)state;
  size_t reads;
  assert_int_equal(choose(3, 9, "a8w8+s16", 7, &reads), 0); // Too few samples to calibrate and judge.
  assert_int_equal(reads, 0);
  assert_int_equal(choose(3, 9, "a16w8", 24, &reads), 0); // The candidates concern 8-bit operands.
  assert_int_equal(reads, 0);
}

// A convolution and one vector for all positions, which are `side` * `side`.
static itg_graph *one_answer(int64_t side) {
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, side, side, CHANNELS));
  itg_tensor *pooled = NET_NODE(graph, ITG_OP_REDUCE_MEAN, ((itg_attributes){.reduce = {.axes = 6, .keep_dims = 1}}),
                                NULL, convolution(graph, x, 0.7f, 0.1f, (itg_activation){0}));
  assert_true(itg_graph_add_output(graph, convolution(graph, pooled, 0.7f, 0.1f, (itg_activation){0})));
  return graph;
}

static void weights_are_fitted_unless_speed_counts(void **state) {
  (void)state;
  const struct {
    const char *precision;
    size_t samples;
    itg_weight_method expected;
  } cases[] = {{"a16w8", 8, ITG_WEIGHT_FEEDBACK},
               {"a16w8", 7, ITG_WEIGHT_NEAREST},
               {"a8w8+s16", 8, ITG_WEIGHT_FEEDBACK},
               {"a8w8", 64, ITG_WEIGHT_NEAREST},
               {"a16w4", 64, ITG_WEIGHT_FEEDBACK}};
  itg_graph *graph = one_answer(SIDE);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    itg_recipe recipe;
    assert_int_equal(itg_recipe_builtin(cases[i].precision, NULL, &recipe), ITG_OK);
    itg_choose_weight_method(graph, cases[i].samples, &recipe);
    assert_int_equal(recipe.weight_method, cases[i].expected);
    itg_recipe_free(&recipe);
  }
  itg_graph_destroy(graph);
}

static void assert_only_rounded(itg_graph *graph) {
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin("a16w8", NULL, &recipe), ITG_OK);
  itg_choose_weight_method(graph, 64, &recipe);
  assert_int_equal(recipe.weight_method, ITG_WEIGHT_NEAREST);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

static void detectors_are_only_rounded(void **state) {
  (void)state;
  assert_only_rounded(window(0, 1)); // One answer a position.
}

static void large_networks_are_only_rounded(void **state) {
  (void)state;
  assert_only_rounded(one_answer(1 << 15)); // A picture that nobody could walk through 64 times.
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_hurts_is_left_out_and_nothing_else),
      cmocka_unit_test(nothing_is_tried_where_nothing_can_be_learnt),
      cmocka_unit_test(weights_are_fitted_unless_speed_counts),
      cmocka_unit_test(detectors_are_only_rounded),
      cmocka_unit_test(large_networks_are_only_rounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
