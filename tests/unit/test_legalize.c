// Every operation as an integer program against the float interpreter on the same real inputs: within half an output code
// plus what docs/ARITHMETIC.md allows.
#include "support/integer_net.h"

#include "graph/integer_ops.h"
#include "tensor/nibbles.h"

static const itg_window plain3x3 = {
    .rank = 2, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad_begin = {1, 1}, .pad_end = {1, 1}};

// Output codes that one unit of the accumulator is worth: the bias is rounded to whole units.
static double accumulator_step(const itg_graph *legal) {
  double step = 0;
  ITG_FOR_EACH_NODE(node, legal) {
    if (node->op != ITG_OP_Q_CONV && node->op != ITG_OP_Q_CONV_TRANSPOSE && node->op != ITG_OP_Q_FULLY_CONNECTED)
      continue;
    const itg_tensor *multiplier = node->inputs[ITG_Q_CONV_MULTIPLIER];
    for (int64_t o = 0; o < multiplier->shape.dims[0]; o++)
      step = fmax(step, ldexp(((const int32_t *)multiplier->data)[o],
                              -((const int32_t *)node->inputs[ITG_Q_CONV_SHIFT]->data)[o]));
  }
  return step;
}

// The largest error in output codes stays within `limit` and half an accumulator unit; the graph is destroyed.
static void check(itg_graph *graph, itg_tensor *output, const char *precision, float low, float high, double limit) {
  itg_recipe recipe;
  assert_int_equal(itg_recipe_builtin(precision, NULL, &recipe), ITG_OK);
  recipe.range_method = ITG_RANGE_MIN_MAX;
  if (!output->is_output) assert_true(itg_graph_add_output(graph, output));
  itg_graph *quantized, *legal;
  const net_samples samples = {graph, low, high, 5, 99};
  net_quantize(graph, &samples, &recipe, 1, &quantized, &legal);
  const net_result result = net_compare(graph, legal, 5, 3);
  if (!(result.largest_error <= limit + accumulator_step(legal) / 2))
    fail_msg("%s in %s: %g output codes", output->producer->name, precision, result.largest_error);
  itg_graph_destroy(legal);
  itg_graph_destroy(quantized);
  itg_recipe_free(&recipe);
  itg_graph_destroy(graph);
}

static void check_unary(itg_op op, itg_scalar_attributes scalar, float low, float high, double limit16) {
  const char *const precisions[] = {"a8w8", "a16w8"};
  for (int p = 0; p < 2; p++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 40, 100, 0, 0));
    itg_tensor *y = NET_NODE(graph, op, (itg_attributes){.scalar = scalar}, NULL, x);
    check(graph, y, precisions[p], low, high, p == 0 ? 0.502 : limit16);
  }
}

static void check_conv(int64_t channels, int64_t outputs, int32_t group, itg_activation activation, itg_window window,
                       const char *precision) {
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 9, 8, channels));
  itg_tensor *w = net_weight(graph, net_shape(4, outputs, window.kernel[0], window.kernel[1], channels / group));
  itg_tensor *b = net_constant(graph, net_shape(1, outputs, 0, 0, 0), -2, 2);
  itg_attributes attributes = {
      .conv = {.window = window, .group = group, .layout = ITG_LAYOUT_CHANNELS_LAST, .activation = activation}};
  itg_tensor *y;
  if (activation.kind == ITG_ACTIVATION_PRELU)
    y = NET_NODE(graph, ITG_OP_CONV, attributes, NULL, x, w, b,
                 net_constant(graph, net_shape(1, outputs, 0, 0, 0), -0.3f, 0.6f));
  else
    y = NET_NODE(graph, ITG_OP_CONV, attributes, NULL, x, w, b);
  // Half a code, and what the oracle's f32 loses.
  check(graph, y, precision, -1, 3, strcmp(precision, "a8w8") == 0 ? 0.51 : 0.6);
}

static void convolutions(void **state) {
  (void)state;
  const char *const precisions[] = {"a8w8", "a16w8", "a8w8+s16"};
  for (int p = 0; p < 3; p++) {
    const char *precision = precisions[p];
    check_conv(6, 10, 1, (itg_activation){0}, plain3x3, precision);
    check_conv(6, 10, 1, (itg_activation){.kind = ITG_ACTIVATION_CLIP, .high = INFINITY}, plain3x3, precision);
    check_conv(6, 10, 1, (itg_activation){.kind = ITG_ACTIVATION_CLIP, .high = 6}, plain3x3, precision);
    check_conv(6, 10, 1, (itg_activation){.kind = ITG_ACTIVATION_LEAKY, .slope = 0.1}, plain3x3, precision);
    check_conv(6, 10, 1, (itg_activation){.kind = ITG_ACTIVATION_PRELU}, plain3x3, precision);
    check_conv(8, 8, 8, (itg_activation){.kind = ITG_ACTIVATION_PRELU}, plain3x3, precision);
    check_conv(8, 12, 4, (itg_activation){0}, plain3x3, precision);
    itg_window strided = plain3x3;
    strided.stride[0] = strided.stride[1] = 2;
    strided.pad_begin[0] = 0;
    strided.dilation[1] = 2;
    check_conv(5, 7, 1, (itg_activation){0}, strided, precision);
  }
}

static void transposed_convolutions(void **state) {
  (void)state;
  for (int group = 1; group <= 2; group++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 5, 6, 8));
    itg_tensor *w = net_weight(graph, net_shape(4, 6 / group, 3, 3, 8));
    itg_window window = plain3x3;
    window.stride[0] = window.stride[1] = 2;
    itg_attributes attributes = {.conv = {.window = window,
                                          .group = group,
                                          .layout = ITG_LAYOUT_CHANNELS_LAST,
                                          .output_padding = {1, 0},
                                          .activation = {.kind = ITG_ACTIVATION_CLIP, .high = INFINITY}}};
    itg_tensor *y = NET_NODE(graph, ITG_OP_CONV_TRANSPOSE, attributes, NULL, x, w,
                             net_constant(graph, net_shape(1, 6, 0, 0, 0), -2, 2));
    check(graph, y, "a8w8", -1, 3, 0.51);
  }
}

static void matrix_products(void **state) {
  (void)state;
  const char *const precisions[] = {"a8w8", "a16w8", "a8w8+s16"};
  for (int p = 0; p < 3; p++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
    itg_tensor *w = net_weight(graph, net_shape(2, 12, 33, 0, 0));
    itg_tensor *y = NET_NODE(graph, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x, w);
    check(graph, y, precisions[p], -2, 2, p == 0 ? 0.51 : 0.6);
  }
  for (int transposed = 0; transposed < 4; transposed++) {
    itg_graph *graph = net_create();
    itg_tensor *a =
        net_input(graph, "a", ITG_DTYPE_F32, transposed & 2 ? net_shape(3, 3, 20, 6, 0) : net_shape(3, 3, 6, 20, 0));
    itg_tensor *b =
        net_input(graph, "b", ITG_DTYPE_F32, transposed & 1 ? net_shape(3, 3, 9, 20, 0) : net_shape(3, 3, 20, 9, 0));
    itg_attributes attributes = {
        .gemm = {.alpha = 1, .beta = 1, .transpose_a = transposed >> 1, .transpose_b = transposed & 1}};
    itg_tensor *y = NET_NODE(graph, ITG_OP_MATMUL, attributes, NULL, a, b);
    // The second operand is converted to a symmetric code: noise of a third of its code a product.
    check(graph, y, "a8w8", -1, 1, 4);
  }
}

// Weights that LPBQ holds exactly, code * block scale / 128: the packed codes, the block scales and the result are right.
static void four_bit_weights(void **state) {
  (void)state;
  enum { ROWS = 10, LENGTH = 96, BLOCK = 32 };
  for (int blocks = 0; blocks < 2; blocks++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 7, LENGTH, 0, 0));
    itg_tensor *w = net_constant(graph, net_shape(2, ROWS, LENGTH, 0, 0), 0, 0);
    int32_t codes[ROWS * LENGTH], scales[ROWS * LENGTH / BLOCK];
    for (int i = 0; i < ROWS * LENGTH; i++) {
      // The first block has the largest scale, and every block reaches its largest code.
      if (i % BLOCK == 0) scales[i / BLOCK] = i % LENGTH == 0 || !blocks ? 16 : 1 + (int32_t)(net_random() % 16);
      codes[i] = i % BLOCK == 0 ? 7 : (int32_t)(net_random() % 15) - 7;
      ((float *)itg_tensor_writable(w))[i] = (float)(codes[i] * scales[i / BLOCK]) / 128.0f;
    }
    itg_tensor *y = NET_NODE(graph, ITG_OP_FULLY_CONNECTED, net_no_attributes, NULL, x, w);
    assert_true(itg_graph_add_output(graph, y));
    static const char *const texts[] = {
        "{\"precision\": \"a16w4\", \"rules\": [{\"op\": \"FullyConnected\", \"weight_bits\": 4}]}",
        "{\"precision\": \"a16w8\", \"rules\": [{\"weight_bits\": 4, \"weight_block\": 32}]}"};
    itg_recipe recipe;
    assert_int_equal(itg_recipe_parse((itg_span){(const uint8_t *)texts[blocks], strlen(texts[blocks])}, NULL, &recipe),
                     ITG_OK);
    itg_graph *quantized, *legal;
    const net_samples samples = {graph, -1, 3, 5, 99};
    net_quantize(graph, &samples, &recipe, 1, &quantized, &legal);
    const itg_node *node = legal->last;
    assert_int_equal(node->inputs[1]->dtype, ITG_DTYPE_S4);
    assert_int_equal(itg_node_input(node, ITG_Q_CONV_BLOCK_SCALE) != NULL, blocks);
    for (int i = 0; i < ROWS * LENGTH; i++) {
      assert_int_equal(itg_nibble(node->inputs[1]->data, i), codes[i]);
      if (blocks)
        assert_int_equal(((const uint8_t *)node->inputs[ITG_Q_CONV_BLOCK_SCALE]->data)[i / BLOCK], scales[i / BLOCK]);
    }
    const net_result result = net_compare(graph, legal, 5, 3);
    assert_true(result.largest_error <= 0.6 + accumulator_step(legal) / 2);
    itg_graph_destroy(legal);
    itg_graph_destroy(quantized);
    itg_recipe_free(&recipe);
    itg_graph_destroy(graph);
  }
}

static void additions(void **state) {
  (void)state;
  const itg_op ops[] = {ITG_OP_ADD, ITG_OP_SUB};
  const char *const precisions[] = {"a8w8", "a16w8", "a8w8+s16"};
  for (int p = 0; p < 3; p++) {
    for (int o = 0; o < 2; o++) {
      for (int broadcast = 0; broadcast < 2; broadcast++) {
        itg_graph *graph = net_create();
        itg_tensor *a = net_input(graph, "a", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
        itg_tensor *b = net_input(graph, "b", ITG_DTYPE_F32, broadcast ? net_shape(2, 7, 1, 0, 0) : a->shape);
        check(graph, NET_NODE(graph, ops[o], net_no_attributes, NULL, a, b), precisions[p], -2, 5, 0.52);
      }
      for (int first = 0; first < 2; first++) {
        itg_graph *graph = net_create();
        itg_tensor *a = net_input(graph, "a", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
        itg_tensor *c = net_constant(graph, net_shape(1, 33, 0, 0, 0), -3, 3);
        itg_tensor *y = NET_NODE(graph, ops[o], net_no_attributes, NULL, first ? c : a, first ? a : c);
        check(graph, y, precisions[p], -2, 5, 0.52);
      }
    }
  }
  itg_graph *graph = net_create(); // A constant a position: an operand with its own encoding.
  itg_tensor *a = net_input(graph, "a", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
  itg_tensor *y =
      NET_NODE(graph, ITG_OP_ADD, net_no_attributes, NULL, a, net_constant(graph, net_shape(2, 7, 33, 0, 0), -3, 3));
  check(graph, y, "a16w8", -2, 5, 0.9);
}

static void affines_and_products(void **state) {
  (void)state;
  for (int p = 0; p < 2; p++) {
    const char *precision = p ? "a16w8" : "a8w8";
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
    itg_tensor *gain = net_constant(graph, net_shape(1, 33, 0, 0, 0), -4, 4);
    itg_tensor *offset = net_constant(graph, net_shape(1, 33, 0, 0, 0), -3, 3);
    check(graph, NET_NODE(graph, ITG_OP_AFFINE, net_no_attributes, NULL, x, gain, offset), precision, -2, 5, 0.52);

    graph = net_create();
    x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
    gain = net_constant(graph, net_shape(1, 33, 0, 0, 0), -4, 4);
    check(graph, NET_NODE(graph, ITG_OP_MUL, net_no_attributes, NULL, gain, x), precision, -2, 5, 0.52);

    graph = net_create();
    x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
    itg_tensor *b = net_input(graph, "b", ITG_DTYPE_F32, net_shape(2, 7, 1, 0, 0));
    check(graph, NET_NODE(graph, ITG_OP_MUL, net_no_attributes, NULL, x, b), precision, -2, 5, 0.52);

    graph = net_create();
    x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
    check(graph, NET_NODE(graph, ITG_OP_DIV, net_no_attributes, NULL, x, net_constant(graph, (itg_shape){0}, 7, 7)),
          precision, -2, 5, 0.52);

    graph = net_create();
    x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
    check(graph, NET_NODE(graph, ITG_OP_POW, net_no_attributes, NULL, x, net_constant(graph, (itg_shape){0}, 2, 2)),
          precision, -2, 5, 0.52);
  }
}

static void add_affine_has_two_outputs(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *a = net_input(graph, "a", ITG_DTYPE_F32, net_shape(3, 2, 7, 33, 0));
  itg_tensor *b = net_input(graph, "b", ITG_DTYPE_F32, a->shape);
  itg_tensor *inputs[] = {a, b, net_constant(graph, net_shape(1, 33, 0, 0, 0), -1, 1),
                          net_constant(graph, net_shape(1, 33, 0, 0, 0), -3, 3)};
  itg_tensor *outputs[] = {itg_graph_add_tensor(graph, "sum", ITG_DTYPE_F32, &a->shape),
                           itg_graph_add_tensor(graph, "affine", ITG_DTYPE_F32, &a->shape)};
  assert_non_null(itg_graph_insert_node(graph, NULL, ITG_OP_ADD_AFFINE, "add", inputs, 4, outputs, 2));
  assert_true(itg_graph_add_output(graph, outputs[0]));
  // The affine reads the stored sum: half a code of each.
  check(graph, outputs[1], "a16w8", -2, 5, 1.1);
}

static void pools_and_reductions(void **state) {
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 9, 8, 6));
    itg_pool_attributes pool = {.window = plain3x3, .layout = ITG_LAYOUT_CHANNELS_LAST, .declared_pad_end = {1, 1}};
    pool.window.stride[0] = 2;
    pool.count_include_pad = kind == 1;
    if (kind == 2) memset(pool.window.pad_begin, 0, sizeof pool.window.pad_begin);
    itg_tensor *y =
        NET_NODE(graph, kind == 3 ? ITG_OP_MAX_POOL : ITG_OP_AVERAGE_POOL, (itg_attributes){.pool = pool}, NULL, x);
    check(graph, y, "a8w8", -2, 5, 0.51);
  }
  for (int kind = 0; kind < 6; kind++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 9, 8, 6));
    const itg_op op = kind < 2 ? ITG_OP_REDUCE_MEAN : kind < 4 ? ITG_OP_REDUCE_SUM : ITG_OP_REDUCE_MAX;
    itg_attributes attributes = {.reduce = {.axes = op == ITG_OP_REDUCE_SUM ? 8 : 6, .keep_dims = kind & 1}};
    check(graph, NET_NODE(graph, op, attributes, NULL, x), kind & 1 ? "a16w8" : "a8w8", -2, 5, 0.52);
  }
}

static void softmax_and_norms(void **state) {
  (void)state;
  const char *const precisions[] = {"a8w8", "a16w8", "a8w8+s16"};
  for (int p = 0; p < 3; p++) {
    for (int axis = 1; axis < 3; axis++) {
      itg_graph *graph = net_create();
      itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 30, 40, 0));
      itg_tensor *y = NET_NODE(graph, ITG_OP_SOFTMAX, (itg_attributes){.axis = {.axis = axis}}, NULL, x);
      check(graph, y, precisions[p], -6, 6, 1.1);
    }
    // 8-bit probabilities, as models come quantized: the precisions above choose 16 bits.
    const double scale = 1.0 / 255;
    const int32_t zero = 0;
    itg_graph *coded = net_create();
    itg_tensor *logits = net_input(coded, "x", ITG_DTYPE_F32, net_shape(3, 2, 30, 40, 0));
    itg_tensor *p8 = NET_NODE(coded, ITG_OP_SOFTMAX, (itg_attributes){.axis = {.axis = 2}}, NULL, logits);
    p8->encoding = itg_encoding_create(coded, ITG_DTYPE_U8, -1, 1, &scale, &zero);
    check(coded, p8, precisions[p], -6, 6, 0.6);
    for (int norm = 0; norm < 4; norm++) {
      itg_graph *graph = net_create();
      itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 30, 40, 0));
      itg_tensor *gamma =
          net_constant(graph, norm == 1 ? net_shape(2, 30, 40, 0, 0) : net_shape(1, 40, 0, 0, 0), -2, 2);
      itg_tensor *beta = net_constant(graph, gamma->shape, -1, 1);
      itg_attributes attributes = {.norm = {.epsilon = 1e-5, .axis = norm == 1 ? 1 : 2, .groups = 2}};
      itg_tensor *y = norm < 2    ? NET_NODE(graph, ITG_OP_LAYER_NORM, attributes, NULL, x, gamma, beta)
                      : norm == 2 ? NET_NODE(graph, ITG_OP_RMS_NORM, attributes, NULL, x, gamma)
                                  : NET_NODE(graph, ITG_OP_LP_NORM, attributes, NULL, x);
      check(graph, y, precisions[p], -2, 5, 1.0);
    }
  }
}

static void tables(void **state) {
  (void)state;
  check_unary(ITG_OP_SIGMOID, (itg_scalar_attributes){0}, -8, 8, 1.02);
  check_unary(ITG_OP_TANH, (itg_scalar_attributes){0}, -4, 4, 1.02);
  check_unary(ITG_OP_GELU, (itg_scalar_attributes){0}, -6, 6, 1.02);
  check_unary(ITG_OP_SILU, (itg_scalar_attributes){0}, -6, 6, 1.02);
  check_unary(ITG_OP_ELU, (itg_scalar_attributes){.alpha = 1}, -6, 6, 1.02);
  check_unary(ITG_OP_EXP, (itg_scalar_attributes){0}, -6, 1, 1.02);
  check_unary(ITG_OP_ERF, (itg_scalar_attributes){0}, -3, 3, 1.02);
  check_unary(ITG_OP_SQRT, (itg_scalar_attributes){0}, 0, 9, 1.02);
}

static void pieces_of_lines(void **state) {
  (void)state;
  check_unary(ITG_OP_RELU, (itg_scalar_attributes){0}, -3, 3, 0.52);
  check_unary(ITG_OP_CLIP, (itg_scalar_attributes){.alpha = -1, .beta = 2}, -3, 3, 0.52);
  check_unary(ITG_OP_LEAKY_RELU, (itg_scalar_attributes){.alpha = 0.2}, -3, 3, 0.52);
  check_unary(ITG_OP_ABS, (itg_scalar_attributes){0}, -3, 3, 0.52);
  check_unary(ITG_OP_NEG, (itg_scalar_attributes){0}, -3, 2, 0.52);
  check_unary(ITG_OP_HARD_SIGMOID, (itg_scalar_attributes){.alpha = 0.2, .beta = 0.5}, -4, 4, 0.52);
  for (int p = 0; p < 2; p++) {
    itg_graph *graph = net_create();
    itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 40, 100, 0, 0));
    // The gate is rounded to 1/255 (1/65535) before the product.
    check(graph, NET_NODE(graph, ITG_OP_HARD_SWISH, net_no_attributes, NULL, x), p ? "a16w8" : "a8w8", -5, 5, 1.1);
    graph = net_create();
    x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(3, 2, 20, 30, 0));
    itg_tensor *slope = net_constant(graph, net_shape(1, 30, 0, 0, 0), -0.5f, 1);
    check(graph, NET_NODE(graph, ITG_OP_PRELU, net_no_attributes, NULL, x, slope), p ? "a16w8" : "a8w8", -5, 5, 0.52);
  }
}

static void movement(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 5, 6, 8));
  itg_shape flat = net_shape(2, 1, 240, 0, 0);
  check(graph, NET_NODE(graph, ITG_OP_RESHAPE, net_no_attributes, &flat, x), "a8w8", -5, 5, 0.001);

  graph = net_create(); // Different ranges: one input keeps its encoding and is converted.
  x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 5, 6, 8));
  itg_tensor *large =
      NET_NODE(graph, ITG_OP_MUL, net_no_attributes, NULL, x, net_constant(graph, (itg_shape){0}, 9, 9));
  itg_tensor *y = NET_NODE(graph, ITG_OP_CONCAT, (itg_attributes){.axis = {.axis = 3}}, NULL, x, large);
  check(graph, y, "a8w8", -5, 5, 1.01);

  graph = net_create();
  x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 5, 6, 8));
  itg_shape padded = net_shape(4, 1, 7, 6, 9);
  itg_attributes pad = {.pad = {.begin = {0, 2, 0, 0}, .end = {0, 0, 0, 1}, .value = 1}};
  check(graph, NET_NODE(graph, ITG_OP_PAD, pad, &padded, x), "a16w8", -5, 5, 0.51);

  for (int kind = 0; kind < 2; kind++) {
    graph = net_create();
    x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 40, 100, 0, 0));
    y = NET_NODE(graph, kind ? ITG_OP_MIN : ITG_OP_MAX, net_no_attributes, NULL, x,
                 net_constant(graph, net_shape(1, 100, 0, 0, 0), -1, 1));
    check(graph, y, "a16w8", -5, 5, 1.01);
  }
}

static void resizes(void **state) {
  (void)state;
  for (int mode = 0; mode < 2; mode++) {
    for (int coordinates = 0; coordinates < 4; coordinates++) {
      itg_graph *graph = net_create();
      itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(4, 1, 5, 6, 8));
      itg_shape larger = net_shape(4, 1, 10, 18, 8);
      itg_attributes attributes = {.resize = {.mode = mode, .coordinates = coordinates, .scale = {1, 2, 3, 1}}};
      itg_tensor *y = NET_NODE(graph, ITG_OP_RESIZE, attributes, &larger, x);
      // Weights have 11 bits: up to 255/4096 of a code for each direction.
      check(graph, y, "a8w8", -5, 5, mode ? 0.63 : 0.001);
    }
  }
}

static void embeddings(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *ids = net_input(graph, "ids", ITG_DTYPE_S64, net_shape(2, 1, 12, 0, 0));
  itg_tensor *y = NET_NODE(graph, ITG_OP_GATHER, (itg_attributes){.axis = {.axis = 0}}, NULL,
                           net_weight(graph, net_shape(2, 5, 16, 0, 0)), ids);
  check(graph, y, "a8w8", 0, 0, 0.52);
}

static void what_has_no_integer_form_is_refused(void **state) {
  (void)state;
  itg_graph *graph = net_create();
  itg_tensor *x = net_input(graph, "x", ITG_DTYPE_F32, net_shape(2, 4, 10, 0, 0));
  itg_tensor *y = NET_NODE(graph, ITG_OP_CUM_SUM, (itg_attributes){.axis = {.axis = 1}}, NULL, x);
  assert_true(itg_graph_add_output(graph, y));
  const double scale = 0.1;
  const int32_t zero = 3;
  x->encoding = y->encoding = itg_encoding_create(graph, ITG_DTYPE_U8, -1, 1, &scale, &zero);
  itg_graph *legal = NULL;
  itg_diagnostic why;
  assert_int_equal(itg_legalize(graph, NULL, &why, &legal), ITG_ERROR_UNSUPPORTED);
  assert_string_equal(why.subject, "CumSum");
  assert_null(legal);
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions),
      cmocka_unit_test(transposed_convolutions),
      cmocka_unit_test(matrix_products),
      cmocka_unit_test(four_bit_weights),
      cmocka_unit_test(additions),
      cmocka_unit_test(affines_and_products),
      cmocka_unit_test(add_affine_has_two_outputs),
      cmocka_unit_test(pools_and_reductions),
      cmocka_unit_test(softmax_and_norms),
      cmocka_unit_test(tables),
      cmocka_unit_test(pieces_of_lines),
      cmocka_unit_test(movement),
      cmocka_unit_test(resizes),
      cmocka_unit_test(embeddings),
      cmocka_unit_test(what_has_no_integer_form_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
