// Entry points of the ONNX import: inputs and their shapes, initializers, nodes, outputs. See import/import.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/onnx/importer.h"
#include "import/onnx/metadata.h"

static const char *copy_name(itg_onnx_importer *importer, itg_span name) {
  return itg_arena_string(&importer->arena, (const char *)name.data, name.size);
}

// A shape without a name is for every input of its rank that has an unknown dimension.
static const itg_shape *given_shape(const itg_onnx_importer *importer, const char *name,
                                    const itg_onnx_value_info *info) {
  for (size_t i = 0; importer->options && i < importer->options->shape_count; i++) {
    const itg_import_shape *given = &importer->options->shapes[i];
    if (strcmp(given->input, name) == 0) return &given->shape;
    if (given->input[0] || !info->has_shape || info->rank != given->shape.rank) continue;
    for (int k = 0; k < info->rank; k++)
      if (info->dims[k] < 0) return &given->shape;
  }
  return NULL;
}

static const itg_import_constant *given_constant(const itg_onnx_importer *importer, const char *name) {
  for (size_t i = 0; importer->options && i < importer->options->constant_count; i++) {
    if (strcmp(importer->options->constants[i].input, name) == 0) return &importer->options->constants[i];
  }
  return NULL;
}

// Dimensions with a name ("batch") that one input's given shape fixes are fixed everywhere.
static itg_status learn_dimensions(itg_onnx_importer *importer, const itg_onnx_value_info *info, const itg_shape *shape,
                                   itg_map *named) {
  for (int i = 0; i < info->rank && i < shape->rank; i++) {
    if (info->dims[i] >= 0 || info->params[i].size == 0) continue;
    ITG_TRY_MEMORY(itg_map_set(named, (const char *)info->params[i].data, info->params[i].size,
                               (void *)(uintptr_t)(shape->dims[i] + 1)),
                   importer->diagnostic);
  }
  return ITG_OK;
}

static itg_status check_given(const itg_onnx_importer *importer, const char *name, const itg_onnx_value_info *info,
                              const itg_shape *shape) {
  char text[96], declared[160] = "a tensor of any shape";
  size_t count;
  bool fits = itg_shape_count(shape, &count) && (!info->has_shape || info->rank == shape->rank);
  for (int i = 0; fits && info->has_shape && i < shape->rank; i++)
    fits = info->dims[i] < 0 || info->dims[i] == shape->dims[i];
  for (int i = 0, length = 0; info->has_shape && i < info->rank && length < (int)sizeof declared; i++) {
    char dimension[24] = "?";
    if (info->dims[i] >= 0) snprintf(dimension, sizeof dimension, "%lld", (long long)info->dims[i]);
    length += snprintf(declared + length, sizeof declared - (size_t)length, "%s%s", i ? "x" : "", dimension);
  }
  if (!fits)
    ITG_FAIL(importer->diagnostic, ITG_ERROR_SHAPE, name,
             "the given shape %s does not fit what the model declares: %s (? may be any size)",
             itg_shape_print(shape, text, sizeof text), declared);
  return ITG_OK;
}

static itg_status fix_shape(itg_onnx_importer *importer, const char *name, const itg_onnx_value_info *info,
                            const itg_map *named, itg_shape *out) {
  const itg_shape *given = given_shape(importer, name, info);
  if (given) {
    ITG_TRY(check_given(importer, name, info, given));
    *out = *given;
    return ITG_OK;
  }
  if (!info->has_shape)
    ITG_FAIL(importer->diagnostic, ITG_ERROR_SHAPE, name,
             "the input's shape is unknown; give it with --shape %s=1x3x224x224 (for example)", name);
  itg_shape shape = itg_shape_of(info->rank, info->dims);
  for (int i = 0; i < shape.rank; i++) {
    if (shape.dims[i] >= 0) continue;
    const uintptr_t known =
        info->params[i].size ? (uintptr_t)itg_map_get(named, (const char *)info->params[i].data, info->params[i].size)
                             : 0;
    if (known)
      shape.dims[i] = (int64_t)known - 1;
    else if (i == 0 && importer->options && importer->options->batch_is_one)
      shape.dims[i] = 1;
    else {
      char example[128] = "";
      for (int k = 0, used = 0; k < shape.rank && used < 100; k++)
        used += snprintf(example + used, sizeof example - (size_t)used, "%s%lld", k ? "x" : "",
                         info->dims[k] >= 0 ? (long long)info->dims[k]
                         : k == 0           ? 1LL
                                            : 224LL);
      ITG_FAIL(importer->diagnostic, ITG_ERROR_SHAPE, name,
               "dimension %d of the input is unknown; give its shape with --shape %s=%s (for example)", i, name,
               example);
    }
  }
  *out = shape;
  return ITG_OK;
}

static itg_status add_input(itg_onnx_importer *importer, const itg_onnx_value_info *info, const itg_map *named) {
  const char *name = copy_name(importer, info->name);
  ITG_TRY_MEMORY(name, importer->diagnostic);
  const itg_dtype dtype = itg_onnx_dtype(info->data_type);
  itg_tensor *tensor = &importer->unusable;
  const itg_import_constant *constant = given_constant(importer, name);
  if (!info->is_tensor || dtype == ITG_DTYPE_NONE || dtype == ITG_DTYPE_S4)
    ITG_FAIL(importer->diagnostic, ITG_ERROR_UNSUPPORTED, name, "inputs of type %s are not supported",
             info->is_tensor ? itg_onnx_dtype_name(info->data_type) : "sequence, map or optional");
  if (constant) {
    if (constant->dtype != dtype)
      ITG_FAIL(importer->diagnostic, ITG_ERROR_ARGUMENT, name, "the constant is of type %s, the input of type %s",
               itg_dtype_name(constant->dtype), itg_dtype_name(dtype));
    ITG_TRY(check_given(importer, name, info, &constant->shape));
    tensor = itg_graph_add_constant(importer->graph, name, dtype, &constant->shape, constant->data);
    ITG_TRY_MEMORY(tensor, importer->diagnostic);
  } else {
    itg_shape shape;
    size_t count;
    ITG_TRY(fix_shape(importer, name, info, named, &shape));
    if (!itg_shape_count(&shape, &count) || count > (size_t)1 << 40)
      ITG_FAIL(importer->diagnostic, ITG_ERROR_LIMIT, name, "the input has more than 2^40 elements");
    tensor = itg_graph_add_tensor(importer->graph, name, dtype, &shape);
    ITG_TRY_MEMORY(tensor && itg_graph_add_input(importer->graph, tensor), importer->diagnostic);
  }
  ITG_TRY_MEMORY(itg_map_set(&importer->values, (const char *)info->name.data, info->name.size, tensor),
                 importer->diagnostic);
  return ITG_OK;
}

// Options that name no input are mistakes of the caller.
static itg_status check_options(const itg_onnx_importer *importer, const itg_map *inputs) {
  const itg_import_options *options = importer->options;
  for (size_t i = 0; options && i < options->shape_count + options->constant_count; i++) {
    const char *name =
        i < options->shape_count ? options->shapes[i].input : options->constants[i - options->shape_count].input;
    if (name[0] && !itg_map_get(inputs, name, strlen(name)))
      ITG_FAIL(importer->diagnostic, ITG_ERROR_ARGUMENT, name, "the model has no input of this name");
  }
  return ITG_OK;
}

// The name of an unknown first dimension stands for 1 wherever it occurs, unless a given shape says otherwise.
static itg_status learn_batch(itg_onnx_importer *importer, const itg_onnx_graph *graph, itg_map *named) {
  for (size_t i = 0; i < graph->inputs.count; i++) {
    itg_onnx_value_info info;
    ITG_TRY(itg_onnx_value_info_parse(graph->inputs.items[i], importer->file, importer->diagnostic, &info));
    const char *name = (const char *)info.params[0].data;
    const size_t length = info.params[0].size;
    if (info.rank == 0 || info.dims[0] >= 0 || length == 0 || itg_map_get(named, name, length)) continue;
    ITG_TRY_MEMORY(itg_map_set(named, name, length, (void *)(uintptr_t)2), importer->diagnostic); // Stored plus 1.
  }
  return ITG_OK;
}

static itg_status read_inputs(itg_onnx_importer *importer, const itg_onnx_graph *graph, itg_map *named,
                              itg_map *inputs) {
  itg_onnx_value_info info;
  for (size_t i = 0; i < graph->inputs.count; i++) {
    ITG_TRY(itg_onnx_value_info_parse(graph->inputs.items[i], importer->file, importer->diagnostic, &info));
    if (info.name.size == 0) ITG_FAIL(importer->diagnostic, ITG_ERROR_FORMAT, "graph", "an input has no name");
    const char *name = copy_name(importer, info.name);
    ITG_TRY_MEMORY(name, importer->diagnostic);
    if (itg_map_get(inputs, (const char *)info.name.data, info.name.size))
      ITG_FAIL(importer->diagnostic, ITG_ERROR_FORMAT, name, "two inputs have this name");
    ITG_TRY_MEMORY(itg_map_set(inputs, (const char *)info.name.data, info.name.size, (void *)(uintptr_t)(i + 1)),
                   importer->diagnostic);
    const itg_shape *given = given_shape(importer, name, &info);
    const itg_import_constant *constant = given_constant(importer, name);
    if (given || constant) ITG_TRY(learn_dimensions(importer, &info, given ? given : &constant->shape, named));
  }
  if (importer->options && importer->options->batch_is_one) ITG_TRY(learn_batch(importer, graph, named));
  ITG_TRY(check_options(importer, inputs));
  for (size_t i = 0; i < graph->inputs.count; i++) {
    ITG_TRY(itg_onnx_value_info_parse(graph->inputs.items[i], importer->file, importer->diagnostic, &info));
    // Up to IR version 3 initializers were listed among the inputs too.
    if (itg_map_get(&importer->values, (const char *)info.name.data, info.name.size)) continue;
    ITG_TRY(add_input(importer, &info, named));
  }
  return ITG_OK;
}

static itg_status import_inputs(itg_onnx_importer *importer, const itg_onnx_graph *graph) {
  itg_map named = {0}, inputs = {0};
  const itg_status status = read_inputs(importer, graph, &named, &inputs);
  itg_map_free(&named);
  itg_map_free(&inputs);
  return status;
}

static itg_status import_outputs(itg_onnx_importer *importer, const itg_onnx_graph *graph) {
  itg_status status = ITG_OK;
  if (graph->outputs.count == 0) ITG_FAIL(importer->diagnostic, ITG_ERROR_FORMAT, "graph", "the model has no output");
  for (size_t i = 0; i < graph->outputs.count && status == ITG_OK; i++) {
    itg_onnx_value_info info;
    status = itg_onnx_value_info_parse(graph->outputs.items[i], importer->file, importer->diagnostic, &info);
    if (status != ITG_OK) break;
    const char *name = copy_name(importer, info.name);
    itg_tensor *tensor =
        info.name.size ? itg_map_get(&importer->values, (const char *)info.name.data, info.name.size) : NULL;
    if (!tensor || tensor == &importer->unusable || !name) {
      status =
          itg_fail(importer->diagnostic, tensor ? ITG_ERROR_UNSUPPORTED : ITG_ERROR_FORMAT, name, __FILE__, __LINE__,
                   tensor ? "this output of the model is not supported" : "nothing produces this output of the model");
      break;
    }
    // An output is a node's result of its own name; anything else (an input, a constant, an alias) is passed through.
    if (!tensor->producer || tensor->is_output || strcmp(tensor->name, name) != 0) {
      itg_tensor *copy = itg_graph_add_tensor(importer->graph, name, tensor->dtype, &tensor->shape);
      itg_node *node =
          copy ? itg_graph_insert_node(importer->graph, NULL, ITG_OP_IDENTITY, name, &tensor, 1, &copy, 1) : NULL;
      tensor = node ? copy : NULL;
    }
    if (!tensor || !itg_graph_add_output(importer->graph, tensor))
      status = itg_fail(importer->diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  }
  return status;
}

// ---- preparation ----

static itg_status note_descriptions(itg_onnx_importer *importer, const itg_onnx_graph *graph) {
  const itg_onnx_spans *lists[] = {&graph->value_infos, &graph->outputs};
  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < lists[k]->count; i++) {
      itg_onnx_value_info info;
      ITG_TRY(itg_onnx_value_info_parse(lists[k]->items[i], importer->file, importer->diagnostic, &info));
      if (info.name.size == 0) continue;
      ITG_TRY_MEMORY(
          itg_map_set(&importer->descriptions, (const char *)info.name.data, info.name.size, &lists[k]->items[i]),
          importer->diagnostic);
    }
  }
  return ITG_OK;
}

static itg_status note_functions(itg_onnx_importer *importer, const itg_onnx_model *model) {
  for (size_t i = 0; i < model->functions.count; i++) {
    char text[512];
    size_t length;
    ITG_TRY(itg_onnx_function_key(model->functions.items[i], importer->file, importer->diagnostic, text, sizeof text,
                                  &length));
    char *key = itg_arena_string(&importer->arena, text, length);
    itg_span *function = itg_arena_copy(&importer->arena, &model->functions.items[i], sizeof *function);
    ITG_TRY_MEMORY(key && function && itg_map_set(&importer->functions, key, length, function), importer->diagnostic);
  }
  return ITG_OK;
}

static itg_status import_graph(itg_onnx_importer *importer, const itg_onnx_graph *graph) {
  itg_graph *made = importer->graph;
  made->name = itg_arena_string(&made->arena, (const char *)graph->name.data, graph->name.size);
  ITG_TRY_MEMORY(made->name, importer->diagnostic);
  if (importer->problems) ITG_TRY(note_descriptions(importer, graph));
  ITG_TRY(itg_onnx_import_initializers(importer, graph));
  ITG_TRY(import_inputs(importer, graph));
  ITG_TRY(itg_onnx_import_nodes(importer, graph));
  if (importer->problems && importer->problems->count > 0) {
    const itg_import_problem *first = &importer->problems->items[0];
    ITG_FAIL(importer->diagnostic, ITG_ERROR_UNSUPPORTED, first->node, "%zu node%s not supported; the first: %.250s",
             importer->problems->count, importer->problems->count == 1 ? " is" : "s are", first->reason);
  }
  ITG_TRY(import_outputs(importer, graph));
  itg_graph_sweep(made);
  made->stage = ITG_STAGE_IMPORTED;
  return ITG_OK;
}

static itg_status import_model(itg_onnx_importer *importer, itg_span bytes) {
  itg_onnx_model model;
  ITG_TRY(itg_onnx_model_parse(bytes, importer->diagnostic, &model));
  importer->opset = model.opset;
  itg_status status = note_functions(importer, &model);
  if (status == ITG_OK)
    status = itg_onnx_metadata_json(&model.metadata, importer->file, &importer->graph->arena, importer->diagnostic,
                                    &importer->graph->source_metadata);
  itg_onnx_spans_free(&model.functions);
  itg_onnx_spans_free(&model.metadata);
  ITG_TRY(status);
  itg_onnx_graph graph;
  ITG_TRY(itg_onnx_graph_parse(model.graph, importer->file, importer->diagnostic, &graph));
  status = import_graph(importer, &graph);
  itg_onnx_graph_free(&graph);
  return status;
}

static itg_status import_into(itg_graph *graph, itg_span bytes, const char *folder, const itg_import_options *options,
                              itg_import_problems *problems, itg_diagnostic *diagnostic) {
  itg_diagnostic own = {0}; // Converters always have one to write to.
  itg_onnx_importer importer = {.graph = graph,
                                .options = options,
                                .problems = problems,
                                .diagnostic = diagnostic ? diagnostic : &own,
                                .file = bytes.data,
                                .folder = folder};
  importer.unusable.name = importer.absent.name = "";
  const itg_status status = import_model(&importer, bytes);
  itg_map_free(&importer.values);
  itg_map_free(&importer.descriptions);
  itg_map_free(&importer.external);
  itg_map_free(&importer.functions);
  itg_arena_free(&importer.arena);
  free(importer.node_name);
  return status;
}

itg_status itg_import_onnx_memory(itg_span bytes, const char *folder, const itg_import_options *options,
                                  itg_import_problems *problems, itg_diagnostic *diagnostic, itg_graph **out) {
  itg_graph *graph = NULL;
  ITG_TRY(itg_graph_create(diagnostic, &graph));
  const itg_status status = import_into(graph, bytes, folder, options, problems, diagnostic);
  if (status != ITG_OK) {
    itg_graph_destroy(graph);
    return status;
  }
  *out = graph;
  return ITG_OK;
}

static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return strdup(".");
  return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

itg_status itg_import_onnx(const char *path, const itg_import_options *options, itg_import_problems *problems,
                           itg_diagnostic *diagnostic, itg_graph **out) {
  itg_mapped_file file;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &file));
  char *folder = folder_of(path);
  itg_graph *graph = NULL;
  itg_status status = folder ? itg_import_onnx_memory(file.bytes, folder, options, problems, diagnostic, &graph)
                             : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  free(folder);
  if (status == ITG_OK) status = itg_graph_keep_mapping(graph, file, diagnostic);
  if (status != ITG_OK) {
    itg_graph_destroy(graph);
    itg_mapped_file_close(&file);
    return itg_in_file(diagnostic, status, path);
  }
  *out = graph;
  return ITG_OK;
}
