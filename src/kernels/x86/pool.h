// Max and average pools over channels in lanes (template; included by pool_<isa>.c). Units are output rows.
#ifndef ITG_KERNELS_X86_POOL_H
#define ITG_KERNELS_X86_POOL_H

#include "graph/graph.h"
#include "kernels/x86/rescale.h"

enum { POOL_HEADER = 64, MOST_DIVISORS = 256, MOST_TAPS = 32768 };

typedef struct {
  int64_t fast;
} pool_header;

static size_t pool_units(const itg_task *task) { return (size_t)task->pool.batch * (size_t)task->pool.out_h; }

// The taps [first, last) of a window that lie inside `size` positions.
typedef struct {
  int32_t first, last;
} tap_range;

static inline tap_range taps_inside(int64_t start, int32_t kernel, int32_t dilation, int64_t size) {
  tap_range r = {0, kernel};
  while (r.first < kernel && start + (int64_t)r.first * dilation < 0) r.first++;
  while (r.last > r.first && start + (int64_t)(r.last - 1) * dilation >= size) r.last--;
  return r;
}

// How many taps count in the divisor in one dimension (declared padding counts when asked).
static inline int32_t taps_counted(int64_t start, int32_t kernel, int32_t dilation, int64_t low, int64_t high) {
  int32_t count = 0;
  for (int32_t k = 0; k < kernel; k++) {
    const int64_t position = start + (int64_t)k * dilation;
    count += position >= low && position < high;
  }
  return count;
}

// The window of one output pixel: its first tap inside the picture, and how many follow.
typedef struct {
  const uint8_t *first;
  int32_t rows, columns;
  size_t row_step, column_step; // Bytes between taps.
} window;

static inline window window_at(const itg_pool_task *t, const uint8_t *in, size_t size, int64_t n, int64_t y0,
                               int64_t x0) {
  const tap_range y = taps_inside(y0, t->kernel_h, t->dilation_h, t->in_h);
  const tap_range x = taps_inside(x0, t->kernel_w, t->dilation_w, t->in_w);
  const size_t pixel = (size_t)t->channels * size;
  window w = {.rows = y.last - y.first,
              .columns = x.last - x.first,
              .row_step = (size_t)t->dilation_h * (size_t)t->in_w * pixel,
              .column_step = (size_t)t->dilation_w * pixel};
  if (w.rows <= 0 || w.columns <= 0) {
    w.rows = 0;
    w.first = in;
    return w;
  }
  const int64_t top = y0 + (int64_t)y.first * t->dilation_h, left = x0 + (int64_t)x.first * t->dilation_w;
  w.first = in + (size_t)((n * t->in_h + top) * t->in_w + left) * pixel;
  return w;
}

static bool max_pool_supports(const itg_task *task) {
  const itg_pool_task *t = &task->pool;
  return t->type == t->out_type && (t->type == ITG_TASK_U8 || t->type == ITG_TASK_U16);
}

static void max_pool_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_pool_task *t = &task->pool;
  const bool words = t->type == ITG_TASK_U16;
  const size_t size = words ? 2 : 1, bytes = (size_t)t->channels * size;
  for (size_t row = begin; row < end; row++) {
    const int64_t n = (int64_t)row / t->out_h, y0 = (int64_t)row % t->out_h * t->stride_h - t->pad_top;
    uint8_t *out = (uint8_t *)call->outputs[0] + row * (size_t)t->out_w * bytes;
    for (int32_t ox = 0; ox < t->out_w; ox++, out += bytes) {
      const window w = window_at(t, call->inputs[0], size, n, y0, (int64_t)ox * t->stride_w - t->pad_left);
      for (size_t c = 0; c < bytes; c += VECTOR_BYTES) {
        vector best = v_zero(); // The lowest code: padding never wins.
        for (int32_t ky = 0; ky < w.rows; ky++) {
          const uint8_t *tap = w.first + (size_t)ky * w.row_step + c;
          for (int32_t kx = 0; kx < w.columns; kx++, tap += w.column_step)
            best = words ? v_max_u16(best, v_load(tap)) : v_max_u8(best, v_load(tap));
        }
        v_store_bytes(out + c, best, bytes - c < VECTOR_BYTES ? bytes - c : VECTOR_BYTES);
      }
    }
  }
}

static bool average_pool_supports(const itg_task *task) {
  const itg_pool_task *t = &task->pool;
  return (t->type == ITG_TASK_U8 || t->type == ITG_TASK_U16) &&
         (t->out_type == ITG_TASK_U8 || t->out_type == ITG_TASK_U16) && t->divisor_count <= MOST_DIVISORS &&
         (int64_t)t->kernel_h * t->kernel_w <= MOST_TAPS;
}

// Packed: header, then the parameters of every divisor, the same in all lanes.
static size_t average_pool_packed_size(const itg_task *task) {
  return POOL_HEADER + (size_t)task->pool.divisor_count * PARAMETER_BYTES;
}

static void average_pool_pack(const itg_task *task, void *packed) {
  const itg_pool_task *t = &task->pool;
  bool fast = true;
  for (int32_t d = 0; d < t->divisor_count; d++) fast &= fits_folded(t->multiplier[d], t->shift[d], t->out_zero);
  __builtin_memset(packed, 0, average_pool_packed_size(task));
  ((pool_header *)packed)->fast = fast;
  int32_t *p = (int32_t *)(void *)((uint8_t *)packed + POOL_HEADER);
  for (int32_t d = 0; d < t->divisor_count; d++, p += PARAMETER_COUNT * LANES) {
    for (size_t lane = 0; lane < LANES; lane++) {
      pack_side(p + PARAMETER_MULTIPLIER * LANES, lane, t->multiplier[d], t->shift[d], t->out_zero,
                fast ? FOLDED : GENERAL);
      pack_side(p + PARAMETER_NEGATIVE * LANES, lane, 0, 33, t->out_zero, fast ? FOLDED : GENERAL);
    }
  }
}

static void average_pool_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_pool_task *t = &task->pool;
  const bool words = t->type == ITG_TASK_U16, out_words = t->out_type == ITG_TASK_U16;
  const size_t size = words ? 2 : 1, out_size = out_words ? 2 : 1;
  const ending e = {.zero = t->out_zero, .way = ((const pool_header *)call->packed)->fast ? FOLDED : GENERAL};
  const int32_t *parameters = (const int32_t *)(const void *)((const uint8_t *)call->packed + POOL_HEADER);
  const vector low = v_set32(t->low), high = v_set32(t->high);
  const int64_t top = t->count_include_pad ? -(int64_t)t->pad_top : 0;
  const int64_t left = t->count_include_pad ? -(int64_t)t->pad_left : 0;
  const int64_t bottom = t->in_h + (t->count_include_pad ? t->count_pad_bottom : 0);
  const int64_t right = t->in_w + (t->count_include_pad ? t->count_pad_right : 0);
  for (size_t row = begin; row < end; row++) {
    const int64_t n = (int64_t)row / t->out_h, y0 = (int64_t)row % t->out_h * t->stride_h - t->pad_top;
    for (int32_t ox = 0; ox < t->out_w; ox++) {
      const int64_t x0 = (int64_t)ox * t->stride_w - t->pad_left;
      const window w = window_at(t, call->inputs[0], size, n, y0, x0);
      int32_t divisor = taps_counted(y0, t->kernel_h, t->dilation_h, top, bottom) *
                        taps_counted(x0, t->kernel_w, t->dilation_w, left, right);
      if (divisor < 1) divisor = 1;
      const int32_t *p = parameters + (t->divisor_count == 1 ? 0 : divisor - 1) * PARAMETER_COUNT * LANES;
      // Modulo 2^32; the sum of code - zero fits.
      const vector start = v_set32((int32_t)(0u - (uint32_t)t->in_zero * (uint32_t)(w.rows * w.columns)));
      uint8_t *out =
          (uint8_t *)call->outputs[0] + (row * (size_t)t->out_w + (size_t)ox) * (size_t)t->channels * out_size;
      for (size_t c = 0; c < (size_t)t->channels; c += LANES) {
        vector sum = start;
        for (int32_t ky = 0; ky < w.rows; ky++) {
          const uint8_t *tap = w.first + (size_t)ky * w.row_step + c * size;
          for (int32_t kx = 0; kx < w.columns; kx++, tap += w.column_step)
            sum = v_add32(sum, words ? v_widen_u16(tap) : v_widen_u8(tap));
        }
        rescale_vector(&sum, 1, 1, p, &e);
        sum = v_min32(v_max32(sum, low), high);
        const size_t rest = (size_t)t->channels - c, count = rest < LANES ? rest : LANES;
        if (out_words) {
          v_store_lanes_u16(out + 2 * c, sum, count);
        } else {
          v_store_lanes_u8(out + c, sum, count);
        }
      }
    }
  }
}

#define POOL_KERNELS(isa_name)                                                              \
  const itg_kernel itg_max_pool__##isa_name = {.name = "itg_max_pool__" #isa_name,          \
                                               .op = ITG_OP_MAX_POOL,                       \
                                               .isa = KERNEL_ISA,                           \
                                               .supports = max_pool_supports,               \
                                               .units = pool_units,                         \
                                               .run = max_pool_run};                        \
  const itg_kernel itg_average_pool__##isa_name = {.name = "itg_average_pool__" #isa_name,  \
                                                   .op = ITG_OP_Q_AVERAGE_POOL,             \
                                                   .isa = KERNEL_ISA,                       \
                                                   .supports = average_pool_supports,       \
                                                   .packed_size = average_pool_packed_size, \
                                                   .pack = average_pool_pack,               \
                                                   .units = pool_units,                     \
                                                   .run = average_pool_run}

#endif
