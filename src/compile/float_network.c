// The float original of a model: canonical graph + interpreter. See float_network.h and include/intaglio/compiler.h.
#include "compile/float_network.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "compile/source.h"
#include "passes/passes.h"

struct itg_float_runner {
  const itg_float_network *network;
  itg_interpreter_state *state;
  void **buffers; // One an input, then one an output: values in the graph's own dtype where the public one differs.
  const void **inputs; // What the interpreter gets.
  void **outputs;
  itg_arena arena;
};

struct itg_float_network {
  itg_graph *graph;
  itg_interpreter *interpreter;
  itg_tensor_info *inputs, *outputs; // In the graph's arena.
  itg_float_runner *runner;
  const char *source; // In the graph's arena.
  size_t source_bytes;
};

itg_status itg_float_runner_create(const itg_float_network *network, itg_diagnostic *diagnostic,
                                   itg_float_runner **out) {
  const itg_graph *graph = network->graph;
  itg_float_runner *runner = calloc(1, sizeof *runner);
  ITG_TRY_MEMORY(runner, diagnostic);
  runner->network = network;
  const size_t inputs = (size_t)graph->input_count, outputs = (size_t)graph->output_count;
  runner->buffers = itg_arena_array(&runner->arena, inputs + outputs, sizeof *runner->buffers);
  runner->inputs = itg_arena_array(&runner->arena, inputs, sizeof *runner->inputs);
  runner->outputs = itg_arena_array(&runner->arena, outputs, sizeof *runner->outputs);
  bool ok = runner->buffers && runner->inputs && runner->outputs;
  for (size_t i = 0; ok && i < inputs + outputs; i++) {
    const itg_tensor *tensor = i < inputs ? graph->inputs[i] : graph->outputs[i - inputs];
    size_t bytes;
    if (itg_public_dtype(tensor->dtype) == tensor->dtype) continue;
    ok = itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes) &&
         (runner->buffers[i] = itg_arena_allocate(&runner->arena, bytes));
  }
  itg_status status = ok ? itg_interpreter_state_create(network->interpreter, diagnostic, &runner->state)
                         : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  if (status != ITG_OK) {
    itg_float_runner_destroy(runner);
    return status;
  }
  *out = runner;
  return ITG_OK;
}

void itg_float_runner_destroy(itg_float_runner *runner) {
  if (!runner) return;
  itg_interpreter_state_destroy(runner->state);
  itg_arena_free(&runner->arena);
  free(runner);
}

itg_status itg_float_runner_run(itg_float_runner *runner, const void *const *inputs, void *const *outputs,
                                itg_diagnostic *diagnostic) {
  const itg_float_network *network = runner->network;
  const size_t input_count = (size_t)network->graph->input_count, output_count = (size_t)network->graph->output_count;
  for (size_t i = 0; i < input_count; i++) {
    if (!inputs[i]) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, network->inputs[i].name, "input has no values");
    void *own = runner->buffers[i];
    if (own) itg_from_public(network->inputs[i].dtype, inputs[i], own, network->inputs[i].count);
    runner->inputs[i] = own ? own : inputs[i];
  }
  for (size_t i = 0; i < output_count; i++) {
    void *own = runner->buffers[input_count + i];
    runner->outputs[i] = own && outputs[i] ? own : outputs[i];
  }
  ITG_TRY(itg_interpreter_run(runner->state, runner->inputs, runner->outputs, NULL, NULL, diagnostic));
  for (size_t i = 0; i < output_count; i++) {
    if (outputs[i] && runner->buffers[input_count + i])
      itg_to_public(network->outputs[i].dtype, runner->buffers[input_count + i], outputs[i], network->outputs[i].count);
  }
  return ITG_OK;
}

itg_status itg_float_network_from_graph(itg_graph *graph, itg_diagnostic *diagnostic, itg_float_network **out) {
  itg_float_network *network = calloc(1, sizeof *network);
  if (!network) {
    itg_graph_destroy(graph);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  network->graph = graph;
  itg_status status = itg_source_infos(graph, graph->inputs, graph->input_count, diagnostic, &network->inputs);
  if (status == ITG_OK)
    status = itg_source_infos(graph, graph->outputs, graph->output_count, diagnostic, &network->outputs);
  if (status == ITG_OK) status = itg_interpreter_create(graph, diagnostic, &network->interpreter);
  if (status != ITG_OK) {
    itg_float_network_close(network);
    return status;
  }
  *out = network;
  return ITG_OK;
}

const itg_graph *itg_float_network_graph(const itg_float_network *network) { return network->graph; }

const char *itg_float_network_source(const itg_float_network *network, size_t *bytes) {
  *bytes = network->source_bytes;
  return network->source ? network->source : "";
}

static itg_status remember_source(itg_float_network *network, const char *path, itg_diagnostic *diagnostic) {
  const char *name = itg_base_name(path);
  struct stat info;
  if (stat(path, &info) == 0) network->source_bytes = (size_t)info.st_size;
  network->source = itg_arena_string(&network->graph->arena, name, strlen(name));
  ITG_TRY_MEMORY(network->source, diagnostic);
  return ITG_OK;
}

itg_status itg_float_network_open(const char *path, const itg_source_options *options, itg_diagnostic *diagnostic,
                                  itg_float_network **out) {
  itg_graph *graph = NULL;
  ITG_TRY(itg_source_import(path, options, NULL, diagnostic, &graph));
  const itg_status status = itg_passes_run(graph, NULL, NULL, diagnostic);
  if (status != ITG_OK) {
    itg_graph_destroy(graph);
    return status;
  }
  itg_graph_release_pages(graph); // Most weights were copied into other layouts.
  itg_float_network *network;
  ITG_TRY(itg_float_network_from_graph(graph, diagnostic, &network));
  itg_graph_release_pages(
      network->graph); // The rest has been packed; the few weights that are read in place come back.
  const itg_status remembered = remember_source(network, path, diagnostic);
  if (remembered != ITG_OK) {
    itg_float_network_close(network);
    return remembered;
  }
  *out = network;
  return ITG_OK;
}

void itg_float_network_close(itg_float_network *network) {
  if (!network) return;
  itg_float_runner_destroy(network->runner);
  itg_interpreter_destroy(network->interpreter);
  itg_graph_destroy(network->graph);
  free(network);
}

const char *itg_float_network_metadata(const itg_float_network *network) { return network->graph->source_metadata; }

size_t itg_float_network_input_count(const itg_float_network *network) { return (size_t)network->graph->input_count; }
size_t itg_float_network_output_count(const itg_float_network *network) { return (size_t)network->graph->output_count; }

const itg_tensor_info *itg_float_network_input(const itg_float_network *network, size_t index) {
  return index < itg_float_network_input_count(network) ? &network->inputs[index] : NULL;
}
const itg_tensor_info *itg_float_network_output(const itg_float_network *network, size_t index) {
  return index < itg_float_network_output_count(network) ? &network->outputs[index] : NULL;
}

itg_status itg_float_network_run(itg_float_network *network, const void *const *inputs, void *const *outputs,
                                 itg_diagnostic *diagnostic) {
  if (!network->runner) ITG_TRY(itg_float_runner_create(network, diagnostic, &network->runner));
  return itg_float_runner_run(network->runner, inputs, outputs, diagnostic);
}
