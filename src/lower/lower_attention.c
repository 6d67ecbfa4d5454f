// Rotary embedding and attention over a cache (docs/ARITHMETIC.md 4).
#include <math.h>

#include "lower/emit.h"

// A table of cosines or sines: a float constant becomes Q30; a float graph input becomes an s32 one, which whoever runs the
// graph fills with Q30 (create_input gave it that type).
static itg_status emit_table(itg_legalizer *l, const itg_node *node, int32_t index, itg_tensor **out) {
  const itg_tensor *source = node->inputs[index];
  if (!itg_tensor_is_constant(source)) {
    *out = itg_emit_tensor(l, source);
    ITG_TRY_MEMORY(*out, l->diagnostic);
    return ITG_OK;
  }
  const double *values;
  size_t count;
  ITG_TRY(itg_read_constant(l, node, source, &values, &count));
  itg_tensor *table = itg_graph_add_constant(l->graph, source->name, ITG_DTYPE_S32, &source->shape, NULL);
  ITG_TRY_MEMORY(table, l->diagnostic);
  int32_t *codes = itg_tensor_writable(table);
  for (size_t i = 0; i < count; i++) {
    if (fabs(values[i]) > 1)
      ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "%s holds %g, which is no cosine or sine",
               source->name, values[i]);
    codes[i] = (int32_t)llround(values[i] * 0x1p30);
  }
  *out = table;
  return ITG_OK;
}

itg_status itg_lower_rope(itg_legalizer *l, const itg_node *node) {
  itg_tensor *inputs[3], *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &inputs[0]));
  ITG_TRY(emit_table(l, node, 1, &inputs[1]));
  ITG_TRY(emit_table(l, node, 2, &inputs[2]));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  itg_node *result = itg_emit_node(l, ITG_OP_Q_ROPE, node->name, inputs, 3, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  const double factor = itg_scale_of(inputs[0]) / itg_scale_of(y) * 0x1p-30;
  ITG_TRY(itg_emit_requantize(l, node, factor, (uint64_t)itg_largest_code(inputs[0]) << 31, y,
                              &result->attributes.requantize));
  result->attributes.requantize.wide = 1; // Always RQ64.
  return ITG_OK;
}

itg_status itg_lower_attention(itg_legalizer *l, const itg_node *node) {
  const itg_tensor *scores = node->output_count > 1 ? node->outputs[1] : NULL;
  if (!itg_node_input(node, ITG_ATTENTION_POSITION))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "attention without a cache has no integer form");
  if (!scores || !scores->encoding || scores->encoding->storage != ITG_DTYPE_U16 || scores->encoding->count != 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the scores of attention need a 16-bit encoding");
  itg_tensor *inputs[ITG_ATTENTION_POSITION + 1], *y;
  for (int32_t i = ITG_ATTENTION_Q; i <= ITG_ATTENTION_V; i++) ITG_TRY(itg_emit_activation(l, node, i, &inputs[i]));
  for (int32_t i = ITG_ATTENTION_K_CACHE; i <= ITG_ATTENTION_POSITION; i++) {
    inputs[i] = itg_emit_tensor(l, node->inputs[i]);
    ITG_TRY_MEMORY(inputs[i], l->diagnostic);
  }
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  itg_node *result = itg_emit_node(l, ITG_OP_Q_ATTENTION, node->name, inputs, ITG_ATTENTION_POSITION + 1, y);
  ITG_TRY_MEMORY(result, l->diagnostic);

  const itg_tensor *q = inputs[ITG_ATTENTION_Q], *k = inputs[ITG_ATTENTION_K], *v = inputs[ITG_ATTENTION_V];
  const itg_shape *cache = &inputs[ITG_ATTENTION_K_CACHE]->shape;
  const itg_tensor score = {.dtype = ITG_DTYPE_U16, .encoding = scores->encoding};
  itg_requantize_attributes to_score = {0}, to_output = {0};
  const double score_factor =
      itg_scale_of(q) * itg_scale_of(k) * node->attributes.attention.scale / itg_scale_of(&score);
  ITG_TRY(itg_emit_requantize(l, node, score_factor,
                              (uint64_t)(cache->dims[2] * itg_largest_code(q) * itg_largest_code(k)), &score,
                              &to_score));
  ITG_TRY(itg_emit_requantize(l, node, itg_scale_of(v) * 0x1p-16 / itg_scale_of(y),
                              itg_attention_value_bound(cache->dims[1], itg_largest_code(v)), y, &to_output));
  itg_q_attention_attributes *a = &result->attributes.q_attention;
  *a = (itg_q_attention_attributes){.score_multiplier = to_score.multiplier,
                                    .score_shift = to_score.shift,
                                    .score_pre_shift = to_score.pre_shift,
                                    .score_wide = to_score.wide,
                                    .score_zero = itg_zero_of(&score),
                                    .multiplier = to_output.multiplier,
                                    .shift = to_output.shift,
                                    .pre_shift = to_output.pre_shift,
                                    .wide = to_output.wide,
                                    .low = to_output.low,
                                    .high = to_output.high,
                                    .score_scale = itg_scale_of(&score)};
  return itg_emit_factor(l, node, itg_softmax_factor(itg_scale_of(&score)), &a->k, &a->k_shift);
}
