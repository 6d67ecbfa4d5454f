// Transposed convolution whose windows do not overlap (stride = kernel, no padding): the usual up-sampling layer (template;
// included by conv_<isa>.c after gemm.h).
//
// Every output pixel has exactly one tap, so each tap is a 1x1 convolution of the input that writes every stride-th pixel.
// Units are (tap, input line).
#ifndef ITG_KERNELS_X86_UPSAMPLE_H
#define ITG_KERNELS_X86_UPSAMPLE_H

#include "kernels/x86/gemm.h"

typedef struct {
  int64_t way;
} upsample_header;

static bool upsample_supports(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  return gemm_supports(task) && t->stride_h == t->kernel_h && t->stride_w == t->kernel_w && t->pad_top == 0 &&
         t->pad_left == 0 && t->dilation_h == 1 && t->dilation_w == 1 && t->out_h == t->in_h * t->stride_h &&
         t->out_w == t->in_w * t->stride_w;
}

// Bytes of one tap's blocks.
static size_t upsample_tap_bytes(const itg_conv_task *t) {
  size_t bytes = 0;
  for (size_t c = 0; c < (size_t)t->out_c;) {
    const size_t vectors = block_vectors((size_t)t->out_c - c);
    bytes += block_bytes(vectors, (size_t)t->in_c, t->in_type == ITG_TASK_U16);
    c += vectors * LANES;
  }
  return bytes;
}

static size_t upsample_packed_size(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  return HEADER_BYTES + (size_t)t->kernel_h * (size_t)t->kernel_w * upsample_tap_bytes(t);
}

static void upsample_pack(const itg_task *task, void *packed) {
  const itg_conv_task *t = &task->conv;
  const size_t taps = (size_t)t->kernel_h * (size_t)t->kernel_w, k = (size_t)t->in_c, out_c = (size_t)t->out_c;
  const rescale_way way = rescale_way_of(t);
  __builtin_memset(packed, 0, HEADER_BYTES);
  ((upsample_header *)packed)->way = way;
  uint8_t *out = (uint8_t *)packed + HEADER_BYTES;
  for (size_t tap = 0; tap < taps; tap++) {
    for (size_t c = 0; c < out_c;) {
      const size_t vectors = block_vectors(out_c - c),
                   count = out_c - c < vectors * LANES ? out_c - c : vectors * LANES;
      pack_block(t, tap * k, taps * k, k, c, count, vectors, way, out);
      out += block_bytes(vectors, k, t->in_type == ITG_TASK_U16);
      c += vectors * LANES;
    }
  }
}

static size_t upsample_units(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  return (size_t)t->kernel_h * (size_t)t->kernel_w * (size_t)t->batch * (size_t)t->in_h;
}

static void upsample_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_conv_task *c = &task->conv;
  const bool words = c->in_type == ITG_TASK_U16;
  const size_t lines = (size_t)c->batch * (size_t)c->in_h, width = (size_t)c->in_w, k = (size_t)c->in_c;
  const size_t in_size = element_bytes(c->in_type), pixel = (size_t)c->out_c * element_bytes(c->out_type);
  const wide_rescale wide = {.multiplier = c->multiplier,
                             .shift = c->shift,
                             .negative_multiplier = c->negative_multiplier,
                             .negative_shift = c->negative_shift,
                             .step = 1,
                             .pre_shift = c->pre_shift};
  tile t = {.steps = steps_of(k, words),
            .out_stride = (size_t)c->stride_w * pixel,
            .words = words,
            .wide = c->wide ? &wide : NULL,
            .end = ending_of(c, (rescale_way)((const upsample_header *)call->packed)->way)};
  for (size_t unit = begin; unit < end; unit++) {
    const size_t tap = unit / lines, line = unit % lines;
    const size_t ky = tap / (size_t)c->kernel_w, kx = tap % (size_t)c->kernel_w;
    const uint8_t *in = (const uint8_t *)call->inputs[0] + line * width * k * in_size;
    // out_h = in_h * stride_h, so lines of all images follow each other.
    uint8_t *out = (uint8_t *)call->outputs[0] + ((line * (size_t)c->stride_h + ky) * (size_t)c->out_w + kx) * pixel;
    const uint8_t *block = (const uint8_t *)call->packed + HEADER_BYTES + tap * upsample_tap_bytes(c);
    for (size_t channel = 0; channel < (size_t)c->out_c;) {
      const size_t rest = (size_t)c->out_c - channel, vectors = block_vectors(rest);
      t.block = block;
      t.channels = rest < vectors * LANES ? rest : vectors * LANES;
      for (size_t x = 0; x < width; x += ROW_BLOCK) {
        const uint8_t *rows[ROW_BLOCK];
        const size_t count = width - x < ROW_BLOCK ? width - x : ROW_BLOCK;
        for (size_t r = 0; r < count; r++) rows[r] = in + (x + r) * k * in_size;
        run_rows(&t, vectors, channel, rows, out + x * t.out_stride + channel * element_bytes(c->out_type), count);
      }
      block += block_bytes(vectors, k, words);
      channel += vectors * LANES;
    }
  }
}

#define UPSAMPLE_KERNEL(symbol)                                   \
  const itg_kernel symbol = {.name = #symbol,                     \
                             .op = ITG_OP_Q_CONV_TRANSPOSE,       \
                             .isa = KERNEL_ISA,                   \
                             .supports = upsample_supports,       \
                             .packed_size = upsample_packed_size, \
                             .pack = upsample_pack,               \
                             .units = upsample_units,             \
                             .run = upsample_run}

#endif
