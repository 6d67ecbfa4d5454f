// Rotary embedding and attention over a cache (docs/ARITHMETIC.md 4).
#include "graph/attributes.h"
#include "graph/op.h"
#include "kernels/reference/access.h"
#include "kernels/reference/exponential.h"

static size_t rope_units(const itg_task *task) { return (size_t)(task->rope.rows * task->rope.length); }

// Tables that come at run time are not verified.
static int64_t table_value(const int32_t *table, int64_t index) {
  return itg_clamp_i64(table[index], -((int64_t)1 << 30), (int64_t)1 << 30);
}

static void rope(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_rope_task *t = &task->rope;
  const int64_t half = t->dim / 2;
  for (size_t row = begin; row < end; row++) {
    const int64_t position = (int64_t)row % t->length;
    for (int64_t head = 0; head < t->heads; head++) {
      const int64_t start = ((int64_t)row * t->heads + head) * t->dim;
      for (int64_t i = 0; i < half; i++) {
        const int64_t a = itg_load(call->inputs[0], start + i, t->in_type) - t->in_zero;
        const int64_t b = itg_load(call->inputs[0], start + half + i, t->in_type) - t->in_zero;
        const int64_t c = table_value(call->inputs[1], position * half + i);
        const int64_t s = table_value(call->inputs[2], position * half + i);
        itg_store(call->outputs[0], start + i, t->out_type,
                  itg_requantize64(a * c - b * s, t->multiplier, t->shift, t->pre_shift, t->out_zero, t->low, t->high));
        itg_store(call->outputs[0], start + half + i, t->out_type,
                  itg_requantize64(b * c + a * s, t->multiplier, t->shift, t->pre_shift, t->out_zero, t->low, t->high));
      }
    }
  }
}

// One unit is one query: a position of the block and a head.
static size_t attention_units(const itg_task *task) { return (size_t)(task->attention.block * task->attention.heads); }

// The rows of one group: `position` rows in the cache, those after them in the block itself, so that no unit waits for what
// another one writes.
typedef struct key_rows {
  const void *cache, *block;
  int64_t position, group, groups, dim;
  int32_t type;
} key_rows;

static int64_t load_row(const key_rows *rows, int64_t context, int64_t key, int64_t i) {
  if (key < rows->position) return itg_load(rows->cache, (rows->group * context + key) * rows->dim + i, rows->type);
  return itg_load(rows->block, ((key - rows->position) * rows->groups + rows->group) * rows->dim + i, rows->type);
}

static void keep_row(const key_rows *rows, int64_t context, int64_t row, void *cache) {
  for (int64_t i = 0; i < rows->dim; i++)
    itg_store(cache, (rows->group * context + rows->position + row) * rows->dim + i, rows->type,
              itg_load(rows->block, (row * rows->groups + rows->group) * rows->dim + i, rows->type));
}

static int32_t score(const itg_attention_task *t, const void *q, int64_t query, const key_rows *keys, int64_t key) {
  int64_t sum = 0;
  for (int64_t i = 0; i < t->dim; i++)
    sum += (itg_load(q, query * t->dim + i, t->q_type) - t->q_zero) * (load_row(keys, t->context, key, i) - t->k_zero);
  return itg_requantize64(sum, t->score_multiplier, t->score_shift, t->score_pre_shift, t->score_zero, 0, 65535);
}

static void attend(const itg_attention_task *t, const itg_kernel_call *call, int64_t row, int64_t head,
                   const key_rows *keys, const key_rows *values) {
  uint16_t *scores = call->scratch;
  const int64_t query = row * t->heads + head, count = keys->position + row + 1;
  int32_t largest = 0;
  for (int64_t j = 0; j < count; j++) {
    scores[j] = (uint16_t)score(t, call->inputs[ITG_ATTENTION_Q], query, keys, j);
    if (scores[j] > largest) largest = scores[j];
  }
  const int64_t half = (int64_t)1 << (t->k_shift - 1);
  uint64_t sum = 0;
  for (int64_t j = 0; j < count; j++)
    sum += itg_exponential((uint64_t)(((int64_t)(largest - scores[j]) * t->k_factor + half) >> t->k_shift));
  const uint64_t reciprocal = ((uint64_t)1 << 47) / sum; // The largest score alone makes it 2^24.
  for (int64_t j = 0; j < count; j++) {
    const uint64_t e = itg_exponential((uint64_t)(((int64_t)(largest - scores[j]) * t->k_factor + half) >> t->k_shift));
    const uint64_t p = (e * reciprocal + ((uint64_t)1 << 30)) >> 31;
    scores[j] = p > 65535 ? 65535 : (uint16_t)p;
  }
  for (int64_t i = 0; i < t->dim; i++) {
    int64_t total = 0;
    for (int64_t j = 0; j < count; j++) total += scores[j] * (load_row(values, t->context, j, i) - t->v_zero);
    itg_store(call->outputs[0], query * t->dim + i, t->out_type,
              itg_requantize64(total, t->multiplier, t->shift, t->pre_shift, t->out_zero, t->low, t->high));
  }
}

static void attention(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_attention_task *t = &task->attention;
  const int64_t position =
      itg_clamp_i64(*(const int32_t *)call->inputs[ITG_ATTENTION_POSITION], 0, t->context - t->block);
  for (size_t unit = begin; unit < end; unit++) {
    const int64_t row = (int64_t)unit / t->heads, head = (int64_t)unit % t->heads;
    const int64_t in_group = t->heads / t->groups, group = head / in_group;
    key_rows keys = {call->inputs[ITG_ATTENTION_K_CACHE],
                     call->inputs[ITG_ATTENTION_K],
                     position,
                     group,
                     t->groups,
                     t->dim,
                     t->k_type};
    key_rows values = {call->inputs[ITG_ATTENTION_V_CACHE],
                       call->inputs[ITG_ATTENTION_V],
                       position,
                       group,
                       t->groups,
                       t->dim,
                       t->v_type};
    attend(t, call, row, head, &keys, &values);
    if (head % in_group) continue; // The first head of a group keeps its rows for the following blocks.
    keep_row(&keys, t->context, row, (void *)keys.cache);
    keep_row(&values, t->context, row, (void *)values.cache);
  }
}

static size_t attention_scratch(const itg_task *task) { return (size_t)task->attention.context * sizeof(uint16_t); }

const itg_kernel itg_rope__reference = {
    .name = "itg_rope__reference", .op = ITG_OP_Q_ROPE, .units = rope_units, .run = rope};
const itg_kernel itg_attention__reference = {.name = "itg_attention__reference",
                                             .op = ITG_OP_Q_ATTENTION,
                                             .scratch_size = attention_scratch,
                                             .units = attention_units,
                                             .run = attention};
