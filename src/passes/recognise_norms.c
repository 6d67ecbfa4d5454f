// LayerNorm and RMSNorm written out as arithmetic:
//   d/sqrt(mean(d^2) + epsilon), d = x - mean(x): LayerNorm;  d = x: RMSNorm;  then perhaps *gamma, +beta
//   x/|x|, x/max(|x|, tiny): LpNormalization with p = 2
// The square may be Pow or Mul, the division Div, Mul by Reciprocal, or Mul by Pow(.., -1/2). One axis in the middle (images
// with channels first) is moved to the end with Transposes. Ba et al. (2016); Zhang and Sennrich (2019).
#include <stdlib.h>

#include "passes/list.h"
#include "passes/rewrite.h"

typedef struct norm {
  itg_tensor *x; // What is normalised.
  uint32_t axes;
  double epsilon;
  bool is_centred;   // LayerNorm.
  itg_node *last;    // The last node of the pattern.
  itg_tensor *gamma; // Constants or NULL.
  itg_tensor *beta;
} norm;

static itg_node *producer_of_kind(const itg_tensor *tensor, itg_op op) {
  return tensor && tensor->producer && tensor->producer->op == op ? tensor->producer : NULL;
}

static bool is_mean(const itg_tensor *tensor, uint32_t *axes, itg_tensor **x) {
  const itg_node *node = producer_of_kind(tensor, ITG_OP_REDUCE_MEAN);
  if (!node || !node->attributes.reduce.keep_dims) return false;
  *axes = node->attributes.reduce.axes;
  *x = node->inputs[0];
  return true;
}

static bool is_square_of(const itg_tensor *tensor, const itg_tensor *d) {
  const itg_node *node = tensor->producer;
  double exponent;
  if (!node || node->inputs[0] != d) return false;
  return (node->op == ITG_OP_MUL && node->inputs[1] == d) ||
         (node->op == ITG_OP_POW && itg_constant_is_uniform(node->inputs[1], &exponent) && exponent == 2);
}

// tensor = variance + epsilon, variance = mean(d^2).
static bool is_variance(const itg_tensor *tensor, const itg_tensor *d, norm *out) {
  const itg_node *sum = producer_of_kind(tensor, ITG_OP_ADD);
  if (!sum) return false;
  for (int i = 0; i < 2; i++) {
    itg_tensor *square;
    if (itg_constant_is_uniform(sum->inputs[1 - i], &out->epsilon) && is_mean(sum->inputs[i], &out->axes, &square))
      return out->epsilon >= 0 && is_square_of(square, d);
  }
  return false;
}

// tensor = 1/sqrt(variance + epsilon).
static bool is_inverse_deviation(const itg_tensor *tensor, const itg_tensor *d, norm *out) {
  double exponent;
  const itg_node *node = producer_of_kind(tensor, ITG_OP_RECIPROCAL);
  if (node) {
    node = producer_of_kind(node->inputs[0], ITG_OP_SQRT);
    return node && is_variance(node->inputs[0], d, out);
  }
  node = producer_of_kind(tensor, ITG_OP_DIV);
  if (node && itg_constant_is_uniform(node->inputs[0], &exponent) && exponent == 1) {
    node = producer_of_kind(node->inputs[1], ITG_OP_SQRT);
    return node && is_variance(node->inputs[0], d, out);
  }
  node = producer_of_kind(tensor, ITG_OP_POW);
  return node && itg_constant_is_uniform(node->inputs[1], &exponent) && exponent == -0.5 &&
         is_variance(node->inputs[0], d, out);
}

static bool is_normalisation(itg_node *node, norm *out) {
  *out = (norm){.last = node};
  itg_tensor *d = NULL;
  if (node->op == ITG_OP_DIV) {
    const itg_node *root = producer_of_kind(node->inputs[1], ITG_OP_SQRT);
    if (root && is_variance(root->inputs[0], node->inputs[0], out)) d = node->inputs[0];
  } else if (node->op == ITG_OP_MUL) {
    for (int i = 0; i < 2 && !d; i++) {
      if (is_inverse_deviation(node->inputs[1 - i], node->inputs[i], out)) d = node->inputs[i];
    }
  }
  if (!d) return false;
  out->x = d;
  const itg_node *difference = producer_of_kind(d, ITG_OP_SUB);
  uint32_t axes;
  itg_tensor *x;
  if (difference && is_mean(difference->inputs[1], &axes, &x) && axes == out->axes && x == difference->inputs[0]) {
    out->x = x;
    out->is_centred = true;
  }
  return itg_shape_equal(&out->x->shape, &node->outputs[0]->shape);
}

// The constant has the dimensions of the normalised axes exactly (others 1 or absent), or is one number.
static bool varies_along(const itg_tensor *constant, const itg_shape *shape, uint32_t axes) {
  if (!itg_tensor_is_constant(constant) || !itg_dtype_is_rewritable(constant->dtype) ||
      constant->shape.rank > shape->rank)
    return false;
  const itg_shape extended = itg_shape_extend(&constant->shape, shape->rank);
  for (int32_t i = 0; i < shape->rank; i++) {
    if (extended.dims[i] != (axes >> i & 1 ? shape->dims[i] : 1)) return false;
  }
  return true;
}

// Takes a following operation with a constant into the pattern.
static void extend(norm *pattern, itg_op op, itg_tensor **constant) {
  itg_node *next = itg_tensor_only_user(pattern->last->outputs[0]);
  if (!next || next->op != op) return;
  for (int i = 0; i < 2; i++) {
    if (next->inputs[i] != pattern->last->outputs[0] ||
        !varies_along(next->inputs[1 - i], &pattern->x->shape, pattern->axes))
      continue;
    *constant = next->inputs[1 - i];
    pattern->last = next;
    return;
  }
}

// The first normalised dimension when they are the last ones, or -1.
static int32_t first_axis(uint32_t axes, int32_t rank) {
  for (int32_t axis = 0; axis < rank; axis++) {
    if (axes == ((1u << rank) - 1) - ((1u << axis) - 1)) return axis;
  }
  return -1;
}

// The single normalised dimension, or -1.
static int32_t single_axis(uint32_t axes, int32_t rank) {
  for (int32_t axis = 0; axis < rank; axis++) {
    if (axes == 1u << axis) return axis;
  }
  return -1;
}

static itg_tensor *make_parameter(itg_graph *graph, itg_tensor *constant, const itg_shape *shape, itg_dtype dtype,
                                  const char *name) {
  if (constant) return itg_constant_reshape(graph, constant, shape);
  size_t count;
  itg_tensor *ones = itg_graph_add_constant(graph, name, dtype, shape, NULL);
  if (!ones || !itg_shape_count(shape, &count)) return NULL;
  for (size_t i = 0; i < count; i++) {
    if (dtype == ITG_DTYPE_F64)
      ((double *)itg_tensor_writable(ones))[i] = 1;
    else
      ((float *)itg_tensor_writable(ones))[i] = 1;
  }
  return ones;
}

// Puts the norm in the place of the pattern's last node.
static itg_status build(itg_graph *graph, const norm *pattern, itg_diagnostic *diagnostic) {
  itg_node *last = pattern->last;
  itg_tensor *x = pattern->x, *y = last->outputs[0], *const old[2] = {last->inputs[0], last->inputs[1]};
  const int32_t rank = x->shape.rank;
  int32_t axis = first_axis(pattern->axes, rank), forward[ITG_MAX_RANK], back[ITG_MAX_RANK];
  const bool is_moved = axis < 0;
  if (is_moved) {
    axis = single_axis(pattern->axes, rank);
    for (int32_t i = 0; i < rank; i++) forward[i] = i < axis ? i : i + 1 < rank ? i + 1 : axis;
    for (int32_t i = 0; i < rank; i++) back[forward[i]] = i;
  }
  const itg_shape shape = itg_shape_of(is_moved ? 1 : rank - axis, &x->shape.dims[axis]);
  itg_tensor *gamma = make_parameter(graph, pattern->gamma, &shape, x->dtype, last->name);
  ITG_TRY_MEMORY(gamma, diagnostic);
  itg_tensor *beta = NULL;
  if (pattern->beta) {
    beta = make_parameter(graph, pattern->beta, &shape, x->dtype, last->name);
    ITG_TRY_MEMORY(beta, diagnostic);
  }
  itg_node *before = last->next;
  const char *name = last->name;
  itg_graph_remove_node(graph, last);
  itg_tensor *result = y;
  if (is_moved) {
    x = itg_insert_transpose(graph, before, x, forward);
    ITG_TRY_MEMORY(x, diagnostic);
    result = itg_graph_add_tensor(graph, y->name, y->dtype, &x->shape);
    ITG_TRY_MEMORY(result, diagnostic);
  }
  itg_node *made = itg_graph_insert_node(graph, before, pattern->is_centred ? ITG_OP_LAYER_NORM : ITG_OP_RMS_NORM, name,
                                         (itg_tensor *[]){x, gamma, beta}, beta ? 3 : 2, &result, 1);
  ITG_TRY_MEMORY(made, diagnostic);
  made->attributes.norm.axis = is_moved ? rank - 1 : axis;
  made->attributes.norm.epsilon = pattern->epsilon;
  if (is_moved) {
    itg_node *transpose = itg_graph_insert_node(graph, before, ITG_OP_TRANSPOSE, name, &result, 1, &y, 1);
    ITG_TRY_MEMORY(transpose, diagnostic);
    for (int32_t i = 0; i < rank; i++) transpose->attributes.permutation.permutation[i] = back[i];
  }
  for (int i = 0; i < 2; i++) itg_remove_dead(graph, old[i]);
  return ITG_OK;
}

// ---- x/|x| ----

// tensor = the Euclidean length of x along out->axes.
static bool is_length(const itg_tensor *tensor, const itg_tensor *x, uint32_t *axes) {
  const itg_node *node = producer_of_kind(tensor, ITG_OP_REDUCE_L2);
  double exponent;
  if (!node) {
    const itg_node *root = tensor->producer;
    if (!root || !(root->op == ITG_OP_SQRT ||
                   (root->op == ITG_OP_POW && itg_constant_is_uniform(root->inputs[1], &exponent) && exponent == 0.5)))
      return false;
    node = producer_of_kind(root->inputs[0], ITG_OP_REDUCE_SUM_SQUARE);
    if (!node) {
      node = producer_of_kind(root->inputs[0], ITG_OP_REDUCE_SUM);
      if (!node || !node->attributes.reduce.keep_dims || !is_square_of(node->inputs[0], x)) return false;
      *axes = node->attributes.reduce.axes;
      return true;
    }
  }
  *axes = node->attributes.reduce.axes;
  return node->inputs[0] == x && node->attributes.reduce.keep_dims;
}

// Frameworks divide by max(|x|, 1e-12): the bound matters to no vector that a float32 network means.
static const itg_tensor *without_bound(const itg_tensor *tensor) {
  const double negligible = 1e-6;
  const itg_node *node = tensor->producer;
  double bound;
  if (node && node->op == ITG_OP_EXPAND) node = (tensor = node->inputs[0])->producer;
  if (!node) return tensor;
  const itg_scalar_attributes *clip = &node->attributes.scalar;
  if (node->op == ITG_OP_CLIP && clip->alpha <= negligible && clip->beta > 1e30) return node->inputs[0];
  for (int i = 0; node->op == ITG_OP_MAX && i < 2; i++) {
    if (itg_constant_is_uniform(node->inputs[i], &bound) && bound <= negligible) return node->inputs[1 - i];
  }
  return tensor;
}

// x/|x| along one axis becomes LP_NORM with p = 2.
static itg_status match_unit_length(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  itg_tensor *x = node->inputs[0], *const old = node->inputs[1];
  uint32_t axes;
  if (!is_length(without_bound(old), x, &axes) || !itg_shape_equal(&x->shape, &node->outputs[0]->shape)) return ITG_OK;
  const int32_t axis = single_axis(axes, x->shape.rank);
  if (axis < 0) return ITG_OK;
  itg_node *made = itg_replace_node(graph, node, ITG_OP_LP_NORM, &x, 1);
  ITG_TRY_MEMORY(made, diagnostic);
  made->attributes.norm.axis = axis;
  made->attributes.norm.groups = 2;
  itg_remove_dead(graph, old);
  *changed = true;
  return ITG_OK;
}

itg_status itg_pass_recognise_norms(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    norm pattern;
    if (node->op == ITG_OP_DIV && itg_dtype_is_rewritable(node->outputs[0]->dtype)) {
      bool done = false;
      ITG_TRY(match_unit_length(graph, node, &done, diagnostic));
      *changed = *changed || done;
      if (done) continue;
    }
    if ((node->op != ITG_OP_DIV && node->op != ITG_OP_MUL) || !itg_dtype_is_rewritable(node->outputs[0]->dtype) ||
        !is_normalisation(node, &pattern))
      continue;
    const int32_t rank = pattern.x->shape.rank;
    if (first_axis(pattern.axes, rank) < 0 && single_axis(pattern.axes, rank) < 0) continue;
    extend(&pattern, ITG_OP_MUL, &pattern.gamma);
    if (pattern.is_centred) extend(&pattern, ITG_OP_ADD, &pattern.beta);
    following = pattern.last->next;
    ITG_TRY(build(graph, &pattern, diagnostic));
    *changed = true;
  }
  return ITG_OK;
}
