// See plan.h.
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "plan/memory.h"
#include "plan/task.h"

typedef struct itg_plan_constant {
  const void *data;
  size_t size, offset;
} itg_plan_constant;

typedef struct network_planner {
  const itg_graph *graph;
  itg_diagnostic *diagnostic;
  itg_plan *plan;
  itg_step *steps;
  itg_plan_constant *constants;
  itg_map numbers;     // Address of a tensor -> number of its root + 1. Aliases share their root's number.
  itg_buffer *buffers; // By number.
  size_t *packed;      // By number: 1 + index of `constants`; 0 for activations.
  bool *is_state;      // By number.
  size_t count, capacity;
} network_planner;

static size_t number_of(const network_planner *planner, const itg_tensor *tensor) {
  return (size_t)(uintptr_t)itg_map_get(&planner->numbers, (const char *)&tensor, sizeof tensor) - 1;
}

// `slot` is a pointer to the tensor that lives in the graph: the map borrows it as its key.
static itg_status set_number(network_planner *planner, itg_tensor *const *slot, size_t number) {
  ITG_TRY_MEMORY(itg_map_set(&planner->numbers, (const char *)slot, sizeof *slot, (void *)(uintptr_t)(number + 1)),
                 planner->diagnostic);
  return ITG_OK;
}

static bool is_known(const network_planner *planner, const itg_tensor *tensor) {
  return itg_map_get(&planner->numbers, (const char *)&tensor, sizeof tensor) != NULL;
}

static itg_status add_buffer(network_planner *planner, itg_tensor *const *slot, int64_t first) {
  const itg_tensor *tensor = *slot;
  size_t bytes;
  if (!itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes) || bytes > SIZE_MAX / 4)
    ITG_FAIL(planner->diagnostic, ITG_ERROR_LIMIT, tensor->name, "the tensor is too large");
  if (planner->count == planner->capacity)
    ITG_FAIL(planner->diagnostic, ITG_ERROR_INTERNAL, tensor->name, "more tensors than were counted");
  const size_t number = planner->count++;
  const size_t size = itg_align_up(bytes + ITG_KERNEL_SLACK, ITG_MEMORY_ALIGNMENT);
  planner->buffers[number] = (itg_buffer){.size = size, .first = first, .last = first};
  if (tensor->data) {
    planner->constants[planner->plan->constant_count] = (itg_plan_constant){tensor->data, bytes, 0};
    planner->packed[number] = ++planner->plan->constant_count;
  }
  if (itg_tensor_is_state(tensor)) {
    planner->is_state[number] = true;
    planner->buffers[number].offset = planner->plan->state_bytes;
    if (!itg_checked_add(planner->plan->state_bytes, size, &planner->plan->state_bytes))
      ITG_FAIL(planner->diagnostic, ITG_ERROR_LIMIT, tensor->name, "the states do not fit the address space");
  }
  return set_number(planner, slot, number);
}

static itg_status use(network_planner *planner, itg_tensor *const *slot, int64_t step) {
  if (!is_known(planner, *slot)) ITG_TRY(add_buffer(planner, slot, step)); // A constant.
  planner->buffers[number_of(planner, *slot)].last = step;
  return ITG_OK;
}

static itg_status choose_kernel(network_planner *planner, itg_step *step, uint32_t isa_mask) {
  step->kernel = itg_kernel_find(&step->task, isa_mask);
  if (!step->kernel)
    ITG_FAIL(planner->diagnostic, ITG_ERROR_UNSUPPORTED, step->node->name, "there is no kernel for %s",
             itg_op_name(step->node->op));
  step->units = step->kernel->units ? step->kernel->units(&step->task) : 1;
  if (step->units < 1) step->units = 1;
  const size_t scratch = step->kernel->scratch_size ? step->kernel->scratch_size(&step->task) : 0;
  if (scratch > planner->plan->scratch_bytes)
    planner->plan->scratch_bytes = itg_align_up(scratch, ITG_MEMORY_ALIGNMENT);
  const size_t packed = step->kernel->packed_size ? step->kernel->packed_size(&step->task) : 0;
  step->has_packed = packed > 0;
  step->packed_offset = planner->plan->packed_bytes;
  planner->plan->packed_bytes += itg_align_up(packed, ITG_MEMORY_ALIGNMENT);
  return ITG_OK;
}

// Rough speed of one core: multiply-accumulates and elements in 8 nanoseconds, measured on the kernels of each kind.
int64_t itg_plan_cost(const itg_step *step) {
  static const int products[ITG_ISA_COUNT] = {
      [ITG_ISA_REFERENCE] = 4,     [ITG_ISA_AVX2] = 400, [ITG_ISA_AVXVNNI] = 800,
      [ITG_ISA_AVX512VNNI] = 1600, [ITG_ISA_NEON] = 200, [ITG_ISA_NEON_DOTPROD] = 400};
  const itg_shape *out = &step->node->outputs[0]->shape, *in = &step->node->inputs[0]->shape;
  const int64_t elements = itg_max_i64(itg_plan_product(out, 0, out->rank), itg_plan_product(in, 0, in->rank));
  const int rate = products[step->kernel->isa] ? products[step->kernel->isa] : 4;
  return step->multiply_accumulates * 8 / rate + elements * 8 / (rate > 4 ? 12 : 1);
}

// Turns every node into a step or an alias, and learns the lifetimes of all buffers.
static itg_status add_steps(network_planner *planner, uint32_t isa_mask) {
  itg_plan *plan = planner->plan;
  for (itg_node *node = planner->graph->first; node; node = node->next) {
    const int64_t now = (int64_t)plan->step_count;
    itg_step *step = &planner->steps[plan->step_count];
    *step = (itg_step){.node = node, .input_count = itg_plan_operand_count(node), .output_count = node->output_count};
    ITG_TRY(itg_plan_task(node, &plan->arena, planner->diagnostic, &step->task));
    for (int32_t i = 0; i < step->input_count; i++) ITG_TRY(use(planner, &node->inputs[i], now));
    if (itg_plan_task_is_alias(node, &step->task)) {
      ITG_TRY(set_number(planner, &node->outputs[0], number_of(planner, node->inputs[0])));
      continue;
    }
    for (int32_t i = 0; i < node->output_count; i++) ITG_TRY(add_buffer(planner, &node->outputs[i], now));
    step->multiply_accumulates = itg_plan_multiply_accumulates(node);
    ITG_TRY(choose_kernel(planner, step, isa_mask));
    step->cost = itg_plan_cost(step);
    plan->step_count++;
  }
  return ITG_OK;
}

// Activations share the workspace by lifetime; constants follow each other in the packed block.
static itg_status place_buffers(network_planner *planner) {
  itg_plan *plan = planner->plan;
  itg_buffer *active = calloc(planner->count + 1, sizeof *active);
  ITG_TRY_MEMORY(active, planner->diagnostic);
  size_t active_count = 0;
  for (size_t i = 0; i < planner->count; i++) {
    if (planner->packed[i]) {
      planner->buffers[i].offset = planner->constants[planner->packed[i] - 1].offset = plan->packed_bytes;
      plan->packed_bytes += planner->buffers[i].size;
    } else if (!planner->is_state[i]) {
      active[active_count++] = planner->buffers[i];
    }
  }
  const itg_status status = itg_memory_place(active, active_count, planner->diagnostic, &plan->activation_bytes);
  active_count = 0;
  for (size_t i = 0; i < planner->count; i++) {
    if (!planner->packed[i] && !planner->is_state[i]) planner->buffers[i].offset = active[active_count++].offset;
  }
  free(active);
  return status;
}

static itg_status places_of(const network_planner *planner, itg_tensor *const *tensors, int32_t count,
                            const itg_place **out) {
  itg_place *places = itg_arena_array(&planner->plan->arena, (size_t)count, sizeof *places);
  ITG_TRY_MEMORY(places, planner->diagnostic);
  for (int32_t i = 0; i < count; i++) {
    const size_t number = number_of(planner, tensors[i]);
    const itg_memory memory = planner->packed[number]     ? ITG_MEMORY_PACKED
                              : planner->is_state[number] ? ITG_MEMORY_STATE
                                                          : ITG_MEMORY_WORKSPACE;
    places[i] = (itg_place){planner->buffers[number].offset, memory};
  }
  *out = places;
  return ITG_OK;
}

static itg_status prepare(network_planner *planner) {
  const itg_graph *graph = planner->graph;
  itg_plan *plan = planner->plan;
  if (graph->node_count > ITG_PLAN_MAX_STEPS)
    ITG_FAIL(planner->diagnostic, ITG_ERROR_LIMIT, NULL, "%lld steps; the limit is %d", (long long)graph->node_count,
             ITG_PLAN_MAX_STEPS);
  planner->capacity = (size_t)graph->output_count;
  for (size_t i = 0; i < graph->tensor_count; i++) planner->capacity += graph->tensors[i] != NULL;
  planner->steps = itg_arena_array(&plan->arena, (size_t)graph->node_count, sizeof *planner->steps);
  planner->constants = itg_arena_array(&plan->arena, planner->capacity, sizeof *planner->constants);
  planner->buffers = calloc(planner->capacity + 1, sizeof *planner->buffers);
  planner->packed = calloc(planner->capacity + 1, sizeof *planner->packed);
  planner->is_state = calloc(planner->capacity + 1, sizeof *planner->is_state);
  ITG_TRY_MEMORY(planner->steps && planner->constants && planner->buffers && planner->packed && planner->is_state,
                 planner->diagnostic);
  plan->steps = planner->steps;
  plan->constants = planner->constants;
  return ITG_OK;
}

static itg_status make_plan(network_planner *planner, uint32_t isa_mask) {
  const itg_graph *graph = planner->graph;
  itg_plan *plan = planner->plan;
  ITG_TRY(prepare(planner));
  for (int32_t i = 0; i < graph->input_count; i++) ITG_TRY(add_buffer(planner, &graph->inputs[i], 0));
  ITG_TRY(add_steps(planner, isa_mask));
  // Inputs keep their values from run to run, and outputs are read after the last step.
  for (int32_t i = 0; i < graph->output_count; i++) ITG_TRY(use(planner, &graph->outputs[i], INT64_MAX));
  for (int32_t i = 0; i < graph->input_count; i++) {
    itg_buffer *buffer = &planner->buffers[number_of(planner, graph->inputs[i])];
    buffer->first = 0;
    buffer->last = INT64_MAX;
  }
  ITG_TRY(place_buffers(planner));
  ITG_TRY(places_of(planner, graph->inputs, graph->input_count, &plan->inputs));
  ITG_TRY(places_of(planner, graph->outputs, graph->output_count, &plan->outputs));
  for (size_t i = 0; i < plan->step_count; i++) {
    itg_step *step = &planner->steps[i];
    ITG_TRY(places_of(planner, step->node->inputs, step->input_count, &step->inputs));
    ITG_TRY(places_of(planner, step->node->outputs, step->output_count, &step->outputs));
  }
  return ITG_OK;
}

itg_status itg_plan_create(const itg_graph *graph, uint32_t isa_mask, itg_diagnostic *diagnostic, itg_plan **out) {
  network_planner planner = {.graph = graph, .diagnostic = diagnostic};
  planner.plan = calloc(1, sizeof *planner.plan);
  ITG_TRY_MEMORY(planner.plan, diagnostic);
  const itg_status status = make_plan(&planner, isa_mask);
  itg_map_free(&planner.numbers);
  free(planner.buffers);
  free(planner.packed);
  free(planner.is_state);
  if (status != ITG_OK) {
    itg_plan_destroy(planner.plan);
    return status;
  }
  *out = planner.plan;
  return ITG_OK;
}

void itg_plan_destroy(itg_plan *plan) {
  if (!plan) return;
  itg_arena_free(&plan->arena);
  free(plan);
}

void itg_plan_pack(const itg_plan *plan, void *packed) {
  for (size_t i = 0; i < plan->step_count; i++) {
    const itg_step *step = &plan->steps[i];
    if (step->has_packed) step->kernel->pack(&step->task, (char *)packed + step->packed_offset);
  }
  for (size_t i = 0; i < plan->constant_count; i++)
    memcpy((char *)packed + plan->constants[i].offset, plan->constants[i].data, plan->constants[i].size);
}
