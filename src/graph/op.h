// Numbers of the operations (graph/ops.def). Freestanding: kernels include it.
#ifndef ITG_GRAPH_OP_H
#define ITG_GRAPH_OP_H

typedef enum itg_op {
  ITG_OP_NONE = 0,
#define ITG_OP(number, name, text, min_inputs, max_inputs, outputs, attribute, flags) ITG_OP_##name = number,
#include "graph/ops.def"
#undef ITG_OP
} itg_op;

#endif
