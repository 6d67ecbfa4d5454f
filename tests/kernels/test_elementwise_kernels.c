// Element-wise kernels against the reference: convert, PReLU, add, affine, add with affine, mul, div, min, max, tables.
#include "kernels/kernel_harness.h"

static int32_t random_type(harness_random *r) { return random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8; }

// Rows and channels, around the vector lengths; now and then several chunks of work.
static void random_shape(harness_random *r, int64_t *rows, int64_t *channels) {
  *channels = random_chance(r, 2) ? random_between(r, 1, 70) : random_between(r, 1, 260);
  *rows = random_between(r, 1, 12);
  if (random_chance(r, 20)) *rows = random_between(r, 60, 400);
}

static int64_t try_convert(harness *h, harness_random *r) {
  itg_convert_task *t = &h->task.convert;
  const bool prelu = random_chance(r, 2);
  h->task.op = prelu ? ITG_OP_Q_PRELU : ITG_OP_Q_CONVERT;
  random_shape(r, &t->rows, &t->channels);
  t->in_type = random_type(r);
  t->out_type = random_type(r);
  t->in_zero = random_zero(r, t->in_type);
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  const int32_t usual = 31 + (t->in_type == t->out_type ? 0 : t->in_type == ITG_TASK_U16 ? 8 : -8);
  random_factor(r, usual, 1, false, &t->multiplier, &t->shift);
  if (prelu) {
    t->per_channel = random_chance(r, 2);
    const size_t sides = t->per_channel ? (size_t)t->channels : 1;
    int32_t *multiplier = harness_constant(h, sides * 4, 4), *shift = harness_constant(h, sides * 4, 4);
    for (size_t c = 0; c < sides; c++) random_factor(r, usual + 2, 1, true, &multiplier[c], &shift[c]);
    t->negative_multiplier = multiplier;
    t->negative_shift = shift;
  }
  const size_t count = (size_t)(t->rows * t->channels);
  harness_input(h, r, count, t->in_type, t->in_zero);
  harness_output(h, count, t->out_type);
  harness_check(h, r);
  return t->rows;
}

// A and B by docs/ARITHMETIC.md 3: below 2^21 and s <= 31 for u8, below 2^30 for u16.
static void random_sum(harness_random *r, bool narrow, int32_t *a, int32_t *b, int32_t *shift) {
  const int top = narrow ? 21 : 30;
  const int64_t limit = (INT64_C(1) << top) - 1;
  const int64_t big = random_chance(r, 4) ? limit : random_between(r, limit / 2, limit);
  const int64_t small = random_chance(r, 4) ? big : random_between(r, 0, big);
  const bool swap = random_chance(r, 2);
  *a = (int32_t)(swap ? small : big);
  *b = (int32_t)(swap ? big : small);
  if (random_chance(r, 4)) *b = -*b;
  *shift = (int32_t)random_between(r, top - 2, top + 3);
  if (random_chance(r, 8)) *shift = (int32_t)random_between(r, 1, narrow ? 31 : 46);
}

static int64_t try_add(harness *h, harness_random *r) {
  itg_binary_task *t = &h->task.binary;
  h->task.op = ITG_OP_Q_ADD;
  int64_t rows, channels;
  random_shape(r, &rows, &channels);
  t->rank = 2;
  t->dims[0] = rows;
  t->dims[1] = channels;
  t->a_stride[0] = t->b_stride[0] = channels;
  t->a_stride[1] = t->b_stride[1] = 1;
  t->same_count = rows * channels;
  t->out_type = random_type(r);
  t->a_type = random_chance(r, 4) ? random_type(r) : t->out_type;
  t->b_type = random_chance(r, 4) ? random_type(r) : t->out_type;
  t->a_zero = random_zero(r, t->a_type);
  t->b_zero = random_zero(r, t->b_type);
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  const bool narrow = t->a_type == ITG_TASK_U8 && t->b_type == ITG_TASK_U8;
  random_sum(r, narrow, &t->a, &t->b, &t->shift);
  const bool broadcast = random_chance(r, 4); // b is one row
  if (broadcast) {
    t->same_count = 0;
    t->b_stride[0] = 0;
  }
  harness_input(h, r, (size_t)(rows * channels), t->a_type, t->a_zero);
  harness_input(h, r, (size_t)((broadcast ? 1 : rows) * channels), t->b_type, t->b_zero);
  harness_output(h, (size_t)(rows * channels), t->out_type);
  harness_check(h, r);
  return rows;
}

// Broadcasting of every kind: each dimension of each operand is there or 1.
static int64_t try_binary(harness *h, harness_random *r) {
  static const int32_t operations[] = {ITG_OP_Q_MUL, ITG_OP_Q_MUL, ITG_OP_Q_DIV, ITG_OP_MIN, ITG_OP_MAX};
  itg_binary_task *t = &h->task.binary;
  h->task.op = operations[random_between(r, 0, 4)];
  t->rank = (int32_t)random_between(r, 1, 4);
  size_t a_count = 1, b_count = 1, count = 1;
  const bool same = random_chance(r, 3);
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    t->dims[d] = d == t->rank - 1 ? random_between(r, 1, 140) : random_between(r, 1, 7);
    const bool a = same || !random_chance(r, 4), b = same || !random_chance(r, 3);
    t->a_stride[d] = a ? (int64_t)a_count : 0;
    t->b_stride[d] = b ? (int64_t)b_count : 0;
    if (a) a_count *= (size_t)t->dims[d];
    if (b) b_count *= (size_t)t->dims[d];
    count *= (size_t)t->dims[d];
  }
  t->same_count = a_count == count && b_count == count ? (int64_t)count : 0;
  t->out_type = random_type(r);
  const bool compares = h->task.op == ITG_OP_MIN || h->task.op == ITG_OP_MAX;
  t->a_type = compares ? t->out_type : random_type(r);
  t->b_type = compares ? t->out_type : random_type(r);
  t->a_zero = random_zero(r, t->a_type);
  t->b_zero = compares ? t->a_zero : random_zero(r, t->b_type);
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  const uint64_t bound = (uint64_t)code_limit(t->a_type) * (uint64_t)code_limit(t->b_type);
  t->pre_shift = h->task.op == ITG_OP_Q_MUL ? itg_pre_shift_for_bound(bound) : 0;
  const int32_t usual = 31 + (t->a_type == ITG_TASK_U16 ? 8 : 0) + (t->b_type == ITG_TASK_U16 ? 8 : 0);
  random_factor(r, usual, 1 + t->pre_shift, false, &t->multiplier, &t->shift);
  t->divisor_sign = random_chance(r, 2) ? 1 : -1;
  if (h->task.op == ITG_OP_Q_DIV && t->shift > 44) t->shift = (int32_t)random_between(r, 20, 44);
  harness_input(h, r, a_count, t->a_type, t->a_zero);
  harness_input(h, r, b_count, t->b_type, t->b_zero);
  harness_output(h, count, t->out_type);
  harness_check(h, r);
  return (int64_t)count / t->dims[t->rank - 1];
}

// |B| + 2^47 + 2^(s-1) < 2^63.
static void random_affine(harness_random *r, size_t count, int32_t *scale, int64_t *offset, int32_t *shift) {
  if (random_chance(r, 2)) { // As real layers have it: a stream's BatchNorm, small offsets.
    for (size_t c = 0; c < count; c++) {
      scale[c] = (int32_t)random_between(r, -(1 << 30), (1 << 30) - 1);
      shift[c] = (int32_t)random_between(r, 30, 38);
      offset[c] = random_between(r, -(INT64_C(1) << 43), INT64_C(1) << 43);
    }
    return;
  }
  for (size_t c = 0; c < count; c++) {
    scale[c] = (int32_t)random_between(r, -INT32_MAX, INT32_MAX);
    shift[c] = (int32_t)(random_chance(r, 3) ? random_between(r, 1, 62) : random_between(r, 28, 42));
    const int64_t most = INT64_MAX - (INT64_C(1) << 47) - (INT64_C(1) << (shift[c] - 1));
    const int64_t usual = shift[c] < 45 ? INT64_C(1) << (shift[c] + 16) : most;
    offset[c] = random_chance(r, 10) ? (random_chance(r, 2) ? most : -most) : random_between(r, -usual, usual - 1);
  }
}

static int64_t try_affine(harness *h, harness_random *r) {
  itg_affine_task *t = &h->task.affine;
  h->task.op = ITG_OP_Q_AFFINE;
  random_shape(r, &t->rows, &t->channels);
  t->in_type = random_type(r);
  t->out_type = random_type(r);
  t->in_zero = random_zero(r, t->in_type);
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  t->per_channel = !random_chance(r, 4);
  const size_t entries = t->per_channel ? (size_t)t->channels : 1;
  int32_t *scale = harness_constant(h, entries * 4, 4), *shift = harness_constant(h, entries * 4, 4);
  int64_t *offset = harness_constant(h, entries * 8, 8);
  random_affine(r, entries, scale, offset, shift);
  t->scale = scale;
  t->offset = offset;
  t->scale_shift = shift;
  const size_t count = (size_t)(t->rows * t->channels);
  harness_input(h, r, count, t->in_type, t->in_zero);
  harness_output(h, count, t->out_type);
  harness_check(h, r);
  return t->rows;
}

static int64_t try_add_affine(harness *h, harness_random *r) {
  itg_add_affine_task *t = &h->task.add_affine;
  h->task.op = ITG_OP_Q_ADD_AFFINE;
  random_shape(r, &t->rows, &t->channels);
  t->out_type = random_type(r);
  t->out2_type = random_type(r);
  t->a_type = random_chance(r, 4) ? random_type(r) : t->out_type;
  t->b_type = random_chance(r, 4) ? random_type(r) : t->out_type;
  t->a_zero = random_zero(r, t->a_type);
  t->b_zero = random_zero(r, t->b_type);
  t->out_zero = random_zero(r, t->out_type);
  t->out2_zero = random_zero(r, t->out2_type);
  random_range(r, t->out_type, &t->low, &t->high);
  random_range(r, t->out2_type, &t->low2, &t->high2);
  if (random_chance(r, 2)) { // A residual stream.
    t->a_type = t->b_type = t->out_type = ITG_TASK_U16;
    t->a_zero = (int32_t)random_between(r, 30000, 35000);
    t->b_zero = (int32_t)random_between(r, 30000, 35000);
    t->out_zero = random_zero(r, t->out_type);
    random_range(r, t->out_type, &t->low, &t->high);
  }
  const bool narrow = t->a_type == ITG_TASK_U8 && t->b_type == ITG_TASK_U8;
  random_sum(r, narrow, &t->a, &t->b, &t->shift);
  const size_t entries = (size_t)t->channels, count = (size_t)(t->rows * t->channels);
  int32_t *scale = harness_constant(h, entries * 4, 4), *shift = harness_constant(h, entries * 4, 4);
  int64_t *offset = harness_constant(h, entries * 8, 8);
  random_affine(r, entries, scale, offset, shift);
  t->scale = scale;
  t->offset = offset;
  t->scale_shift = shift;
  harness_input(h, r, count, t->a_type, t->a_zero);
  harness_input(h, r, count, t->b_type, t->b_zero);
  harness_output(h, count, t->out_type);
  harness_output(h, count, t->out2_type);
  harness_check(h, r);
  return t->rows;
}

static int64_t try_table(harness *h, harness_random *r) {
  itg_table_task *t = &h->task.table;
  h->task.op = ITG_OP_Q_TABLE;
  t->count = random_between(r, 1, random_chance(r, 10) ? 20000 : 300);
  t->in_type = random_type(r);
  t->out_type = random_type(r);
  random_range(r, t->out_type, &t->low, &t->high);
  if (t->in_type == ITG_TASK_U8) {
    const size_t bytes = 256 * (size_t)code_bytes(t->out_type);
    void *table = harness_constant(h, bytes, (size_t)code_bytes(t->out_type));
    random_fill(r, table, bytes);
    t->table = table;
  } else {
    t->node_bits = (int32_t)random_between(r, 0, 7);
    const size_t nodes = ((size_t)65536 >> t->node_bits) + 1;
    int32_t *table = harness_constant(h, nodes * 4, 4);
    // Q4 of the output, but also the ends of what the format allows: +-2^(30-n).
    const int64_t most = random_chance(r, 4) ? INT64_C(1) << (30 - t->node_bits) : 1 << 20;
    for (size_t i = 0; i < nodes; i++) table[i] = (int32_t)random_between(r, -most, most);
    t->table = table;
  }
  harness_input(h, r, (size_t)t->count, t->in_type, 0);
  harness_output(h, (size_t)t->count, t->out_type);
  harness_check(h, r);
  return t->count;
}

TRY_MANY(test_convert, try_convert, "convert, PReLU", 100000)
TRY_MANY(test_add, try_add, "add", 100000)
TRY_MANY(test_binary, try_binary, "mul, div, min, max", 100000)
TRY_MANY(test_affine, try_affine, "affine", 100000)
TRY_MANY(test_add_affine, try_add_affine, "add with affine", 100000)
TRY_MANY(test_table, try_table, "table", 1000000)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_convert), cmocka_unit_test(test_add),        cmocka_unit_test(test_binary),
      cmocka_unit_test(test_affine),  cmocka_unit_test(test_add_affine), cmocka_unit_test(test_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
