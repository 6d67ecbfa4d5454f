// See cpu_share.h. Each side is a graph of its own, cut out of the model's, with a session of the CPU backend; copies connect
// them with the accelerator's buffers.
#include "run/cpu_share.h"

#include <stdlib.h>
#include <string.h>

#include "graph/extract.h"
#include "run/backend.h"

typedef struct copy {
  void *to;
  const void *from;
  size_t bytes;
} copy;

typedef struct side {
  itg_model *model; // NULL when there is nothing to compute.
  void *state;
} side;

struct itg_cpu_share {
  const itg_model *model;
  const itg_share_port *inputs, *outputs;
  size_t input_count, output_count;
  side before, behind;
  copy *copies; // At the start, then behind `before`, then in front of `behind`.
  size_t start_copies, before_copies, behind_copies;
  void **graph_inputs;
  const void **graph_outputs;
  void *unread; // Memory of inputs that nobody reads.
};

static const itg_share_port *find_port(const itg_share_port *ports, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(ports[i].name, name) == 0) return &ports[i];
  }
  return NULL;
}

static size_t bytes_of(const itg_tensor *tensor) {
  size_t bytes = 0;
  return itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes) ? bytes : 0;
}

bool itg_cpu_share_is_empty(const itg_model *model, const itg_share_port *inputs, size_t input_count,
                            const itg_share_port *outputs, size_t output_count) {
  const itg_graph *graph = model->container.graph;
  if (input_count != (size_t)graph->input_count || output_count != (size_t)graph->output_count) return false;
  for (size_t i = 0; i < input_count; i++) {
    if (strcmp(inputs[i].name, graph->inputs[i]->name) != 0) return false;
  }
  for (size_t i = 0; i < output_count; i++) {
    if (strcmp(outputs[i].name, graph->outputs[i]->name) != 0) return false;
  }
  return true;
}

static itg_status find_tensors(const itg_graph *graph, const itg_share_port *ports, size_t count, itg_tensor **tensors,
                               itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < count; i++) {
    tensors[i] = itg_graph_find(graph, ports[i].name);
    if (!tensors[i] || tensors[i]->data || bytes_of(tensors[i]) != ports[i].bytes)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, ports[i].name,
               "the NPU context's inputs and outputs are not those of the model");
  }
  return ITG_OK;
}

static itg_status open_side(const itg_graph *graph, itg_tensor *const *inputs, size_t input_count,
                            itg_tensor *const *outputs, size_t output_count, const itg_session_options *options,
                            itg_diagnostic *diagnostic, side *out) {
  if (output_count == 0) return ITG_OK;
  itg_graph *part = NULL;
  ITG_TRY(itg_graph_extract(graph, inputs, (int32_t)input_count, outputs, (int32_t)output_count, diagnostic, &part));
  ITG_TRY(itg_model_of_graph(part, diagnostic, &out->model));
  itg_session_options own;
  itg_session_options_default(&own);
  own.thread_count = options->thread_count;
  own.cpu = options->cpu;
  own.profile = options->profile;
  return itg_backend_cpu.create(out->model, &own, diagnostic, &out->state);
}

static void close_side(side *s) {
  if (s->state) itg_backend_cpu.destroy(s->state);
  itg_model_close(s->model);
}

// Tensors of the graph that one side computes: those among `wanted` that are no input or output of something else.
static itg_status open_sides(itg_cpu_share *share, const itg_session_options *options, itg_diagnostic *diagnostic) {
  const itg_graph *graph = share->model->container.graph;
  const size_t graph_inputs = (size_t)graph->input_count, graph_outputs = (size_t)graph->output_count;
  const size_t all = graph_inputs + graph_outputs + share->input_count + share->output_count;
  itg_tensor **memory = calloc(2 * all + 2, sizeof memory[0]);
  ITG_TRY_MEMORY(memory, diagnostic);
  itg_tensor **ports = memory, **stops = ports + share->input_count, **wanted = memory + all;
  size_t count = 0;
  itg_status status = find_tensors(graph, share->inputs, share->input_count, ports, diagnostic);
  for (size_t i = 0; i < share->input_count && status == ITG_OK; i++) {
    if (!ports[i]->is_input) wanted[count++] = ports[i];
  }
  if (status == ITG_OK)
    status = open_side(graph, graph->inputs, graph_inputs, wanted, count, options, diagnostic, &share->before);
  // What leaves the accelerator, and the model's inputs, are there for the other side.
  if (status == ITG_OK) status = find_tensors(graph, share->outputs, share->output_count, stops, diagnostic);
  memcpy(stops + share->output_count, graph->inputs, graph_inputs * sizeof stops[0]);
  count = 0;
  for (size_t i = 0; i < graph_outputs && status == ITG_OK; i++) {
    if (!find_port(share->outputs, share->output_count, graph->outputs[i]->name)) wanted[count++] = graph->outputs[i];
  }
  if (status == ITG_OK)
    status =
        open_side(graph, stops, share->output_count + graph_inputs, wanted, count, options, diagnostic, &share->behind);
  free(memory);
  return status;
}

static size_t side_inputs(const side *s) { return s->model ? itg_model_input_count(s->model) : 0; }
static size_t side_outputs(const side *s) { return s->model ? itg_model_output_count(s->model) : 0; }

// Buffer of a side's input or output by name, or NULL.
static void *side_input(const side *s, const char *name) {
  for (size_t i = 0; i < side_inputs(s); i++) {
    if (strcmp(itg_model_input(s->model, i)->name, name) == 0) return itg_backend_cpu.input(s->state, i);
  }
  return NULL;
}
static const void *side_output(const side *s, const char *name) {
  for (size_t i = 0; i < side_outputs(s); i++) {
    if (strcmp(itg_model_output(s->model, i)->name, name) == 0) return itg_backend_cpu.output(s->state, i);
  }
  return NULL;
}

static void add_copy(itg_cpu_share *share, size_t *count, void *to, const void *from, size_t bytes) {
  const size_t at = share->start_copies + share->before_copies + share->behind_copies;
  share->copies[at] = (copy){to, from, bytes};
  (*count)++;
}

static itg_status connect(itg_cpu_share *share, itg_diagnostic *diagnostic) {
  const itg_graph *graph = share->model->container.graph;
  const size_t inputs = (size_t)graph->input_count, outputs = (size_t)graph->output_count;
  size_t largest = 1;
  for (size_t i = 0; i < inputs; i++)
    largest = bytes_of(graph->inputs[i]) > largest ? bytes_of(graph->inputs[i]) : largest;
  share->copies = calloc(2 * inputs + share->input_count + share->output_count + 1, sizeof share->copies[0]);
  share->graph_inputs = calloc(inputs + 1, sizeof share->graph_inputs[0]);
  share->graph_outputs = calloc(outputs + 1, sizeof share->graph_outputs[0]);
  share->unread = malloc(largest);
  ITG_TRY_MEMORY(share->copies && share->graph_inputs && share->graph_outputs && share->unread, diagnostic);
  for (size_t i = 0; i < inputs; i++) {
    const char *name = graph->inputs[i]->name;
    const itg_share_port *port = find_port(share->inputs, share->input_count, name);
    void *places[] = {port ? port->buffer : NULL, side_input(&share->before, name), side_input(&share->behind, name)};
    void *first = NULL;
    for (int k = 0; k < 3; k++) {
      if (places[k] && first)
        add_copy(share, &share->start_copies, places[k], first, bytes_of(graph->inputs[i]));
      else if (places[k])
        first = places[k];
    }
    share->graph_inputs[i] = first ? first : share->unread;
  }
  for (size_t i = 0; i < share->input_count; i++) {
    const void *from = side_output(&share->before, share->inputs[i].name);
    if (from) add_copy(share, &share->before_copies, share->inputs[i].buffer, from, share->inputs[i].bytes);
  }
  for (size_t i = 0; i < share->output_count; i++) {
    void *to = side_input(&share->behind, share->outputs[i].name);
    if (to) add_copy(share, &share->behind_copies, to, share->outputs[i].buffer, share->outputs[i].bytes);
  }
  for (size_t i = 0; i < outputs; i++) {
    const itg_share_port *port = find_port(share->outputs, share->output_count, graph->outputs[i]->name);
    share->graph_outputs[i] = port ? port->buffer : side_output(&share->behind, graph->outputs[i]->name);
    if (!share->graph_outputs[i])
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, graph->outputs[i]->name, "neither the NPU nor the CPU computes it");
  }
  return ITG_OK;
}

itg_status itg_cpu_share_create(const itg_model *model, const itg_session_options *options,
                                const itg_share_port *inputs, size_t input_count, const itg_share_port *outputs,
                                size_t output_count, itg_diagnostic *diagnostic, itg_cpu_share **out) {
  itg_cpu_share *share = calloc(1, sizeof *share);
  ITG_TRY_MEMORY(share, diagnostic);
  *share = (itg_cpu_share){
      .model = model, .inputs = inputs, .outputs = outputs, .input_count = input_count, .output_count = output_count};
  itg_status status = open_sides(share, options, diagnostic);
  if (status == ITG_OK) status = connect(share, diagnostic);
  if (status != ITG_OK) {
    itg_cpu_share_destroy(share);
    return status;
  }
  *out = share;
  return ITG_OK;
}

void itg_cpu_share_destroy(itg_cpu_share *share) {
  if (!share) return;
  close_side(&share->before);
  close_side(&share->behind);
  free(share->copies);
  free(share->graph_inputs);
  free(share->graph_outputs);
  free(share->unread);
  free(share);
}

void *itg_cpu_share_input(itg_cpu_share *share, size_t index) { return share->graph_inputs[index]; }
const void *itg_cpu_share_output(itg_cpu_share *share, size_t index) { return share->graph_outputs[index]; }

static void run_copies(const itg_cpu_share *share, size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++)
    memcpy(share->copies[i].to, share->copies[i].from, share->copies[i].bytes);
}

itg_status itg_cpu_share_before(itg_cpu_share *share, itg_diagnostic *diagnostic) {
  run_copies(share, 0, share->start_copies);
  if (share->before.state) ITG_TRY(itg_backend_cpu.run(share->before.state, diagnostic));
  run_copies(share, share->start_copies, share->before_copies);
  return ITG_OK;
}

itg_status itg_cpu_share_behind(itg_cpu_share *share, itg_diagnostic *diagnostic) {
  run_copies(share, share->start_copies + share->before_copies, share->behind_copies);
  return share->behind.state ? itg_backend_cpu.run(share->behind.state, diagnostic) : ITG_OK;
}

static size_t side_steps(const side *s) { return s->state ? itg_backend_cpu.step_count(s->state) : 0; }

size_t itg_cpu_share_step_count(const itg_cpu_share *share, size_t *before) {
  *before = side_steps(&share->before);
  return *before + side_steps(&share->behind);
}

void itg_cpu_share_step(const itg_cpu_share *share, size_t index, itg_step_info *out) {
  const size_t before = side_steps(&share->before);
  if (index < before)
    itg_backend_cpu.step(share->before.state, index, out);
  else
    itg_backend_cpu.step(share->behind.state, index - before, out);
}
