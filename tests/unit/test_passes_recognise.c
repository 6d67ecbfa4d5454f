// Norms and activations written out as arithmetic, in many spellings: each is recognised, and none changes a value.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "support/float_graph.h"

enum { SPELLINGS = 64 }; // Random orders of operands and factors.

static itg_tensor *binary(itg_graph *graph, itg_op op, itg_tensor *a, itg_tensor *b) {
  return ADD_NODE(graph, op, NULL, a, b);
}
static itg_tensor *unary(itg_graph *graph, itg_op op, itg_tensor *x) { return ADD_NODE(graph, op, NULL, x); }
// Sums and products in either order of the operands.
static itg_tensor *commuting(itg_graph *graph, itg_op op, itg_tensor *a, itg_tensor *b) {
  return random_bool() ? binary(graph, op, a, b) : binary(graph, op, b, a);
}
static itg_tensor *plus(itg_graph *graph, itg_tensor *x, double value) {
  if (random_int(0, 3) == 0) return binary(graph, ITG_OP_SUB, x, add_scalar(graph, -value));
  return commuting(graph, ITG_OP_ADD, x, add_scalar(graph, value));
}
static itg_tensor *times(itg_graph *graph, itg_tensor *x, double value) {
  return random_bool() ? commuting(graph, ITG_OP_MUL, x, add_scalar(graph, value))
                       : binary(graph, ITG_OP_DIV, x, add_scalar(graph, 1 / value));
}
static itg_tensor *clip(itg_graph *graph, itg_tensor *x, double low, double high) {
  const itg_attributes attributes = {.scalar = {low, high}};
  return ADD_NODE(graph, ITG_OP_CLIP, &attributes, x);
}
// factor * x * gate with the factor at a random place.
static itg_tensor *gated(itg_graph *graph, itg_tensor *x, itg_tensor *gate, double factor) {
  switch (factor == 1 ? 3 : random_int(0, 2)) {
  case 0: return commuting(graph, ITG_OP_MUL, times(graph, x, factor), gate);
  case 1: return commuting(graph, ITG_OP_MUL, x, times(graph, gate, factor));
  case 2: return times(graph, commuting(graph, ITG_OP_MUL, x, gate), factor);
  default: return commuting(graph, ITG_OP_MUL, x, gate);
  }
}

static itg_tensor *gelu(itg_graph *graph, itg_tensor *x) {
  itg_tensor *gate = unary(graph, ITG_OP_ERF, times(graph, x, sqrt(0.5)));
  if (random_int(0, 3) == 0) return gated(graph, x, plus(graph, times(graph, gate, 0.5), 0.5), 1);
  return gated(graph, x, plus(graph, gate, 1), 0.5);
}

static itg_tensor *gelu_tanh(itg_graph *graph, itg_tensor *x) {
  itg_tensor *cube, *argument;
  const double root = 0.7978845608028654;
  switch (random_int(0, 3)) {
  case 0:
    cube = binary(graph, ITG_OP_POW, x, add_scalar(graph, 3));
    argument = times(graph, commuting(graph, ITG_OP_ADD, x, times(graph, cube, 0.044715)), root);
    break;
  case 1:
    cube = commuting(graph, ITG_OP_MUL, binary(graph, ITG_OP_MUL, x, x), x);
    argument = times(graph, commuting(graph, ITG_OP_ADD, x, times(graph, cube, 0.044715)), root);
    break;
  case 2:
    cube = commuting(graph, ITG_OP_MUL, times(graph, binary(graph, ITG_OP_MUL, x, x), 0.044715), x);
    argument = times(graph, commuting(graph, ITG_OP_ADD, x, cube), root);
    break;
  default:
    cube = plus(graph, times(graph, binary(graph, ITG_OP_MUL, x, x), 0.044715), 1);
    argument = times(graph, commuting(graph, ITG_OP_MUL, cube, x), root);
    break;
  }
  return gated(graph, x, plus(graph, unary(graph, ITG_OP_TANH, argument), 1), 0.5);
}

static itg_tensor *silu(itg_graph *graph, itg_tensor *x) { return gated(graph, x, unary(graph, ITG_OP_SIGMOID, x), 1); }
static itg_tensor *quick_gelu(itg_graph *graph, itg_tensor *x) {
  return gated(graph, x, unary(graph, ITG_OP_SIGMOID, times(graph, x, 1.702)), 1);
}
static itg_tensor *mish(itg_graph *graph, itg_tensor *x) {
  return gated(graph, x, unary(graph, ITG_OP_TANH, unary(graph, ITG_OP_SOFTPLUS, x)), 1);
}
static itg_tensor *hard_swish(itg_graph *graph, itg_tensor *x) {
  if (random_bool()) return gated(graph, x, clip(graph, plus(graph, x, 3), 0, 6), 1.0 / 6);
  const itg_attributes attributes = {.scalar = {1.0f / 6, 0.5}};
  return gated(graph, x, ADD_NODE(graph, ITG_OP_HARD_SIGMOID, &attributes, x), 1);
}
static itg_tensor *hard_sigmoid(itg_graph *graph, itg_tensor *x) {
  if (random_bool()) return clip(graph, plus(graph, times(graph, x, 0.2), 0.5), 0, 1);
  return times(graph, clip(graph, plus(graph, x, 3), 0, 6), 1.0 / 6);
}

static itg_tensor *inverse_root(itg_graph *graph, itg_tensor *x, itg_tensor *variance) {
  switch (random_int(0, 3)) {
  case 0: return commuting(graph, ITG_OP_MUL, x, unary(graph, ITG_OP_RECIPROCAL, unary(graph, ITG_OP_SQRT, variance)));
  case 1: return commuting(graph, ITG_OP_MUL, x, binary(graph, ITG_OP_POW, variance, add_scalar(graph, -0.5)));
  case 2: {
    itg_tensor *root = unary(graph, ITG_OP_SQRT, variance);
    return commuting(graph, ITG_OP_MUL, x, binary(graph, ITG_OP_DIV, add_scalar(graph, 1), root));
  }
  default: return binary(graph, ITG_OP_DIV, x, unary(graph, ITG_OP_SQRT, variance));
  }
}

static itg_tensor *norm(itg_graph *graph, itg_tensor *x, bool is_centred, uint32_t axes, itg_shape parameters) {
  const itg_attributes mean = {.reduce = {.axes = axes, .keep_dims = 1}};
  itg_tensor *d = x;
  if (is_centred) d = binary(graph, ITG_OP_SUB, x, ADD_NODE(graph, ITG_OP_REDUCE_MEAN, &mean, x));
  itg_tensor *square =
      random_bool() ? binary(graph, ITG_OP_MUL, d, d) : binary(graph, ITG_OP_POW, d, add_scalar(graph, 2));
  itg_tensor *variance = ADD_NODE(graph, ITG_OP_REDUCE_MEAN, &mean, square);
  variance = commuting(graph, ITG_OP_ADD, variance, add_scalar(graph, 1e-5));
  itg_tensor *y = inverse_root(graph, d, variance);
  if (random_int(0, 3)) y = commuting(graph, ITG_OP_MUL, y, add_random(graph, parameters, 0.5, 1.5));
  if (is_centred && random_int(0, 3)) y = commuting(graph, ITG_OP_ADD, y, add_random(graph, parameters, -1, 1));
  return y;
}

static itg_tensor *unit_length(itg_graph *graph, itg_tensor *x) {
  const itg_attributes sum = {.reduce = {.axes = 4, .keep_dims = 1}};
  itg_tensor *length;
  switch (random_int(0, 3)) {
  case 0: length = ADD_NODE(graph, ITG_OP_REDUCE_L2, &sum, x); break;
  case 1: length = unary(graph, ITG_OP_SQRT, ADD_NODE(graph, ITG_OP_REDUCE_SUM_SQUARE, &sum, x)); break;
  case 2:
    length = unary(graph, ITG_OP_SQRT, ADD_NODE(graph, ITG_OP_REDUCE_SUM, &sum, binary(graph, ITG_OP_MUL, x, x)));
    break;
  default:
    length = binary(graph, ITG_OP_POW, x, add_scalar(graph, 2));
    length = binary(graph, ITG_OP_POW, ADD_NODE(graph, ITG_OP_REDUCE_SUM, &sum, length), add_scalar(graph, 0.5));
    break;
  }
  if (random_bool()) length = clip(graph, length, 1e-12, INFINITY);
  if (random_bool()) length = add_shaped(graph, ITG_OP_EXPAND, NULL, &x->shape, 1, &length);
  return binary(graph, ITG_OP_DIV, x, length);
}

typedef itg_tensor *(*spelling)(itg_graph *graph, itg_tensor *x);

static itg_tensor *layer_norm(itg_graph *graph, itg_tensor *x) { return norm(graph, x, true, 4, DIMS(8)); }
static itg_tensor *layer_norm_two(itg_graph *graph, itg_tensor *x) { return norm(graph, x, true, 6, DIMS(5, 8)); }
static itg_tensor *layer_norm_first(itg_graph *graph, itg_tensor *x) { return norm(graph, x, true, 2, DIMS(5, 1)); }
static itg_tensor *rms_norm(itg_graph *graph, itg_tensor *x) { return norm(graph, x, false, 4, DIMS(8)); }

// Every spelling becomes exactly one `op` and nothing else but (possibly) `others` movement nodes.
static void check(spelling build, itg_op op, int64_t nodes) {
  for (int i = 0; i < SPELLINGS; i++) {
    random_state = (uint64_t)i + 1;
    itg_graph *graph = new_graph(), *copy = NULL;
    itg_tensor *x = add_input(graph, "x", DIMS(2, 5, 8));
    itg_tensor *scaled = binary(graph, ITG_OP_MUL, x, add_random(graph, DIMS(5, 8), 2, 6));
    assert_true(itg_graph_add_output(graph, build(graph, scaled)));
    assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
    assert_int_equal(itg_passes_run(copy, NULL, NULL, NULL), ITG_OK);
    assert_graphs_equal(graph, copy, 1e-5);
    if (count_op(copy, op) != 1 || copy->node_count != nodes) {
      itg_graph_print(graph, stderr);
      itg_graph_print(copy, stderr);
      fail_msg("spelling %d of %s is not recognised", i, itg_op_name((int)op));
    }
    itg_graph_destroy(copy);
    itg_graph_destroy(graph);
  }
}

static void activations_are_recognised(void **state) {
  (void)state;
  check(gelu, ITG_OP_GELU, 2);
  check(gelu_tanh, ITG_OP_GELU, 2);
  check(silu, ITG_OP_SILU, 2);
  check(quick_gelu, ITG_OP_QUICK_GELU, 2);
  check(mish, ITG_OP_MISH, 2);
  check(hard_swish, ITG_OP_HARD_SWISH, 2);
  check(hard_sigmoid, ITG_OP_HARD_SIGMOID, 2);
}

static void norms_are_recognised(void **state) {
  (void)state;
  check(layer_norm, ITG_OP_LAYER_NORM, 2);
  check(layer_norm_two, ITG_OP_LAYER_NORM, 2);
  check(layer_norm_first, ITG_OP_LAYER_NORM, 4);
  check(rms_norm, ITG_OP_RMS_NORM, 2);
  check(unit_length, ITG_OP_LP_NORM, 2);
}

// Almost an activation: must keep its value, and must not become one.
static void near_misses_are_left_alone(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    itg_graph *graph = new_graph(), *copy = NULL;
    itg_tensor *x = add_input(graph, "x", DIMS(2, 5, 8)), *other = add_input(graph, "z", DIMS(2, 5, 8)), *y = NULL;
    switch (i) {
    case 0: y = gated(graph, x, unary(graph, ITG_OP_SIGMOID, other), 1); break;
    case 1: y = gated(graph, x, clip(graph, plus(graph, x, 3), 0, 5), 1.0 / 6); break;
    case 2: y = gated(graph, x, plus(graph, unary(graph, ITG_OP_ERF, times(graph, x, 0.7)), 1), 0.5); break;
    case 3: y = gated(graph, x, unary(graph, ITG_OP_SIGMOID, plus(graph, x, 0.1)), 1); break;
    case 4: y = gated(graph, x, clip(graph, plus(graph, other, 3), 0, 6), 1.0 / 6); break;
    default: y = clip(graph, plus(graph, times(graph, x, 0.2), 0.5), 0.1, 1); break;
    }
    assert_true(itg_graph_add_output(graph, y));
    assert_int_equal(itg_graph_clone(graph, NULL, &copy), ITG_OK);
    assert_int_equal(itg_passes_run(copy, NULL, NULL, NULL), ITG_OK);
    assert_int_equal(count_op(copy, ITG_OP_SILU) + count_op(copy, ITG_OP_HARD_SWISH) + count_op(copy, ITG_OP_GELU) +
                         count_op(copy, ITG_OP_QUICK_GELU) + (i == 5 ? count_op(copy, ITG_OP_HARD_SIGMOID) : 0),
                     0);
    assert_graphs_equal(graph, copy, 1e-5);
    itg_graph_destroy(copy);
    itg_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(activations_are_recognised),
      cmocka_unit_test(norms_are_recognised),
      cmocka_unit_test(near_misses_are_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
