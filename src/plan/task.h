// From a node of a LEGAL graph to what a kernel is asked to do (kernels/task.h).
#ifndef ITG_PLAN_TASK_H
#define ITG_PLAN_TASK_H

#include "base/arena.h"
#include "graph/graph.h"
#include "kernels/task.h"

// Fills the task of a verified node. Constants are borrowed from the graph; lists (batch offsets, concat sizes) are made in
// `arena`. Errors: UNSUPPORTED (an operation without kernels), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_plan_task(const itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic,
                                      itg_task *out);
// Number of leading inputs that kernels get as memory (itg_kernel_call.inputs); the others are constants of the task.
int32_t itg_plan_operand_count(const itg_node *node);
// True when the task only copies its input as it lies: the output may share the input's memory.
bool itg_plan_task_is_alias(const itg_node *node, const itg_task *task);
// Multiply-accumulates of convolutions, fully connected layers and matrix products, of canonical or legal graphs; 0 for others.
int64_t itg_plan_multiply_accumulates(const itg_node *node);

// ---- parts, by kind of operation ----

// The encoding's zero point; 0 without one.
static inline int32_t itg_plan_zero(const itg_tensor *tensor) {
  return tensor->encoding && tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0;
}
// Product of dims [first, last).
static inline int64_t itg_plan_product(const itg_shape *shape, int first, int last) {
  int64_t product = 1;
  for (int i = first; i < last; i++) product *= shape->dims[i];
  return product;
}
// Row-major strides in elements.
static inline void itg_plan_strides(const itg_shape *shape, int64_t *strides) {
  int64_t step = 1;
  for (int i = shape->rank - 1; i >= 0; i--) {
    strides[i] = step;
    step *= shape->dims[i];
  }
}
// Strides of `from` as broadcast to `to`, right-aligned; 0 where it repeats.
static inline void itg_plan_broadcast_strides(const itg_shape *from, const itg_shape *to, int64_t *strides) {
  int64_t step = 1;
  for (int i = to->rank - 1; i >= 0; i--) {
    const int at = i - (to->rank - from->rank);
    const int64_t size = at >= 0 ? from->dims[at] : 1;
    strides[i] = size == 1 ? 0 : step;
    step *= size;
  }
}

void itg_plan_conv(const itg_node *node, itg_conv_task *task);
ITG_MUST_USE itg_status itg_plan_matmul(const itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic,
                                        itg_matmul_task *task);
void itg_plan_pool(const itg_node *node, itg_pool_task *task);
void itg_plan_resize(const itg_node *node, itg_resize_task *task);
// TRANSPOSE, SLICE, EXPAND, TILE, DEPTH_TO_SPACE, SPACE_TO_DEPTH, RESHAPE, IDENTITY.
void itg_plan_copy(const itg_node *node, itg_copy_task *task);
ITG_MUST_USE itg_status itg_plan_concat(const itg_node *node, itg_arena *arena, itg_diagnostic *diagnostic,
                                        itg_concat_task *task);
void itg_plan_pad(const itg_node *node, itg_pad_task *task);
void itg_plan_gather(const itg_node *node, itg_gather_task *task);

#endif
