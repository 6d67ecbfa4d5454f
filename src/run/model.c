// Opening models. See intaglio.h and model.h.
#include "run/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "container/format.h"

static void describe(const itg_tensor *tensor, itg_tensor_info *out) {
  *out = (itg_tensor_info){.name = tensor->name, .shape = tensor->shape, .dtype = tensor->dtype, .scale = 1};
  if (tensor->encoding) {
    out->scale = tensor->encoding->scales[0];
    out->zero_point = tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0;
  }
  out->count = 1; // The graph was verified: the product fits.
  for (int i = 0; i < tensor->shape.rank; i++) out->count *= (size_t)tensor->shape.dims[i];
}

// States and their position belong to sessions; callers see the other inputs.
static bool belongs_to_sessions(const itg_tensor *input) {
  if (itg_tensor_is_state(input)) return true;
  for (int32_t u = 0; u < input->user_count; u++) {
    if (input->users[u]->op == ITG_OP_Q_ATTENTION && input->users[u]->inputs[ITG_ATTENTION_POSITION] == input)
      return true;
  }
  return false;
}

static void find_block(itg_model *model) {
  ITG_FOR_EACH_NODE(node, model->container.graph) {
    if (node->op != ITG_OP_Q_ATTENTION) continue;
    model->block_rows = node->inputs[ITG_ATTENTION_Q]->shape.dims[1];
    model->capacity = node->inputs[ITG_ATTENTION_K_CACHE]->shape.dims[1];
    const itg_tensor *prefix = itg_node_input(node, ITG_ATTENTION_K_PREFIX);
    model->prefix = prefix ? prefix->shape.dims[1] : 0;
    return; // Sessions check that all agree.
  }
}

static itg_status prepare_graph(itg_model *model, itg_diagnostic *diagnostic) {
  itg_graph *graph = model->container.graph;
  int32_t *indices = itg_arena_array(&graph->arena, (size_t)graph->input_count, sizeof *indices);
  model->inputs = itg_arena_array(&graph->arena, (size_t)graph->input_count, sizeof *model->inputs);
  model->outputs = itg_arena_array(&graph->arena, (size_t)graph->output_count, sizeof *model->outputs);
  ITG_TRY_MEMORY(indices && model->inputs && model->outputs, diagnostic);
  find_block(model);
  for (int32_t i = 0; i < graph->input_count; i++) {
    if (belongs_to_sessions(graph->inputs[i])) continue;
    indices[model->input_count] = i;
    describe(graph->inputs[i], &model->inputs[model->input_count++]);
  }
  model->graph_inputs = indices;
  for (int32_t i = 0; i < graph->output_count; i++) describe(graph->outputs[i], &model->outputs[i]);
  return itg_program_list_create(diagnostic, &model->programs);
}

static itg_status prepare(itg_model *model, itg_span bytes, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_container_read(bytes, diagnostic, &model->container));
  const itg_container *container = &model->container;
  model->role = container->parts[0].role;
  ITG_TRY(prepare_graph(model, diagnostic));
  model->parts = itg_arena_array(&container->graph->arena, container->part_count - 1, sizeof *model->parts);
  ITG_TRY_MEMORY(model->parts, diagnostic);
  for (size_t i = 1; i < container->part_count; i++) {
    itg_model *part = &model->parts[model->part_count++];
    part->container = (itg_container){.graph = (itg_graph *)container->parts[i].graph,
                                      .sections = container->sections,
                                      .section_count = container->section_count};
    part->role = container->parts[i].role;
    ITG_TRY(prepare_graph(part, diagnostic));
  }
  return ITG_OK;
}

itg_status itg_model_of_graph(itg_graph *graph, itg_diagnostic *diagnostic, itg_model **out) {
  itg_model *model = calloc(1, sizeof *model);
  if (!model) itg_graph_destroy(graph);
  ITG_TRY_MEMORY(model, diagnostic);
  model->container.graph = graph;
  model->role = "";
  const itg_status status = prepare_graph(model, diagnostic);
  if (status != ITG_OK) {
    itg_model_close(model);
    return status;
  }
  *out = model;
  return ITG_OK;
}

const itg_model *itg_model_part(const itg_model *model, const char *role) {
  if (strcmp(model->role, role) == 0) return model;
  for (size_t i = 0; i < model->part_count; i++) {
    if (strcmp(model->parts[i].role, role) == 0) return &model->parts[i];
  }
  return NULL;
}

itg_status itg_model_open(const char *path, itg_diagnostic *diagnostic, itg_model **out) {
  if (!path || !out) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "path and out must not be NULL");
  itg_model *model = calloc(1, sizeof *model);
  ITG_TRY_MEMORY(model, diagnostic);
  itg_status status = itg_mapped_file_open(path, diagnostic, &model->file);
  if (status == ITG_OK) status = prepare(model, model->file.bytes, diagnostic);
  if (status != ITG_OK) {
    itg_model_close(model);
    return itg_in_file(diagnostic, status, path);
  }
  *out = model;
  return ITG_OK;
}

static itg_status align(itg_model *model, itg_span *bytes, itg_diagnostic *diagnostic) {
  if ((uintptr_t)bytes->data % ITG_FILE_ALIGNMENT == 0) return ITG_OK;
  if (bytes->size > SIZE_MAX - ITG_FILE_ALIGNMENT)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "%zu bytes", bytes->size);
  model->copy = aligned_alloc(ITG_FILE_ALIGNMENT, itg_align_up(bytes->size + 1, ITG_FILE_ALIGNMENT));
  ITG_TRY_MEMORY(model->copy, diagnostic);
  memcpy(model->copy, bytes->data, bytes->size);
  bytes->data = model->copy;
  return ITG_OK;
}

itg_status itg_model_open_memory(const void *data, size_t size, itg_diagnostic *diagnostic, itg_model **out) {
  if (!data || !out) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "data and out must not be NULL");
  itg_model *model = calloc(1, sizeof *model);
  ITG_TRY_MEMORY(model, diagnostic);
  itg_span bytes = {data, size};
  itg_status status = align(model, &bytes, diagnostic);
  if (status == ITG_OK) status = prepare(model, bytes, diagnostic);
  if (status != ITG_OK) {
    itg_model_close(model);
    return status;
  }
  *out = model;
  return ITG_OK;
}

void itg_model_close(itg_model *model) {
  if (!model) return;
  itg_program_list_destroy(model->programs);
  for (size_t i = 0; i < model->part_count; i++) itg_program_list_destroy(model->parts[i].programs);
  itg_container_free(&model->container);
  itg_mapped_file_close(&model->file);
  free(model->copy);
  free(model);
}

size_t itg_model_input_count(const itg_model *model) { return model->input_count; }
size_t itg_model_output_count(const itg_model *model) { return (size_t)model->container.graph->output_count; }

const itg_tensor_info *itg_model_input(const itg_model *model, size_t index) {
  return index < itg_model_input_count(model) ? &model->inputs[index] : NULL;
}

const itg_tensor_info *itg_model_output(const itg_model *model, size_t index) {
  return index < itg_model_output_count(model) ? &model->outputs[index] : NULL;
}

const char *itg_model_metadata(const itg_model *model, const char *name, size_t *size) {
  for (size_t i = 0; i < model->container.section_count; i++) {
    const itg_metadata_section *section = &model->container.sections[i];
    if (section->is_context || strcmp(section->name, name) != 0) continue;
    if (size) *size = section->size;
    return section->text;
  }
  return NULL;
}

size_t itg_model_context_count(const itg_model *model) {
  size_t count = 0;
  for (size_t i = 0; i < model->container.section_count; i++) count += model->container.sections[i].is_context;
  return count;
}

const char *itg_model_context_name(const itg_model *model, size_t index) {
  for (size_t i = 0; i < model->container.section_count; i++) {
    const itg_metadata_section *section = &model->container.sections[i];
    if (section->is_context && index-- == 0) return section->name;
  }
  return NULL;
}
