// See block.h.
#include "plan/block.h"

#include "plan/task.h"

bool itg_tensor_has_rows(const itg_tensor *tensor, int64_t rows) {
  const itg_shape *shape = &tensor->shape;
  if (tensor->data || itg_tensor_is_state(tensor)) return false;
  if (tensor->dtype == ITG_DTYPE_S32) return shape->rank == 2 && shape->dims[0] == rows;
  return shape->rank >= 2 && shape->dims[0] == 1 && shape->dims[1] == rows;
}

// Operations whose row i reads row i of their activations and nothing else.
static bool keeps_rows(const itg_node *node, int64_t rows) {
  switch (node->op) {
  case ITG_OP_Q_FULLY_CONNECTED:
  case ITG_OP_Q_ADD:
  case ITG_OP_Q_ADD_AFFINE:
  case ITG_OP_Q_AFFINE:
  case ITG_OP_Q_MUL:
  case ITG_OP_Q_CONVERT:
  case ITG_OP_Q_PRELU:
  case ITG_OP_Q_TABLE:
  case ITG_OP_Q_ROPE:
  case ITG_OP_Q_ATTENTION:
  case ITG_OP_IDENTITY:
  case ITG_OP_RESHAPE: break;
  case ITG_OP_Q_NORM:
  case ITG_OP_Q_SOFTMAX:
    if (node->inputs[0]->shape.rank < 3) return false;
    break;
  default: return false;
  }
  for (int32_t i = 0; i < itg_plan_operand_count(node); i++) {
    const itg_tensor *input = node->inputs[i];
    const bool shared = input->data || itg_tensor_is_state(input) || i == ITG_ATTENTION_POSITION;
    if (!shared && !itg_tensor_has_rows(input, rows)) return false;
    // A constant that is broadcast over the rows.
    if (input->data && input->shape.rank >= 2 && input->shape.dims[input->shape.rank - 2] != 1) return false;
  }
  return itg_tensor_has_rows(node->outputs[0], rows);
}

static itg_status find_attention(const itg_plan *plan, itg_diagnostic *diagnostic, itg_block_info *info) {
  for (size_t i = 0; i < plan->step_count; i++) {
    const itg_node *node = plan->steps[i].node;
    if (node->op != ITG_OP_Q_ATTENTION) continue;
    const int64_t rows = node->inputs[ITG_ATTENTION_Q]->shape.dims[1];
    const int64_t capacity = node->inputs[ITG_ATTENTION_K_CACHE]->shape.dims[1];
    const itg_tensor *position = node->inputs[ITG_ATTENTION_POSITION];
    const itg_tensor *baked = itg_node_input(node, ITG_ATTENTION_K_PREFIX);
    const int64_t prefix = baked ? baked->shape.dims[1] : 0;
    if (info->rows &&
        (info->rows != rows || info->capacity != capacity || info->position != position || info->prefix != prefix))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "its block, cache or position is not that of %s",
               plan->steps[info->tail - 1].node->name);
    if (!position->is_input)
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the position %s must be a graph input", position->name);
    *info = (itg_block_info){.rows = rows, .capacity = capacity, .prefix = prefix, .tail = i + 1, .position = position};
  }
  return ITG_OK;
}

itg_status itg_plan_block_info(const itg_plan *plan, itg_diagnostic *diagnostic, itg_block_info *out) {
  itg_block_info info = {0};
  ITG_TRY(find_attention(plan, diagnostic, &info));
  for (size_t i = 0; info.rows && i < plan->step_count; i++) {
    const itg_node *node = plan->steps[i].node;
    if (!keeps_rows(node, info.rows))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
               "%s mixes the rows of a block; a graph with caches may do that in attention only",
               itg_op_name((int)node->op));
  }
  *out = info;
  return ITG_OK;
}

enum { MOST_OPERANDS = ITG_ATTENTION_POSITION + 1, MOST_INPUTS = 8, MOST_OUTPUTS = 2 };

// A copy of a tensor with other rows.
static itg_tensor *resized(const itg_tensor *tensor, int64_t from, int64_t to, itg_tensor *copy) {
  *copy = *tensor;
  if (itg_tensor_has_rows(tensor, from)) copy->shape.dims[tensor->dtype == ITG_DTYPE_S32 ? 0 : 1] = to;
  return copy;
}

itg_status itg_plan_block_steps(const itg_plan *plan, const itg_block_info *info, int64_t rows,
                                itg_diagnostic *diagnostic, itg_step *out) {
  for (size_t i = 0; i < plan->step_count; i++) {
    itg_step *step = &out[i];
    *step = plan->steps[i];
    const itg_node *node = step->node;
    itg_tensor copies[MOST_OPERANDS + MOST_OUTPUTS], *inputs[MOST_INPUTS], *outputs[MOST_OUTPUTS];
    if (node->input_count > MOST_INPUTS || node->output_count > MOST_OUTPUTS)
      ITG_FAIL(diagnostic, ITG_ERROR_INTERNAL, node->name, "%d operands", (int)node->input_count);
    for (int32_t j = 0; j < node->input_count; j++) {
      inputs[j] = node->inputs[j];
      if (j < step->input_count) inputs[j] = resized(node->inputs[j], info->rows, rows, &copies[j]);
    }
    for (int32_t j = 0; j < node->output_count; j++)
      outputs[j] = resized(node->outputs[j], info->rows, rows, &copies[MOST_OPERANDS + j]);
    itg_node copy = *node;
    copy.inputs = inputs;
    copy.outputs = outputs;
    ITG_TRY(itg_plan_task(&copy, NULL, diagnostic, &step->task)); // These operations need no lists, so no arena.
    step->node = &copy;
    step->multiply_accumulates = itg_plan_multiply_accumulates(&copy);
    step->cost = itg_plan_cost(step);
    step->node = node;
    const itg_kernel *kernel = step->kernel;
    const size_t scratch = kernel->scratch_size ? kernel->scratch_size(&step->task) : 0;
    if ((kernel->supports && !kernel->supports(&step->task)) || scratch > plan->scratch_bytes)
      ITG_FAIL(diagnostic, ITG_ERROR_INTERNAL, node->name, "%s cannot run %lld rows", kernel->name, (long long)rows);
    step->units = kernel->units ? kernel->units(&step->task) : 1;
    if (step->units < 1) step->units = 1;
  }
  return ITG_OK;
}
