// Which function lowers which operation, and the frame around it. See legalize.h.
#include "lower/legalize.h"

#include <string.h>

#include "graph/verify.h"
#include "lower/emit.h"
#include "quantize/unary_function.h"

static itg_lower_function lower_cast;

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
  case ITG_OP_ROPE: return itg_lower_rope;
  case ITG_OP_ATTENTION: return itg_lower_attention;
  case ITG_OP_RESIZE: return itg_lower_resize;
  case ITG_OP_IDENTITY: return itg_lower_identity;
  case ITG_OP_CAST: return lower_cast;
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

// An integer graph input that is only read as numbers (attention masks: Cast to float) becomes a quantized input, like a
// float one. Returns the tensor whose encoding it takes, or NULL.
static const itg_tensor *number_behind(const itg_tensor *input) {
  if (input->encoding || input->user_count == 0 || input->is_output) return NULL;
  const itg_tensor *number = NULL;
  for (int32_t u = 0; u < input->user_count; u++) {
    const itg_tensor *output = input->users[u]->outputs[0];
    if (input->users[u]->op != ITG_OP_CAST || !output->encoding || output->is_output) return NULL;
    if (!number) number = output;
  }
  return number;
}

// True for a graph input that is nothing but a table of cosines or sines, which integer graphs take as s32 Q30.
static bool is_rope_table(const itg_tensor *input) {
  for (int32_t u = 0; u < input->user_count; u++) {
    if (input->users[u]->op != ITG_OP_ROPE || input->users[u]->inputs[0] == input) return false;
  }
  return input->user_count > 0 && !input->is_output;
}

static itg_status create_input(itg_legalizer *l, const itg_tensor *input) {
  const itg_tensor *number = number_behind(input);
  itg_tensor stand_in = *input;
  if (number) stand_in.encoding = number->encoding;
  if (is_rope_table(input)) {
    stand_in.encoding = NULL;
    stand_in.dtype = ITG_DTYPE_S32;
    number = input;
  }
  itg_tensor *tensor = itg_emit_tensor(l, number ? &stand_in : input);
  ITG_TRY_MEMORY(tensor && itg_graph_add_input(l->graph, tensor), l->diagnostic);
  return ITG_OK;
}

// A Cast of such an input: a change of encoding at most.
static itg_status lower_cast(itg_legalizer *l, const itg_node *node) {
  if (!node->inputs[0]->is_input || !number_behind(node->inputs[0]))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "Cast from %s to %s has no integer form, except from graph inputs to float",
             itg_dtype_name(node->inputs[0]->dtype), itg_dtype_name(node->outputs[0]->dtype));
  itg_tensor *x = itg_emit_tensor(l, node->inputs[0]), *y;
  ITG_TRY_MEMORY(x, l->diagnostic);
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  if (itg_encoding_equal(x->encoding, y->encoding)) {
    ITG_TRY_MEMORY(itg_emit_node(l, ITG_OP_IDENTITY, node->name, &x, 1, y), l->diagnostic);
    return ITG_OK;
  }
  itg_node *result = itg_emit_node(l, ITG_OP_Q_CONVERT, node->name, &x, 1, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  return itg_emit_requantize(l, node, itg_scale_of(x) / itg_scale_of(y), (uint64_t)itg_largest_code(x), y,
                             &result->attributes.requantize);
}

// Graph inputs and outputs come first, so that nothing else can take their names; then all other activations.
static itg_status create_tensors(itg_legalizer *l) {
  const itg_graph *source = l->source;
  for (int32_t i = 0; i < source->input_count; i++) {
    const itg_tensor *input = source->inputs[i];
    if (!input->encoding && itg_dtype_is_float(input->dtype) && input->user_count > 0 && !is_rope_table(input))
      ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, input->name, "the graph input is %s and not quantized",
               itg_dtype_name(input->dtype));
    ITG_TRY(create_input(l, input));
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

itg_status itg_legalize(const itg_graph *quantized, const itg_target *target, itg_diagnostic *diagnostic,
                        itg_graph **out) {
  itg_legalizer l = {.source = quantized, .target = target, .diagnostic = diagnostic};
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
