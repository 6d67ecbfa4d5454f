// The CPU as a backend: steps of the plan in order, each split over a pool of threads where it has enough work.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/parallel.h"
#include "plan/block.h"
#include "plan/memory.h"
#include "run/backend.h"

enum { NANOSECONDS_A_THREAD = 6000 }; // Less work than this is not worth waking a thread for.

typedef struct cpu_state {
  const itg_model *model;
  const itg_program *program;
  itg_pool *pool;
  uint8_t *workspace;
  void *allocation;    // Of the workspace and the arrays below, when the session owns them.
  const void **inputs; // Operands of all calls, step after step.
  void **outputs;
  itg_kernel_call *calls; // By step; scratch is that of thread 0.
  double *microseconds;   // By step; NULL without profile.
  int thread_count;
  const char *processor;
  // Graphs with states. The steps of blocks that come again and again are kept: one row, and the last number that was neither
  // one nor all.
  itg_block_info block;
  itg_step *single, *partial;
  size_t partial_rows;
  size_t rows; // Of the current block.
  itg_block_outputs outputs_wanted;
} cpu_state;

int itg_cpu_has(const char *name) {
  uint32_t mask = 0;
  if (!itg_isa_detect(NULL, &mask)) return 0;
  for (int isa = 0; isa < ITG_ISA_COUNT; isa++) {
    if (strcmp(name, itg_isa_name((itg_isa)isa)) == 0) return mask >> isa & 1;
  }
  return 0;
}

static itg_status isa_mask_of(const itg_session_options *options, itg_diagnostic *diagnostic, uint32_t *out) {
  const char *highest = options->cpu ? options->cpu : getenv("INTAGLIO_CPU");
  if (highest && !*highest) highest = NULL;
  if (!itg_isa_detect(highest, out))
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, highest,
             "unknown instruction set%s; known are reference, avx2, avxvnni, avx512vnni, neon, neondot, hvx",
             options->cpu ? "" : " in the environment variable INTAGLIO_CPU");
  return ITG_OK;
}

static itg_status plan_of(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                          const itg_plan **out) {
  uint32_t mask;
  ITG_TRY(isa_mask_of(options, diagnostic, &mask));
  return itg_program_plan(model, mask, diagnostic, out);
}

static itg_status query(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic) {
  const itg_plan *plan = NULL;
  itg_block_info block;
  ITG_TRY(plan_of(model, options, diagnostic, &plan));
  return itg_plan_block_info(plan, diagnostic, &block);
}

static int thread_count_of(const itg_session_options *options) {
  return options->thread_count > 0 ? options->thread_count : itg_processor_count();
}

static itg_status workspace_size(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                                 size_t *out) {
  const itg_plan *plan = NULL;
  ITG_TRY(plan_of(model, options, diagnostic, &plan));
  size_t scratch, total;
  if (!itg_checked_multiply(plan->scratch_bytes, (size_t)thread_count_of(options), &scratch) ||
      !itg_checked_add(scratch, plan->activation_bytes, &total) || !itg_checked_add(total, plan->state_bytes, &total) ||
      total > SIZE_MAX / 2)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "the workspace does not fit the address space");
  *out = total;
  return ITG_OK;
}

// The workspace holds the activations, the threads' scratch and the states.
static void *place(const cpu_state *state, const itg_place *at) {
  const itg_plan *plan = state->program->plan;
  switch (at->memory) {
  case ITG_MEMORY_PACKED: return (uint8_t *)state->program->packed + at->offset;
  case ITG_MEMORY_STATE:
    return state->workspace + plan->activation_bytes + plan->scratch_bytes * (size_t)state->thread_count + at->offset;
  default: return state->workspace + at->offset;
  }
}

// Name of the highest instruction set that some step uses.
static const char *name_processor(const itg_plan *plan) {
  itg_isa highest = ITG_ISA_REFERENCE;
  for (size_t i = 0; i < plan->step_count; i++) {
    if (plan->steps[i].kernel->isa > highest) highest = plan->steps[i].kernel->isa;
  }
  return itg_isa_name(highest);
}

static itg_status allocate_calls(cpu_state *state, bool profile, itg_diagnostic *diagnostic) {
  const itg_plan *plan = state->program->plan;
  size_t input_count = 0, output_count = 0;
  for (size_t i = 0; i < plan->step_count; i++) {
    input_count += (size_t)plan->steps[i].input_count;
    output_count += (size_t)plan->steps[i].output_count;
  }
  state->inputs = calloc(input_count + 1, sizeof *state->inputs);
  state->outputs = calloc(output_count + 1, sizeof *state->outputs);
  state->calls = calloc(plan->step_count + 1, sizeof *state->calls);
  state->microseconds = profile ? calloc(plan->step_count + 1, sizeof *state->microseconds) : NULL;
  ITG_TRY_MEMORY(state->inputs && state->outputs && state->calls && (!profile || state->microseconds), diagnostic);
  return ITG_OK;
}

static void fill_calls(cpu_state *state) {
  const itg_plan *plan = state->program->plan;
  const void **input = state->inputs;
  void **output = state->outputs;
  for (size_t i = 0; i < plan->step_count; i++) {
    const itg_step *step = &plan->steps[i];
    state->calls[i] = (itg_kernel_call){
        .inputs = input,
        .outputs = output,
        .packed = step->has_packed ? (const uint8_t *)state->program->packed + step->packed_offset : NULL,
        .scratch = state->workspace + plan->activation_bytes};
    for (int32_t j = 0; j < step->input_count; j++) *input++ = place(state, &step->inputs[j]);
    for (int32_t j = 0; j < step->output_count; j++) *output++ = place(state, &step->outputs[j]);
  }
}

// Room for the steps of partial blocks, so that running needs no memory.
static itg_status prepare_blocks(cpu_state *state, itg_diagnostic *diagnostic) {
  const itg_plan *plan = state->program->plan;
  ITG_TRY(itg_plan_block_info(plan, diagnostic, &state->block));
  if (!state->block.rows) return ITG_OK;
  state->single = calloc(plan->step_count + 1, sizeof *state->single);
  state->partial = calloc(plan->step_count + 1, sizeof *state->partial);
  ITG_TRY_MEMORY(state->single && state->partial, diagnostic);
  state->rows = (size_t)state->block.rows;
  return itg_plan_block_steps(plan, &state->block, 1, diagnostic, state->single);
}

// Rows 0 .. P - 1 of the caches; no run writes there.
static void fill_prefix(const itg_tensor *prefix, const itg_tensor *cache, uint8_t *to) {
  const size_t row = (size_t)cache->shape.dims[2] * itg_dtype_size(cache->dtype);
  const size_t rows = (size_t)prefix->shape.dims[1], context = (size_t)cache->shape.dims[1];
  for (size_t g = 0; g < (size_t)cache->shape.dims[0]; g++)
    memcpy(to + g * context * row, (const uint8_t *)prefix->data + g * rows * row, rows * row);
}

static void fill_prefixes(const cpu_state *state) {
  const itg_plan *plan = state->program->plan;
  for (size_t i = 0; i < plan->step_count; i++) {
    const itg_node *node = plan->steps[i].node;
    if (node->op != ITG_OP_Q_ATTENTION || !itg_node_input(node, ITG_ATTENTION_K_PREFIX)) continue;
    for (int32_t c = 0; c < 2; c++)
      fill_prefix(node->inputs[ITG_ATTENTION_K_PREFIX + c], node->inputs[ITG_ATTENTION_K_CACHE + c],
                  place(state, &plan->steps[i].inputs[ITG_ATTENTION_K_CACHE + c]));
  }
}

static itg_status prepare(cpu_state *state, const itg_session_options *options, itg_diagnostic *diagnostic) {
  uint32_t mask;
  ITG_TRY(isa_mask_of(options, diagnostic, &mask));
  ITG_TRY(itg_program_acquire(state->model, mask, diagnostic, &state->program));
  state->thread_count = thread_count_of(options);
  if (state->thread_count > 1) ITG_TRY(itg_pool_create(state->thread_count, diagnostic, &state->pool));
  state->workspace = options->workspace;
  if (!state->workspace) {
    size_t size = 0;
    ITG_TRY(workspace_size(state->model, options, diagnostic, &size));
    state->allocation = aligned_alloc(ITG_MEMORY_ALIGNMENT, size ? size : ITG_MEMORY_ALIGNMENT);
    ITG_TRY_MEMORY(state->allocation, diagnostic);
    state->workspace = state->allocation;
  }
  ITG_TRY(allocate_calls(state, options->profile != 0, diagnostic));
  fill_calls(state);
  ITG_TRY(prepare_blocks(state, diagnostic));
  fill_prefixes(state);
  state->processor = name_processor(state->program->plan);
  return ITG_OK;
}

static void destroy(void *context) {
  cpu_state *state = context;
  itg_pool_destroy(state->pool);
  if (state->program) itg_program_release(state->model, state->program);
  free(state->allocation);
  free(state->inputs);
  free(state->outputs);
  free(state->calls);
  free(state->microseconds);
  free(state->single);
  free(state->partial);
  free(state);
}

static itg_status create(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                         void **out) {
  cpu_state *state = calloc(1, sizeof *state);
  ITG_TRY_MEMORY(state, diagnostic);
  state->model = model;
  const itg_status status = prepare(state, options, diagnostic);
  if (status != ITG_OK) {
    destroy(state);
    return status;
  }
  *out = state;
  return ITG_OK;
}

static void *input(void *context, size_t index) {
  const cpu_state *state = context;
  return place(state, &state->program->plan->inputs[index]);
}

static const void *output(void *context, size_t index) {
  const cpu_state *state = context;
  return place(state, &state->program->plan->outputs[index]);
}

typedef struct split {
  const itg_step *step;
  const itg_kernel_call *call;
  size_t count, scratch_bytes;
} split;

static void run_part(void *context, size_t index) {
  const split *parts = context;
  const size_t units = parts->step->units, count = parts->count;
  itg_kernel_call call = *parts->call;
  call.scratch = (uint8_t *)call.scratch + index * parts->scratch_bytes; // No more parts than threads.
  // Evenly, without the product units*index, which could overflow.
  const size_t share = units / count, rest = units % count;
  const size_t begin = index * share + (index < rest ? index : rest);
  parts->step->kernel->run(&parts->step->task, &call, begin, begin + share + (index < rest));
}

static size_t part_count(const cpu_state *state, const itg_step *step) {
  const size_t worthwhile = (size_t)(step->cost / NANOSECONDS_A_THREAD);
  size_t count = (size_t)state->thread_count;
  if (count > worthwhile) count = worthwhile;
  if (count > step->units) count = step->units;
  return count < 1 ? 1 : count;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void run_step(const cpu_state *state, size_t index, const itg_step *step, const itg_kernel_call *call,
                     double *before) {
  split parts = {step, call, part_count(state, step), state->program->plan->scratch_bytes};
  itg_parallel_for(state->pool, parts.count, run_part, &parts);
  if (state->microseconds) {
    const double after = now();
    state->microseconds[index] = after - *before;
    *before = after;
  }
}

// Bytes of one row of a tensor that has rows, 0 for others.
static size_t row_bytes(const cpu_state *state, const itg_tensor *tensor) {
  size_t bytes = 0;
  if (!itg_tensor_has_rows(tensor, state->block.rows)) return 0;
  if (!itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes)) return 0; // The plan has placed it: it fits.
  return bytes / (size_t)state->block.rows;
}

// A step of the tail for the block's last row: the same memory, from that row on.
static void run_last_row(const cpu_state *state, size_t index, double *before) {
  const itg_step *step = &state->single[index];
  itg_kernel_call call = state->calls[index];
  const void *inputs[ITG_ATTENTION_POSITION + 1];
  void *outputs[2];
  for (int32_t i = 0; i < step->input_count; i++)
    inputs[i] = (const uint8_t *)call.inputs[i] + (state->rows - 1) * row_bytes(state, step->node->inputs[i]);
  for (int32_t i = 0; i < step->output_count; i++)
    outputs[i] = (uint8_t *)call.outputs[i] + (state->rows - 1) * row_bytes(state, step->node->outputs[i]);
  call.inputs = inputs;
  call.outputs = outputs;
  run_step(state, index, step, &call, before);
}

static const itg_step *steps_of(const cpu_state *state) {
  if (!state->block.rows || state->rows == (size_t)state->block.rows) return state->program->plan->steps;
  return state->rows == 1 ? state->single : state->partial;
}

static itg_status run(void *context, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const cpu_state *state = context;
  const itg_plan *plan = state->program->plan;
  const itg_step *steps = steps_of(state);
  const bool whole = !state->block.rows || state->outputs_wanted == ITG_BLOCK_ALL_ROWS;
  const size_t count = whole ? plan->step_count : state->block.tail;
  double before = state->microseconds ? now() : 0;
  for (size_t i = 0; i < count; i++) run_step(state, i, &steps[i], &state->calls[i], &before);
  for (size_t i = count; i < plan->step_count && state->outputs_wanted == ITG_BLOCK_LAST_ROW; i++)
    run_last_row(state, i, &before);
  return ITG_OK;
}

static itg_status set_block(void *context, size_t rows, itg_block_outputs outputs, size_t position,
                            itg_diagnostic *diagnostic) {
  cpu_state *state = context;
  const itg_plan *plan = state->program->plan;
  if (rows > 1 && rows < (size_t)state->block.rows && rows != state->partial_rows) {
    ITG_TRY(itg_plan_block_steps(plan, &state->block, (int64_t)rows, diagnostic, state->partial));
    state->partial_rows = rows;
  }
  state->rows = rows;
  state->outputs_wanted = outputs;
  const itg_graph *graph = state->model->container.graph;
  for (int32_t i = 0; i < graph->input_count; i++) {
    if (graph->inputs[i] == state->block.position) *(int32_t *)input(state, (size_t)i) = (int32_t)position;
  }
  return ITG_OK;
}

static void run_observed(void *context, itg_step_observer observer, void *observer_context) {
  const cpu_state *state = context;
  const itg_step *steps = steps_of(state);
  double before = state->microseconds ? now() : 0;
  for (size_t i = 0; i < state->program->plan->step_count; i++) {
    run_step(state, i, &steps[i], &state->calls[i], &before);
    observer(observer_context, i, steps[i].node, state->calls[i].outputs);
  }
}

static size_t step_count(const void *context) { return ((const cpu_state *)context)->program->plan->step_count; }

static void step(const void *context, size_t index, itg_step_info *out) {
  const cpu_state *state = context;
  const itg_step *at = &state->program->plan->steps[index];
  *out = (itg_step_info){.name = at->node->name,
                         .op = itg_op_name(at->node->op),
                         .kernel = at->kernel->name,
                         .multiply_accumulates = at->multiply_accumulates,
                         .microseconds = state->microseconds ? state->microseconds[index] : 0};
}

static const char *processor(const void *context) { return ((const cpu_state *)context)->processor; }

const itg_backend itg_backend_cpu = {.name = "cpu",
                                     .query = query,
                                     .workspace_size = workspace_size,
                                     .create = create,
                                     .destroy = destroy,
                                     .input = input,
                                     .output = output,
                                     .run = run,
                                     .run_observed = run_observed,
                                     .set_block = set_block,
                                     .step_count = step_count,
                                     .step = step,
                                     .processor = processor};
