// Models that were quantized elsewhere carry QuantizeLinear and DequantizeLinear pairs between their operations. A pair with one
// scale says how its tensor is to be stored: that becomes the tensor's encoding, which calibration then leaves alone, and the
// pair disappears. What the pair does besides rounding is clamping (it may stand for a ReLU): behind a convolution or
// FullyConnected that stays as a Clip, to be fused; elsewhere the encoding's range of codes clamps.
#include <math.h>
#include <string.h>

#include "adapt/list.h"
#include "passes/rewrite.h"

// A scale and zero point of one number each.
static bool read_parameters(const itg_node *node, double *scale, int64_t *zero, itg_dtype *storage) {
  const itg_tensor *point = itg_node_input(node, 2);
  const itg_tensor *coded = node->op == ITG_OP_QUANTIZE_LINEAR ? node->outputs[0] : node->inputs[0];
  size_t count;
  *storage = coded->dtype;
  *zero = 0;
  if (!itg_constant_is_uniform(node->inputs[1], scale) || !itg_shape_count(&node->inputs[1]->shape, &count) ||
      count != 1 || !(*scale > 0 && isfinite(*scale)))
    return false;
  if (!point) return true;
  if (!itg_tensor_is_constant(point) || !itg_shape_count(&point->shape, &count) || count != 1 ||
      point->dtype != coded->dtype)
    return false;
  switch (point->dtype) {
  case ITG_DTYPE_U8: *zero = *(const uint8_t *)point->data; return true;
  case ITG_DTYPE_S8: *zero = *(const int8_t *)point->data; return true;
  case ITG_DTYPE_U16:
  case ITG_DTYPE_S16: {
    uint16_t bits;
    memcpy(&bits, point->data, sizeof bits);
    *zero = point->dtype == ITG_DTYPE_U16 ? (int64_t)bits : (int64_t)(int16_t)bits;
    return true;
  }
  default: return false;
  }
}

// Activations are unsigned here: signed codes move up by half their range.
static const itg_encoding *make_encoding(itg_graph *graph, double scale, int64_t zero, itg_dtype storage) {
  const bool wide = storage == ITG_DTYPE_U16 || storage == ITG_DTYPE_S16;
  itg_encoding *encoding = itg_arena_allocate(&graph->arena, sizeof *encoding);
  double *scales = itg_arena_allocate(&graph->arena, sizeof *scales);
  int32_t *zeroes = itg_arena_allocate(&graph->arena, sizeof *zeroes);
  if (!encoding || !scales || !zeroes) return NULL;
  *scales = scale;
  *zeroes = (int32_t)zero + (storage == ITG_DTYPE_S8 ? 128 : storage == ITG_DTYPE_S16 ? 32768 : 0);
  *encoding = (itg_encoding){
      .storage = wide ? ITG_DTYPE_U16 : ITG_DTYPE_U8, .axis = -1, .count = 1, .scales = scales, .zero_points = zeroes};
  return encoding;
}

static bool is_weighted(const itg_node *node) {
  return node && (node->op == ITG_OP_CONV || node->op == ITG_OP_CONV_TRANSPOSE || node->op == ITG_OP_FULLY_CONNECTED);
}

// Replaces the pair that ends in `node`, whose first half reads x.
static itg_status absorb(itg_graph *graph, itg_node *node, itg_node *quantize, const itg_encoding *encoding,
                         itg_diagnostic *diagnostic) {
  itg_tensor *x = quantize->inputs[0], *y = node->outputs[0], *code = quantize->outputs[0];
  const bool is_only_reader = x->user_count == 1 && !x->is_output && !x->encoding;
  const double low = encoding->scales[0] * (itg_code_min(encoding->storage) - encoding->zero_points[0]);
  const double high = encoding->scales[0] * (itg_code_max(encoding->storage) - encoding->zero_points[0]);
  if (is_only_reader && !is_weighted(x->producer) && itg_can_bypass_node(node, x)) {
    x->encoding = encoding;
    ITG_TRY_MEMORY(itg_bypass_node(graph, node, x), diagnostic);
  } else {
    y->encoding = encoding;
    itg_node *clip = itg_replace_node(graph, node, ITG_OP_CLIP, &x, 1);
    ITG_TRY_MEMORY(clip, diagnostic);
    clip->attributes.scalar = (itg_scalar_attributes){low, high};
  }
  itg_remove_dead(graph, code);
  return ITG_OK;
}

itg_status itg_adapt_absorb_quantization(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (node->op != ITG_OP_DEQUANTIZE_LINEAR) continue;
    itg_node *quantize = node->inputs[0]->producer;
    double scale, other_scale;
    int64_t zero, other_zero;
    itg_dtype storage, other_storage;
    if (!quantize || quantize->op != ITG_OP_QUANTIZE_LINEAR || quantize->inputs[0]->dtype != ITG_DTYPE_F32 ||
        itg_tensor_is_constant(quantize->inputs[0]) || !read_parameters(node, &scale, &zero, &storage) ||
        !read_parameters(quantize, &other_scale, &other_zero, &other_storage) || scale != other_scale ||
        zero != other_zero)
      continue;
    const itg_encoding *encoding = make_encoding(graph, scale, zero, storage);
    ITG_TRY_MEMORY(encoding, diagnostic);
    ITG_TRY(absorb(graph, node, quantize, encoding, diagnostic));
    *changed = true;
  }
  return ITG_OK;
}
