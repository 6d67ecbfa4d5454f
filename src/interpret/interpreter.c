// Planning and running whole graphs.
#include "interpret/interpret.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "interpret/executor.h"
#include "interpret/memory_plan.h"
#include "interpret/subnormals.h"
#include "interpret/widen.h"

enum { BLOCK_ALIGNMENT = 64 };

typedef enum slot_kind { SLOT_CONSTANT, SLOT_INPUT, SLOT_BUFFER } slot_kind;

// Where a tensor's data is. Several tensors may share one slot (reshapes, in-place operations).
typedef struct slot {
  slot_kind kind;
  void *constant;      // SLOT_CONSTANT: aligned, in the tensor's own dtype.
  int32_t input_index; // SLOT_INPUT
  size_t bytes;        // SLOT_BUFFER
  size_t offset;       // SLOT_BUFFER, in the state's block.
  int64_t last_use;    // Index of the last step that reads or writes it; the number of steps for graph outputs.
} slot;

// Data converted for one step: a widened input before it runs, a narrowed output after it.
typedef struct conversion {
  int64_t from, to; // Slots.
  itg_dtype from_dtype, to_dtype;
  size_t count;
} conversion;

typedef struct step {
  const itg_node *node;
  const itg_executor *executor;        // NULL: the outputs share their input's slot; nothing to run.
  itg_operand *inputs, *outputs;       // Data filled in for constants only.
  int64_t *input_slots, *output_slots; // -1: absent.
  int64_t *value_slots;                // Of the outputs in their tensors' own dtypes.
  conversion *widenings, *narrowings;
  int32_t widening_count, narrowing_count;
  const void *prepared;
  int64_t scratch_slot;
} step;

struct itg_interpreter {
  const itg_graph *graph;
  itg_arena arena;
  itg_map slot_of; // Tensor name -> slot index + 1, while planning.
  slot *slots;
  size_t slot_count, slot_capacity;
  step *steps;
  int64_t step_count;
  int64_t *output_slots; // Of the graph.
  size_t block_bytes, operand_count;
  bool is_editable; // No views.
};

struct itg_interpreter_state {
  const itg_interpreter *interpreter;
  char *block;
  itg_call *calls; // One a step.
  itg_operand *operands;
  const void **inputs; // Of the running call.
};

static itg_status add_slot(itg_interpreter *interpreter, slot value, itg_diagnostic *diagnostic, int64_t *out) {
  if (interpreter->slot_count == interpreter->slot_capacity) {
    const size_t capacity = interpreter->slot_capacity ? interpreter->slot_capacity * 2 : 256;
    slot *grown = realloc(interpreter->slots, capacity * sizeof *grown);
    ITG_TRY_MEMORY(grown, diagnostic);
    interpreter->slots = grown;
    interpreter->slot_capacity = capacity;
  }
  *out = (int64_t)interpreter->slot_count;
  interpreter->slots[interpreter->slot_count++] = value;
  return ITG_OK;
}

static itg_status add_buffer(itg_interpreter *interpreter, size_t bytes, int64_t step_index, itg_diagnostic *diagnostic,
                             int64_t *out) {
  return add_slot(interpreter, (slot){.kind = SLOT_BUFFER, .bytes = bytes, .last_use = step_index}, diagnostic, out);
}

static itg_status remember_slot(itg_interpreter *interpreter, const itg_tensor *tensor, int64_t index,
                                itg_diagnostic *diagnostic) {
  if (!itg_map_set(&interpreter->slot_of, tensor->name, strlen(tensor->name), (void *)(intptr_t)(index + 1)))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  return ITG_OK;
}

static int64_t recall_slot(const itg_interpreter *interpreter, const itg_tensor *tensor) {
  return (int64_t)(intptr_t)itg_map_get(&interpreter->slot_of, tensor->name, strlen(tensor->name)) - 1;
}

static itg_status tensor_size(const itg_tensor *tensor, itg_dtype dtype, itg_diagnostic *diagnostic, size_t *count,
                              size_t *bytes) {
  if (!itg_shape_count(&tensor->shape, count) || !itg_shape_bytes(&tensor->shape, dtype, bytes) ||
      *bytes > SIZE_MAX / 4)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, tensor->name, "the tensor is too large");
  return ITG_OK;
}

static void use_slot(itg_interpreter *interpreter, int64_t index, int64_t step_index) {
  slot *s = &interpreter->slots[index];
  if (s->last_use < step_index) s->last_use = step_index;
}

// The slot of a tensor that a step reads; constants get theirs when they are first seen.
static itg_status slot_for_reading(itg_interpreter *interpreter, const itg_tensor *tensor, const char *reader,
                                   itg_diagnostic *diagnostic, int64_t *out) {
  int64_t index = recall_slot(interpreter, tensor);
  if (index < 0) {
    if (!tensor->data)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, reader, "reads %s before anything writes it; sort the graph first",
               tensor->name);
    slot constant = {.kind = SLOT_CONSTANT};
    ITG_TRY(itg_aligned_constant(tensor, tensor->dtype, &interpreter->arena, diagnostic, &constant.constant));
    ITG_TRY(add_slot(interpreter, constant, diagnostic, &index));
    ITG_TRY(remember_slot(interpreter, tensor, index, diagnostic));
  }
  *out = index;
  return ITG_OK;
}

static itg_status plan_input(itg_interpreter *interpreter, step *s, int64_t step_index, int32_t i,
                             itg_diagnostic *diagnostic) {
  const itg_tensor *tensor = s->node->inputs[i];
  s->input_slots[i] = -1;
  if (!tensor) return ITG_OK;
  itg_operand *operand = &s->inputs[i];
  const bool as_is = s->executor->flags & ITG_EXECUTES_AS_IS;
  operand->tensor = tensor;
  operand->dtype = as_is ? tensor->dtype : itg_widened_dtype(tensor->dtype);
  size_t bytes;
  ITG_TRY(tensor_size(tensor, operand->dtype, diagnostic, &operand->count, &bytes));
  int64_t index = -1;
  ITG_TRY(slot_for_reading(interpreter, tensor, s->node->name, diagnostic, &index));
  use_slot(interpreter, index, step_index);
  const slot source = interpreter->slots[index];
  if (operand->dtype != tensor->dtype && source.kind == SLOT_CONSTANT) { // Widened once and for all.
    slot wide = {.kind = SLOT_CONSTANT};
    ITG_TRY(itg_aligned_constant(tensor, operand->dtype, &interpreter->arena, diagnostic, &wide.constant));
    ITG_TRY(add_slot(interpreter, wide, diagnostic, &index));
  } else if (operand->dtype != tensor->dtype) {
    const int64_t from = index;
    ITG_TRY(add_buffer(interpreter, bytes, step_index, diagnostic, &index));
    s->widenings[s->widening_count++] = (conversion){from, index, tensor->dtype, operand->dtype, operand->count};
  }
  s->input_slots[i] = index;
  if (interpreter->slots[index].kind == SLOT_CONSTANT) operand->data = interpreter->slots[index].constant;
  return ITG_OK;
}

// An output that takes over a buffer is found once lifetimes are known: see share_buffers.
static itg_status plan_output(itg_interpreter *interpreter, step *s, int64_t step_index, int32_t i,
                              itg_diagnostic *diagnostic) {
  const itg_tensor *tensor = s->node->outputs[i];
  s->output_slots[i] = s->value_slots[i] = -1;
  if (!tensor) return ITG_OK;
  itg_operand *operand = &s->outputs[i];
  const bool as_is = s->executor->flags & ITG_EXECUTES_AS_IS;
  operand->tensor = tensor;
  operand->dtype = as_is ? tensor->dtype : itg_widened_dtype(tensor->dtype);
  if (operand->dtype != tensor->dtype && itg_dtype_size(tensor->dtype) == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, s->node->name, "cannot compute %s", itg_dtype_name(tensor->dtype));
  size_t bytes;
  ITG_TRY(tensor_size(tensor, tensor->dtype, diagnostic, &operand->count, &bytes));
  int64_t index = -1;
  if (!interpreter->is_editable && s->executor->flags & ITG_EXECUTES_ALIAS && tensor->dtype == s->inputs[0].dtype &&
      operand->count == s->inputs[0].count) {
    index = s->input_slots[0];
  } else {
    ITG_TRY(add_buffer(interpreter, bytes, step_index, diagnostic, &index));
  }
  s->value_slots[i] = s->output_slots[i] = index;
  ITG_TRY(remember_slot(interpreter, tensor, index, diagnostic));
  if (operand->dtype == tensor->dtype) return ITG_OK;
  ITG_TRY(tensor_size(tensor, operand->dtype, diagnostic, &operand->count, &bytes));
  ITG_TRY(add_buffer(interpreter, bytes, step_index, diagnostic, &s->output_slots[i]));
  s->narrowings[s->narrowing_count++] =
      (conversion){s->output_slots[i], index, operand->dtype, tensor->dtype, operand->count};
  return ITG_OK;
}

static itg_status plan_step(itg_interpreter *interpreter, const itg_node *node, int64_t step_index,
                            itg_diagnostic *diagnostic) {
  step *s = &interpreter->steps[step_index];
  itg_arena *arena = &interpreter->arena;
  const size_t inputs = (size_t)node->input_count, outputs = (size_t)node->output_count;
  s->node = node;
  s->executor = itg_executor_find(node->op);
  if (!s->executor)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the interpreter has no %s", itg_op_name(node->op));
  s->inputs = itg_arena_array(arena, inputs, sizeof s->inputs[0]);
  s->outputs = itg_arena_array(arena, outputs, sizeof s->outputs[0]);
  s->input_slots = itg_arena_array(arena, inputs, sizeof s->input_slots[0]);
  s->output_slots = itg_arena_array(arena, outputs, sizeof s->output_slots[0]);
  s->value_slots = itg_arena_array(arena, outputs, sizeof s->value_slots[0]);
  s->widenings = itg_arena_array(arena, inputs, sizeof s->widenings[0]);
  s->narrowings = itg_arena_array(arena, outputs, sizeof s->narrowings[0]);
  if (!s->inputs || !s->outputs || !s->input_slots || !s->output_slots || !s->value_slots || !s->widenings ||
      !s->narrowings)
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  interpreter->operand_count += inputs + outputs;
  for (int32_t i = 0; i < node->input_count; i++) ITG_TRY(plan_input(interpreter, s, step_index, i, diagnostic));
  for (int32_t i = 0; i < node->output_count; i++) ITG_TRY(plan_output(interpreter, s, step_index, i, diagnostic));
  const itg_call call = {.node = node,
                         .inputs = s->inputs,
                         .outputs = s->outputs,
                         .input_count = node->input_count,
                         .output_count = node->output_count};
  itg_preparation preparation = {.arena = arena};
  ITG_TRY(s->executor->prepare(&call, &preparation, diagnostic));
  s->prepared = preparation.prepared;
  s->scratch_slot = -1;
  if (preparation.scratch)
    ITG_TRY(add_buffer(interpreter, preparation.scratch, step_index, diagnostic, &s->scratch_slot));
  if (s->executor->flags & ITG_EXECUTES_ALIAS && node->outputs[0] && s->output_slots[0] == s->input_slots[0])
    s->executor = NULL;
  return ITG_OK;
}

// An input whose buffer output 0 may take over: nothing reads it later and it has the output's dtype and shape.
static int64_t reusable_slot(const itg_interpreter *interpreter, const step *s, int64_t step_index) {
  if (!s->executor || !(s->executor->flags & ITG_EXECUTES_IN_PLACE) || s->output_slots[0] != s->value_slots[0])
    return -1;
  for (int32_t i = 0; i < s->node->input_count; i++) {
    const int64_t index = s->input_slots[i];
    if (index < 0 || interpreter->slots[index].kind != SLOT_BUFFER) continue;
    if (interpreter->slots[index].last_use == step_index && s->inputs[i].dtype == s->outputs[0].dtype &&
        s->inputs[i].count == s->outputs[0].count)
      return index;
  }
  return -1;
}

static itg_status place_slot(itg_interpreter *interpreter, itg_memory_plan *memory, int64_t index,
                             itg_diagnostic *diagnostic) {
  slot *s = &interpreter->slots[index];
  if (!itg_memory_plan_place(memory, itg_align_up(s->bytes, BLOCK_ALIGNMENT), s->last_use, &s->offset))
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  return ITG_OK;
}

// Gives every buffer its place in the block, in the order of execution.
static itg_status place_buffers(itg_interpreter *interpreter, itg_memory_plan *memory, itg_diagnostic *diagnostic) {
  for (int64_t t = 0; t < interpreter->step_count; t++) {
    const step *s = &interpreter->steps[t];
    if (!s->executor) continue;
    itg_memory_plan_release(memory, t);
    for (int32_t i = 0; i < s->widening_count; i++)
      ITG_TRY(place_slot(interpreter, memory, s->widenings[i].to, diagnostic));
    for (int32_t i = 0; i < s->narrowing_count; i++)
      ITG_TRY(place_slot(interpreter, memory, s->narrowings[i].from, diagnostic));
    if (s->scratch_slot >= 0) ITG_TRY(place_slot(interpreter, memory, s->scratch_slot, diagnostic));
    for (int32_t i = 0; i < s->node->output_count; i++) {
      const int64_t index = s->value_slots[i];
      if (index < 0) continue;
      const int64_t reused = i == 0 ? reusable_slot(interpreter, s, t) : -1;
      if (reused < 0) {
        ITG_TRY(place_slot(interpreter, memory, index, diagnostic));
        continue;
      }
      interpreter->slots[index].offset = interpreter->slots[reused].offset;
      itg_memory_plan_extend(memory, interpreter->slots[reused].offset, interpreter->slots[index].last_use);
    }
  }
  interpreter->block_bytes = memory->peak;
  return ITG_OK;
}

static itg_status plan_graph(itg_interpreter *interpreter, itg_diagnostic *diagnostic) {
  const itg_graph *graph = interpreter->graph;
  interpreter->steps = itg_arena_array(&interpreter->arena, (size_t)graph->node_count, sizeof interpreter->steps[0]);
  interpreter->output_slots =
      itg_arena_array(&interpreter->arena, (size_t)graph->output_count, sizeof interpreter->output_slots[0]);
  if (!interpreter->steps || !interpreter->output_slots) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  for (int32_t i = 0; i < graph->input_count; i++) {
    int64_t index = -1;
    ITG_TRY(add_slot(interpreter, (slot){.kind = SLOT_INPUT, .input_index = i}, diagnostic, &index));
    ITG_TRY(remember_slot(interpreter, graph->inputs[i], index, diagnostic));
  }
  for (const itg_node *node = graph->first; node; node = node->next)
    ITG_TRY(plan_step(interpreter, node, interpreter->step_count++, diagnostic));
  for (int32_t i = 0; i < graph->output_count; i++) {
    ITG_TRY(slot_for_reading(interpreter, graph->outputs[i], graph->outputs[i]->name, diagnostic,
                             &interpreter->output_slots[i]));
    use_slot(interpreter, interpreter->output_slots[i], interpreter->step_count);
  }
  itg_memory_plan memory = {0};
  const itg_status status = place_buffers(interpreter, &memory, diagnostic);
  itg_memory_plan_free(&memory);
  return status;
}

static itg_status create(const itg_graph *graph, bool is_editable, itg_diagnostic *diagnostic, itg_interpreter **out) {
  itg_interpreter *interpreter = calloc(1, sizeof *interpreter);
  ITG_TRY_MEMORY(interpreter, diagnostic);
  interpreter->graph = graph;
  interpreter->is_editable = is_editable;
  const itg_status status = plan_graph(interpreter, diagnostic);
  itg_map_free(&interpreter->slot_of);
  interpreter->slot_of = (itg_map){0};
  if (status != ITG_OK) {
    itg_interpreter_destroy(interpreter);
    return status;
  }
  *out = interpreter;
  return ITG_OK;
}

itg_status itg_interpreter_create(const itg_graph *graph, itg_diagnostic *diagnostic, itg_interpreter **out) {
  return create(graph, false, diagnostic, out);
}

itg_status itg_interpreter_create_editable(const itg_graph *graph, itg_diagnostic *diagnostic, itg_interpreter **out) {
  return create(graph, true, diagnostic, out);
}

void itg_interpreter_destroy(itg_interpreter *interpreter) {
  if (!interpreter) return;
  itg_arena_free(&interpreter->arena);
  free(interpreter->slots);
  free(interpreter);
}

size_t itg_interpreter_state_size(const itg_interpreter *interpreter) { return interpreter->block_bytes; }

static void *slot_data(const itg_interpreter_state *state, int64_t index) {
  const slot *s = &state->interpreter->slots[index];
  if (s->kind == SLOT_CONSTANT) return s->constant;
  if (s->kind == SLOT_INPUT) return (void *)state->inputs[s->input_index];
  return state->block + s->offset;
}

// Fills in the data pointers of all operands that do not depend on the caller's inputs.
static void bind_calls(itg_interpreter_state *state) {
  const itg_interpreter *interpreter = state->interpreter;
  itg_operand *next = state->operands;
  for (int64_t t = 0; t < interpreter->step_count; t++) {
    const step *s = &interpreter->steps[t];
    itg_call *call = &state->calls[t];
    *call = (itg_call){.node = s->node,
                       .inputs = next,
                       .outputs = next + s->node->input_count,
                       .input_count = s->node->input_count,
                       .output_count = s->node->output_count,
                       .prepared = s->prepared,
                       .scratch = s->scratch_slot >= 0 ? slot_data(state, s->scratch_slot) : NULL};
    next += s->node->input_count + s->node->output_count;
    for (int32_t i = 0; i < call->input_count; i++) {
      call->inputs[i] = s->inputs[i];
      if (s->input_slots[i] >= 0) call->inputs[i].data = slot_data(state, s->input_slots[i]);
    }
    for (int32_t i = 0; i < call->output_count; i++) {
      call->outputs[i] = s->outputs[i];
      if (s->output_slots[i] >= 0) call->outputs[i].data = slot_data(state, s->output_slots[i]);
    }
  }
}

itg_status itg_interpreter_state_create(const itg_interpreter *interpreter, itg_diagnostic *diagnostic,
                                        itg_interpreter_state **out) {
  itg_interpreter_state *state = calloc(1, sizeof *state);
  ITG_TRY_MEMORY(state, diagnostic);
  state->interpreter = interpreter;
  state->block = aligned_alloc(BLOCK_ALIGNMENT, interpreter->block_bytes ? interpreter->block_bytes : BLOCK_ALIGNMENT);
  state->calls = calloc((size_t)interpreter->step_count + 1, sizeof *state->calls);
  state->operands = calloc(interpreter->operand_count + 1, sizeof *state->operands);
  state->inputs = calloc((size_t)interpreter->graph->input_count + 1, sizeof *state->inputs);
  if (!state->block || !state->calls || !state->operands || !state->inputs) {
    itg_interpreter_state_destroy(state);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory: one sample needs %zu bytes", interpreter->block_bytes);
  }
  bind_calls(state);
  *out = state;
  return ITG_OK;
}

void itg_interpreter_state_destroy(itg_interpreter_state *state) {
  if (!state) return;
  free(state->block);
  free(state->calls);
  free(state->operands);
  free((void *)state->inputs);
  free(state);
}

static void convert_slots(const itg_interpreter_state *state, const conversion *conversions, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const conversion *c = &conversions[i];
    itg_convert(c->from_dtype, slot_data(state, c->from), c->to_dtype, slot_data(state, c->to), c->count);
  }
}

// Operands that are the caller's inputs have other data every run.
static void bind_inputs(itg_interpreter_state *state, const step *s, itg_call *call) {
  for (int32_t i = 0; i < call->input_count; i++) {
    const int64_t index = s->input_slots[i];
    if (index >= 0 && state->interpreter->slots[index].kind == SLOT_INPUT)
      call->inputs[i].data = slot_data(state, index);
  }
}

// Who watches a run: one of the two, or nobody.
typedef struct watcher {
  itg_interpreter_observer observer;
  itg_interpreter_editor editor;
  void *context;
} watcher;

static bool show_outputs(const watcher *by, const itg_interpreter_state *state, const step *s) {
  for (int32_t i = 0; i < s->node->output_count; i++) {
    if (s->value_slots[i] < 0) continue;
    void *data = slot_data(state, s->value_slots[i]);
    if (by->observer && !by->observer(by->context, s->node->outputs[i], data)) return false;
    if (by->editor && !by->editor(by->context, s->node->outputs[i], data)) return false;
  }
  return true;
}

static itg_status run_steps(itg_interpreter_state *state, const void *const *inputs, void *const *outputs,
                            const watcher *by, itg_diagnostic *diagnostic) {
  const itg_interpreter *interpreter = state->interpreter;
  const itg_graph *graph = interpreter->graph;
  for (int32_t i = 0; i < graph->input_count; i++) {
    state->inputs[i] = inputs[i];
    if (!inputs[i] && !itg_tensor_is_state(graph->inputs[i]))
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, graph->inputs[i]->name, "the input has no data");
    if (inputs[i] && by->observer && !by->observer(by->context, graph->inputs[i], inputs[i]))
      ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, graph->inputs[i]->name, "stopped by the observer");
  }
  for (int64_t t = 0; t < interpreter->step_count; t++) {
    const step *s = &interpreter->steps[t];
    if (s->executor) {
      bind_inputs(state, s, &state->calls[t]);
      convert_slots(state, s->widenings, s->widening_count);
      ITG_TRY(s->executor->run(&state->calls[t], diagnostic));
      convert_slots(state, s->narrowings, s->narrowing_count);
    }
    if (!show_outputs(by, state, s))
      ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, s->node->name, "stopped by the observer");
  }
  for (int32_t i = 0; outputs && i < graph->output_count; i++) {
    size_t bytes = 0;
    if (!outputs[i] || !itg_shape_bytes(&graph->outputs[i]->shape, graph->outputs[i]->dtype, &bytes)) continue;
    if (bytes) memcpy(outputs[i], slot_data(state, interpreter->output_slots[i]), bytes);
  }
  return ITG_OK;
}

itg_status itg_interpreter_run(itg_interpreter_state *state, const void *const *inputs, void *const *outputs,
                               itg_interpreter_observer observer, void *context, itg_diagnostic *diagnostic) {
  const watcher by = {.observer = observer, .context = context};
  const unsigned saved = itg_subnormals_off();
  const itg_status status = run_steps(state, inputs, outputs, &by, diagnostic);
  itg_subnormals_restore(saved);
  return status;
}

itg_status itg_interpreter_run_edited(itg_interpreter_state *state, const void *const *inputs, void *const *outputs,
                                      itg_interpreter_editor editor, void *context, itg_diagnostic *diagnostic) {
  const watcher by = {.editor = editor, .context = context};
  const unsigned saved = itg_subnormals_off();
  const itg_status status = run_steps(state, inputs, outputs, &by, diagnostic);
  itg_subnormals_restore(saved);
  return status;
}
