// The vendor's NPU library as a backend: the context stored in the file, codes in and out, no fallback of any kind.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "npu/qnn/device.h"
#include "npu/qnn/performance.h"
#include "npu/qnn/shared_memory.h"
#include "npu/qnn/stored.h"
#include "npu/qnn/trial.h"
#include "plan/memory.h"
#include "run/backend.h"
#include "run/cpu_share.h"

// One graph inside every context of ours (lower/qnn gives it this name).
static const char graph_name[] = "intaglio";

typedef struct qnn_state {
  const itg_model *model;
  itg_qnn_stored stored;
  itg_qnn_device *device;
  itg_qnn_context *context;
  itg_qnn_vote vote;
  uint8_t *allocation;       // Of the buffers, when the session owns them and they are not shared.
  itg_shared_memory *shared; // Inputs, outputs; NULL: the buffers are plain memory.
  uint32_t registered;       // Ports whose shared memory the library took.
  char performance[16];
  void **inputs, **outputs;
  itg_share_port *ports; // Inputs, outputs; with a share only.
  itg_cpu_share *share;  // What the CPU computes before and behind the context; NULL: nothing.
  char sentence[480];
  char processor[64];
} qnn_state;

static itg_status parse_context(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                                itg_qnn_stored *out) {
  itg_span body = {0};
  ITG_TRY(itg_qnn_stored_find(&model->container, options->target, diagnostic, &body));
  itg_qnn_stored stored = {0};
  ITG_TRY(itg_qnn_stored_parse(body, diagnostic, &stored));
  *out = stored;
  return ITG_OK;
}

static size_t buffer_bytes(const itg_qnn_stored *stored) {
  size_t total = 0;
  for (uint32_t i = 0; i < stored->header.input_count; i++)
    total += itg_align_up(stored->inputs[i].bytes, ITG_MEMORY_ALIGNMENT);
  for (uint32_t i = 0; i < stored->header.output_count; i++)
    total += itg_align_up(stored->outputs[i].bytes, ITG_MEMORY_ALIGNMENT);
  return total;
}

static itg_status workspace_size(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                                 size_t *out) {
  itg_qnn_stored stored = {0};
  ITG_TRY(parse_context(model, options, diagnostic, &stored));
  *out = buffer_bytes(&stored);
  itg_qnn_stored_free(&stored);
  return ITG_OK;
}

// The mode by its name, "balanced" when none was chosen; NULL for "default".
static itg_status find_performance(const itg_session_options *options, itg_diagnostic *diagnostic, const char **name,
                                   const itg_qnn_performance **mode) {
  *name = options->npu_performance ? options->npu_performance : "balanced";
  return itg_qnn_performance_find(*name, diagnostic, mode);
}

static itg_status query(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic) {
  const char *name;
  const itg_qnn_performance *mode;
  size_t size;
  ITG_TRY(find_performance(options, diagnostic, &name, &mode));
  return workspace_size(model, options, diagnostic, &size);
}

static uint32_t port_count(const qnn_state *state) {
  return state->stored.header.input_count + state->stored.header.output_count;
}

static const itg_qnn_port *port_at(const qnn_state *state, uint32_t index) {
  const uint32_t inputs = state->stored.header.input_count;
  return index < inputs ? &state->stored.inputs[index] : &state->stored.outputs[index - inputs];
}

static void free_shared(qnn_state *state) {
  for (uint32_t i = 0; state->shared && i < port_count(state); i++) itg_shared_memory_free(&state->shared[i]);
  free(state->shared);
  state->shared = NULL;
}

static void destroy(void *context) {
  qnn_state *state = context;
  itg_cpu_share_destroy(state->share);
  free(state->ports);
  if (state->device) {
    itg_qnn_device_enter(state->device);
    itg_qnn_vote_close(&state->vote);
    itg_qnn_context_close(state->context);
    itg_qnn_device_leave(state->device);
    itg_qnn_device_release(state->device);
  }
  free_shared(state);
  itg_qnn_stored_free(&state->stored);
  free(state->allocation);
  free(state->inputs);
  free(state);
}

// All ports in shared memory, or none. Having none of it is no error.
static itg_status share_buffers(qnn_state *state, const char *directory, itg_diagnostic *diagnostic) {
  state->shared = calloc((size_t)port_count(state) + 1, sizeof state->shared[0]);
  ITG_TRY_MEMORY(state->shared, diagnostic);
  for (uint32_t i = 0; i < port_count(state); i++) {
    if (itg_shared_memory_allocate(directory, port_at(state, i)->bytes, &state->shared[i])) continue;
    free_shared(state);
    return ITG_OK;
  }
  return ITG_OK;
}

static itg_status place_buffers(qnn_state *state, const itg_session_options *options, itg_diagnostic *diagnostic) {
  const uint32_t inputs = state->stored.header.input_count, count = port_count(state);
  state->inputs = calloc((size_t)count + 1, sizeof state->inputs[0]);
  ITG_TRY_MEMORY(state->inputs, diagnostic);
  state->outputs = state->inputs + inputs;
  uint8_t *position = options->workspace;
  if (!position) ITG_TRY(share_buffers(state, options->qnn_directory, diagnostic));
  if (!position && !state->shared) {
    const size_t size = buffer_bytes(&state->stored);
    position = state->allocation = aligned_alloc(ITG_MEMORY_ALIGNMENT, size ? size : ITG_MEMORY_ALIGNMENT);
    ITG_TRY_MEMORY(position, diagnostic);
    memset(position, 0, size);
  }
  for (uint32_t i = 0; i < count; i++) {
    state->inputs[i] = state->shared ? state->shared[i].data : position;
    if (!state->shared) position += itg_align_up(port_at(state, i)->bytes, ITG_MEMORY_ALIGNMENT);
  }
  return ITG_OK;
}

// Makes the shared buffers known to the library. Those that it does not take are copied, like plain ones.
static void register_buffers(qnn_state *state) {
  for (uint32_t i = 0; state->shared && i < port_count(state); i++) {
    const itg_qnn_port *port = port_at(state, i);
    uint32_t dims[ITG_MAX_RANK] = {1}, rank = 1;
    dims[0] = (uint32_t)(port->bytes / itg_qnn_type_bytes(port->data_type));
    const itg_tensor *tensor = itg_graph_find(state->model->container.graph, port->name);
    if (tensor && tensor->shape.rank) {
      rank = (uint32_t)tensor->shape.rank;
      for (uint32_t d = 0; d < rank; d++) dims[d] = (uint32_t)tensor->shape.dims[d];
    }
    state->registered += itg_qnn_context_share(state->context, i, state->shared[i].file, rank, dims);
  }
}

// Parts of the graph that the context does not hold.
static itg_status share_with_cpu(qnn_state *state, const itg_session_options *options, itg_diagnostic *diagnostic) {
  const uint32_t inputs = state->stored.header.input_count, outputs = state->stored.header.output_count;
  state->ports = calloc((size_t)inputs + outputs + 1, sizeof state->ports[0]);
  ITG_TRY_MEMORY(state->ports, diagnostic);
  for (uint32_t i = 0; i < inputs + outputs; i++) {
    const itg_qnn_port *port = i < inputs ? &state->stored.inputs[i] : &state->stored.outputs[i - inputs];
    state->ports[i] = (itg_share_port){port->name, port->bytes, state->inputs[i]};
  }
  if (itg_cpu_share_is_empty(state->model, state->ports, inputs, state->ports + inputs, outputs)) {
    bool fits = true;
    for (uint32_t i = 0; i < inputs; i++)
      fits = fits &&
             state->ports[i].bytes == state->model->inputs[i].count * itg_dtype_size(state->model->inputs[i].dtype);
    for (uint32_t i = 0; i < outputs; i++)
      fits = fits && state->ports[inputs + i].bytes ==
                         state->model->outputs[i].count * itg_dtype_size(state->model->outputs[i].dtype);
    if (!fits)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the NPU context's inputs and outputs are not those of the model");
    return ITG_OK;
  }
  return itg_cpu_share_create(state->model, options, state->ports, inputs, state->ports + inputs, outputs, diagnostic,
                              &state->share);
}

// What needs the library to itself.
static itg_status load(qnn_state *state, const itg_qnn_library *library, const itg_qnn_performance *mode,
                       itg_diagnostic *diagnostic) {
  const itg_qnn_stored *stored = &state->stored;
  ITG_TRY(itg_qnn_stored_check_library(stored, library, diagnostic));
  ITG_TRY(itg_qnn_context_open(library, stored->blob.data, stored->blob.size, graph_name, stored->inputs,
                               stored->header.input_count, stored->outputs, stored->header.output_count, diagnostic,
                               &state->context));
  register_buffers(state);
  return itg_qnn_vote_open(library, mode, diagnostic, &state->vote);
}

static itg_status prepare(qnn_state *state, const itg_session_options *options, itg_diagnostic *diagnostic) {
  const itg_qnn_performance *mode = NULL;
  const char *performance;
  ITG_TRY(find_performance(options, diagnostic, &performance, &mode));
  snprintf(state->performance, sizeof state->performance, "%s", performance);
  ITG_TRY(parse_context(state->model, options, diagnostic, &state->stored));
  const itg_qnn_stored_header *header = &state->stored.header;
  ITG_TRY(place_buffers(state, options, diagnostic));
  ITG_TRY(share_with_cpu(state, options, diagnostic));
  const itg_target *target = NULL;
  ITG_TRY(itg_target_find(header->target, diagnostic, &target));
  ITG_TRY(itg_qnn_stored_try(&state->stored, options->qnn_directory, target, graph_name, diagnostic));
  ITG_TRY(itg_qnn_device_acquire(options->qnn_directory, target, diagnostic, &state->device));
  const itg_status status = load(state, itg_qnn_device_enter(state->device), mode, diagnostic);
  itg_qnn_device_leave(state->device);
  ITG_TRY(status);
  // The library has its own copy of the weights now.
  itg_mapped_file_release_pages(&state->model->file);
  snprintf(state->processor, sizeof state->processor, "htp-v%u (%s)", header->arch, header->target);
  return ITG_OK;
}

static itg_status create(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                         void **out) {
  qnn_state *state = calloc(1, sizeof *state);
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
  qnn_state *state = context;
  return state->share ? itg_cpu_share_input(state->share, index) : state->inputs[index];
}
static const void *output(void *context, size_t index) {
  qnn_state *state = context;
  return state->share ? itg_cpu_share_output(state->share, index) : state->outputs[index];
}

static itg_status run_profiled(qnn_state *state, itg_qnn_run_profile *profile, itg_diagnostic *diagnostic) {
  if (state->share) ITG_TRY(itg_cpu_share_before(state->share, diagnostic));
  itg_qnn_device_enter(state->device);
  const itg_status status =
      itg_qnn_context_run(state->context, (const void *const *)state->inputs, state->outputs, profile, diagnostic);
  itg_qnn_device_leave(state->device);
  ITG_TRY(status);
  return state->share ? itg_cpu_share_behind(state->share, diagnostic) : ITG_OK;
}

static itg_status run(void *context, itg_diagnostic *diagnostic) { return run_profiled(context, NULL, diagnostic); }

static size_t cpu_steps(const qnn_state *state, size_t *before) {
  *before = 0;
  return state->share ? itg_cpu_share_step_count(state->share, before) : 0;
}

static size_t step_count(const void *context) {
  size_t before;
  return 1 + cpu_steps(context, &before);
}

static void step(const void *context, size_t index, itg_step_info *out) {
  const qnn_state *state = context;
  size_t before;
  cpu_steps(state, &before);
  if (index == before)
    *out = (itg_step_info){.name = graph_name, .op = "context", .kernel = state->processor};
  else
    itg_cpu_share_step(state->share, index < before ? index : index - 1, out);
}

static const char *processor(const void *context) { return ((const qnn_state *)context)->processor; }

static itg_status proof(void *context, itg_diagnostic *diagnostic, itg_proof *out) {
  qnn_state *state = context;
  itg_qnn_run_profile profile;
  size_t before;
  ITG_TRY(run_profiled(state, &profile, diagnostic));
  const uint32_t arch = state->stored.header.arch, ops = state->stored.header.op_count;
  const uint32_t all = ops + (uint32_t)cpu_steps(state, &before);
  const char *build = itg_qnn_device_library(state->device)->build;
  if (profile.accelerator_rpc > 0)
    snprintf(state->sentence, sizeof state->sentence,
             "HTP v%u, %u of %u ops on the NPU, RPC time %llu us, accelerator time %llu us (library %s); %u of %u "
             "buffers shared with it, performance mode %s%s",
             arch, ops, all, (unsigned long long)profile.accelerator_rpc, (unsigned long long)profile.accelerator,
             build, state->registered, port_count(state), state->performance,
             state->vote.infrastructure ? "" : " (not voted for)");
  else
    snprintf(state->sentence, sizeof state->sentence,
             "simulated on this machine by the vendor's library %s: it reported no accelerator RPC time, so no NPU "
             "ran; %u of %u ops are prepared for HTP v%u (%s)",
             build, ops, all, arch, state->stored.header.target);
  *out = (itg_proof){.sentence = state->sentence,
                     .on_device = profile.accelerator_rpc > 0,
                     .ops_on_npu = ops,
                     .ops_total = all,
                     .cycles = profile.accelerator_cycles,
                     .host_rpc_microseconds = profile.host_rpc,
                     .accelerator_rpc_microseconds = profile.accelerator_rpc,
                     .accelerator_microseconds = profile.accelerator};
  return ITG_OK;
}

const itg_backend itg_backend_qnn = {.name = "qnn",
                                     .query = query,
                                     .workspace_size = workspace_size,
                                     .create = create,
                                     .destroy = destroy,
                                     .input = input,
                                     .output = output,
                                     .run = run,
                                     .step_count = step_count,
                                     .step = step,
                                     .processor = processor,
                                     .proof = proof};
