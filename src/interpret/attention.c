// Rotary embedding and causal attention over a cache (ops.def).
#include <math.h>
#include <string.h>

#include "interpret/executor.h"

itg_status itg_run_rope(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0];
  const int rank = itg_operand_rank(x);
  const size_t length = (size_t)itg_operand_dims(x)[rank - 2], width = (size_t)itg_operand_dims(x)[rank - 1];
  const size_t half = (size_t)itg_operand_dims(&call->inputs[1])[1];
  const float *cosine = call->inputs[1].data, *sine = call->inputs[2].data;
  for (size_t row = 0; width && row < x->count / width; row++) {
    const float *c = cosine + row % length * half, *s = sine + row % length * half;
    for (size_t head = 0; head < width; head += 2 * half) {
      const float *from = (const float *)x->data + row * width + head;
      float *to = (float *)call->outputs[0].data + row * width + head;
      for (size_t i = 0; i < half; i++) {
        const float a = from[i], b = from[half + i];
        to[i] = a * c[i] - b * s[i];
        to[half + i] = b * c[i] + a * s[i];
      }
    }
  }
  return ITG_OK;
}

typedef struct attention_shape {
  size_t block, heads, groups, dim, context;
} attention_shape;

static attention_shape shape_of(const itg_call *call) {
  const itg_operand *cache = itg_call_input(call, ITG_ATTENTION_K_CACHE);
  const int64_t *q = itg_operand_dims(&call->inputs[ITG_ATTENTION_Q]);
  const int64_t *k = itg_operand_dims(&call->inputs[ITG_ATTENTION_K]);
  attention_shape s = {.block = (size_t)q[1], .groups = 1, .context = (size_t)q[1]};
  if (cache) {
    s.groups = (size_t)itg_operand_dims(cache)[0];
    s.context = (size_t)itg_operand_dims(cache)[1];
  }
  s.dim = (size_t)k[2] / s.groups;
  s.heads = (size_t)q[2] / s.dim;
  return s;
}

// Scratch: the row of scores when nobody asks for them.
itg_status itg_prepare_attention(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  for (int32_t i = 0; i < call->input_count && i < ITG_ATTENTION_POSITION; i++) {
    if (call->inputs[i].tensor && call->inputs[i].dtype != ITG_DTYPE_F32)
      return itg_refuse_dtype(call, call->inputs[i].dtype, diagnostic);
  }
  preparation->scratch = 2 * shape_of(call).context * sizeof(float);
  return ITG_OK;
}

// The rows of one group: those of the cache, then those of the block.
typedef struct rows {
  const float *cache, *block;
  size_t past, dim, step; // step: floats between rows of the block
} rows;

static const float *row_at(const rows *r, size_t index) {
  return index < r->past ? r->cache + index * r->dim : r->block + (index - r->past) * r->step;
}

ITG_VECTORISED static float dot(const float *a, const float *b, size_t n) {
  float sum[16] = {0};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (size_t j = 0; j < 16; j++) sum[j] += a[i + j] * b[i + j];
  }
  float total = 0;
  for (size_t j = 0; j < 16; j++) total += sum[j];
  for (; i < n; i++) total += a[i] * b[i];
  return total;
}

ITG_VECTORISED static void add_scaled(float *to, const float *from, float factor, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] += factor * from[i];
}

// One query over `count` keys; `scores` and `weights` have room for all of them.
static void attend(const float *q, const rows *keys, const rows *values, size_t count, float scale, float *scores,
                   float *weights, float *out) {
  float largest = -INFINITY;
  for (size_t j = 0; j < count; j++) {
    scores[j] = dot(q, row_at(keys, j), keys->dim) * scale;
    largest = fmaxf(largest, scores[j]);
  }
  double sum = 0;
  for (size_t j = 0; j < count; j++) {
    weights[j] = expf(scores[j] - largest);
    sum += (double)weights[j];
  }
  memset(out, 0, values->dim * sizeof out[0]);
  const float reciprocal = (float)(1 / sum);
  for (size_t j = 0; j < count; j++) add_scaled(out, row_at(values, j), weights[j] * reciprocal, values->dim);
}

// Writes the block's rows behind the past ones.
static void keep(const attention_shape *s, size_t past, const float *block, float *cache) {
  for (size_t g = 0; g < s->groups; g++) {
    for (size_t t = 0; t < s->block; t++)
      memcpy(cache + (g * s->context + past + t) * s->dim, block + (t * s->groups + g) * s->dim,
             s->dim * sizeof cache[0]);
  }
}

itg_status itg_run_attention(const itg_call *call, itg_diagnostic *diagnostic) {
  const attention_shape s = shape_of(call);
  const itg_operand *cache = itg_call_input(call, ITG_ATTENTION_K_CACHE);
  float *k_cache = cache ? cache->data : NULL;
  float *v_cache = cache ? call->inputs[ITG_ATTENTION_V_CACHE].data : NULL;
  size_t past = 0;
  if (k_cache && v_cache) {
    const int64_t position = itg_operand_integer(&call->inputs[ITG_ATTENTION_POSITION], 0);
    if (position < 0 || position > (int64_t)(s.context - s.block))
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, call->node->name, "position %lld and a block of %zu exceed %zu",
               (long long)position, s.block, s.context);
    past = (size_t)position;
  }
  const itg_operand *kept = itg_call_output(call, 1);
  const float *q = call->inputs[ITG_ATTENTION_Q].data;
  const float *k = call->inputs[ITG_ATTENTION_K].data, *v = call->inputs[ITG_ATTENTION_V].data;
  const float scale = (float)call->node->attributes.attention.scale;
  float *scratch = call->scratch;
  for (size_t head = 0; head < s.heads; head++) {
    const size_t g = head / (s.heads / s.groups), offset = g * s.context * s.dim;
    const rows keys = {k_cache + (past ? offset : 0), k + g * s.dim, past, s.dim, s.groups * s.dim};
    const rows values = {v_cache + (past ? offset : 0), v + g * s.dim, past, s.dim, s.groups * s.dim};
    for (size_t t = 0; t < s.block; t++) {
      float *scores = kept ? (float *)kept->data + (head * s.block + t) * s.context : scratch;
      const size_t count = past + t + 1, query = (t * s.heads + head) * s.dim;
      attend(q + query, &keys, &values, count, scale, scores, scratch + s.context,
             (float *)call->outputs[0].data + query);
      for (size_t j = count; j < s.context; j++) scores[j] = scores[0];
    }
  }
  if (k_cache && v_cache) {
    keep(&s, past, k, k_cache);
    keep(&s, past, v, v_cache);
  }
  return ITG_OK;
}
