// See prepare.h.
#include "lower/qnn/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "lower/qnn/builder.h"

void itg_qnn_blob_free(itg_qnn_blob *blob) {
  free(blob->data);
  free(blob->inputs);
  free(blob->outputs);
  free(blob->refusals);
  *blob = (itg_qnn_blob){0};
}

static itg_status create_graph(itg_qnn_builder *b, itg_qnn_handle context, int level) {
  itg_qnn_htp_graph_config vtcm = {.option = ITG_QNN_HTP_GRAPH_VTCM_MEGABYTES, .u32 = b->target->vtcm_megabytes};
  itg_qnn_htp_graph_config optimization = {
      .option = ITG_QNN_HTP_GRAPH_OPTIMIZATION,
      .optimization = {ITG_QNN_HTP_OPTIMIZATION_FINALIZE_LEVEL, (float)(level ? level : 3)}};
  const itg_qnn_config first = {.option = 0, .custom = &vtcm}, second = {.option = 0, .custom = &optimization};
  const itg_qnn_config *configs[] = {&first, &second, NULL};
  return itg_qnn_check(b->library->functions->graph_create(context, ITG_QNN_GRAPH_NAME, configs, &b->graph),
                       "graphCreate", b->target->name, b->diagnostic);
}

static itg_status add_ports(itg_qnn_builder *b, itg_tensor *const *tensors, int32_t count, itg_qnn_port **ports,
                            uint32_t *port_count) {
  *ports = calloc((size_t)count + 1, sizeof **ports);
  ITG_TRY_MEMORY(*ports, b->diagnostic);
  for (int32_t i = 0; i < count; i++) {
    itg_qnn_tensor tensor;
    ITG_TRY(itg_qnn_activation(b, tensors[i], &tensor));
    size_t bytes;
    if (!itg_shape_bytes(&tensors[i]->shape, tensors[i]->dtype, &bytes))
      ITG_FAIL(b->diagnostic, ITG_ERROR_SHAPE, tensors[i]->name, "too large");
    (*ports)[i] = (itg_qnn_port){.id = tensor.v1.id, .data_type = tensor.v1.data_type, .bytes = bytes};
  }
  *port_count = (uint32_t)count;
  return ITG_OK;
}

// Shows every node to the validator and keeps its words where it refuses.
static itg_status survey(itg_qnn_builder *b, itg_qnn_blob *blob, itg_arena *arena, const char ***refusals) {
  itg_diagnostic *diagnostic = b->diagnostic;
  *refusals = itg_arena_array(arena, (size_t)b->source->node_count, sizeof **refusals);
  ITG_TRY_MEMORY(*refusals, diagnostic);
  b->is_survey = true;
  size_t i = 0;
  ITG_FOR_EACH_NODE(node, b->source) {
    itg_diagnostic why = {0};
    b->diagnostic = &why;
    const itg_status status = itg_qnn_lower_node(b, node);
    b->diagnostic = diagnostic;
    if (status != ITG_OK && status != ITG_ERROR_UNSUPPORTED && status != ITG_ERROR_LIMIT) {
      if (diagnostic) *diagnostic = why;
      return status;
    }
    const char *words = status == ITG_OK ? "" : why.message;
    (*refusals)[i] = itg_arena_string(arena, words, strlen(words));
    ITG_TRY_MEMORY((*refusals)[i], diagnostic);
    blob->refusals_size += strlen(words) + 1;
    i++;
  }
  b->is_survey = false;
  b->op_count = 0;
  itg_map_free(&b->tensors);
  blob->refusals = malloc(blob->refusals_size + 1);
  ITG_TRY_MEMORY(blob->refusals, diagnostic);
  char *at = blob->refusals;
  for (size_t k = 0; k < i; k++) at = stpcpy(at, (*refusals)[k]) + 1;
  return ITG_OK;
}

itg_status itg_qnn_blob_partition(const itg_qnn_blob *blob, const itg_graph *graph, itg_diagnostic *diagnostic,
                                  itg_qnn_partition *out) {
  const size_t count = (size_t)graph->node_count;
  const char **refusals = calloc(count + 1, sizeof refusals[0]);
  ITG_TRY_MEMORY(refusals, diagnostic);
  const char *at = blob->refusals, *end = at ? at + blob->refusals_size : at;
  size_t i = 0;
  for (; i < count && at < end; i++) {
    refusals[i] = at;
    at += strnlen(at, (size_t)(end - at)) + 1;
  }
  itg_status status = i == count ? ITG_OK
                                 : itg_fail(diagnostic, ITG_ERROR_INTERNAL, graph->name, __FILE__, __LINE__,
                                            "the NPU's answers do not belong to this graph");
  if (status == ITG_OK) status = itg_qnn_partition_make(graph, refusals, diagnostic, out);
  free(refusals);
  return status;
}

static itg_status build_graph(itg_qnn_builder *b, itg_qnn_handle context, int level, itg_qnn_blob *blob) {
  const itg_qnn_functions *f = b->library->functions;
  const itg_qnn_partition *part = b->partition;
  ITG_TRY(create_graph(b, context, level));
  ITG_TRY(add_ports(b, part->inputs, part->input_count, &blob->inputs, &blob->input_count));
  size_t i = 0;
  ITG_FOR_EACH_NODE(node, b->source) {
    if (part->places[i++] == ITG_QNN_ON_NPU) ITG_TRY(itg_qnn_lower_node(b, node));
  }
  ITG_TRY(add_ports(b, part->outputs, part->output_count, &blob->outputs, &blob->output_count));
  ITG_TRY(itg_qnn_check(f->graph_finalize(b->graph, NULL, NULL), "graphFinalize", b->target->name, b->diagnostic));
  uint64_t size = 0, written = 0;
  ITG_TRY(itg_qnn_check(f->context_get_binary_size(context, &size), "contextGetBinarySize", NULL, b->diagnostic));
  blob->data = malloc(size ? size : 1);
  ITG_TRY_MEMORY(blob->data, b->diagnostic);
  ITG_TRY(itg_qnn_check(f->context_get_binary(context, blob->data, size, &written), "contextGetBinary", NULL,
                        b->diagnostic));
  blob->size = written;
  blob->op_count = b->op_count;
  // A target that was not taken over is noticed here: the binary says what it was made for.
  return itg_qnn_blob_check(blob->data, blob->size, b->target, b->diagnostic);
}

static itg_status mark_borders(itg_qnn_builder *b, const itg_qnn_partition *part) {
  static char yes[1];
  for (int32_t i = 0; i < part->input_count; i++)
    ITG_TRY_MEMORY(itg_map_set(&b->inputs, part->inputs[i]->name, strlen(part->inputs[i]->name), yes), b->diagnostic);
  for (int32_t i = 0; i < part->output_count; i++)
    ITG_TRY_MEMORY(itg_map_set(&b->outputs, part->outputs[i]->name, strlen(part->outputs[i]->name), yes),
                   b->diagnostic);
  return ITG_OK;
}

static itg_status build(itg_qnn_builder *b, itg_qnn_handle context, const itg_qnn_prepare_options *options,
                        itg_qnn_blob *blob) {
  itg_arena arena = {0};
  const char **refusals = NULL;
  itg_qnn_partition part = {0};
  memcpy(blob->build, b->library->build, sizeof blob->build);
  blob->core = b->library->core;
  itg_status status = survey(b, blob, &arena, &refusals);
  if (status == ITG_OK && !options->survey_only) {
    status = itg_qnn_partition_make(b->source, refusals, b->diagnostic, &part);
    b->partition = &part;
    if (status == ITG_OK) status = mark_borders(b, &part);
    if (status == ITG_OK) status = build_graph(b, context, options->optimization_level, blob);
    b->partition = NULL;
  }
  itg_qnn_partition_free(&part);
  itg_arena_free(&arena);
  return status;
}

itg_status itg_qnn_prepare(const itg_graph *graph, const itg_target *target, const itg_qnn_prepare_options *options,
                           itg_diagnostic *diagnostic, itg_qnn_blob *out) {
  if (graph->stage != ITG_STAGE_LEGAL)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, graph->name, "only legalized graphs can be prepared for the NPU");
  itg_qnn_library library;
  ITG_TRY(itg_qnn_library_open(options->directory, "libQnnHtp.so", target, diagnostic, &library));
  itg_status status = itg_qnn_library_require(&library, ITG_QNN_TO_PREPARE, diagnostic);
  if (status != ITG_OK) {
    itg_qnn_library_close(&library);
    return status;
  }
  itg_qnn_builder builder = {.library = &library, .target = target, .source = graph, .diagnostic = diagnostic};
  itg_qnn_blob blob = {0};
  itg_qnn_handle context = NULL;
  status = itg_qnn_check(library.functions->context_create(library.backend, library.device, NULL, &context),
                         "contextCreate", target->name, diagnostic);
  if (status == ITG_OK) status = build(&builder, context, options, &blob);
  if (context) library.functions->context_free(context, NULL);
  itg_map_free(&builder.tensors);
  itg_map_free(&builder.inputs);
  itg_map_free(&builder.outputs);
  itg_arena_free(&builder.scratch);
  itg_arena_free(&builder.arena);
  itg_qnn_library_close(&library);
  if (status != ITG_OK) {
    itg_qnn_blob_free(&blob);
    return status;
  }
  *out = blob;
  return ITG_OK;
}
