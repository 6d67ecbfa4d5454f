// Moves Transposes towards the graph's outputs, in one sweep: where a node reads t = Transpose(s), the node is rewritten to
// read s and a Transpose behind it restores its old output. Two Transposes that meet become one; inverse ones vanish.
//
// Convention: t.dims[i] = s.dims[p[i]] for t = Transpose(s, p). A dimension i of t is dimension p[i] of s.
// Cost: constant for each node (attributes and ranks are bounded), plus the transposed constants.
#include <string.h>

#include "passes/list.h"
#include "passes/rewrite.h"

typedef struct sweep {
  itg_graph *graph;
  bool *changed;
  itg_diagnostic *diagnostic;
} sweep;

static bool is_identity(const int32_t *permutation, int32_t rank) {
  for (int32_t i = 0; i < rank; i++) {
    if (permutation[i] != i) return false;
  }
  return true;
}

static void invert(const int32_t *permutation, int32_t rank, int32_t *inverse) {
  for (int32_t i = 0; i < rank; i++) inverse[permutation[i]] = i;
}

// The Transposes seen so far that read a tensor form a list from tensor->scratch through node->scratch. (Those of constants,
// which were too large to fold, are not listed: the constant's scratch has another use below.)
static void record(itg_node *transpose) {
  if (itg_tensor_is_constant(transpose->inputs[0])) return;
  transpose->scratch = transpose->inputs[0]->scratch;
  transpose->inputs[0]->scratch = transpose;
}

static itg_node *find_recorded(const itg_tensor *x, const int32_t *permutation) {
  if (itg_tensor_is_constant(x)) return NULL;
  for (itg_node *node = x->scratch; node; node = node->scratch) {
    if (node->inputs[0] == x && memcmp(node->attributes.permutation.permutation, permutation,
                                       (size_t)x->shape.rank * sizeof permutation[0]) == 0)
      return node;
  }
  return NULL;
}

// The Transpose that produces a tensor, or NULL.
static itg_node *transpose_of(const itg_tensor *tensor) {
  return tensor && tensor->producer && tensor->producer->op == ITG_OP_TRANSPOSE ? tensor->producer : NULL;
}

// ---- a Transpose itself: merge with the one in front, drop identities, share equal ones ----

static itg_status visit_transpose(sweep *state, itg_node *node) {
  int32_t *permutation = node->attributes.permutation.permutation;
  const int32_t rank = node->inputs[0]->shape.rank;
  const itg_node *front = transpose_of(node->inputs[0]);
  if (front) {
    int32_t merged[ITG_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) merged[i] = front->attributes.permutation.permutation[permutation[i]];
    memcpy(permutation, merged, (size_t)rank * sizeof merged[0]);
    ITG_TRY_MEMORY(itg_node_set_input(node, 0, front->inputs[0]), state->diagnostic);
    *state->changed = true;
  }
  itg_tensor *x = node->inputs[0];
  itg_tensor *replacement = NULL;
  if (is_identity(permutation, rank)) {
    replacement = x;
  } else {
    const itg_node *same = find_recorded(x, permutation);
    if (same) replacement = same->outputs[0];
  }
  if (replacement && itg_can_bypass_node(node, replacement)) {
    ITG_TRY_MEMORY(itg_bypass_node(state->graph, node, replacement), state->diagnostic);
    *state->changed = true;
  } else {
    record(node);
  }
  return ITG_OK;
}

// ---- operands in the order of s ----

// Whether the dimensions other than 1 keep their order when `shape` (in t's order) is brought into the order of s.
static bool is_reshape(const itg_shape *shape, const int32_t *inverse) {
  int32_t last = -1;
  for (int32_t j = 0; j < shape->rank; j++) {
    if (shape->dims[inverse[j]] == 1) continue;
    if (inverse[j] < last) return false;
    last = inverse[j];
  }
  return true;
}

typedef enum operand_kind {
  OPERAND_NONE,     // Can only be had by inserting a Transpose.
  OPERAND_CONSTANT, // Its data is transposed.
  OPERAND_SOURCE,   // Produced by an equal Transpose: its source is used.
  OPERAND_RECORDED, // The inverse Transpose of it exists already.
  OPERAND_RESHAPED, // The order does not matter: a Reshape will do.
} operand_kind;

static operand_kind classify(const itg_tensor *tensor, const int32_t *permutation, const int32_t *inverse,
                             int32_t rank) {
  if (tensor->shape.rank > rank) return OPERAND_NONE;
  if (itg_tensor_is_constant(tensor)) return OPERAND_CONSTANT;
  const itg_node *transpose = transpose_of(tensor);
  if (transpose && tensor->shape.rank == rank &&
      memcmp(transpose->attributes.permutation.permutation, permutation, (size_t)rank * sizeof permutation[0]) == 0)
    return OPERAND_SOURCE;
  if (tensor->shape.rank == rank && find_recorded(tensor, inverse)) return OPERAND_RECORDED;
  const itg_shape extended = itg_shape_extend(&tensor->shape, rank);
  return is_reshape(&extended, inverse) ? OPERAND_RESHAPED : OPERAND_NONE;
}

// Transposed constants are remembered, in a list from constant->scratch, so that many readers need one copy.
typedef struct moved_constant {
  struct moved_constant *next;
  itg_shape extended;
  int32_t inverse[ITG_MAX_RANK];
  itg_tensor *tensor;
} moved_constant;

static itg_tensor *fetch_constant(sweep *state, itg_tensor *tensor, const itg_shape *extended, const int32_t *inverse) {
  size_t count;
  if (!itg_shape_count(extended, &count)) return NULL;
  if (count == 1) return tensor; // Broadcasts in any order.
  const size_t bytes = (size_t)extended->rank * sizeof inverse[0];
  for (moved_constant *seen = tensor->scratch; seen; seen = seen->next) {
    if (itg_shape_equal(&seen->extended, extended) && memcmp(seen->inverse, inverse, bytes) == 0) return seen->tensor;
  }
  const itg_tensor *full =
      tensor->shape.rank == extended->rank ? tensor : itg_constant_reshape(state->graph, tensor, extended);
  moved_constant *moved = itg_arena_allocate(&state->graph->arena, sizeof *moved);
  if (!full || !moved) return NULL;
  moved->tensor = itg_constant_transpose(state->graph, full, inverse);
  if (!moved->tensor) return NULL;
  moved->next = tensor->scratch;
  moved->extended = *extended;
  memcpy(moved->inverse, inverse, bytes);
  tensor->scratch = moved;
  return moved->tensor;
}

// The operand in the order of s; `before` is the node that will read it.
static itg_tensor *fetch(sweep *state, itg_node *before, itg_tensor *tensor, const int32_t *permutation,
                         const int32_t *inverse, int32_t rank) {
  const itg_shape extended = itg_shape_extend(&tensor->shape, rank);
  switch (classify(tensor, permutation, inverse, rank)) {
  case OPERAND_CONSTANT: return fetch_constant(state, tensor, &extended, inverse);
  case OPERAND_SOURCE: return tensor->producer->inputs[0];
  case OPERAND_RECORDED: return find_recorded(tensor, inverse)->outputs[0];
  case OPERAND_RESHAPED: {
    const itg_shape shape = itg_shape_permute(&extended, inverse);
    return itg_shape_equal(&shape, &tensor->shape) ? tensor : itg_insert_reshape(state->graph, before, tensor, &shape);
  }
  case OPERAND_NONE: break;
  }
  itg_tensor *made = itg_insert_transpose(state->graph, before, tensor, inverse);
  if (made) record(made->producer);
  return made;
}

// Lets `node` write a fresh tensor of `shape` and restores its old output from it by a Transpose behind the node.
static itg_status restore(sweep *state, itg_node *node, const itg_shape *shape, const int32_t *permutation) {
  itg_tensor *old = node->outputs[0];
  *state->changed = true;
  if (is_identity(permutation, shape->rank)) return ITG_OK;
  itg_tensor *fresh = itg_graph_add_tensor(state->graph, old->name, old->dtype, shape);
  ITG_TRY_MEMORY(fresh, state->diagnostic);
  itg_node_set_output(node, 0, fresh);
  itg_node *transpose =
      itg_graph_insert_node(state->graph, node->next, ITG_OP_TRANSPOSE, node->name, &fresh, 1, &old, 1);
  ITG_TRY_MEMORY(transpose, state->diagnostic);
  memcpy(transpose->attributes.permutation.permutation, permutation, (size_t)shape->rank * sizeof permutation[0]);
  record(transpose);
  return ITG_OK;
}

// ---- operations with one moved input ----

static itg_status restore_same_rank(sweep *state, itg_node *node, const itg_node *transpose) {
  const int32_t *permutation = transpose->attributes.permutation.permutation;
  int32_t inverse[ITG_MAX_RANK];
  invert(permutation, node->outputs[0]->shape.rank, inverse);
  const itg_shape shape = itg_shape_permute(&node->outputs[0]->shape, inverse);
  ITG_TRY_MEMORY(itg_node_set_input(node, 0, transpose->inputs[0]), state->diagnostic);
  return restore(state, node, &shape, permutation);
}

static void permute_i64(int64_t *values, const int32_t *permutation, int32_t rank) {
  int64_t old[ITG_MAX_RANK];
  memcpy(old, values, sizeof old);
  for (int32_t i = 0; i < rank; i++) values[permutation[i]] = old[i];
}

static uint32_t permute_axes(uint32_t axes, const int32_t *permutation, int32_t rank) {
  uint32_t result = 0;
  for (int32_t i = 0; i < rank; i++) {
    if (axes >> i & 1) result |= 1u << permutation[i];
  }
  return result;
}

// `removed` (bits, in t's order) are the dimensions the operation takes away.
static itg_status restore_without(sweep *state, itg_node *node, const itg_node *transpose, uint32_t removed) {
  const int32_t *permutation = transpose->attributes.permutation.permutation;
  const int32_t rank = transpose->inputs[0]->shape.rank;
  const uint32_t removed_source = permute_axes(removed, permutation, rank);
  int32_t place[ITG_MAX_RANK], kept = 0, count = 0, remaining[ITG_MAX_RANK], inverse[ITG_MAX_RANK];
  for (int32_t j = 0; j < rank; j++) place[j] = removed_source >> j & 1 ? -1 : kept++;
  for (int32_t i = 0; i < rank; i++) {
    if (!(removed >> i & 1)) remaining[count++] = place[permutation[i]];
  }
  invert(remaining, count, inverse);
  const itg_shape shape = itg_shape_permute(&node->outputs[0]->shape, inverse);
  ITG_TRY_MEMORY(itg_node_set_input(node, 0, transpose->inputs[0]), state->diagnostic);
  return restore(state, node, &shape, remaining);
}

static itg_status sink_reduce(sweep *state, itg_node *node, const itg_node *transpose) {
  itg_reduce_attributes *reduce = &node->attributes.reduce;
  const uint32_t axes = reduce->axes;
  reduce->axes = permute_axes(axes, transpose->attributes.permutation.permutation, node->inputs[0]->shape.rank);
  return reduce->keep_dims ? restore_same_rank(state, node, transpose) : restore_without(state, node, transpose, axes);
}

static itg_status sink_arg(sweep *state, itg_node *node, const itg_node *transpose) {
  itg_axis_attributes *arg = &node->attributes.axis;
  const int32_t axis = arg->axis;
  arg->axis = transpose->attributes.permutation.permutation[axis];
  return arg->flag & 1 ? restore_same_rank(state, node, transpose)
                       : restore_without(state, node, transpose, 1u << axis);
}

// Indices of rank 0 remove the axis, those of rank 1 keep it; more would need other shapes.
static itg_status sink_gather(sweep *state, itg_node *node, const itg_node *transpose) {
  itg_axis_attributes *gather = &node->attributes.axis;
  const int32_t axis = gather->axis, index_rank = node->inputs[1]->shape.rank;
  if (index_rank > 1) return ITG_OK;
  gather->axis = transpose->attributes.permutation.permutation[axis];
  return index_rank == 1 ? restore_same_rank(state, node, transpose)
                         : restore_without(state, node, transpose, 1u << axis);
}

// ---- several operands ----

static itg_status sink_elementwise(sweep *state, itg_node *node, const itg_node *transpose) {
  int32_t permutation[ITG_MAX_RANK], inverse[ITG_MAX_RANK];
  const int32_t rank = transpose->inputs[0]->shape.rank;
  if (node->outputs[0]->shape.rank != rank) return ITG_OK;
  memcpy(permutation, transpose->attributes.permutation.permutation, sizeof permutation);
  invert(permutation, rank, inverse);
  for (int32_t i = 0; i < node->input_count; i++) {
    if (classify(node->inputs[i], permutation, inverse, rank) == OPERAND_NONE) return ITG_OK;
  }
  for (int32_t i = 0; i < node->input_count; i++) {
    itg_tensor *operand = node->inputs[i];
    operand = fetch(state, node, operand, permutation, inverse, rank);
    ITG_TRY_MEMORY(operand && itg_node_set_input(node, i, operand), state->diagnostic);
  }
  const itg_shape shape = itg_shape_permute(&node->outputs[0]->shape, inverse);
  return restore(state, node, &shape, permutation);
}

// Worth it when at least half of the elements come from equal Transposes; the others get one.
static itg_status sink_concat(sweep *state, itg_node *node, const itg_node *transpose) {
  int32_t permutation[ITG_MAX_RANK], inverse[ITG_MAX_RANK];
  const int32_t rank = transpose->inputs[0]->shape.rank;
  memcpy(permutation, transpose->attributes.permutation.permutation, sizeof permutation);
  invert(permutation, rank, inverse);
  double moved = 0, all = 0;
  for (int32_t i = 0; i < node->input_count; i++) {
    size_t count = 0;
    if (!itg_shape_count(&node->inputs[i]->shape, &count)) return ITG_OK;
    all += (double)count;
    if (classify(node->inputs[i], permutation, inverse, rank) != OPERAND_NONE) moved += (double)count;
  }
  if (moved * 2 < all) return ITG_OK;
  for (int32_t i = 0; i < node->input_count; i++) {
    itg_tensor *operand = fetch(state, node, node->inputs[i], permutation, inverse, rank);
    ITG_TRY_MEMORY(operand && itg_node_set_input(node, i, operand), state->diagnostic);
  }
  node->attributes.axis.axis = permutation[node->attributes.axis.axis];
  const itg_shape shape = itg_shape_permute(&node->outputs[0]->shape, inverse);
  return restore(state, node, &shape, permutation);
}

// A MatMul reads its right side transposed at no cost: an exchange of the last two dimensions goes into the attribute when
// afterwards the last dimension stays where it is in memory.
static itg_status absorb_in_matmul(sweep *state, itg_node *node) {
  const itg_node *transpose = transpose_of(node->inputs[1]);
  if (!transpose) return ITG_OK;
  const int32_t rank = node->inputs[1]->shape.rank;
  int32_t permutation[ITG_MAX_RANK];
  memcpy(permutation, transpose->attributes.permutation.permutation, sizeof permutation);
  if (permutation[rank - 2] != rank - 1) return ITG_OK;
  permutation[rank - 2] = permutation[rank - 1];
  permutation[rank - 1] = rank - 1;
  itg_tensor *b = transpose->inputs[0];
  if (!is_identity(permutation, rank)) {
    const itg_node *same = find_recorded(b, permutation);
    if (same) {
      b = same->outputs[0];
    } else {
      b = itg_insert_transpose(state->graph, node, b, permutation);
      ITG_TRY_MEMORY(b, state->diagnostic);
      record(b->producer);
    }
  }
  ITG_TRY_MEMORY(itg_node_set_input(node, 1, b), state->diagnostic);
  node->attributes.gemm.transpose_b = !node->attributes.gemm.transpose_b;
  *state->changed = true;
  return ITG_OK;
}

// ---- Reshape ----

// Splits two shapes of equal element count into groups: consecutive dimensions of one that hold the same elements as
// consecutive dimensions of the other. Dimensions of 1 are left out (group -1).
typedef struct groups {
  int32_t count;
  int32_t of_input[ITG_MAX_RANK], of_output[ITG_MAX_RANK];
} groups;

static bool find_groups(const itg_shape *in, const itg_shape *out, groups *result) {
  int32_t i = 0, j = 0;
  result->count = 0;
  for (;;) {
    for (; i < in->rank && in->dims[i] == 1; i++) result->of_input[i] = -1;
    for (; j < out->rank && out->dims[j] == 1; j++) result->of_output[j] = -1;
    if (i == in->rank || j == out->rank) return i == in->rank && j == out->rank;
    if (in->dims[i] == 0 || out->dims[j] == 0) return false;
    const int32_t group = result->count++;
    int64_t a = in->dims[i], b = out->dims[j];
    result->of_input[i++] = result->of_output[j++] = group;
    while (a != b) {
      if (a < b) {
        if (i == in->rank) return false;
        result->of_input[i] = in->dims[i] == 1 ? -1 : group;
        a *= in->dims[i++];
      } else {
        if (j == out->rank) return false;
        result->of_output[j] = out->dims[j] == 1 ? -1 : group;
        b *= out->dims[j++];
      }
    }
  }
}

// Reshape(Transpose(s)) = Transpose(Reshape(s)) when the dimensions that are merged lie side by side in s as well. Gives the
// shape of Reshape(s) and the permutation behind it.
static bool plan_reshape(const itg_shape *t, const itg_shape *z, const groups *found, const int32_t *permutation,
                         itg_shape *shape, int32_t *back) {
  int32_t inverse[ITG_MAX_RANK], order[ITG_MAX_RANK], ordered = 0, previous = -1;
  invert(permutation, t->rank, inverse);
  bool seen[ITG_MAX_RANK] = {false};
  for (int32_t j = 0; j < t->rank; j++) { // Dimensions of s, as dimensions of t.
    const int32_t i = inverse[j], group = found->of_input[i];
    if (group < 0) continue;
    if (previous >= 0 && found->of_input[previous] == group) {
      if (i < previous) return false;
    } else {
      if (seen[group]) return false;
      seen[group] = true;
      order[ordered++] = group;
    }
    previous = i;
  }
  // The output's dimensions group by group in s's order; those of 1 follow the dimension in front of them.
  *shape = (itg_shape){.rank = z->rank};
  int32_t filled = 0, first = 0;
  for (; first < z->rank && found->of_output[first] < 0; first++) {
    shape->dims[filled] = 1;
    back[first] = filled++;
  }
  for (int32_t g = 0; g < ordered; g++) {
    for (int32_t k = first; k < z->rank; k++) {
      if (found->of_output[k] != order[g]) continue;
      shape->dims[filled] = z->dims[k];
      back[k] = filled++;
      for (int32_t one = k + 1; one < z->rank && found->of_output[one] < 0; one++) {
        shape->dims[filled] = 1;
        back[one] = filled++;
      }
    }
  }
  return true;
}

// The order of s's dimensions in which those of each group lie side by side: at the place of the group's innermost one.
static void gather_groups(const itg_shape *t, const groups *found, const int32_t *permutation, int32_t *order) {
  int32_t inverse[ITG_MAX_RANK], count = 0;
  invert(permutation, t->rank, inverse);
  for (int32_t j = 0; j < t->rank; j++) {
    const int32_t group = found->of_input[inverse[j]];
    bool is_innermost = true;
    if (group < 0) {
      order[count++] = j;
      continue;
    }
    for (int32_t later = j + 1; later < t->rank; later++)
      is_innermost = is_innermost && found->of_input[inverse[later]] != group;
    for (int32_t i = 0; is_innermost && i < t->rank; i++) {
      if (found->of_input[i] == group) order[count++] = permutation[i];
    }
  }
}

// Whether the permutation makes channels-first images of channels-last ones, and somebody may undo that behind the node.
static bool may_vanish(const itg_node *node, const int32_t *permutation) {
  const itg_tensor *y = node->outputs[0];
  if (y->shape.rank < 3 || y->is_output || permutation[0] != 0 || permutation[1] != y->shape.rank - 1) return false;
  for (int32_t i = 2; i < y->shape.rank; i++) {
    if (permutation[i] != i - 1) return false;
  }
  for (int32_t i = 0; i < y->user_count; i++) {
    const itg_op op = y->users[i]->op;
    if (op == ITG_OP_RESHAPE || op == ITG_OP_MATMUL || op == ITG_OP_FULLY_CONNECTED || op == ITG_OP_GEMM) return false;
  }
  return true;
}

// A channel shuffle between channels-last operations arrives as one Transpose that both shuffles and restores channels-first.
// Shuffling first and reshaping leaves the restoring behind, which can then vanish.
static itg_status split_and_sink_reshape(sweep *state, itg_node *node, const itg_node *transpose, const groups *found) {
  const int32_t *permutation = transpose->attributes.permutation.permutation;
  itg_tensor *s = transpose->inputs[0];
  const itg_shape *t = &node->inputs[0]->shape;
  int32_t order[ITG_MAX_RANK], place[ITG_MAX_RANK], rest[ITG_MAX_RANK], back[ITG_MAX_RANK];
  itg_shape shape;
  gather_groups(t, found, permutation, order);
  invert(order, t->rank, place);
  for (int32_t i = 0; i < t->rank; i++) rest[i] = place[permutation[i]];
  if (!plan_reshape(t, &node->outputs[0]->shape, found, rest, &shape, back) || !may_vanish(node, back)) return ITG_OK;
  const itg_node *same = find_recorded(s, order);
  itg_tensor *gathered = same ? same->outputs[0] : itg_insert_transpose(state->graph, node, s, order);
  ITG_TRY_MEMORY(gathered, state->diagnostic);
  if (!same) record(gathered->producer);
  ITG_TRY_MEMORY(itg_node_set_input(node, 0, gathered), state->diagnostic);
  return restore(state, node, &shape, back);
}

static itg_status sink_reshape(sweep *state, itg_node *node, const itg_node *transpose) {
  const itg_shape *t = &node->inputs[0]->shape, *z = &node->outputs[0]->shape;
  int32_t back[ITG_MAX_RANK];
  groups found;
  itg_shape shape;
  if (!find_groups(t, z, &found)) return ITG_OK;
  if (!plan_reshape(t, z, &found, transpose->attributes.permutation.permutation, &shape, back))
    return split_and_sink_reshape(state, node, transpose, &found);
  ITG_TRY_MEMORY(itg_node_set_input(node, 0, transpose->inputs[0]), state->diagnostic);
  return restore(state, node, &shape, back);
}

// ---- the sweep ----

static itg_status visit(sweep *state, itg_node *node) {
  if (node->op == ITG_OP_TRANSPOSE) return visit_transpose(state, node);
  if (node->op == ITG_OP_MATMUL) return absorb_in_matmul(state, node);
  const itg_node *transpose = NULL;
  const int flags = itg_op_get_info((int)node->op)->flags;
  const bool many = (flags & (ITG_OP_BINARY | ITG_OP_TERNARY)) || node->op == ITG_OP_CONCAT;
  for (int32_t i = 0; i < (many ? node->input_count : 1) && !transpose; i++) transpose = transpose_of(node->inputs[i]);
  if (!transpose) return ITG_OK;
  const int32_t *permutation = transpose->attributes.permutation.permutation;
  const int32_t rank = transpose->inputs[0]->shape.rank, last = rank - 1;
  if (flags & (ITG_OP_UNARY | ITG_OP_BINARY | ITG_OP_TERNARY)) return sink_elementwise(state, node, transpose);
  if (flags & ITG_OP_REDUCES) return sink_reduce(state, node, transpose);
  switch (node->op) {
  case ITG_OP_CONCAT: return sink_concat(state, node, transpose);
  case ITG_OP_RESHAPE: return sink_reshape(state, node, transpose);
  case ITG_OP_ARG_MAX:
  case ITG_OP_ARG_MIN: return sink_arg(state, node, transpose);
  case ITG_OP_GATHER: return sink_gather(state, node, transpose);
  case ITG_OP_SLICE:
    permute_i64(node->attributes.slice.start, permutation, rank);
    permute_i64(node->attributes.slice.step, permutation, rank);
    return restore_same_rank(state, node, transpose);
  case ITG_OP_PAD:
    permute_i64(node->attributes.pad.begin, permutation, rank);
    permute_i64(node->attributes.pad.end, permutation, rank);
    return restore_same_rank(state, node, transpose);
  case ITG_OP_CUM_SUM:
    node->attributes.axis.axis = permutation[node->attributes.axis.axis];
    return restore_same_rank(state, node, transpose);
  case ITG_OP_QUANTIZE_LINEAR:
  case ITG_OP_DEQUANTIZE_LINEAR:
    if (node->attributes.axis.axis >= 0) node->attributes.axis.axis = permutation[node->attributes.axis.axis];
    return restore_same_rank(state, node, transpose);
  case ITG_OP_EXPAND:
  case ITG_OP_TILE: return node->outputs[0]->shape.rank == rank ? restore_same_rank(state, node, transpose) : ITG_OK;
  case ITG_OP_SOFTMAX:
  case ITG_OP_LOG_SOFTMAX:
  case ITG_OP_HARDMAX:
    if (permutation[node->attributes.axis.axis] != last) return ITG_OK;
    node->attributes.axis.axis = last;
    return restore_same_rank(state, node, transpose);
  case ITG_OP_AFFINE:
  case ITG_OP_FULLY_CONNECTED: return permutation[last] == last ? restore_same_rank(state, node, transpose) : ITG_OK;
  case ITG_OP_LAYER_NORM:
  case ITG_OP_RMS_NORM:
    return permutation[last] == last && node->attributes.norm.axis == last ? restore_same_rank(state, node, transpose)
                                                                           : ITG_OK;
  default: return ITG_OK;
  }
}

itg_status itg_pass_sink_transposes(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  sweep state = {graph, changed, diagnostic};
  for (size_t i = 0; i < graph->tensor_count; i++) {
    if (graph->tensors[i]) graph->tensors[i]->scratch = NULL;
  }
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) { ITG_TRY(visit(&state, node)); }
  itg_graph_sweep(graph);
  return ITG_OK;
}
