// Matrix products of activations, softmax and norms against the reference.
#include "graph/attributes.h"
#include "kernels/kernel_harness.h"

static int64_t try_matmul(harness *h, harness_random *r) {
  itg_matmul_task *t = &h->task.matmul;
  h->task.op = ITG_OP_Q_MATMUL;
  t->batch = random_chance(r, 3) ? (int32_t)random_between(r, 8, 12) : (int32_t)random_between(r, 1, 3);
  t->m = (int32_t)random_between(r, 1, t->batch < 4 ? 100 : 30);
  t->n = (int32_t)random_between(r, 1, random_chance(r, 2) ? 40 : 150);
  t->k = (int32_t)random_between(r, 1, random_chance(r, 10) ? 900 : 70);
  t->transpose_b = random_chance(r, 2);
  t->a_type = random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8;
  t->b_type = random_chance(r, 2) ? ITG_TASK_S8 : ITG_TASK_U8;
  t->out_type = random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8;
  t->a_zero = random_zero(r, t->a_type);
  t->b_zero = t->b_type == ITG_TASK_S8 ? 0 : random_chance(r, 3) ? random_zero(r, ITG_TASK_U8) : 128;
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  const int64_t bound = (int64_t)t->k * code_limit(t->a_type) * 255;
  t->wide = bound > INT32_MAX || random_chance(r, 10);
  t->pre_shift = t->wide ? itg_pre_shift_for_bound((uint64_t)bound) : 0;
  int bits = 0;
  while (bound >> bits > 4) bits++;
  random_factor(r, 31 + (bits > 10 ? bits - (t->out_type == ITG_TASK_U16 ? 14 : 7) : 2), 1 + t->pre_shift, false,
                &t->multiplier, &t->shift);
  const int64_t a_size = (int64_t)t->m * t->k, b_size = (int64_t)t->n * t->k;
  const bool shared = random_chance(r, 3); // One b for all.
  int64_t *a_offset = harness_constant(h, (size_t)t->batch * 8, 8),
          *b_offset = harness_constant(h, (size_t)t->batch * 8, 8);
  for (int32_t b = 0; b < t->batch; b++) {
    a_offset[b] = b * a_size;
    b_offset[b] = shared ? 0 : b * b_size;
  }
  t->a_offset = a_offset;
  t->b_offset = b_offset;
  harness_input(h, r, (size_t)(t->batch * a_size), t->a_type, t->a_zero);
  uint8_t *b = harness_input(h, r, (size_t)((shared ? 1 : t->batch) * b_size), t->b_type, t->b_zero);
  if (t->b_type == ITG_TASK_S8 && random_chance(r, 3)) memset(b, 0x80, (size_t)((shared ? 1 : t->batch) * b_size));
  harness_output(h, (size_t)t->batch * (size_t)t->m * (size_t)t->n, t->out_type);
  harness_check(h, r);
  return (int64_t)t->batch * t->m;
}

static int64_t try_softmax(harness *h, harness_random *r) {
  itg_softmax_task *t = &h->task.softmax;
  h->task.op = ITG_OP_Q_SOFTMAX;
  t->rank = 3;
  t->dims[0] = random_between(r, 1, 3);
  t->dims[1] = random_between(r, 1, 6);
  t->dims[2] = t->length = random_between(r, 1, random_chance(r, 8) ? 900 : 140);
  t->rows = t->dims[0] * t->dims[1];
  t->out_type = random_chance(r, 3) ? ITG_TASK_U8 : ITG_TASK_U16;
  // K*2^-k_shift: log2 units in Q16 a code; from a narrow range of logits to the widest.
  t->k = (int32_t)random_between(r, INT64_C(1) << 30, INT32_MAX);
  t->k_shift = (int32_t)(random_chance(r, 6) ? random_between(r, 1, 62) : random_between(r, 22, 34));
  t->out_zero = t->out_type == ITG_TASK_U8 ? random_zero(r, ITG_TASK_U8) : 0;
  t->high = code_limit(t->out_type);
  if (t->out_type == ITG_TASK_U8) {
    random_range(r, ITG_TASK_U8, &t->low, &t->high);
    random_factor(r, 53, 1, false, &t->multiplier, &t->shift);
  }
  uint16_t *x = harness_input(h, r, (size_t)(t->rows * t->length), ITG_TASK_U16, 32768);
  if (random_chance(r, 3)) { // Close logits: many keys count.
    for (int64_t i = 0; i < t->rows * t->length; i++) x[i] = (uint16_t)(30000 + x[i] % 200);
  }
  t->has_mask = random_chance(r, 3);
  if (t->has_mask) {
    size_t count = 1;
    for (int32_t d = 2; d >= 0; d--) {
      const bool there = d == 2 ? !random_chance(r, 5) : random_chance(r, 2);
      t->mask_stride[d] = there ? (int64_t)count : 0;
      if (there) count *= (size_t)t->dims[d];
    }
    uint8_t *mask = harness_input(h, r, count, ITG_TASK_BOOL, 0);
    for (size_t i = 0; i < count; i++) mask[i] &= 1;
  }
  harness_output(h, (size_t)(t->rows * t->length), t->out_type);
  harness_check(h, r);
  return t->rows;
}

static int64_t try_norm(harness *h, harness_random *r) {
  static const int32_t kinds[] = {ITG_NORM_LAYER, ITG_NORM_LAYER, ITG_NORM_RMS, ITG_NORM_L2};
  itg_norm_task *t = &h->task.norm;
  h->task.op = ITG_OP_Q_NORM;
  t->kind = kinds[random_between(r, 0, 3)];
  t->rows = random_between(r, 1, 8);
  t->channels = random_between(r, 1, random_chance(r, 20) ? 8192 : random_chance(r, 2) ? 70 : 800);
  t->in_zero = t->kind == ITG_NORM_LAYER ? 32768 : random_zero(r, ITG_TASK_U16);
  t->out_type = random_chance(r, 2) ? ITG_TASK_U8 : ITG_TASK_U16;
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  t->epsilon = random_between(r, 0, random_chance(r, 2) ? INT64_C(1) << 40 : 100);
  // gamma/scale with the normalised value in Q20 (Q26 for L2): y = n*Mg >> s around the output's range.
  const size_t entries = t->kind == ITG_NORM_L2 ? 1 : (size_t)t->channels;
  t->shift = (int32_t)(random_chance(r, 6) ? random_between(r, 5, 60) : random_between(r, 34, 48));
  int32_t *gamma = harness_constant(h, entries * 4, 4);
  for (size_t c = 0; c < entries; c++) gamma[c] = (int32_t)random_between(r, -INT32_MAX, INT32_MAX);
  t->gamma = gamma;
  if (t->kind == ITG_NORM_LAYER || random_chance(r, 4)) {
    int32_t *beta = harness_constant(h, (size_t)t->channels * 4, 4);
    for (int64_t c = 0; c < t->channels; c++) beta[c] = (int32_t)random_between(r, -1000000, 1000000);
    t->beta_q4 = beta;
  }
  uint16_t *x = harness_input(h, r, (size_t)(t->rows * t->channels), ITG_TASK_U16, t->in_zero);
  if (random_chance(r, 3)) { // A narrow row with outliers, as in real transformers.
    for (int64_t i = 0; i < t->rows * t->channels; i++) x[i] = (uint16_t)(i % 97 == 5 ? 65535 : 32700 + x[i] % 100);
  }
  harness_output(h, (size_t)(t->rows * t->channels), t->out_type);
  harness_check(h, r);
  return t->rows;
}

static int64_t try_rope(harness *h, harness_random *r) {
  itg_rope_task *t = &h->task.rope;
  h->task.op = ITG_OP_Q_ROPE;
  t->rows = random_between(r, 1, 3);
  t->length = random_between(r, 1, 5);
  t->heads = random_between(r, 1, 4);
  t->dim = 2 * random_between(r, 1, random_chance(r, 2) ? 70 : 16);
  t->in_type = random_chance(r, 4) ? ITG_TASK_U8 : ITG_TASK_U16;
  t->out_type = random_chance(r, 2) ? ITG_TASK_U8 : ITG_TASK_U16;
  t->in_zero = random_zero(r, t->in_type);
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  t->pre_shift = itg_pre_shift_for_bound((uint64_t)code_limit(t->in_type) << 31) + (int32_t)random_between(r, 0, 2);
  random_factor(r, t->out_type == ITG_TASK_U8 && t->in_type == ITG_TASK_U16 ? 52 : 44, 1, true, &t->multiplier,
                &t->shift);
  t->shift += t->pre_shift;
  const size_t count = (size_t)(t->rows * t->length * t->heads * t->dim);
  harness_input(h, r, count, t->in_type, t->in_zero);
  for (int table = 0; table < 2; table++) {
    const size_t entries = (size_t)(t->length * t->dim / 2);
    int32_t *values = harness_input(h, r, entries, ITG_TASK_S32, 0);
    for (size_t i = 0; i < entries; i++) {
      values[i] = (int32_t)random_between(r, -(1 << 30), 1 << 30);
      if (random_chance(r, 8)) values[i] = random_chance(r, 2) ? INT32_MIN : INT32_MAX; // Clamped to +-2^30.
    }
  }
  harness_output(h, count, t->out_type);
  harness_check(h, r);
  return t->rows * t->length;
}

static int64_t try_attention(harness *h, harness_random *r) {
  itg_attention_task *t = &h->task.attention;
  h->task.op = ITG_OP_Q_ATTENTION;
  t->block = random_between(r, 1, random_chance(r, 2) ? 1 : 11);
  t->groups = random_between(r, 1, 3);
  t->heads = t->groups * random_between(r, 1, 3);
  t->dim = random_chance(r, 6) ? random_between(r, 1, 40) : 16 * random_between(r, 1, random_chance(r, 4) ? 16 : 5);
  t->context = t->block + random_between(r, 0, random_chance(r, 6) ? 400 : 70);
  t->q_type = random_chance(r, 6) ? ITG_TASK_U8 : ITG_TASK_U16;
  t->k_type = random_chance(r, 6) ? ITG_TASK_U16 : ITG_TASK_U8;
  t->v_type = random_chance(r, 6) ? ITG_TASK_U16 : ITG_TASK_U8;
  t->out_type = random_chance(r, 4) ? ITG_TASK_U8 : ITG_TASK_U16;
  t->q_zero = random_chance(r, 2) ? (code_limit(t->q_type) + 1) / 2 : random_zero(r, t->q_type);
  t->k_zero = random_chance(r, 2) ? (code_limit(t->k_type) + 1) / 2 : random_zero(r, t->k_type);
  t->v_zero = random_zero(r, t->v_type);
  t->out_zero = random_zero(r, t->out_type);
  t->score_zero = random_zero(r, ITG_TASK_U16);
  random_range(r, t->out_type, &t->low, &t->high);
  const int64_t score_bound = t->dim * code_limit(t->q_type) * code_limit(t->k_type);
  const int64_t value_bound = (65536 + t->context / 2 + 1) * code_limit(t->v_type);
  t->score_pre_shift = itg_pre_shift_for_bound((uint64_t)score_bound);
  t->score_wide = t->score_pre_shift > 0;
  t->pre_shift = itg_pre_shift_for_bound((uint64_t)value_bound);
  t->wide = t->pre_shift > 0;
  int bits = 0;
  while (score_bound >> bits > 4) bits++;
  random_factor(r, 31 + (bits > 18 ? bits - 16 : 2), 1, false, &t->score_multiplier, &t->score_shift);
  t->score_shift += t->score_pre_shift - (t->score_wide ? t->score_pre_shift : 0);
  random_factor(r, t->out_type == ITG_TASK_U8 ? 47 : 39, 1, false, &t->multiplier, &t->shift);
  if (t->score_shift <= t->score_pre_shift) t->score_shift = t->score_pre_shift + 1;
  if (t->shift <= t->pre_shift) t->shift = t->pre_shift + 1;
  t->k_factor = (int32_t)random_between(r, INT64_C(1) << 30, INT32_MAX);
  t->k_shift = (int32_t)(random_chance(r, 6) ? random_between(r, 1, 62) : random_between(r, 22, 34));
  const size_t rows = (size_t)t->block, cached = (size_t)(t->groups * t->context * t->dim);
  harness_input(h, r, rows * (size_t)(t->heads * t->dim), t->q_type, t->q_zero);
  harness_input(h, r, rows * (size_t)(t->groups * t->dim), t->k_type, t->k_zero);
  harness_input(h, r, rows * (size_t)(t->groups * t->dim), t->v_type, t->v_zero);
  harness_input(h, r, cached, t->k_type, t->k_zero);
  harness_input(h, r, cached, t->v_type, t->v_zero);
  int32_t *position = harness_input(h, r, 1, ITG_TASK_S32, 0);
  *position = (int32_t)random_between(r, 0, t->context - t->block);
  harness_output(h, rows * (size_t)(t->heads * t->dim), t->out_type);
  harness_changes(h, ITG_ATTENTION_K_CACHE);
  harness_changes(h, ITG_ATTENTION_V_CACHE);
  harness_check(h, r);
  return t->block * t->heads;
}

TRY_MANY(test_matmul, try_matmul, "matrix product", 100000)
TRY_MANY(test_softmax, try_softmax, "softmax", 100000)
TRY_MANY(test_norm, try_norm, "norms", 60000)
TRY_MANY(test_rope, try_rope, "rotary embedding", 60000)
TRY_MANY(test_attention, try_attention, "attention", 30000)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matmul), cmocka_unit_test(test_softmax),
                                     cmocka_unit_test(test_norm), cmocka_unit_test(test_rope),
                                     cmocka_unit_test(test_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
