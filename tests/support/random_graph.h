// Random float graphs of convolutions, pools, movement, reductions and arithmetic. Seed with random_state (float_graph.h).
#ifndef ITG_TESTS_RANDOM_GRAPH_H
#define ITG_TESTS_RANDOM_GRAPH_H

#include "support/float_graph.h"

enum { MOST_TENSORS = 64, MOST_ELEMENTS = 6000 };

typedef struct generator {
  itg_graph *graph;
  itg_tensor *tensors[MOST_TENSORS];
  int count;
} generator;

static inline itg_tensor *pick(generator *g) {
  return g->tensors[random_int(g->count > 6 ? g->count - 6 : 0, g->count - 1)];
}

static inline itg_tensor *random_unary(itg_graph *graph, itg_tensor *x) {
  const itg_op ops[] = {ITG_OP_RELU, ITG_OP_LEAKY_RELU, ITG_OP_CLIP, ITG_OP_SIGMOID,
                        ITG_OP_TANH, ITG_OP_HARD_SWISH, ITG_OP_NEG,  ITG_OP_ABS};
  const itg_op op = ops[random_int(0, 7)];
  itg_attributes attributes = {.scalar = {.alpha = op == ITG_OP_CLIP ? -0.3 : 0.2, .beta = 0.8}};
  return ADD_NODE(graph, op, &attributes, x);
}

// A constant that broadcasts into x: a scalar, or varying along one dimension, or all.
static inline itg_tensor *random_operand(itg_graph *graph, const itg_shape *shape) {
  const int kind = random_int(0, 4);
  if (kind == 4) { // Broadcast twice.
    itg_tensor *one = add_random(graph, DIMS(1), 0.5, 1.5);
    return add_shaped(graph, ITG_OP_EXPAND, NULL, shape, 1, &one);
  }
  if (kind == 0 || shape->rank == 0) return add_scalar(graph, random_float(0.5, 1.5));
  itg_shape made = *shape;
  const int axis = random_int(0, shape->rank - 1);
  for (int i = 0; i < made.rank && kind < 3; i++) {
    if (i != axis) made.dims[i] = 1;
  }
  while (made.rank > 1 && made.dims[0] == 1 && random_bool()) {
    memmove(&made.dims[0], &made.dims[1], (size_t)(made.rank - 1) * sizeof made.dims[0]);
    made.rank--;
  }
  return add_random(graph, made, 0.5, 1.5);
}

static inline itg_tensor *random_arithmetic(generator *g, itg_tensor *x) {
  const itg_op ops[] = {ITG_OP_ADD, ITG_OP_SUB, ITG_OP_MUL, ITG_OP_DIV};
  itg_tensor *other = pick(g);
  itg_shape shape;
  if (random_bool() && itg_shape_broadcast(&x->shape, &other->shape, &shape) && shape.rank <= 6)
    return ADD_NODE(g->graph, ops[random_int(0, 2)], NULL, x, other);
  const itg_op op = ops[random_int(0, 3)];
  other = random_operand(g->graph, &x->shape);
  return op != ITG_OP_DIV && random_bool() ? ADD_NODE(g->graph, op, NULL, other, x)
                                           : ADD_NODE(g->graph, op, NULL, x, other);
}

static inline itg_tensor *random_prelu(itg_graph *graph, itg_tensor *x) {
  itg_shape shape = {.rank = x->shape.rank - 1};
  for (int i = 0; i < shape.rank; i++) shape.dims[i] = i == 0 ? x->shape.dims[1] : 1;
  return ADD_NODE(graph, ITG_OP_PRELU, NULL, x, add_random(graph, shape, -0.2, 0.5));
}

static inline itg_tensor *random_pool(itg_graph *graph, itg_tensor *x) {
  const int rank = x->shape.rank - 2;
  itg_attributes attributes = {.pool = {.window = random_window(rank, &x->shape.dims[2], true)}};
  attributes.pool.count_include_pad = random_bool();
  for (int i = 0; i < rank; i++) attributes.pool.declared_pad_end[i] = random_int(0, attributes.pool.window.pad_end[i]);
  return ADD_NODE(graph, random_bool() ? ITG_OP_MAX_POOL : ITG_OP_AVERAGE_POOL, &attributes, x);
}

static inline itg_tensor *random_movement(itg_graph *graph, itg_tensor *x) {
  const int rank = x->shape.rank;
  int order[ITG_MAX_RANK];
  for (int i = 0; i < rank; i++) order[i] = i;
  for (int i = rank - 1; i > 0; i--) {
    const int j = random_int(0, i), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  return add_transpose(graph, x, order);
}

// Merges two neighbouring dimensions or splits an even one, or adds a dimension of 1.
static inline itg_tensor *random_reshape(itg_graph *graph, itg_tensor *x) {
  itg_shape shape = x->shape;
  const int kind = random_int(0, 3), at = random_int(0, shape.rank - 1);
  if (kind < 2 && shape.rank > 2 && at + 1 < shape.rank) {
    shape.dims[at] *= shape.dims[at + 1];
    for (int i = at + 1; i + 1 < shape.rank; i++) shape.dims[i] = shape.dims[i + 1];
    shape.rank--;
  } else if (shape.rank < 5) {
    const int64_t factor = shape.dims[at] % 2 == 0 && kind < 3 ? 2 : 1;
    for (int i = shape.rank; i > at; i--) shape.dims[i] = shape.dims[i - 1];
    shape.dims[at] = factor;
    shape.dims[at + 1] /= factor;
    shape.rank++;
  }
  return add_reshape(graph, x, shape);
}

static inline itg_tensor *random_slice(itg_graph *graph, itg_tensor *x) {
  itg_attributes attributes = {0};
  itg_shape shape = x->shape;
  for (int i = 0; i < shape.rank; i++) attributes.slice.step[i] = 1;
  const int axis = random_int(0, shape.rank - 1), size = (int)shape.dims[axis];
  const int begin = random_int(0, size - 1), end = random_int(begin, size - 1);
  const bool backwards = random_bool();
  shape.dims[axis] = end - begin + 1;
  attributes.slice.start[axis] = backwards ? end : begin;
  attributes.slice.step[axis] = backwards ? -1 : 1;
  return add_shaped(graph, ITG_OP_SLICE, &attributes, &shape, 1, &x);
}

static inline itg_tensor *random_pad(itg_graph *graph, itg_tensor *x) {
  itg_attributes attributes = {.pad = {.value = random_bool() ? 0 : 0.25}};
  for (int i = x->shape.rank > 2 ? 2 : 0; i < x->shape.rank; i++) {
    attributes.pad.begin[i] = random_int(0, 1);
    attributes.pad.end[i] = random_int(0, 2);
  }
  return ADD_NODE(graph, ITG_OP_PAD, &attributes, x);
}

static inline itg_tensor *random_concat(generator *g, itg_tensor *x) {
  itg_tensor *other = pick(g);
  itg_attributes attributes = {.axis = {.axis = random_int(0, x->shape.rank - 1)}};
  if (other->shape.rank != x->shape.rank) other = x;
  for (int i = 0; i < x->shape.rank; i++) {
    if (i != attributes.axis.axis && other->shape.dims[i] != x->shape.dims[i]) other = x;
  }
  return ADD_NODE(g->graph, ITG_OP_CONCAT, &attributes, x, other, x);
}

static inline itg_tensor *random_reduce(itg_graph *graph, itg_tensor *x) {
  itg_attributes attributes = {.reduce = {.keep_dims = random_bool()}};
  attributes.reduce.axes = random_bits() & ((1u << x->shape.rank) - 1);
  if (x->shape.rank == 4 && random_bool()) attributes.reduce.axes = 0xc;
  return ADD_NODE(graph, random_bool() ? ITG_OP_REDUCE_MEAN : ITG_OP_REDUCE_MAX, &attributes, x);
}

static inline itg_tensor *random_matmul(generator *g, itg_tensor *x) {
  const int64_t k = x->shape.dims[x->shape.rank - 1];
  if (random_int(0, 3) == 0) {
    const int64_t rows = x->shape.dims[x->shape.rank - 2];
    return ADD_NODE(g->graph, ITG_OP_MATMUL, NULL, add_random(g->graph, DIMS(3, rows), -0.5, 0.5), x);
  }
  itg_tensor *y = ADD_NODE(g->graph, ITG_OP_MATMUL, NULL, x, add_random(g->graph, DIMS(k, 4), -0.5, 0.5));
  return random_bool() ? ADD_NODE(g->graph, ITG_OP_ADD, NULL, y, add_random(g->graph, DIMS(4), -1, 1)) : y;
}

// x times itself transposed, as attention does.
static inline itg_tensor *random_product(itg_graph *graph, itg_tensor *x) {
  int order[ITG_MAX_RANK];
  const int rank = x->shape.rank;
  for (int i = 0; i < rank; i++) order[i] = i;
  order[rank - 1] = rank - 2;
  order[rank - 2] = rank - 1;
  itg_tensor *y = ADD_NODE(graph, ITG_OP_MATMUL, NULL, x, add_transpose(graph, x, order));
  return ADD_NODE(graph, ITG_OP_MUL, NULL, y, add_scalar(graph, 0.2));
}

static inline itg_tensor *random_resize(itg_graph *graph, itg_tensor *x) {
  itg_attributes attributes = {.resize = {.mode = random_bool() ? ITG_RESIZE_LINEAR : ITG_RESIZE_NEAREST,
                                          .coordinates = random_bool() ? ITG_RESIZE_ASYMMETRIC : ITG_RESIZE_HALF_PIXEL,
                                          .nearest_rounding = ITG_NEAREST_FLOOR}};
  itg_shape shape = x->shape;
  for (int i = 0; i < shape.rank; i++) attributes.resize.scale[i] = 1;
  for (int i = 2; i < shape.rank; i++) {
    attributes.resize.scale[i] = 2;
    shape.dims[i] *= 2;
  }
  return add_shaped(graph, ITG_OP_RESIZE, &attributes, &shape, 1, &x);
}

static inline itg_tensor *random_axis_operation(itg_graph *graph, itg_tensor *x) {
  itg_attributes attributes = {.axis = {.axis = random_int(0, x->shape.rank - 1)}};
  if (random_bool()) return ADD_NODE(graph, ITG_OP_SOFTMAX, &attributes, x);
  const int limit = (int)x->shape.dims[attributes.axis.axis];
  return ADD_NODE(graph, ITG_OP_GATHER, &attributes, x, add_indices(graph, random_int(0, 2), limit));
}

static inline itg_tensor *step(generator *g) {
  itg_tensor *x = pick(g);
  const int rank = x->shape.rank;
  const bool is_image = rank == 4 || rank == 3;
  if (rank < 2) return random_unary(g->graph, x);
  switch (random_int(0, 16)) {
  case 0:
  case 1:
  case 2: return is_image ? add_random_conv(g->graph, x) : random_unary(g->graph, x);
  case 3: return add_batch_norm(g->graph, x, 1);
  case 4: return random_unary(g->graph, x);
  case 5: return random_prelu(g->graph, x);
  case 6: return random_arithmetic(g, x);
  case 7: return is_image ? random_pool(g->graph, x) : random_arithmetic(g, x);
  case 8: return random_movement(g->graph, x);
  case 9: return random_reshape(g->graph, x);
  case 10: return random_slice(g->graph, x);
  case 11: return random_pad(g->graph, x);
  case 12: return random_concat(g, x);
  case 13: return random_reduce(g->graph, x);
  case 14: return random_bool() ? random_matmul(g, x) : random_product(g->graph, x);
  case 15: return is_image ? random_resize(g->graph, x) : random_reduce(g->graph, x);
  default: return random_axis_operation(g->graph, x);
  }
}

static inline itg_graph *random_graph(int steps) {
  generator g = {.graph = new_graph()};
  const int channels = 2 * random_int(1, 3);
  g.tensors[g.count++] = random_int(0, 3) ? add_input(g.graph, "x", DIMS(1, channels, 6, 5))
                                          : add_input(g.graph, "x", DIMS(2, channels, 9));
  for (int i = 0; i < steps; i++) {
    itg_tensor *y = step(&g);
    size_t count;
    // Results that are too large or empty are left unread.
    if (itg_shape_count(&y->shape, &count) && count > 0 && count <= MOST_ELEMENTS) g.tensors[g.count++] = y;
  }
  for (int i = 1; i < g.count; i++) {
    if (g.tensors[i]->user_count == 0 || random_int(0, 9) == 0)
      assert_true(itg_graph_add_output(g.graph, g.tensors[i]));
  }
  if (g.graph->output_count == 0) assert_true(itg_graph_add_output(g.graph, g.tensors[g.count - 1]));
  return g.graph;
}

#endif
