// Convolution, transposed convolution and fully connected layers (docs/ARITHMETIC.md 1-3), exactly as written there.
#include "graph/attributes.h"
#include "graph/op.h"
#include "kernels/reference/access.h"

static int32_t finish(const itg_conv_task *t, int64_t acc, int32_t o) {
  const int negative = t->negative_multiplier && acc < 0;
  const int32_t multiplier = negative ? t->negative_multiplier[o] : t->multiplier[o];
  const int32_t shift = negative ? t->negative_shift[o] : t->shift[o];
  return t->wide ? itg_requantize64(acc, multiplier, shift, t->pre_shift, t->out_zero, t->low, t->high)
                 : itg_requantize(acc, multiplier, shift, t->out_zero, t->low, t->high);
}

// Units are output rows: batch x out_h.
static size_t row_units(const itg_task *task) { return (size_t)task->conv.batch * (size_t)task->conv.out_h; }

static void convolve(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_conv_task *t = &task->conv;
  const int32_t in_group = t->in_c / t->group, out_group = t->out_c / t->group;
  for (size_t row = begin; row < end; row++) {
    const int64_t n = (int64_t)row / t->out_h, oy = (int64_t)row % t->out_h;
    for (int32_t ox = 0; ox < t->out_w; ox++) {
      for (int32_t o = 0; o < t->out_c; o++) {
        int64_t acc = t->bias[o];
        for (int32_t ky = 0; ky < t->kernel_h; ky++) {
          const int64_t y = oy * t->stride_h - t->pad_top + (int64_t)ky * t->dilation_h;
          if (y < 0 || y >= t->in_h) continue;
          for (int32_t kx = 0; kx < t->kernel_w; kx++) {
            const int64_t x = (int64_t)ox * t->stride_w - t->pad_left + (int64_t)kx * t->dilation_w;
            if (x < 0 || x >= t->in_w) continue;
            const int64_t in = ((n * t->in_h + y) * t->in_w + x) * t->in_c + (int64_t)(o / out_group) * in_group;
            const int64_t w = (((int64_t)o * t->kernel_h + ky) * t->kernel_w + kx) * in_group;
            for (int32_t c = 0; c < in_group; c++)
              acc += (int64_t)itg_conv_weight(t, w + c) * (itg_load(call->inputs[0], in + c, t->in_type) - t->in_zero);
          }
        }
        itg_store(call->outputs[0], (((int64_t)row) * t->out_w + ox) * t->out_c + o, t->out_type, finish(t, acc, o));
      }
    }
  }
}

// out(oy) gathers every input row y and tap ky with y*stride - pad + ky*dilation == oy.
static void convolve_transposed(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_conv_task *t = &task->conv;
  const int32_t in_group = t->in_c / t->group, out_group = t->out_c / t->group;
  for (size_t row = begin; row < end; row++) {
    const int64_t n = (int64_t)row / t->out_h, oy = (int64_t)row % t->out_h;
    for (int32_t ox = 0; ox < t->out_w; ox++) {
      for (int32_t o = 0; o < t->out_c; o++) {
        const int32_t group = o / out_group, within = o % out_group;
        int64_t acc = t->bias[o];
        for (int32_t ky = 0; ky < t->kernel_h; ky++) {
          const int64_t sy = oy + t->pad_top - (int64_t)ky * t->dilation_h;
          if (sy < 0 || sy % t->stride_h || sy / t->stride_h >= t->in_h) continue;
          for (int32_t kx = 0; kx < t->kernel_w; kx++) {
            const int64_t sx = ox + t->pad_left - (int64_t)kx * t->dilation_w;
            if (sx < 0 || sx % t->stride_w || sx / t->stride_w >= t->in_w) continue;
            const int64_t in =
                ((n * t->in_h + sy / t->stride_h) * t->in_w + sx / t->stride_w) * t->in_c + (int64_t)group * in_group;
            const int64_t w =
                (((int64_t)within * t->kernel_h + ky) * t->kernel_w + kx) * t->in_c + (int64_t)group * in_group;
            for (int32_t c = 0; c < in_group; c++)
              acc += (int64_t)itg_conv_weight(t, w + c) * (itg_load(call->inputs[0], in + c, t->in_type) - t->in_zero);
          }
        }
        itg_store(call->outputs[0], (((int64_t)row) * t->out_w + ox) * t->out_c + o, t->out_type, finish(t, acc, o));
      }
    }
  }
}

const itg_kernel itg_conv__reference = {
    .name = "itg_conv__reference", .op = ITG_OP_Q_CONV, .units = row_units, .run = convolve};
const itg_kernel itg_fully_connected__reference = {
    .name = "itg_fully_connected__reference", .op = ITG_OP_Q_FULLY_CONNECTED, .units = row_units, .run = convolve};
const itg_kernel itg_conv_transpose__reference = {.name = "itg_conv_transpose__reference",
                                                  .op = ITG_OP_Q_CONV_TRANSPOSE,
                                                  .units = row_units,
                                                  .run = convolve_transposed};
