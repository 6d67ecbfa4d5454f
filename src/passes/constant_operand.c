// Element-wise arithmetic with a constant as gain and offset per channel. See constant_operand.h.
#include "passes/constant_operand.h"

#include <math.h>
#include <stdlib.h>

#include "passes/rewrite.h"

void itg_channel_map_free(itg_channel_map *map) {
  free(map->gain);
  free(map->offset);
  *map = (itg_channel_map){0};
}

static double *filled(int64_t count, double value) {
  double *values = calloc((size_t)count + 1, sizeof *values);
  for (int64_t i = 0; values && i < count; i++) values[i] = value;
  return values;
}

// Larger constants are masks ("minus infinity") or mistakes: merged into a bias they would be its whole range.
static const double largest = 1e9;

// Distributes the constant's values c to gain and offset; false when one is too large (division by zero, masks).
static bool interpret(itg_op op, bool constant_first, double *values, int64_t count, itg_channel_map *map) {
  if (op == ITG_OP_ADD || op == ITG_OP_SUB) {
    map->offset = values;
    for (int64_t i = 0; op == ITG_OP_SUB && !constant_first && i < count; i++) values[i] = -values[i];
  } else {
    map->gain = values;
    for (int64_t i = 0; op == ITG_OP_DIV && i < count; i++) values[i] = 1 / values[i];
  }
  for (int64_t i = 0; i < count; i++) {
    if (!(fabs(values[i]) <= largest)) return false;
  }
  return true;
}

itg_status itg_channel_map_read(const itg_node *node, int32_t axis, itg_diagnostic *diagnostic, itg_channel_map *map) {
  *map = (itg_channel_map){0};
  if (node->op != ITG_OP_ADD && node->op != ITG_OP_SUB && node->op != ITG_OP_MUL && node->op != ITG_OP_DIV)
    return ITG_OK;
  const bool first = itg_tensor_is_constant(node->inputs[0]), second = itg_tensor_is_constant(node->inputs[1]);
  if (first == second || (first && node->op == ITG_OP_DIV)) return ITG_OK;
  itg_tensor *x = node->inputs[first ? 1 : 0];
  const itg_tensor *constant = node->inputs[first ? 0 : 1];
  const itg_shape *shape = &node->outputs[0]->shape;
  if (!itg_shape_equal(&x->shape, shape)) return ITG_OK;
  double *values;
  ITG_TRY(itg_constant_read_channels(constant, shape, axis, diagnostic, &values));
  if (!values) return ITG_OK;
  if (!interpret(node->op, first, values, shape->dims[axis], map)) {
    itg_channel_map_free(map);
    return ITG_OK;
  }
  if (first && node->op == ITG_OP_SUB) {
    map->gain = filled(shape->dims[axis], -1);
    if (!map->gain) {
      itg_channel_map_free(map);
      ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
    }
  }
  map->x = x;
  return ITG_OK;
}
