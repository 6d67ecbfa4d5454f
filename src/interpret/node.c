// Executing one node on its own, for constant folding.
#include <stdlib.h>
#include <string.h>

#include "interpret/executor.h"
#include "interpret/interpret.h"
#include "interpret/widen.h"

// Data of a constant, widened or aligned into the arena where needed.
static itg_status constant_operand(const itg_tensor *tensor, bool as_is, itg_arena *arena, itg_diagnostic *diagnostic,
                                   itg_operand *out) {
  itg_operand operand = {.tensor = tensor, .dtype = as_is ? tensor->dtype : itg_widened_dtype(tensor->dtype)};
  ITG_TRY(itg_aligned_constant(tensor, operand.dtype, arena, diagnostic, &operand.data));
  if (!itg_shape_count(&tensor->shape, &operand.count))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, tensor->name, "the tensor is too large");
  *out = operand;
  return ITG_OK;
}

static itg_status output_operand(const itg_tensor *tensor, void *data, bool as_is, itg_arena *arena,
                                 itg_diagnostic *diagnostic, itg_operand *out) {
  itg_operand operand = {
      .tensor = tensor, .dtype = as_is ? tensor->dtype : itg_widened_dtype(tensor->dtype), .data = data};
  if (!itg_shape_count(&tensor->shape, &operand.count))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, tensor->name, "the tensor is too large");
  if (operand.dtype != tensor->dtype) {
    operand.data = itg_arena_array(arena, operand.count, itg_dtype_size(operand.dtype));
    ITG_TRY_MEMORY(operand.data, diagnostic);
  }
  *out = operand;
  return ITG_OK;
}

static itg_status interpret_node(const itg_node *node, void *const *outputs, itg_arena *arena,
                                 itg_diagnostic *diagnostic) {
  const itg_executor *executor = itg_executor_find(node->op);
  if (!executor)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the interpreter has no %s", itg_op_name(node->op));
  const bool as_is = executor->flags & ITG_EXECUTES_AS_IS;
  itg_call call = {.node = node, .input_count = node->input_count, .output_count = node->output_count};
  call.inputs = itg_arena_array(arena, (size_t)node->input_count, sizeof call.inputs[0]);
  call.outputs = itg_arena_array(arena, (size_t)node->output_count, sizeof call.outputs[0]);
  if (!call.inputs || !call.outputs) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  for (int32_t i = 0; i < node->input_count; i++) {
    const itg_tensor *tensor = node->inputs[i];
    if (!tensor) continue;
    if (!tensor->data) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, node->name, "input %s is no constant", tensor->name);
    ITG_TRY(constant_operand(tensor, as_is, arena, diagnostic, &call.inputs[i]));
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i])
      ITG_TRY(output_operand(node->outputs[i], outputs[i], as_is, arena, diagnostic, &call.outputs[i]));
  }
  itg_preparation preparation = {.arena = arena};
  ITG_TRY(executor->prepare(&call, &preparation, diagnostic));
  call.prepared = preparation.prepared;
  call.scratch = itg_arena_allocate(arena, preparation.scratch);
  ITG_TRY_MEMORY(call.scratch, diagnostic);
  ITG_TRY(executor->run(&call, diagnostic));
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_operand *y = &call.outputs[i];
    if (y->tensor && y->data != outputs[i]) itg_convert(y->dtype, y->data, y->tensor->dtype, outputs[i], y->count);
  }
  return ITG_OK;
}

itg_status itg_interpret_node(const itg_node *node, void *const *outputs, itg_diagnostic *diagnostic) {
  itg_arena arena = {0};
  const itg_status status = interpret_node(node, outputs, &arena, diagnostic);
  itg_arena_free(&arena);
  return status;
}
