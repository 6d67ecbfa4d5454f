// Re-basing of streams: outputs stay the same, channels become equally loud, statistics are those of the new graph,
// and streams that cannot take the gains are left alone.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapt/adapt.h"
#include "calibrate/calibrate.h"
#include "support/float_graph.h"

enum { SAMPLES = 5, HEIGHT = 5, WIDTH = 4, MOST_CHANNELS = 16 };

static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_graph *graph = context;
  random_state = 1000 + index;
  for (int32_t i = 0; i < graph->input_count; i++) {
    size_t count;
    assert_true(itg_shape_count(&graph->inputs[i]->shape, &count));
    for (size_t k = 0; k < count; k++) ((float *)inputs[i])[k] = random_float(-1, 1);
  }
  return ITG_OK;
}

// operand_bits 0: without re-basing.
static itg_statistics *calibrate(itg_graph *graph, int32_t operand_bits) {
  itg_diagnostic why;
  itg_statistics *statistics = NULL;
  const itg_sample_source source = {graph, SAMPLES, read_sample};
  const itg_equalization equalization = {.operand_bits = operand_bits};
  const itg_status status =
      operand_bits ? itg_calibrate_and_equalize(graph, &equalization, &source, NULL, NULL, NULL, &why, &statistics)
                   : itg_calibrate(graph, &source, NULL, NULL, NULL, &why, &statistics);
  if (status != ITG_OK) fail_msg("%s: %s", why.subject, why.message);
  return statistics;
}

// Positive factors with a spread of many powers of two.
static itg_tensor *add_gains(itg_graph *graph, int channels, const float *gains, bool invert) {
  itg_tensor *tensor = add_random(graph, DIMS(channels), 0.7, 1.4);
  for (int c = 0; c < channels; c++) ((float *)itg_tensor_writable(tensor))[c] *= invert ? 1 / gains[c] : gains[c];
  return tensor;
}

// A convolution whose output channels are as loud as `gains` says (NULL: all alike).
static itg_tensor *add_conv(itg_graph *graph, itg_tensor *x, int channels, int group, const float *gains) {
  const int width = (int)x->shape.dims[3] / group, kernel = group > 1 || random_bool() ? 3 : 1;
  itg_attributes attributes = {
      .conv = {.window = {2, {kernel, kernel}, {1, 1}, {1, 1}, {kernel / 2, kernel / 2}, {kernel / 2, kernel / 2}},
               .group = group,
               .layout = ITG_LAYOUT_CHANNELS_LAST}};
  itg_tensor *weight = add_random(graph, DIMS(channels, kernel, kernel, width), -0.5, 0.5);
  itg_tensor *bias = add_random(graph, DIMS(channels), -0.5, 0.5), *slope = NULL;
  for (int i = 0; gains && i < channels * kernel * kernel * width; i++)
    ((float *)itg_tensor_writable(weight))[i] *= gains[i / (kernel * kernel * width)];
  for (int i = 0; gains && i < channels; i++) ((float *)itg_tensor_writable(bias))[i] *= gains[i];
  switch (random_int(0, 3)) {
  case 0:
    attributes.conv.activation.kind = ITG_ACTIVATION_PRELU;
    slope = add_random(graph, DIMS(channels), -0.2, 0.5);
    break;
  case 1: attributes.conv.activation = (itg_activation){.kind = ITG_ACTIVATION_CLIP, .high = INFINITY}; break;
  case 2: attributes.conv.activation = (itg_activation){.kind = ITG_ACTIVATION_LEAKY, .slope = 0.1}; break;
  default: break;
  }
  return slope ? ADD_NODE(graph, ITG_OP_CONV, &attributes, x, weight, bias, slope)
               : ADD_NODE(graph, ITG_OP_CONV, &attributes, x, weight, bias);
}

// A residual network in canonical form. The readers of the stream are affines and, when `mixed`, all kinds of convolutions.
static itg_graph *residual_network(uint64_t seed, bool mixed) {
  random_state = seed;
  float gains[MOST_CHANNELS];
  itg_graph *graph = new_graph();
  const int channels = 2 * random_int(2, MOST_CHANNELS / 2), blocks = random_int(1, 4);
  for (int c = 0; c < channels; c++) gains[c] = expf(random_float(-5, 5));
  itg_tensor *x = add_input(graph, "x", DIMS(1, HEIGHT, WIDTH, 3));
  itg_tensor *y = add_conv(graph, x, channels, 1, gains);
  for (int b = 0; b < blocks; b++) {
    itg_tensor *branch = y;
    if (mixed && random_bool())
      branch = add_conv(graph, branch, channels, random_bool() ? channels : 2, NULL);
    else
      branch = ADD_NODE(graph, ITG_OP_AFFINE, NULL, branch, add_gains(graph, channels, gains, true),
                        add_random(graph, DIMS(channels), -1, 1));
    branch = add_conv(graph, branch, 6, 1, NULL);
    branch = add_conv(graph, branch, channels, 1, gains);
    if (random_bool())
      branch = ADD_NODE(graph, ITG_OP_AFFINE, NULL, branch, add_random(graph, DIMS(channels), 0.5, 1.5),
                        add_gains(graph, channels, gains, false));
    if (random_bool()) branch = ADD_NODE(graph, ITG_OP_RELU, NULL, branch);
    y = ADD_NODE(graph, random_bool() ? ITG_OP_ADD : ITG_OP_SUB, NULL, y, branch);
  }
  y = ADD_NODE(graph, ITG_OP_AFFINE, NULL, y, add_gains(graph, channels, gains, true),
               add_random(graph, DIMS(channels), -1, 1));
  assert_true(itg_graph_add_output(graph, y));
  return graph;
}

static void read_magnitudes(const itg_statistics *statistics, const itg_tensor *tensor, float *magnitudes) {
  const itg_tensor_statistics *entry = itg_statistics_of(statistics, tensor);
  assert_non_null(entry);
  for (int64_t c = 0; c < entry->channels; c++)
    magnitudes[c] = fmaxf(magnitudes[c], fmaxf(fabsf(entry->channel_low[c]), fabsf(entry->channel_high[c])));
}

// Loudest channel against the quietest one that is not silent, over all tensors of the graph's stream.
static double spread_of(const itg_graph *graph, const itg_statistics *statistics) {
  float magnitudes[MOST_CHANNELS] = {0}, largest = 0, smallest = INFINITY;
  ITG_FOR_EACH_NODE(node, graph) {
    const bool is_sum = node->op == ITG_OP_ADD || node->op == ITG_OP_SUB || node->op == ITG_OP_ADD_AFFINE;
    if (!is_sum && node->op != ITG_OP_RELU) continue;
    for (int32_t i = 0; i < (is_sum ? 2 : 1); i++) read_magnitudes(statistics, node->inputs[i], magnitudes);
    read_magnitudes(statistics, node->outputs[0], magnitudes);
  }
  for (int c = 0; c < MOST_CHANNELS; c++) {
    largest = fmaxf(largest, magnitudes[c]);
    if (magnitudes[c] > 0) smallest = fminf(smallest, magnitudes[c]);
  }
  return (double)largest / (double)smallest;
}

static void assert_same_statistics(const itg_graph *graph, const itg_statistics *a, const itg_statistics *b) {
  for (size_t i = 0; i < graph->tensor_count; i++) {
    const itg_tensor_statistics *x = itg_statistics_of(a, graph->tensors[i]);
    const itg_tensor_statistics *y = itg_statistics_of(b, graph->tensors[i]);
    assert_int_equal(!x, !y);
    if (!x) continue;
    assert_true(x->low == y->low && x->high == y->high && x->count == y->count);
    assert_memory_equal(x->histogram, y->histogram, ITG_HISTOGRAM_BINS * sizeof x->histogram[0]);
    for (int64_t c = 0; c < x->channels; c++) {
      assert_true(x->channel_low[c] == y->channel_low[c] && x->channel_high[c] == y->channel_high[c]);
      assert_true(x->channel_sum[c] == y->channel_sum[c] && x->channel_squares[c] == y->channel_squares[c]);
    }
  }
}

static void check_network(uint64_t seed, bool mixed, int32_t operand_bits) {
  itg_graph *graph = residual_network(seed, mixed), *copy;
  assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
  assert_int_equal(itg_adapt_run(copy, NULL, NULL), ITG_OK);
  itg_statistics *before = calibrate(copy, 0), *after = calibrate(copy, operand_bits), *again = calibrate(copy, 0);
  assert_int_equal(itg_graph_verify(copy, ITG_STAGE_ADAPTED, NULL), ITG_OK);
  assert_graphs_equal(graph, copy, 1e-6);
  assert_same_statistics(copy, after, again);
  const double spread = spread_of(copy, before);
  assert_true(spread > 4); // The gains differ by e^10.
  const double wanted = !mixed ? 1 : operand_bits == 8 ? fmax(sqrt(spread), spread / 4) : spread;
  assert_true(spread_of(copy, after) <= 2.0001 * wanted); // Gains are rounded by up to sqrt(2).
  itg_statistics_destroy(before);
  itg_statistics_destroy(after);
  itg_statistics_destroy(again);
  itg_graph_destroy(copy);
  itg_graph_destroy(graph);
}

static void outputs_and_statistics_are_kept(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 150; seed++) check_network(seed, seed % 2 == 0, seed % 3 == 0 ? 16 : 8);
}

// conv -> (+ conv) -> affine, and something that decides whether the stream may change.
typedef enum obstacle {
  NOTHING,
  EQUAL_CHANNELS,
  OUTPUT,
  INPUT,
  SIGMOID,
  CLIPPED,
  ENCODED,
  NOT_A_SUM,
  OBSTACLES
} obstacle;

static bool is_rebased(obstacle kind) {
  float gains[8] = {1, 100, 1, 1, 0.01f, 1, 1, 1};
  if (kind == EQUAL_CHANNELS) gains[1] = gains[4] = 1;
  random_state = 4;
  itg_graph *graph = new_graph();
  itg_attributes conv = {
      .conv = {.window = {2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, .group = 1, .layout = ITG_LAYOUT_CHANNELS_LAST}};
  itg_tensor *x = add_input(graph, "x", DIMS(1, HEIGHT, WIDTH, 8)), *operands[2];
  for (int i = 0; i < 2; i++) {
    itg_tensor *weight = add_random(graph, DIMS(8, 1, 1, 8), 0.4, 0.6);
    for (int k = 0; k < 64; k++) ((float *)itg_tensor_writable(weight))[k] *= gains[k / 8];
    conv.conv.activation = (itg_activation){0};
    if (kind == CLIPPED && i == 0) conv.conv.activation = (itg_activation){.kind = ITG_ACTIVATION_CLIP, .high = 6};
    operands[i] = ADD_NODE(graph, ITG_OP_CONV, &conv, x, weight);
  }
  if (kind == INPUT) operands[1] = x;
  itg_tensor *sum = kind == NOT_A_SUM ? operands[0] : ADD_NODE(graph, ITG_OP_ADD, NULL, operands[0], operands[1]);
  const double two = 1.0 / 128;
  const itg_encoding encoding = {.storage = ITG_DTYPE_U8, .axis = -1, .count = 1, .scales = (double *)&two};
  if (kind == ENCODED) operands[0]->encoding = &encoding;
  if (kind == OUTPUT) assert_true(itg_graph_add_output(graph, sum));
  if (kind == SIGMOID) assert_true(itg_graph_add_output(graph, ADD_NODE(graph, ITG_OP_SIGMOID, NULL, sum)));
  itg_tensor *y =
      ADD_NODE(graph, ITG_OP_AFFINE, NULL, sum, add_random(graph, DIMS(8), 1, 2), add_random(graph, DIMS(8), 1, 2));
  assert_true(itg_graph_add_output(graph, y));
  const itg_tensor *scale = y->producer->inputs[1];
  itg_statistics *statistics = calibrate(graph, 8);
  const bool changed = y->producer->inputs[1] != scale;
  itg_statistics_destroy(statistics);
  itg_graph_destroy(graph);
  return changed;
}

static void only_streams_that_take_the_gains_change(void **state) {
  (void)state;
  assert_true(is_rebased(NOTHING));
  assert_true(is_rebased(NOT_A_SUM));
  for (int kind = NOT_A_SUM + 1; kind < OBSTACLES; kind++) assert_false(is_rebased((obstacle)kind));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_and_statistics_are_kept),
      cmocka_unit_test(only_streams_that_take_the_gains_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
