// See prepare.h.
#include "lower/qnn/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "lower/qnn/builder.h"

void itg_qnn_blob_free(itg_qnn_blob *blob) {
  free(blob->data);
  free(blob->inputs);
  free(blob->outputs);
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
    (*ports)[i] = (itg_qnn_port){tensor.v1.id, tensor.v1.data_type, bytes};
  }
  *port_count = (uint32_t)count;
  return ITG_OK;
}

static itg_status build(itg_qnn_builder *b, itg_qnn_handle context, int level, itg_qnn_blob *blob) {
  const itg_qnn_functions *f = b->library->functions;
  ITG_TRY(create_graph(b, context, level));
  ITG_TRY(add_ports(b, b->source->inputs, b->source->input_count, &blob->inputs, &blob->input_count));
  ITG_FOR_EACH_NODE(node, b->source) ITG_TRY(itg_qnn_lower_node(b, node));
  ITG_TRY(add_ports(b, b->source->outputs, b->source->output_count, &blob->outputs, &blob->output_count));
  ITG_TRY(itg_qnn_check(f->graph_finalize(b->graph, NULL, NULL), "graphFinalize", b->target->name, b->diagnostic));
  uint64_t size = 0, written = 0;
  ITG_TRY(itg_qnn_check(f->context_get_binary_size(context, &size), "contextGetBinarySize", NULL, b->diagnostic));
  blob->data = malloc(size ? size : 1);
  ITG_TRY_MEMORY(blob->data, b->diagnostic);
  ITG_TRY(itg_qnn_check(f->context_get_binary(context, blob->data, size, &written), "contextGetBinary", NULL,
                        b->diagnostic));
  blob->size = written;
  blob->op_count = b->op_count;
  memcpy(blob->build, b->library->build, sizeof blob->build);
  blob->core = b->library->core;
  // A target that was not taken over is noticed here: the binary says what it was made for.
  return itg_qnn_blob_check(blob->data, blob->size, b->target, b->diagnostic);
}

itg_status itg_qnn_prepare(const itg_graph *graph, const itg_target *target, const itg_qnn_prepare_options *options,
                           itg_diagnostic *diagnostic, itg_qnn_blob *out) {
  if (graph->stage != ITG_STAGE_LEGAL)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, graph->name, "only legalized graphs can be prepared for the NPU");
  itg_qnn_library library;
  ITG_TRY(itg_qnn_library_open(options->directory, "libQnnHtp.so", target, diagnostic, &library));
  itg_qnn_builder builder = {.library = &library, .target = target, .source = graph, .diagnostic = diagnostic};
  itg_qnn_blob blob = {0};
  itg_qnn_handle context = NULL;
  itg_status status = itg_qnn_check(library.functions->context_create(library.backend, library.device, NULL, &context),
                                    "contextCreate", target->name, diagnostic);
  if (status == ITG_OK) status = build(&builder, context, options->optimization_level, &blob);
  if (context) library.functions->context_free(context, NULL);
  itg_map_free(&builder.tensors);
  itg_arena_free(&builder.arena);
  itg_qnn_library_close(&library);
  if (status != ITG_OK) {
    itg_qnn_blob_free(&blob);
    return status;
  }
  *out = blob;
  return ITG_OK;
}
