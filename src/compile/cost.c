// See cost.h.
#include "compile/cost.h"

#include <math.h>

#include "plan/task.h"

typedef struct cost_line {
  uint32_t arch;
  double wide_product, depthwise, element, wide_element;
} cost_line;

static const cost_line lines[] = {
#define ITG_COST(arch, wide_product, depthwise, element, wide_element) \
  {arch, wide_product, depthwise, element, wide_element},
#include "npu/cost.def"
#undef ITG_COST
};

// The last line whose architecture is not above the target's.
static const cost_line *line_for(const itg_target *target) {
  const cost_line *best = &lines[0];
  for (size_t i = 0; target && i < sizeof lines / sizeof lines[0]; i++) {
    if (lines[i].arch <= target->arch) best = &lines[i];
  }
  return best;
}

static double node_cost(const itg_node *node, const cost_line *line, itg_dtype operand) {
  const int64_t products = itg_plan_multiply_accumulates(node);
  const itg_tensor *input = itg_node_input(node, 0);
  if (products > 0) {
    const bool is_depthwise = node->op == ITG_OP_Q_CONV && node->attributes.q_conv.group > 1 &&
                              node->inputs[1]->shape.dims[node->inputs[1]->shape.rank - 1] == 1;
    const itg_dtype storage = operand == ITG_DTYPE_NONE ? input->dtype : operand;
    return (double)products * (storage == ITG_DTYPE_U16 ? line->wide_product : 1) *
           (is_depthwise ? line->depthwise : 1);
  }
  if (node->op == ITG_OP_RESHAPE || node->op == ITG_OP_IDENTITY) return 0; // A view.
  double cost = 0;
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *output = node->outputs[i];
    const double elements = (double)itg_plan_product(&output->shape, 0, output->shape.rank);
    const itg_dtype storage = operand == ITG_DTYPE_NONE ? output->dtype : operand;
    cost += elements * (storage == ITG_DTYPE_U8 ? line->element : line->wide_element);
  }
  return cost;
}

double itg_program_cost(const itg_graph *legal, const itg_target *target) {
  const cost_line *line = line_for(target);
  double cost = 0;
  ITG_FOR_EACH_NODE(node, legal) cost += node_cost(node, line, ITG_DTYPE_NONE);
  return cost;
}

double itg_node_cost(const itg_node *legal, const itg_target *target, itg_dtype operand) {
  return node_cost(legal, line_for(target), operand);
}

double itg_element_cost(const itg_target *target, itg_dtype storage) {
  const cost_line *line = line_for(target);
  return storage == ITG_DTYPE_U8 ? line->element : line->wide_element;
}
