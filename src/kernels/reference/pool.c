// Max and average pools, sums over dimensions (docs/ARITHMETIC.md 3).
#include "graph/attributes.h"
#include "graph/op.h"
#include "kernels/reference/access.h"

static size_t pool_units(const itg_task *task) { return (size_t)task->pool.batch * (size_t)task->pool.out_h; }

// How many taps of one dimension count in the divisor: inside the picture, or inside picture and declared padding.
static int32_t counted_taps(int64_t first, int32_t kernel, int32_t dilation, int64_t low, int64_t high) {
  int32_t count = 0;
  for (int32_t k = 0; k < kernel; k++) {
    const int64_t position = first + (int64_t)k * dilation;
    count += position >= low && position < high;
  }
  return count;
}

static void pool(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_pool_task *t = &task->pool;
  const int is_max = task->op == ITG_OP_MAX_POOL;
  for (size_t row = begin; row < end; row++) {
    const int64_t n = (int64_t)row / t->out_h, y0 = (int64_t)row % t->out_h * t->stride_h - t->pad_top;
    for (int32_t ox = 0; ox < t->out_w; ox++) {
      const int64_t x0 = (int64_t)ox * t->stride_w - t->pad_left;
      const int64_t top = t->count_include_pad ? -(int64_t)t->pad_top : 0;
      const int64_t left = t->count_include_pad ? -(int64_t)t->pad_left : 0;
      const int64_t bottom = t->in_h + (t->count_include_pad ? t->count_pad_bottom : 0);
      const int64_t right = t->in_w + (t->count_include_pad ? t->count_pad_right : 0);
      int32_t divisor = counted_taps(y0, t->kernel_h, t->dilation_h, top, bottom) *
                        counted_taps(x0, t->kernel_w, t->dilation_w, left, right);
      if (divisor < 1) divisor = 1;
      for (int32_t c = 0; c < t->channels; c++) {
        int64_t sum = 0;
        int32_t best = 0; // The lowest code: padding never wins a max.
        for (int32_t ky = 0; ky < t->kernel_h; ky++) {
          const int64_t y = y0 + (int64_t)ky * t->dilation_h;
          if (y < 0 || y >= t->in_h) continue;
          for (int32_t kx = 0; kx < t->kernel_w; kx++) {
            const int64_t x = x0 + (int64_t)kx * t->dilation_w;
            if (x < 0 || x >= t->in_w) continue;
            const int32_t code =
                itg_load(call->inputs[0], ((n * t->in_h + y) * t->in_w + x) * t->channels + c, t->type);
            sum += code - t->in_zero;
            best = code > best ? code : best;
          }
        }
        int32_t code = best;
        if (!is_max) {
          const int32_t entry = t->divisor_count == 1 ? 0 : divisor - 1;
          code = itg_requantize(sum, t->multiplier[entry], t->shift[entry], t->out_zero, t->low, t->high);
        }
        itg_store(call->outputs[0], ((int64_t)row * t->out_w + ox) * t->channels + c, t->out_type, code);
      }
    }
  }
}

static int64_t product(const int64_t *dims, int32_t rank) {
  int64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= dims[i];
  return count;
}

static int64_t offset_of(int64_t index, const int64_t *dims, const int64_t *strides, int32_t rank) {
  int64_t offset = 0;
  for (int32_t i = rank - 1; i >= 0; i--) {
    offset += index % dims[i] * strides[i];
    index /= dims[i];
  }
  return offset;
}

static size_t reduce_units(const itg_task *task) {
  return (size_t)product(task->reduce.kept_dims, task->reduce.kept_rank);
}

static void reduce(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_reduce_task *t = &task->reduce;
  const int64_t reduced = product(t->reduced_dims, t->reduced_rank);
  for (size_t i = begin; i < end; i++) {
    const int64_t base = offset_of((int64_t)i, t->kept_dims, t->kept_stride, t->kept_rank);
    int64_t sum = 0;
    for (int64_t r = 0; r < reduced; r++) {
      const int64_t at = base + offset_of(r, t->reduced_dims, t->reduced_stride, t->reduced_rank);
      sum += itg_load(call->inputs[0], at, t->in_type) - t->in_zero;
    }
    const int32_t code =
        t->wide ? itg_requantize64(sum, t->multiplier, t->shift, t->pre_shift, t->out_zero, t->low, t->high)
                : itg_requantize(sum, t->multiplier, t->shift, t->out_zero, t->low, t->high);
    itg_store(call->outputs[0], (int64_t)i, t->out_type, code);
  }
}

const itg_kernel itg_max_pool__reference = {
    .name = "itg_max_pool__reference", .op = ITG_OP_MAX_POOL, .units = pool_units, .run = pool};
const itg_kernel itg_average_pool__reference = {
    .name = "itg_average_pool__reference", .op = ITG_OP_Q_AVERAGE_POOL, .units = pool_units, .run = pool};
const itg_kernel itg_reduce_sum__reference = {
    .name = "itg_reduce_sum__reference", .op = ITG_OP_Q_REDUCE_SUM, .units = reduce_units, .run = reduce};
