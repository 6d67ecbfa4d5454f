// Rotary embedding and attention in the gate for integer graphs. See verify_integer_rules.h.
#include <stdlib.h>

#include "graph/infer_rules.h"
#include "graph/integer_ops.h"
#include "graph/verify_integer.h"
#include "graph/verify_integer_rules.h"

itg_status itg_check_q_rope(const itg_node *node, itg_diagnostic *diagnostic) {
  for (int i = 1; i <= 2; i++) {
    const itg_tensor *table = node->inputs[i];
    if (!table->data) continue; // Kernels clamp what comes at run time.
    const int64_t count = table->shape.dims[0] * table->shape.dims[1];
    for (int64_t j = 0; j < count; j++) {
      const int64_t value = ((const int32_t *)table->data)[j];
      if (llabs(value) > (int64_t)1 << 30)
        ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "a cosine or sine of %lld; 1 is 2^30",
                 (long long)value);
    }
  }
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  ITG_TRY(itg_check_requantize(node, rq->multiplier, rq->shift, rq->pre_shift, diagnostic));
  const uint64_t bound = (uint64_t)itg_code_deviation(node->inputs[0]) << 31;
  ITG_TRY(itg_check_accumulator(node, bound, true, rq->pre_shift, diagnostic));
  return itg_check_codes(node, node->outputs[0], rq->low, rq->high, diagnostic);
}

static bool same_codes(const itg_tensor *a, const itg_tensor *b) {
  return a->encoding && b->encoding && a->encoding->scales[0] == b->encoding->scales[0] &&
         itg_zero_point(a) == itg_zero_point(b);
}

itg_status itg_check_q_attention(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_attention_attributes *a = &node->attributes.q_attention;
  const itg_tensor *k = node->inputs[ITG_ATTENTION_K], *v = node->inputs[ITG_ATTENTION_V];
  if (!same_codes(k, node->inputs[ITG_ATTENTION_K_CACHE]) || !same_codes(v, node->inputs[ITG_ATTENTION_V_CACHE]))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the caches need the encodings of %s and %s", k->name,
             v->name);
  itg_attention_shape shape;
  ITG_TRY(itg_infer_attention_shape(node, diagnostic, &shape));
  if (shape.dim > ITG_LIMIT_HEAD || shape.context > ITG_LIMIT_CONTEXT)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "heads of %lld over %lld positions; the limits are %d and %d",
             (long long)shape.dim, (long long)shape.context, ITG_LIMIT_HEAD, ITG_LIMIT_CONTEXT);
  if (a->score_zero < 0 || a->score_zero > UINT16_MAX)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "score zero point %d", a->score_zero);
  const int64_t q_deviation = itg_code_deviation(node->inputs[ITG_ATTENTION_Q]);
  const uint64_t score_bound = (uint64_t)(shape.dim * q_deviation * itg_code_deviation(k)); // At most 2^10 * 2^32.
  ITG_TRY(itg_check_requantize(node, a->score_multiplier, a->score_shift, a->score_wide ? a->score_pre_shift : 0,
                               diagnostic));
  ITG_TRY(itg_check_accumulator(node, score_bound, a->score_wide != 0, a->score_pre_shift, diagnostic));
  ITG_TRY(itg_check_softmax_factor(node, a->k, a->k_shift, diagnostic));
  ITG_TRY(itg_check_requantize(node, a->multiplier, a->shift, a->wide ? a->pre_shift : 0, diagnostic));
  ITG_TRY(itg_check_accumulator(node, itg_attention_value_bound(shape.context, itg_code_deviation(v)), a->wide != 0,
                                a->pre_shift, diagnostic));
  return itg_check_codes(node, node->outputs[0], a->low, a->high, diagnostic);
}
