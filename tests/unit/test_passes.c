// Rewrites to the canonical graph: each hand-built graph gives the same outputs before and after, and has the expected form.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapt/adapt.h"
#include "passes/passes.h"
#include "support/float_graph.h"

// Adds `y` as the output, canonicalises a copy, compares, and returns the copy. Destroys `graph`.
static itg_graph *canonicalise(itg_graph *graph, itg_tensor *y) {
  assert_true(itg_graph_add_output(graph, y));
  itg_graph *copy = NULL;
  itg_diagnostic diagnostic = {0};
  assert_int_equal(itg_graph_verify(graph, ITG_STAGE_IMPORTED, NULL), ITG_OK);
  assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
  if (itg_passes_run(copy, NULL, NULL, &diagnostic) != ITG_OK) {
    itg_graph_print(copy, stderr);
    fail_msg("%s: %s", diagnostic.subject, diagnostic.message);
  }
  assert_graphs_equal(graph, copy, 2e-5);
  // The copy borrows constants; what the callers look at needs none.
  itg_graph_destroy(graph);
  return copy;
}

static void batch_norm_behind_convolutions_is_folded(void **state) {
  (void)state;
  for (int i = 0; i < 60; i++) {
    random_state = (uint64_t)i + 1;
    itg_graph *graph = new_graph();
    itg_tensor *x = i % 3 ? add_input(graph, "x", DIMS(1, 4, 7, 6)) : add_input(graph, "x", DIMS(2, 4, 9));
    itg_tensor *y = add_batch_norm(graph, add_random_conv(graph, x), 1);
    itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_RELU, NULL, y));
    assert_int_equal(count_op(result, ITG_OP_AFFINE) + count_op(result, ITG_OP_RELU), 0);
    itg_graph_destroy(result);
  }
}

// The fold that everybody gets wrong: the padding belongs to the normalised values.
static void batch_norm_before_padded_convolutions_stays(void **state) {
  (void)state;
  for (int i = 0; i < 60; i++) {
    random_state = (uint64_t)i + 100;
    itg_graph *graph = new_graph();
    itg_tensor *x = add_input(graph, "x", DIMS(1, 4, 6, 5));
    itg_tensor *y = add_random_conv(graph, add_batch_norm(graph, x, 1));
    itg_graph *result = canonicalise(graph, y);
    assert_int_equal(count_op(result, ITG_OP_AFFINE), 1);
    // One in front, one behind; the latter is a Reshape when the output has one channel or pixel, and nothing when one each.
    const int moves = count_op(result, ITG_OP_TRANSPOSE) + count_op(result, ITG_OP_RESHAPE);
    assert_true(moves >= 1 && moves <= 2);
    itg_graph_destroy(result);
  }
}

static void transposed_convolutions_keep_their_groups(void **state) {
  (void)state;
  for (int i = 0; i < 40; i++) {
    random_state = (uint64_t)i + 1000;
    itg_graph *graph = new_graph();
    const int group = random_int(1, 2), rank = random_int(1, 2);
    itg_tensor *x = rank == 2 ? add_input(graph, "x", DIMS(1, 4, 5, 4)) : add_input(graph, "x", DIMS(1, 4, 5));
    itg_attributes attributes = {.conv = {.window = random_window(rank, &x->shape.dims[2], true), .group = group}};
    for (int d = 0; d < rank; d++)
      attributes.conv.output_padding[d] = random_int(0, attributes.conv.window.stride[d] - 1);
    itg_shape weight = {.rank = rank + 2, .dims = {4, 3}};
    for (int d = 0; d < rank; d++) weight.dims[d + 2] = attributes.conv.window.kernel[d];
    itg_tensor *y = ADD_NODE(graph, ITG_OP_CONV_TRANSPOSE, &attributes, x, add_random(graph, weight, -1, 1));
    y = add_batch_norm(graph, y, 1);
    const itg_shape channels = rank == 2 ? DIMS(3 * group, 1, 1) : DIMS(3 * group, 1);
    y = ADD_NODE(graph, ITG_OP_PRELU, NULL, y, add_random(graph, channels, 0, 1));
    itg_graph *result = canonicalise(graph, y);
    assert_int_equal(count_op(result, ITG_OP_AFFINE), 0);
    if (rank == 2) assert_int_equal(count_op(result, ITG_OP_PRELU), 0);
    itg_graph_destroy(result);
  }
}

static void matmul_with_bias_becomes_fully_connected(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(2, 3, 5));
  itg_tensor *y = ADD_NODE(graph, ITG_OP_MATMUL, NULL, x, add_random(graph, DIMS(5, 4), -1, 1));
  y = ADD_NODE(graph, ITG_OP_ADD, NULL, add_random(graph, DIMS(4), -1, 1), y);
  y = ADD_NODE(graph, ITG_OP_DIV, NULL, y, add_scalar(graph, 3));
  y = ADD_NODE(graph, ITG_OP_RELU, NULL, y);
  itg_graph *result = canonicalise(graph, y);
  assert_int_equal(result->node_count, 1);
  assert_int_equal(result->first->op, ITG_OP_FULLY_CONNECTED);
  itg_graph_destroy(result);

  for (int i = 0; i < 16; i++) {
    graph = new_graph();
    itg_attributes gemm = {.gemm = {.alpha = 0.5, .beta = 2, .transpose_a = i & 1, .transpose_b = i >> 1 & 1}};
    x = i & 1 ? add_input(graph, "x", DIMS(5, 3)) : add_input(graph, "x", DIMS(3, 5));
    itg_tensor *b = add_random(graph, i >> 1 & 1 ? DIMS(4, 5) : DIMS(5, 4), -1, 1);
    const itg_shape shapes[4] = {DIMS(4), DIMS(1, 4), DIMS(1), DIMS(3, 4)};
    y = ADD_NODE(graph, ITG_OP_GEMM, &gemm, x, b, add_random(graph, shapes[i >> 2], -1, 1));
    result = canonicalise(graph, add_batch_norm(graph, y, 1));
    assert_int_equal(count_op(result, ITG_OP_FULLY_CONNECTED), i >> 2 == 3 ? 0 : 1);
    itg_graph_destroy(result);
  }
}

// The tail of an image network: convolution, flatten, BatchNorm of the features, FullyConnected.
static void flatten_is_absorbed_by_the_weights(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(1, 3, 6, 5));
  itg_attributes conv = {.conv = {.window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, .group = 1}};
  itg_tensor *y = ADD_NODE(graph, ITG_OP_CONV, &conv, x, add_random(graph, DIMS(4, 3, 3, 3), -1, 1));
  y = ADD_NODE(graph, ITG_OP_PRELU, NULL, y, add_random(graph, DIMS(4, 1, 1), 0, 1));
  y = add_batch_norm(graph, add_reshape(graph, y, DIMS(1, 120)), 1);
  y = ADD_NODE(graph, ITG_OP_MATMUL, NULL, y, add_random(graph, DIMS(120, 8), -1, 1));
  itg_graph *result = canonicalise(graph, add_batch_norm(graph, y, 1));
  assert_int_equal(count_op(result, ITG_OP_TRANSPOSE), 1);
  assert_int_equal(count_op(result, ITG_OP_RESHAPE), 1);
  assert_int_equal(count_op(result, ITG_OP_PRELU), 0);
  assert_int_equal(result->node_count, 5);
  itg_graph_destroy(result);
}

static void residual_networks_need_one_transpose(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(1, 3, 8, 8));
  itg_attributes conv = {.conv = {.window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, .group = 1}};
  itg_tensor *stream = ADD_NODE(graph, ITG_OP_CONV, &conv, x, add_random(graph, DIMS(6, 3, 3, 3), -0.5, 0.5));
  for (int i = 0; i < 3; i++) {
    itg_tensor *y = add_batch_norm(graph, stream, 1);
    y = ADD_NODE(graph, ITG_OP_CONV, &conv, y, add_random(graph, DIMS(6, 6, 3, 3), -0.2, 0.2));
    y = ADD_NODE(graph, ITG_OP_PRELU, NULL, y, add_random(graph, DIMS(6, 1, 1), 0, 1));
    // Squeeze and excitation.
    itg_attributes mean = {.reduce = {.axes = 0xc, .keep_dims = 1}}, one = conv;
    one.conv.window = (itg_window){2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
    itg_tensor *gate = ADD_NODE(graph, ITG_OP_REDUCE_MEAN, &mean, y);
    gate = ADD_NODE(graph, ITG_OP_CONV, &one, gate, add_random(graph, DIMS(6, 6, 1, 1), -0.5, 0.5));
    y = ADD_NODE(graph, ITG_OP_MUL, NULL, y, ADD_NODE(graph, ITG_OP_SIGMOID, NULL, gate));
    stream = ADD_NODE(graph, ITG_OP_ADD, NULL, stream, y);
  }
  itg_attributes mean = {.reduce = {.axes = 0xc, .keep_dims = 1}};
  stream = ADD_NODE(graph, ITG_OP_REDUCE_MEAN, &mean, add_batch_norm(graph, stream, 1));
  itg_tensor *y = add_reshape(graph, stream, DIMS(1, 6));
  assert_true(itg_graph_add_output(graph, y));
  itg_graph *copy = NULL;
  assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
  assert_int_equal(itg_passes_run(copy, NULL, NULL, NULL), ITG_OK);
  assert_int_equal(count_op(copy, ITG_OP_TRANSPOSE), 1);
  assert_int_equal(count_op(copy, ITG_OP_RESHAPE), 1);
  assert_int_equal(count_op(copy, ITG_OP_AFFINE), 4);
  assert_int_equal(itg_adapt_run(copy, NULL, NULL), ITG_OK);
  assert_int_equal(copy->stage, ITG_STAGE_ADAPTED);
  assert_int_equal(count_op(copy, ITG_OP_ADD_AFFINE), 3);
  assert_int_equal(count_op(copy, ITG_OP_AFFINE), 1);
  assert_graphs_equal(graph, copy, 2e-5);
  itg_graph_destroy(graph);
  itg_graph_destroy(copy);
}

static void channel_shuffle_moves_along(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(1, 4, 5, 6));
  itg_attributes conv = {.conv = {.window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, .group = 2}};
  itg_tensor *y = ADD_NODE(graph, ITG_OP_CONV, &conv, x, add_random(graph, DIMS(4, 2, 3, 3), -1, 1));
  y = add_reshape(graph, y, DIMS(1, 2, 2, 5, 6));
  y = add_transpose(graph, y, (int[]){0, 2, 1, 3, 4});
  y = add_reshape(graph, y, DIMS(1, 4, 5, 6));
  y = ADD_NODE(graph, ITG_OP_CONV, &conv, y, add_random(graph, DIMS(4, 2, 3, 3), -1, 1));
  y = add_transpose(graph, y, (int[]){0, 2, 3, 1});
  itg_graph *result = canonicalise(graph, add_reshape(graph, y, DIMS(1, 60, 2)));
  assert_int_equal(count_op(result, ITG_OP_TRANSPOSE), 2); // Input and shuffle.
  itg_graph_destroy(result);
}

static void pixel_shuffle_is_recognised(void **state) {
  (void)state;
  const int orders[3][6] = {{0, 1, 4, 2, 5, 3}, {0, 3, 4, 1, 5, 2}, {0, 3, 5, 1, 2, 4}};
  for (int i = 0; i < 3; i++) {
    itg_graph *graph = new_graph();
    itg_tensor *x = add_input(graph, "x", i < 2 ? DIMS(1, 12, 5, 4) : DIMS(1, 3, 10, 8));
    const itg_shape six[3] = {DIMS(1, 3, 2, 2, 5, 4), DIMS(1, 2, 2, 3, 5, 4), DIMS(1, 3, 5, 2, 4, 2)};
    itg_tensor *y = add_transpose(graph, add_reshape(graph, x, six[i]), orders[i]);
    itg_graph *result = canonicalise(graph, add_reshape(graph, y, i < 2 ? DIMS(1, 3, 10, 8) : DIMS(1, 12, 5, 4)));
    assert_int_equal(count_op(result, i < 2 ? ITG_OP_DEPTH_TO_SPACE : ITG_OP_SPACE_TO_DEPTH), 1);
    itg_graph_destroy(result);
  }
}

static void padding_moves_into_windows(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    itg_graph *graph = new_graph();
    itg_tensor *x = add_input(graph, "x", DIMS(1, 2, 6, 5));
    itg_attributes pad = {.pad = {.begin = {0, 0, 1, 0}, .end = {0, 0, 1, 1}}};
    if (i == 2) pad.pad.value = -INFINITY;
    if (i == 3) pad.pad.value = 0.5; // Stays.
    itg_tensor *y = ADD_NODE(graph, ITG_OP_PAD, &pad, x);
    itg_attributes window = {.pool = {.window = {2, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}}};
    itg_attributes conv = {.conv = {.window = window.pool.window, .group = 1}};
    if (i == 0 || i == 3)
      y = ADD_NODE(graph, ITG_OP_CONV, &conv, y, add_random(graph, DIMS(3, 2, 3, 3), -1, 1));
    else
      y = ADD_NODE(graph, i == 1 ? ITG_OP_AVERAGE_POOL : ITG_OP_MAX_POOL, &window, y);
    itg_graph *result = canonicalise(graph, y);
    assert_int_equal(count_op(result, ITG_OP_PAD), i == 3 ? 1 : 0);
    itg_graph_destroy(result);
  }
}

static void scale_and_shift_become_affine(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(1, 3, 4, 4));
  itg_tensor *y = ADD_NODE(graph, ITG_OP_SUB, NULL, x, add_random(graph, DIMS(1, 3, 1, 1), 0, 1));
  y = ADD_NODE(graph, ITG_OP_DIV, NULL, y, add_random(graph, DIMS(3, 1, 1), 1, 2));
  y = ADD_NODE(graph, ITG_OP_SUB, NULL, add_scalar(graph, 0.5), y);
  itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_TANH, NULL, y));
  assert_int_equal(count_op(result, ITG_OP_AFFINE), 1);
  assert_int_equal(count_op(result, ITG_OP_SUB) + count_op(result, ITG_OP_DIV), 0);
  itg_graph_destroy(result);
}

static void idle_and_duplicate_nodes_disappear(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(2, 3));
  itg_tensor *a = ADD_NODE(graph, ITG_OP_IDENTITY, NULL, ADD_NODE(graph, ITG_OP_TANH, NULL, x));
  itg_tensor *b = add_reshape(graph, ADD_NODE(graph, ITG_OP_TANH, NULL, x), DIMS(2, 3));
  itg_tensor *dead = ADD_NODE(graph, ITG_OP_EXP, NULL, a);
  assert_int_equal(dead->user_count, 0);
  b = ADD_NODE(graph, ITG_OP_MUL, NULL, b, add_scalar(graph, 1));
  itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_ADD, NULL, a, b));
  assert_int_equal(result->node_count, 2);
  itg_graph_destroy(result);

  graph = new_graph(); // An output that is an input keeps its name.
  x = add_input(graph, "x", DIMS(2, 3));
  result = canonicalise(graph, ADD_NODE(graph, ITG_OP_IDENTITY, NULL, x));
  assert_int_equal(result->node_count, 1);
  itg_graph_destroy(result);
}

static void constants_are_folded(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(2, 3));
  itg_tensor *c = ADD_NODE(graph, ITG_OP_EXP, NULL, add_random(graph, DIMS(3), -1, 1));
  c = ADD_NODE(graph, ITG_OP_ADD, NULL, c, add_random(graph, DIMS(2, 3), -1, 1));
  itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_MUL, NULL, x, c));
  assert_int_equal(result->node_count, 1);
  itg_graph_destroy(result);
}

// q*k^T/sqrt(d) with projections: the factor ends in the weights of q.
static void attention_scale_moves_into_weights(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(1, 6, 8)), *heads[2];
  for (int i = 0; i < 2; i++) {
    itg_tensor *y = ADD_NODE(graph, ITG_OP_MATMUL, NULL, x, add_random(graph, DIMS(8, 8), -1, 1));
    y = add_reshape(graph, ADD_NODE(graph, ITG_OP_ADD, NULL, y, add_random(graph, DIMS(8), -1, 1)), DIMS(1, 6, 2, 4));
    heads[i] = add_transpose(graph, y, i ? (int[]){0, 2, 3, 1} : (int[]){0, 2, 1, 3});
  }
  itg_tensor *y = ADD_NODE(graph, ITG_OP_MATMUL, NULL, heads[0], heads[1]);
  y = ADD_NODE(graph, ITG_OP_DIV, NULL, y, add_scalar(graph, 2));
  const itg_attributes last = {.axis = {.axis = 3}};
  itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_SOFTMAX, &last, y));
  assert_int_equal(count_op(result, ITG_OP_DIV) + count_op(result, ITG_OP_MUL), 0);
  assert_int_equal(count_op(result, ITG_OP_TRANSPOSE), 2);
  ITG_FOR_EACH_NODE(node, result) {
    if (node->op == ITG_OP_MATMUL) assert_int_equal(node->attributes.gemm.transpose_b, 1);
  }
  itg_graph_destroy(result);
}

static itg_tensor *add_fake_quantization(itg_graph *graph, itg_tensor *x, float scale, uint8_t zero) {
  const itg_shape scalar = {0};
  itg_tensor *s = itg_graph_add_constant(graph, "scale", ITG_DTYPE_F32, &scalar, &scale);
  itg_tensor *z = itg_graph_add_constant(graph, "zero", ITG_DTYPE_U8, &scalar, &zero);
  const itg_attributes attributes = {.axis = {.axis = -1}};
  itg_tensor *code = ADD_NODE(graph, ITG_OP_QUANTIZE_LINEAR, &attributes, x, s, z);
  return ADD_NODE(graph, ITG_OP_DEQUANTIZE_LINEAR, &attributes, code, s, z);
}

// A model quantized elsewhere: the pair behind the convolution stands for its ReLU.
static void quantized_models_keep_their_encodings(void **state) {
  (void)state;
  itg_graph *graph = new_graph(), *copy = NULL;
  itg_attributes conv = {.conv = {.window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, .group = 1}};
  itg_tensor *x = add_fake_quantization(graph, add_input(graph, "x", DIMS(1, 3, 6, 5)), 1.0f / 128, 128);
  itg_tensor *y = ADD_NODE(graph, ITG_OP_CONV, &conv, x, add_random(graph, DIMS(4, 3, 3, 3), -0.3, 0.3));
  y = add_fake_quantization(graph, y, 0.01f, 0);
  assert_true(itg_graph_add_output(graph, ADD_NODE(graph, ITG_OP_NEG, NULL, y)));
  assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
  itg_diagnostic diagnostic = {0};
  if (itg_passes_run(copy, NULL, NULL, &diagnostic) != ITG_OK || itg_adapt_run(copy, NULL, &diagnostic) != ITG_OK)
    fail_msg("%s: %s", diagnostic.subject, diagnostic.message);
  assert_int_equal(count_op(copy, ITG_OP_QUANTIZE_LINEAR) + count_op(copy, ITG_OP_DEQUANTIZE_LINEAR), 0);
  assert_int_equal(count_op(copy, ITG_OP_CLIP), 0);
  ITG_FOR_EACH_NODE(node, copy) {
    if (node->op != ITG_OP_CONV) continue;
    const itg_encoding *encoding = node->outputs[0]->encoding;
    assert_int_equal(node->attributes.conv.activation.kind, ITG_ACTIVATION_CLIP);
    assert_true(encoding && encoding->storage == ITG_DTYPE_U8 && encoding->scales[0] == (double)0.01f);
    assert_int_equal(encoding->zero_points[0], 0);
  }
  assert_non_null(copy->inputs[0]->encoding);
  assert_int_equal(copy->inputs[0]->encoding->zero_points[0], 128);
  assert_graphs_equal(graph, copy, 0.02); // Half a code of input and output.
  itg_graph_destroy(copy);
  itg_graph_destroy(graph);
}

static void group_norms_become_layer_norms(void **state) {
  (void)state;
  for (int groups = 0; groups < 3; groups++) { // 0: InstanceNorm.
    itg_graph *graph = new_graph(), *copy = NULL;
    itg_tensor *x = add_input(graph, "x", DIMS(2, 6, 4, 5));
    itg_attributes norm = {.norm = {.epsilon = 1e-5, .axis = 1, .groups = groups}};
    itg_tensor *y = ADD_NODE(graph, groups ? ITG_OP_GROUP_NORM : ITG_OP_INSTANCE_NORM, &norm, x,
                             add_random(graph, DIMS(6), -1, 1), add_random(graph, DIMS(6), -1, 1));
    assert_true(itg_graph_add_output(graph, y));
    assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
    assert_int_equal(itg_passes_run(copy, NULL, NULL, NULL), ITG_OK);
    assert_int_equal(itg_adapt_run(copy, NULL, NULL), ITG_OK);
    assert_int_equal(count_op(copy, ITG_OP_LAYER_NORM), 1);
    assert_int_equal(count_op(copy, ITG_OP_INSTANCE_NORM) + count_op(copy, ITG_OP_GROUP_NORM), 0);
    assert_graphs_equal(graph, copy, 1e-5);
    itg_graph_destroy(copy);
    itg_graph_destroy(graph);
  }
}

static void constants_on_the_left_become_weights(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(2, 5, 3));
  itg_tensor *y = ADD_NODE(graph, ITG_OP_MATMUL, NULL, add_random(graph, DIMS(4, 5), -1, 1), x);
  y = add_transpose(graph, y, (int[]){0, 2, 1});
  itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_RELU, NULL, y));
  assert_int_equal(count_op(result, ITG_OP_FULLY_CONNECTED), 1);
  assert_int_equal(result->node_count, 2);
  itg_graph_destroy(result);
}

static void expansions_before_broadcasts_disappear(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(2, 5, 3)), *z = add_input(graph, "z", DIMS(5, 1));
  z = add_shaped(graph, ITG_OP_EXPAND, NULL, &x->shape, 1, &z);
  itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_MUL, NULL, z, x));
  assert_int_equal(result->node_count, 1);
  itg_graph_destroy(result);
}

// "Minus infinity" of a mask must not become a bias.
static void masks_are_not_merged(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  itg_tensor *x = add_input(graph, "x", DIMS(1, 4, 3));
  const float mask[3] = {0, 0, -3.4e38f};
  const itg_shape shape = DIMS(3);
  itg_tensor *y = ADD_NODE(graph, ITG_OP_MUL, NULL, x, add_scalar(graph, 0.5));
  y = ADD_NODE(graph, ITG_OP_ADD, NULL, y, itg_graph_add_constant(graph, "mask", ITG_DTYPE_F32, &shape, mask));
  const itg_attributes last = {.axis = {.axis = 2}};
  itg_graph *result = canonicalise(graph, ADD_NODE(graph, ITG_OP_SOFTMAX, &last, y));
  assert_int_equal(count_op(result, ITG_OP_AFFINE), 0);
  itg_graph_destroy(result);
}

static void half_precision_is_widened(void **state) {
  (void)state;
  itg_graph *graph = new_graph();
  const itg_shape shape = DIMS(4);
  const uint16_t half[4] = {0x3c00, 0xc000, 0x3800, 0x0001}; // 1, -2, .5, 2^-24
  itg_tensor *x = itg_graph_add_tensor(graph, "x", ITG_DTYPE_F16, &shape);
  itg_tensor *c = itg_graph_add_constant(graph, "c", ITG_DTYPE_F16, &shape, half);
  assert_true(itg_graph_add_input(graph, x));
  itg_tensor *y = ADD_NODE(graph, ITG_OP_TANH, NULL, ADD_NODE(graph, ITG_OP_MUL, NULL, x, c));
  assert_true(itg_graph_add_output(graph, y));
  assert_int_equal(y->dtype, ITG_DTYPE_F16);
  itg_diagnostic diagnostic = {0};
  if (itg_passes_run(graph, NULL, NULL, &diagnostic) != ITG_OK) fail_msg("%s", diagnostic.message);
  assert_int_equal(graph->inputs[0]->dtype, ITG_DTYPE_F16);
  assert_int_equal(graph->outputs[0]->dtype, ITG_DTYPE_F16);
  assert_string_equal(graph->outputs[0]->name, "Tanh");
  assert_int_equal(count_op(graph, ITG_OP_CAST), 2);
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op != ITG_OP_MUL) continue;
    const float *values = node->inputs[1]->data;
    assert_true(values[0] == 1 && values[1] == -2 && values[2] == 0.5f && values[3] == ldexpf(1, -24));
  }
  itg_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batch_norm_behind_convolutions_is_folded),
      cmocka_unit_test(batch_norm_before_padded_convolutions_stays),
      cmocka_unit_test(transposed_convolutions_keep_their_groups),
      cmocka_unit_test(matmul_with_bias_becomes_fully_connected),
      cmocka_unit_test(flatten_is_absorbed_by_the_weights),
      cmocka_unit_test(residual_networks_need_one_transpose),
      cmocka_unit_test(channel_shuffle_moves_along),
      cmocka_unit_test(pixel_shuffle_is_recognised),
      cmocka_unit_test(padding_moves_into_windows),
      cmocka_unit_test(scale_and_shift_become_affine),
      cmocka_unit_test(idle_and_duplicate_nodes_disappear),
      cmocka_unit_test(constants_are_folded),
      cmocka_unit_test(attention_scale_moves_into_weights),
      cmocka_unit_test(half_precision_is_widened),
      cmocka_unit_test(quantized_models_keep_their_encodings),
      cmocka_unit_test(group_norms_become_layer_norms),
      cmocka_unit_test(constants_on_the_left_become_weights),
      cmocka_unit_test(expansions_before_broadcasts_disappear),
      cmocka_unit_test(masks_are_not_merged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
