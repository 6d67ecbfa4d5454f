// The vendor's NPU library as a backend: the context stored in the file, codes in and out, no fallback of any kind.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
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
  itg_qnn_library library;
  bool is_open;
  itg_qnn_context *context;
  uint8_t *allocation; // Of the buffers, when the session owns them.
  void **inputs, **outputs;
  itg_share_port *ports; // Inputs, outputs; with a share only.
  itg_cpu_share *share;  // What the CPU computes before and behind the context; NULL: nothing.
  char sentence[400];
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

static itg_status query(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic) {
  size_t size;
  return workspace_size(model, options, diagnostic, &size);
}

static void destroy(void *context) {
  qnn_state *state = context;
  itg_cpu_share_destroy(state->share);
  free(state->ports);
  itg_qnn_context_close(state->context);
  if (state->is_open) itg_qnn_library_close(&state->library);
  itg_qnn_stored_free(&state->stored);
  free(state->allocation);
  free(state->inputs);
  free(state);
}

static itg_status place_buffers(qnn_state *state, const itg_session_options *options, itg_diagnostic *diagnostic) {
  const uint32_t inputs = state->stored.header.input_count, outputs = state->stored.header.output_count;
  state->inputs = calloc((size_t)inputs + outputs + 1, sizeof state->inputs[0]);
  ITG_TRY_MEMORY(state->inputs, diagnostic);
  state->outputs = state->inputs + inputs;
  uint8_t *position = options->workspace;
  if (!position) {
    const size_t size = buffer_bytes(&state->stored);
    position = state->allocation = aligned_alloc(ITG_MEMORY_ALIGNMENT, size ? size : ITG_MEMORY_ALIGNMENT);
    ITG_TRY_MEMORY(position, diagnostic);
    memset(position, 0, size);
  }
  for (uint32_t i = 0; i < inputs + outputs; i++) {
    const size_t bytes = i < inputs ? state->stored.inputs[i].bytes : state->stored.outputs[i - inputs].bytes;
    state->inputs[i] = position;
    position += itg_align_up(bytes, ITG_MEMORY_ALIGNMENT);
  }
  return ITG_OK;
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

static itg_status prepare(qnn_state *state, const itg_session_options *options, itg_diagnostic *diagnostic) {
  ITG_TRY(parse_context(state->model, options, diagnostic, &state->stored));
  const itg_qnn_stored_header *header = &state->stored.header;
  ITG_TRY(place_buffers(state, options, diagnostic));
  ITG_TRY(share_with_cpu(state, options, diagnostic));
  const itg_target *target = NULL;
  ITG_TRY(itg_target_find(header->target, diagnostic, &target));
  ITG_TRY(itg_qnn_stored_try(&state->stored, options->qnn_directory, target, graph_name, diagnostic));
  ITG_TRY(itg_qnn_library_open(options->qnn_directory, "libQnnHtp.so", target, diagnostic, &state->library));
  state->is_open = true;
  ITG_TRY(itg_qnn_stored_check_library(&state->stored, &state->library, diagnostic));
  ITG_TRY(itg_qnn_context_open(&state->library, state->stored.blob.data, state->stored.blob.size, graph_name,
                               state->stored.inputs, header->input_count, state->stored.outputs, header->output_count,
                               diagnostic, &state->context));
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
  ITG_TRY(itg_qnn_context_run(state->context, (const void *const *)state->inputs, state->outputs, profile, diagnostic));
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
  if (profile.accelerator_rpc > 0)
    snprintf(state->sentence, sizeof state->sentence,
             "HTP v%u, %u of %u ops on the NPU, RPC time %llu us, accelerator time %llu us (library %s)", arch, ops,
             all, (unsigned long long)profile.accelerator_rpc, (unsigned long long)profile.accelerator,
             state->library.build);
  else
    snprintf(state->sentence, sizeof state->sentence,
             "simulated on this machine by the vendor's library %s: it reported no accelerator RPC time, so no NPU "
             "ran; %u of %u ops are prepared for HTP v%u (%s)",
             state->library.build, ops, all, arch, state->stored.header.target);
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
