// Which function lowers which operation, and the frame around it. See legalize.h.
#include "lower/legalize.h"

#include <string.h>

#include "graph/verify.h"
#include "lower/emit.h"
#include "quantize/unary_function.h"

static itg_lower_function *function_for(itg_op op) {
  switch (op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE:
  case ITG_OP_FULLY_CONNECTED: return itg_lower_convolution;
  case ITG_OP_MATMUL: return itg_lower_matmul;
  case ITG_OP_ADD:
  case ITG_OP_SUB: return itg_lower_add;
  case ITG_OP_ADD_AFFINE: return itg_lower_add_affine;
  case ITG_OP_AFFINE: return itg_lower_affine;
  case ITG_OP_MUL: return itg_lower_mul;
  case ITG_OP_DIV: return itg_lower_div;
  case ITG_OP_POW: return itg_lower_pow;
  case ITG_OP_RELU:
  case ITG_OP_CLIP: return itg_lower_clip;
  case ITG_OP_LEAKY_RELU:
  case ITG_OP_PRELU:
  case ITG_OP_ABS: return itg_lower_slope;
  case ITG_OP_NEG:
  case ITG_OP_HARD_SIGMOID:
  case ITG_OP_HARD_SWISH: return itg_lower_hard;
  case ITG_OP_AVERAGE_POOL: return itg_lower_average_pool;
  case ITG_OP_REDUCE_MEAN:
  case ITG_OP_REDUCE_SUM: return itg_lower_reduce;
  case ITG_OP_REDUCE_MAX: return itg_lower_reduce_max;
  case ITG_OP_SOFTMAX: return itg_lower_softmax;
  case ITG_OP_LAYER_NORM:
  case ITG_OP_RMS_NORM:
  case ITG_OP_LP_NORM: return itg_lower_norm;
  case ITG_OP_RESIZE: return itg_lower_resize;
  case ITG_OP_IDENTITY: return itg_lower_identity;
  case ITG_OP_GATHER: return itg_lower_gather;
  case ITG_OP_RESHAPE:
  case ITG_OP_TRANSPOSE:
  case ITG_OP_CONCAT:
  case ITG_OP_SLICE:
  case ITG_OP_PAD:
  case ITG_OP_EXPAND:
  case ITG_OP_TILE:
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH:
  case ITG_OP_MAX_POOL:
  case ITG_OP_MIN:
  case ITG_OP_MAX: return itg_lower_move;
  default: return itg_unary_is_known(op) ? itg_lower_table : NULL;
  }
}

// Graph inputs and outputs come first, so that nothing else can take their names; then all other activations.
static itg_status create_tensors(itg_legalizer *l) {
  const itg_graph *source = l->source;
  for (int32_t i = 0; i < source->input_count; i++) {
    const itg_tensor *input = source->inputs[i];
    if (!input->encoding && itg_dtype_is_float(input->dtype) && input->user_count > 0)
      ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, input->name, "the graph input is %s and not quantized",
               itg_dtype_name(input->dtype));
    itg_tensor *tensor = itg_emit_tensor(l, input);
    ITG_TRY_MEMORY(tensor && itg_graph_add_input(l->graph, tensor), l->diagnostic);
  }
  for (int32_t i = 0; i < source->output_count; i++)
    ITG_TRY_MEMORY(itg_emit_tensor(l, source->outputs[i]), l->diagnostic);
  ITG_FOR_EACH_NODE(node, source) {
    for (int32_t i = 0; i < node->output_count; i++) {
      if (node->outputs[i]) ITG_TRY_MEMORY(itg_emit_tensor(l, node->outputs[i]), l->diagnostic);
    }
  }
  return ITG_OK;
}

static itg_status lower_all(itg_legalizer *l) {
  ITG_TRY(create_tensors(l));
  ITG_FOR_EACH_NODE(node, l->source) {
    const itg_tensor *output = node->outputs[0];
    if (output && itg_map_get(&l->done, output->name, strlen(output->name))) continue;
    itg_lower_function *lower = function_for(node->op);
    if (!lower)
      ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
               "%s has no integer form (docs/ARITHMETIC.md lists what has)", itg_op_name((int)node->op));
    ITG_TRY(lower(l, node));
  }
  for (int32_t i = 0; i < l->source->output_count; i++) {
    itg_tensor *tensor = itg_emit_tensor(l, l->source->outputs[i]);
    ITG_TRY_MEMORY(tensor && itg_graph_add_output(l->graph, tensor), l->diagnostic);
  }
  itg_graph_sweep(l->graph);
  ITG_TRY(itg_graph_sort(l->graph, l->diagnostic));
  l->graph->stage = ITG_STAGE_LEGAL;
  return itg_graph_verify(l->graph, ITG_STAGE_LEGAL, l->diagnostic);
}

itg_status itg_legalize(const itg_graph *quantized, itg_diagnostic *diagnostic, itg_graph **out) {
  itg_legalizer l = {.source = quantized, .diagnostic = diagnostic};
  ITG_TRY(itg_graph_create(diagnostic, &l.graph));
  l.graph->name = itg_arena_string(&l.graph->arena, quantized->name, strlen(quantized->name));
  itg_status status =
      l.graph->name ? lower_all(&l) : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  itg_arena_free(&l.scratch);
  itg_map_free(&l.tensors);
  itg_map_free(&l.converted);
  itg_map_free(&l.done);
  if (status != ITG_OK) {
    itg_graph_destroy(l.graph);
    return status;
  }
  *out = l.graph;
  return ITG_OK;
}
