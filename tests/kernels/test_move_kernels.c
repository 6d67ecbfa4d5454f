// Pools, strided copies and resizes against the reference.
#include "kernels/kernel_harness.h"

static int64_t try_pool(harness *h, harness_random *r) {
  itg_pool_task *t = &h->task.pool;
  const bool average = random_chance(r, 2);
  h->task.op = average ? ITG_OP_Q_AVERAGE_POOL : ITG_OP_MAX_POOL;
  t->batch = random_chance(r, 5) ? 2 : 1;
  t->kernel_h = (int32_t)random_between(r, 1, 5);
  t->kernel_w = (int32_t)random_between(r, 1, 5);
  t->stride_h = (int32_t)random_between(r, 1, 3);
  t->stride_w = (int32_t)random_between(r, 1, 3);
  t->dilation_h = random_chance(r, 5) ? 2 : 1;
  t->dilation_w = random_chance(r, 5) ? 2 : 1;
  t->pad_top = (int32_t)random_between(r, 0, t->kernel_h - 1);
  t->pad_left = (int32_t)random_between(r, 0, t->kernel_w - 1);
  t->out_h = (int32_t)random_between(r, 1, 6);
  t->out_w = (int32_t)random_between(r, 1, 9);
  const int32_t reach_h = (t->kernel_h - 1) * t->dilation_h + 1, reach_w = (t->kernel_w - 1) * t->dilation_w + 1;
  const int32_t bottom = (int32_t)random_between(r, 0, t->kernel_h - 1);
  const int32_t right = (int32_t)random_between(r, 0, t->kernel_w - 1);
  t->in_h = (t->out_h - 1) * t->stride_h + reach_h - t->pad_top - bottom;
  t->in_w = (t->out_w - 1) * t->stride_w + reach_w - t->pad_left - right;
  if (t->in_h < 1) t->in_h = 1;
  if (t->in_w < 1) t->in_w = 1;
  t->channels = (int32_t)random_between(r, 1, random_chance(r, 2) ? 70 : 150);
  t->type = random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8;
  t->in_zero = random_zero(r, t->type);
  if (average) {
    t->out_type = random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8;
    t->out_zero = random_zero(r, t->out_type);
    random_range(r, t->out_type, &t->low, &t->high);
    t->count_include_pad = random_chance(r, 2);
    t->count_pad_bottom = t->count_include_pad ? bottom : 0;
    t->count_pad_right = t->count_include_pad ? right : 0;
    t->divisor_count = random_chance(r, 3) ? 1 : t->kernel_h * t->kernel_w;
    const size_t bytes = (size_t)t->divisor_count * 4;
    int32_t *multiplier = harness_constant(h, bytes, 4), *shift = harness_constant(h, bytes, 4);
    const bool exotic = random_chance(r, 3);
    for (int32_t d = 0; d < t->divisor_count; d++) {
      const int32_t usual = 33 + (t->type == t->out_type ? 0 : t->type == ITG_TASK_U16 ? 8 : -8);
      do {
        random_factor(r, usual, 1, exotic, &multiplier[d], &shift[d]);
      } while (!exotic && shift[d] < 33);
    }
    t->multiplier = multiplier;
    t->shift = shift;
  } else {
    t->out_type = t->type;
    t->high = code_limit(t->type);
  }
  harness_input(h, r, (size_t)t->batch * (size_t)t->in_h * (size_t)t->in_w * (size_t)t->channels, t->type, t->in_zero);
  const size_t vectors = (size_t)t->batch * (size_t)t->out_h * (size_t)t->out_w;
  harness_output(h, vectors * (size_t)t->channels, t->out_type);
  harness_check(h, r);
  return (int64_t)vectors;
}

// A dense source read through permuted, cut, mirrored and repeated dimensions.
static int64_t try_copy(harness *h, harness_random *r) {
  static const int32_t operations[] = {ITG_OP_TRANSPOSE, ITG_OP_SLICE,    ITG_OP_EXPAND,         ITG_OP_RESHAPE,
                                       ITG_OP_TILE,      ITG_OP_IDENTITY, ITG_OP_DEPTH_TO_SPACE, ITG_OP_SPACE_TO_DEPTH};
  static const int32_t sizes[] = {1, 1, 1, 2, 2, 4, 8};
  itg_copy_task *t = &h->task.copy;
  h->task.op = operations[random_between(r, 0, 7)];
  t->element_size = sizes[random_between(r, 0, 6)];
  t->rank = (int32_t)random_between(r, 1, 5);
  int64_t source[5], step[5], order[5], count = 1, out = 1;
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    source[d] = random_chance(r, 3) ? random_between(r, 1, 4) : random_between(r, 1, t->rank < 3 ? 150 : 18);
    if (random_chance(r, 6)) source[d] = 3;
    step[d] = count;
    count *= source[d];
    order[d] = d;
  }
  const bool permute = random_chance(r, 2), cut = random_chance(r, 3), mirror = random_chance(r, 6),
             repeat = random_chance(r, 5);
  for (int32_t d = t->rank - 1; d > 0 && permute; d--) {
    const int64_t e = random_between(r, 0, d), swap = order[d];
    order[d] = order[e];
    order[e] = swap;
  }
  for (int32_t d = 0; d < t->rank; d++) {
    const int64_t from = order[d];
    t->dims[d] = source[from];
    t->stride[d] = step[from];
    if (cut) {
      const int64_t first = random_between(r, 0, source[from] - 1);
      t->offset += first * step[from];
      t->dims[d] = random_between(r, 1, source[from] - first);
      if (random_chance(r, 3)) {
        t->stride[d] *= 2;
        t->dims[d] = (t->dims[d] + 1) / 2;
      }
    }
    if (mirror && random_chance(r, 2)) {
      t->offset += (t->dims[d] - 1) * t->stride[d];
      t->stride[d] = -t->stride[d];
    }
    if (repeat && random_chance(r, 2)) {
      t->dims[d] = random_between(r, 1, 5);
      t->stride[d] = 0;
    }
    out *= t->dims[d];
  }
  const size_t bytes = (size_t)(count * t->element_size);
  uint8_t *data = guarded_place(&h->inputs[h->input_count++], bytes, ITG_KERNEL_SLACK, (size_t)t->element_size);
  random_fill(r, data, bytes + ITG_KERNEL_SLACK);
  harness_output(h, (size_t)(out * t->element_size), ITG_TASK_U8);
  harness_check(h, r);
  return out;
}

// Index and weight tables of one dimension.
static void random_axis(harness *h, harness_random *r, int32_t in, int32_t out, bool nearest, const int32_t **index,
                        const int32_t **weight) {
  int32_t *i = harness_constant(h, (size_t)out * 8, 4), *w = harness_constant(h, (size_t)out * 4, 4);
  for (int32_t o = 0; o < out; o++) {
    i[2 * o] = (int32_t)random_between(r, 0, in - 1);
    i[2 * o + 1] = i[2 * o] + 1 < in ? i[2 * o] + 1 : i[2 * o];
    w[o] = nearest ? 0 : (int32_t)(random_chance(r, 6) ? 2048 : random_between(r, 0, 2048));
  }
  *index = i;
  *weight = w;
}

static int64_t try_resize(harness *h, harness_random *r) {
  itg_resize_task *t = &h->task.resize;
  h->task.op = ITG_OP_Q_RESIZE;
  t->batch = random_chance(r, 5) ? 2 : 1;
  t->in_h = (int32_t)random_between(r, 1, 8);
  t->in_w = (int32_t)random_between(r, 1, 8);
  t->out_h = (int32_t)random_between(r, 1, 12);
  t->out_w = (int32_t)random_between(r, 1, 12);
  t->channels = (int32_t)random_between(r, 1, random_chance(r, 2) ? 70 : 150);
  t->type = random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8;
  const bool nearest = random_chance(r, 3);
  random_axis(h, r, t->in_h, t->out_h, nearest, &t->row_index, &t->row_weight);
  random_axis(h, r, t->in_w, t->out_w, nearest, &t->column_index, &t->column_weight);
  harness_input(h, r, (size_t)t->batch * (size_t)t->in_h * (size_t)t->in_w * (size_t)t->channels, t->type, 0);
  const size_t vectors = (size_t)t->batch * (size_t)t->out_h * (size_t)t->out_w;
  harness_output(h, vectors * (size_t)t->channels, t->type);
  harness_check(h, r);
  return (int64_t)vectors;
}

// Sums over any of the dimensions of a dense tensor.
static int64_t try_reduce(harness *h, harness_random *r) {
  itg_reduce_task *t = &h->task.reduce;
  h->task.op = ITG_OP_Q_REDUCE_SUM;
  t->in_type = random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8;
  t->out_type = random_chance(r, 2) ? ITG_TASK_U16 : ITG_TASK_U8;
  t->in_zero = random_zero(r, t->in_type);
  t->out_zero = random_zero(r, t->out_type);
  random_range(r, t->out_type, &t->low, &t->high);
  const int32_t rank = (int32_t)random_between(r, 1, 4);
  int64_t dims[4], step[4], count = 1, kept = 1, reduced = 1;
  for (int32_t d = rank - 1; d >= 0; d--) {
    dims[d] = d == rank - 1 ? random_between(r, 1, 80) : random_between(r, 1, 9);
    step[d] = count;
    count *= dims[d];
  }
  for (int32_t d = 0; d < rank; d++) {
    if (random_chance(r, 2)) {
      t->kept_dims[t->kept_rank] = dims[d];
      t->kept_stride[t->kept_rank++] = step[d];
      kept *= dims[d];
    } else {
      t->reduced_dims[t->reduced_rank] = dims[d];
      t->reduced_stride[t->reduced_rank++] = step[d];
      reduced *= dims[d];
    }
  }
  const int64_t bound = reduced * code_limit(t->in_type);
  t->wide = random_chance(r, 10);
  t->pre_shift = t->wide ? itg_pre_shift_for_bound((uint64_t)bound) : 0;
  int bits = 0;
  while (reduced >> bits > 1) bits++;
  const int32_t usual = 31 + bits + (t->in_type == t->out_type ? 0 : t->in_type == ITG_TASK_U16 ? 8 : -8);
  random_factor(r, usual, 1 + t->pre_shift, true, &t->multiplier, &t->shift);
  harness_input(h, r, (size_t)count, t->in_type, t->in_zero);
  harness_output(h, (size_t)kept, t->out_type);
  harness_check(h, r);
  return kept;
}

TRY_MANY(test_reduce, try_reduce, "sums over dimensions", 200000)
TRY_MANY(test_pool, try_pool, "max and average pool", 60000)
TRY_MANY(test_copy, try_copy, "copies", 10000000)
TRY_MANY(test_resize, try_resize, "resize", 60000)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pool), cmocka_unit_test(test_copy),
                                     cmocka_unit_test(test_resize), cmocka_unit_test(test_reduce)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
