// What quantize decides: shared encodings, bits by precision and rule, weights at their limits, the same bytes for any number
// of threads.
#include "quantize/plan.h"
#include "support/integer_net.h"

static const itg_window plain1x1 = {.rank = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};

static itg_attributes conv_attributes(void) {
  return (itg_attributes){.conv = {.window = plain1x1, .group = 1, .layout = ITG_LAYOUT_CHANNELS_LAST}};
}

static itg_graph *quantized_clone(itg_graph *graph, const itg_recipe *recipe, int threads) {
  itg_graph *quantized, *legal;
  const net_samples samples = {graph, -1, 3, 5, 99};
  net_quantize(graph, &samples, recipe, threads, &quantized, &legal);
  itg_graph_destroy(legal);
  return quantized;
}

static itg_graph *quantize_as(itg_graph *graph, const char *precision) {
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin(precision, NULL, &recipe), ITG_OK);
  itg_graph *quantized = quantized_clone(graph, &recipe, 1);
  itg_recipe_free(&recipe);
  return quantized;
}

static const itg_encoding *encoding_of(const itg_graph *graph, const char *name) {
  const itg_tensor *tensor = itg_graph_find(graph, name);
  assert_non_null(tensor);
  assert_non_null(tensor->encoding);
  return tensor->encoding;
}

// x -> Conv -> Add(x') -> Conv -> Reshape: a residual block between two convolutions.
static itg_graph *residual_block(void) {
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 6, 5, 8));
  itg_tensor *a = NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, x, net_weight(graph, net_shape(4, 8, 1, 1, 8)));
  itg_tensor *b = NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, a, net_weight(graph, net_shape(4, 8, 1, 1, 8)));
  itg_tensor *sum = NET_NODE(graph, ITG_OP_ADD, net_no_attributes, NULL, a, b);
  itg_tensor *c =
      NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, sum, net_weight(graph, net_shape(4, 8, 1, 1, 8)));
  itg_tensor *relu = NET_NODE(graph, ITG_OP_RELU, net_no_attributes, NULL, c);
  const itg_shape flat = net_shape(2, 6, 40, 0, 0);
  assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_RESHAPE, net_no_attributes, &flat, relu)));
  return graph;
}

static void the_stream_has_sixteen_bits_and_operands_eight(void **state) {
  (void)state;
  itg_graph *graph = residual_block();
  itg_graph *quantized = quantize_as(graph, "a8w8+s16");
  assert_int_equal(encoding_of(quantized, "x")->storage, ITG_DTYPE_U8);
  assert_int_equal(encoding_of(quantized, "Conv")->storage, ITG_DTYPE_U16); // Read by the addition.
  assert_int_equal(encoding_of(quantized, "Add")->storage, ITG_DTYPE_U16);
  ITG_FOR_EACH_NODE(node, quantized) {
    if (node->op == ITG_OP_CONV) assert_int_equal(node->inputs[0]->encoding->storage, ITG_DTYPE_U8);
  }
  assert_int_equal(encoding_of(quantized, "Reshape")->storage, ITG_DTYPE_U16); // A graph output.
  assert_true(itg_encoding_equal(encoding_of(quantized, "Relu"), encoding_of(quantized, "Reshape")));
  itg_graph_destroy(quantized);

  quantized = quantize_as(graph, "a8w8");
  assert_int_equal(encoding_of(quantized, "Add")->storage, ITG_DTYPE_U8);
  itg_graph_destroy(quantized);
  quantized = quantize_as(graph, "a16w8");
  ITG_FOR_EACH_NODE(node, quantized) assert_int_equal(node->outputs[0]->encoding->storage, ITG_DTYPE_U16);
  itg_graph_destroy(quantized);
  itg_graph_destroy(graph);
}

// x -> Conv (many products) -> Conv (few) -> Sigmoid, Softmax: a detector's head. `width` is that of the last convolution's
// result, in channels.
static itg_graph *dense_head(int64_t width) {
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 6, 5, 64));
  itg_tensor *a =
      NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, x, net_weight(graph, net_shape(4, 64, 1, 1, 64)));
  itg_tensor *b =
      NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, a, net_weight(graph, net_shape(4, 64, 1, 1, 64)));
  itg_tensor *c =
      NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, b, net_weight(graph, net_shape(4, width, 1, 1, 64)));
  itg_tensor *scaled =
      NET_NODE(graph, ITG_OP_MUL, net_no_attributes, NULL, c, net_constant(graph, net_shape(0, 0, 0, 0, 0), 2, 2));
  assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_SIGMOID, net_no_attributes, NULL, scaled)));
  return graph;
}

static void everything_behind_the_last_weights_has_sixteen_bits(void **state) {
  (void)state;
  for (int64_t width = 1; width <= 64; width += 63) {
    itg_graph *graph = dense_head(width), *quantized = quantize_as(graph, "a8w8+s16");
    const itg_node *sigmoid = quantized->last, *scaled = sigmoid->inputs[0]->producer;
    const itg_node *last = scaled->inputs[0]->producer;
    assert_int_equal(sigmoid->outputs[0]->encoding->storage, ITG_DTYPE_U16);
    assert_int_equal(scaled->outputs[0]->encoding->storage, ITG_DTYPE_U16);
    assert_int_equal(last->op, ITG_OP_CONV);
    assert_int_equal(last->outputs[0]->encoding->storage, ITG_DTYPE_U16);
    // It reads 16 bits only where that costs next to nothing.
    assert_int_equal(last->inputs[0]->encoding->storage, width == 1 ? ITG_DTYPE_U16 : ITG_DTYPE_U8);
    assert_int_equal(last->inputs[0]->producer->op, ITG_OP_CONV);
    assert_int_equal(last->inputs[0]->producer->inputs[0]->encoding->storage, ITG_DTYPE_U8);
    itg_graph_destroy(quantized);
    quantized = quantize_as(graph, "a8w8");
    ITG_FOR_EACH_NODE(node, quantized) assert_int_equal(node->outputs[0]->encoding->storage, ITG_DTYPE_U8);
    itg_graph_destroy(quantized);
    itg_graph_destroy(graph);
  }
}

// Conv -> function -> Affine -> Conv: what the function reads is rounded once, behind the accumulator, in 16 bits.
static void functions_with_wide_results_read_wide(void **state) {
  (void)state;
  static const itg_op functions[] = {ITG_OP_SILU, ITG_OP_HARD_SWISH};
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 6, 5, 8));
    itg_tensor *a =
        NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, x, net_weight(graph, net_shape(4, 8, 1, 1, 8)));
    itg_tensor *y = NET_NODE(graph, functions[i], net_no_attributes, NULL, a);
    itg_tensor *affine =
        NET_NODE(graph, ITG_OP_AFFINE, net_no_attributes, NULL, y, net_constant(graph, net_shape(1, 8, 0, 0, 0), 1, 2),
                 net_constant(graph, net_shape(1, 8, 0, 0, 0), -1, 1));
    assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, affine,
                                                     net_weight(graph, net_shape(4, 8, 1, 1, 8)))));
    itg_graph *quantized = quantize_as(graph, "a8w8+s16");
    const itg_node *function = quantized->last->inputs[0]->producer->inputs[0]->producer;
    assert_int_equal(function->op, functions[i]);
    assert_int_equal(function->outputs[0]->encoding->storage, ITG_DTYPE_U16);
    assert_int_equal(function->inputs[0]->encoding->storage, ITG_DTYPE_U16);
    assert_int_equal(quantized->last->inputs[0]->encoding->storage, ITG_DTYPE_U8);
    itg_graph_destroy(quantized);
    itg_graph_destroy(graph);
  }
}

// A bell of ordinary values up to 1 with a few as far as 4: the range leaves out nothing in 16 bits, the tail in few bits, and
// what is chosen is the best of its neighbours by the error that mse.c describes.
static void ranges_weigh_clipping_against_rounding(void **state) {
  (void)state;
  static uint64_t histogram[ITG_HISTOGRAM_BINS];
  const double width = 4.0 / ITG_HISTOGRAM_BINS;
  for (int b = 0; b < ITG_HISTOGRAM_BINS; b++) {
    const double x = (b + 0.5) * width;
    histogram[b] = (uint64_t)(1e6 * exp(-8 * x * x)) + (b % 64 == 63);
  }
  const itg_tensor_statistics statistics = {.low = 0, .high = 4, .count = 1, .histogram = histogram};
  const itg_tensor_statistics *list[] = {&statistics};
  const int32_t levels[] = {16, 256, 65536};
  double chosen[3];
  for (int i = 0; i < 3; i++) {
    double low = 0, best = INFINITY, best_edge = 0;
    chosen[i] = 4;
    itg_range_mse(list, 1, levels[i], &low, &chosen[i]);
    assert_true(low == 0);
    for (int step = 1; step <= 64; step++) {
      const double edge = 4.0 * step / 64, code = edge / (levels[i] - 1);
      double error = 0;
      for (int b = 0; b < ITG_HISTOGRAM_BINS; b++) {
        const double x = (b + 0.5) * width, n = (double)histogram[b];
        error += x > edge ? 2.5 * n * (x - edge) * (x - edge) : b > 0 ? n * code * code / 12 : 0;
      }
      if (error < best) {
        best = error;
        best_edge = edge;
      }
    }
    assert_true(fabs(chosen[i] - best_edge) <= 4.0 / 64 + 1e-9);
  }
  assert_true(chosen[0] < 1.5 && chosen[0] < chosen[1] && chosen[2] > 3.9);
}

static void later_rules_win_and_match_by_name(void **state) {
  (void)state;
  itg_graph *graph = residual_block();
  static const char text[] = "{\"precision\": \"a8w8\", \"rules\": ["
                             "{\"op\": \"Conv\", \"activation_bits\": 16},"
                             "{\"name\": \"Conv_*\", \"activation_bits\": 8}]}";
  itg_recipe recipe;
  assert_int_equal(itg_recipe_parse((itg_span){(const uint8_t *)text, sizeof text - 1}, NULL, &recipe), ITG_OK);
  itg_graph *quantized = quantized_clone(graph, &recipe, 1);
  assert_int_equal(encoding_of(quantized, "Conv")->storage, ITG_DTYPE_U16);
  const itg_node *sum = itg_graph_find(quantized, "Add")->producer;
  assert_int_equal(sum->inputs[1]->producer->op, ITG_OP_CONV);
  assert_int_equal(sum->inputs[1]->encoding->storage, ITG_DTYPE_U8);
  itg_graph_destroy(quantized);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

static void relu_starts_at_zero_and_sigmoid_is_fixed(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 4, 100, 0, 0));
  itg_tensor *relu = NET_NODE(graph, ITG_OP_RELU, net_no_attributes, NULL, x);
  assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_SIGMOID, net_no_attributes, NULL, relu)));
  itg_graph *quantized = quantize_as(graph, "a8w8");
  assert_int_equal(encoding_of(quantized, "Relu")->zero_points[0], 0);
  assert_true(encoding_of(quantized, "Sigmoid")->scales[0] == 1.0 / 256);
  assert_int_equal(encoding_of(quantized, "Sigmoid")->zero_points[0], 0);
  itg_graph_destroy(quantized);
  quantized = quantize_as(graph, "a16w8");
  assert_true(encoding_of(quantized, "Sigmoid")->scales[0] == 1.0 / 65536);
  itg_graph_destroy(quantized);
  itg_graph_destroy(graph);
}

// A row of zeroes, a bias far larger than its weights, and ordinary rows.
static void weights_and_biases_fit_their_types(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 4, 16, 0, 0));
  itg_tensor *w = net_constant(graph, net_shape(2, 4, 16, 0, 0), -1, 1);
  itg_tensor *b = net_constant(graph, net_shape(1, 4, 0, 0, 0), -1, 1);
  float *weights = itg_tensor_writable(w), *biases = itg_tensor_writable(b);
  for (int k = 0; k < 16; k++) {
    weights[k] = 0;
    weights[16 + k] *= 1e-9f;
    weights[32 + k] = 0;
  }
  biases[0] = 5;
  biases[1] = -700;
  biases[2] = 0;
  assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x, w, b)));
  itg_graph *quantized = quantize_as(graph, "a16w8");
  const itg_node *node = quantized->last;
  const int8_t *codes = node->inputs[1]->data;
  const int32_t *bias = node->inputs[2]->data;
  const double *scales = node->inputs[1]->encoding->scales;
  const double input_scale = node->inputs[0]->encoding->scales[0];
  for (int o = 0; o < 4; o++) {
    assert_true(abs(bias[o]) <= 1 << 30);
    // Row 3 also takes back what the rounding of its weights did to the mean: up to half a code a weight.
    const double correction = o == 3 ? 16 * 0.5 * scales[3] * 3 : 0;
    assert_true(fabs(bias[o] * input_scale * scales[o] - (double)biases[o]) <=
                1e-5 + 0.6 * input_scale * scales[o] + correction);
    assert_true(node->inputs[2]->encoding->scales[o] == input_scale * scales[o]);
    int largest = 0;
    for (int k = 0; k < 16; k++) {
      largest = abs(codes[16 * o + k]) > largest ? abs(codes[16 * o + k]) : largest;
      assert_true(codes[16 * o + k] >= -127);
      if (o == 3) assert_true(fabs(codes[48 + k] * scales[3] - (double)weights[48 + k]) <= 0.501 * scales[3]);
    }
    assert_int_equal(largest, o == 3 ? 127 : 0);
  }
  itg_graph_destroy(quantized);
  itg_graph_destroy(graph);
}

static void second_operands_are_symmetric(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *a = net_input(graph, "a", ITG_DTYPE_F32, net_shape(3, 2, 6, 8, 0));
  itg_tensor *raw = net_input(graph, "raw", ITG_DTYPE_F32, net_shape(3, 2, 8, 5, 0));
  itg_tensor *b = NET_NODE(graph, ITG_OP_RELU, net_no_attributes, NULL, raw);
  assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_MATMUL, net_no_attributes, NULL, a, b)));
  const char *const precisions[] = {"a8w8", "a8w8+s16", "a16w8"};
  for (int p = 0; p < 3; p++) {
    itg_graph *quantized = quantize_as(graph, precisions[p]);
    const itg_encoding *encoding = quantized->last->inputs[1]->encoding;
    assert_int_equal(encoding->storage, ITG_DTYPE_U8);
    assert_int_equal(encoding->zero_points[0], 128);
    itg_graph_destroy(quantized);
  }
  itg_graph_destroy(graph);
}

// Softmax(a) * b in 16 bits: with the values in two bytes 8 bits of a second operand are no limit any more.
static void values_of_attention_have_two_bytes(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *a = net_input(graph, "a", ITG_DTYPE_F32, net_shape(3, 2, 6, 8, 0));
  itg_tensor *b = net_input(graph, "b", ITG_DTYPE_F32, net_shape(3, 2, 8, 5, 0));
  itg_tensor *p = NET_NODE(graph, ITG_OP_SOFTMAX, (itg_attributes){.axis = {.axis = 2}}, NULL, a);
  assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_MATMUL, net_no_attributes, NULL, p, b)));
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin("a16w8", NULL, &recipe), ITG_OK);
  double sqnr[2];
  for (int off = 0; off < 2; off++) {
    recipe.methods_off = off ? (itg_methods_off)1 << ITG_METHOD_SPLIT_VALUES : 0;
    itg_graph *quantized, *legal;
    const net_samples samples = {graph, -4, 6, 2, 99};
    net_quantize(graph, &samples, &recipe, 1, &quantized, &legal);
    sqnr[off] = net_compare(graph, legal, 1, 4).sqnr_db;
    itg_graph_destroy(legal);
    itg_graph_destroy(quantized);
  }
  assert_true(sqnr[0] > 70 && sqnr[1] < 55);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

// Logits + (1 - mask) * -3e38: the mask must not take the range of the logits.
static void huge_mask_constants_are_scaled_down(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *logits = net_input(graph, "logits", ITG_DTYPE_F32, net_shape(2, 16, 12, 0, 0));
  itg_tensor *mask = net_input(graph, "mask", ITG_DTYPE_S64, net_shape(2, 1, 12, 0, 0));
  itg_tensor *number = NET_NODE(graph, ITG_OP_CAST, (itg_attributes){.cast = {.to = ITG_DTYPE_F32}}, NULL, mask);
  itg_tensor *huge =
      NET_NODE(graph, ITG_OP_MUL, net_no_attributes, NULL, number, net_constant(graph, (itg_shape){0}, -3e38f, -3e38f));
  itg_tensor *sum = NET_NODE(graph, ITG_OP_ADD, net_no_attributes, NULL, logits, huge);
  assert_true(
      itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_SOFTMAX, (itg_attributes){.axis = {.axis = 1}}, NULL, sum)));
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin("a8w8+s16", NULL, &recipe), ITG_OK);
  itg_graph *quantized, *legal;
  const net_samples samples = {graph, -4, 6, 2, 99};
  net_quantize(graph, &samples, &recipe, 1, &quantized, &legal);
  assert_true(encoding_of(quantized, "Add")->scales[0] * 65535 < 100);
  assert_int_equal(legal->inputs[1]->dtype, ITG_DTYPE_U8); // The mask came in as a number.
  itg_graph_destroy(legal);
  itg_graph_destroy(quantized);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

// Every calibration mask keeps everything (the ids are below 1, "keep" is 1 - id): the depth shows only in the constant.
static void masks_that_no_sample_used_still_mask(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *logits = net_input(graph, "logits", ITG_DTYPE_F32, net_shape(2, 16, 12, 0, 0));
  itg_tensor *absent = net_input(graph, "absent", ITG_DTYPE_S64, net_shape(2, 1, 12, 0, 0));
  itg_tensor *number = NET_NODE(graph, ITG_OP_CAST, (itg_attributes){.cast = {.to = ITG_DTYPE_F32}}, NULL, absent);
  itg_tensor *one = net_constant(graph, (itg_shape){0}, 1, 1);
  itg_tensor *keep = NET_NODE(graph, ITG_OP_SUB, net_no_attributes, NULL, one, number);
  itg_tensor *mask = NET_NODE(graph, ITG_OP_SUB, net_no_attributes, NULL, one, keep);
  itg_tensor *huge =
      NET_NODE(graph, ITG_OP_MUL, net_no_attributes, NULL, mask, net_constant(graph, (itg_shape){0}, -3e38f, -3e38f));
  itg_tensor *sum = NET_NODE(graph, ITG_OP_ADD, net_no_attributes, NULL, logits, huge);
  assert_true(
      itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_SOFTMAX, (itg_attributes){.axis = {.axis = 1}}, NULL, sum)));
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin("a8w8+s16", NULL, &recipe), ITG_OK);
  itg_graph *quantized, *legal;
  const net_samples samples = {graph, -4, 6, 1, 99};
  net_quantize(graph, &samples, &recipe, 1, &quantized, &legal);
  const itg_encoding *encoding = encoding_of(quantized, "Mul");
  const double lowest = -encoding->zero_points[0] * encoding->scales[0];
  assert_true(lowest < -25 && lowest > -100); // Below all logits by 20, and no deeper than that takes.
  itg_graph_destroy(legal);
  itg_graph_destroy(quantized);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

static itg_tensor *quantize_pair(itg_graph *graph, itg_tensor *x, float scale, itg_dtype type, int32_t zero) {
  const itg_shape scalar = {0};
  const uint16_t code = (uint16_t)zero; // Little endian: the first byte is the 8-bit code.
  itg_tensor *s = itg_graph_add_constant(graph, "scale", ITG_DTYPE_F32, &scalar, &scale);
  itg_tensor *z = itg_graph_add_constant(graph, "zero", type, &scalar, &code);
  itg_attributes attributes = {.axis = {.axis = -1}};
  itg_tensor *q = NET_NODE(graph, ITG_OP_QUANTIZE_LINEAR, attributes, NULL, x, s, z);
  return NET_NODE(graph, ITG_OP_DEQUANTIZE_LINEAR, attributes, NULL, q, s, z);
}

static void encodings_that_came_with_the_model_are_kept(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 6, 5, 8));
  itg_tensor *a = quantize_pair(graph, x, 0.02f, ITG_DTYPE_S8, -60);
  itg_tensor *conv =
      NET_NODE(graph, ITG_OP_CONV, conv_attributes(), NULL, a, net_weight(graph, net_shape(4, 8, 1, 1, 8)));
  itg_tensor *b = quantize_pair(graph, conv, 0.125f, ITG_DTYPE_U8, 100);
  const itg_shape flat = net_shape(2, 6, 40, 0, 0);
  itg_tensor *view = NET_NODE(graph, ITG_OP_RESHAPE, net_no_attributes, &flat, b);
  itg_tensor *c = quantize_pair(graph, view, 0.125f, ITG_DTYPE_U8, 100);
  assert_true(itg_graph_add_output(graph, quantize_pair(graph, c, 0.0005f, ITG_DTYPE_U16, 30000)));
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin("a8w8+s16", NULL, &recipe), ITG_OK);
  itg_graph *quantized, *legal;
  const net_samples samples = {graph, -1, 3, 5, 99};
  net_quantize(graph, &samples, &recipe, 1, &quantized, &legal);
  ITG_FOR_EACH_NODE(node, quantized) {
    assert_true(node->op != ITG_OP_QUANTIZE_LINEAR && node->op != ITG_OP_DEQUANTIZE_LINEAR);
  }
  assert_int_equal(encoding_of(quantized, "x")->zero_points[0], 68);
  assert_true(encoding_of(quantized, "x")->scales[0] == (double)0.02f);
  assert_int_equal(encoding_of(quantized, "Conv")->zero_points[0], 100);
  const itg_encoding *output = quantized->outputs[0]->encoding;
  assert_int_equal(output->storage, ITG_DTYPE_U16);
  assert_int_equal(output->zero_points[0], 30000);
  // The float graph rounds to the same codes (ties apart), so only the wide output's own rounding is left.
  const net_result result = net_compare(graph, legal, 1, 2);
  assert_true(result.largest_error <= 251); // One code of 0.125 in units of 0.0005, where a tie went the other way.
  assert_true(result.sqnr_db > 50);
  itg_graph_destroy(legal);
  itg_graph_destroy(quantized);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

static void threads_do_not_change_a_byte(void **state) {
  (void)state;
  itg_graph *graph = residual_block();
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin("a8w8+s16", NULL, &recipe), ITG_OK);
  uint8_t *reference = NULL;
  size_t reference_size = 0;
  for (int threads = 1; threads <= 3; threads++) {
    itg_graph *quantized, *legal;
    const net_samples samples = {graph, -1, 3, 5, 7};
    net_quantize(graph, &samples, &recipe, threads, &quantized, &legal);
    uint8_t *bytes;
    size_t size;
    assert_int_equal(itg_container_encode(legal, NULL, 0, NULL, &bytes, &size), ITG_OK);
    if (reference) {
      assert_int_equal(size, reference_size);
      assert_memory_equal(bytes, reference, size);
      free(bytes);
    } else {
      reference = bytes;
      reference_size = size;
    }
    itg_graph_destroy(legal);
    itg_graph_destroy(quantized);
  }
  free(reference);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

static void weights_must_be_constant_and_finite(void **state) {
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 4, 16, 0, 0));
    itg_tensor *w = kind ? net_constant(graph, net_shape(2, 4, 16, 0, 0), -1, 1)
                         : net_input(graph, "w", ITG_DTYPE_F32, net_shape(2, 4, 16, 0, 0));
    assert_true(itg_graph_add_output(graph, NET_NODE(graph, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x, w)));
    const net_samples samples = {graph, -1, 1, 1, 1};
    const itg_sample_source source = {(void *)&samples, 2, net_read};
    itg_statistics *statistics;
    itg_diagnostic why;
    itg_recipe recipe;
    assert_int_equal(itg_recipe_builtin("a8w8", NULL, &recipe), ITG_OK);
    assert_int_equal(itg_calibrate(graph, &source, NULL, NULL, NULL, &why, &statistics), ITG_OK);
    if (kind) ((float *)itg_tensor_writable(w))[5] = INFINITY; // After calibration, which would have seen it.
    assert_int_equal(itg_quantize(graph, statistics, &recipe, NULL, NULL, &why),
                     kind ? ITG_ERROR_QUANTIZATION : ITG_ERROR_UNSUPPORTED);
    assert_string_equal(why.subject, "FullyConnected");
    itg_statistics_destroy(statistics);
    itg_recipe_free(&recipe);
    itg_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_stream_has_sixteen_bits_and_operands_eight),
      cmocka_unit_test(everything_behind_the_last_weights_has_sixteen_bits),
      cmocka_unit_test(functions_with_wide_results_read_wide),
      cmocka_unit_test(ranges_weigh_clipping_against_rounding),
      cmocka_unit_test(later_rules_win_and_match_by_name),
      cmocka_unit_test(relu_starts_at_zero_and_sigmoid_is_fixed),
      cmocka_unit_test(weights_and_biases_fit_their_types),
      cmocka_unit_test(second_operands_are_symmetric),
      cmocka_unit_test(values_of_attention_have_two_bytes),
      cmocka_unit_test(huge_mask_constants_are_scaled_down),
      cmocka_unit_test(masks_that_no_sample_used_still_mask),
      cmocka_unit_test(encodings_that_came_with_the_model_are_kept),
      cmocka_unit_test(threads_do_not_change_a_byte),
      cmocka_unit_test(weights_must_be_constant_and_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
