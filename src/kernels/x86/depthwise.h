// Depth-wise convolution, one output channel an input channel (template; included by depthwise_<isa>.c).
//
// Method: channels lie in the lanes. u8: four taps are interleaved so that one v_dot_bytes adds them for a vector of channels;
// u16: two taps, centred, for v_dot_words. A 3x3 window of stride 1 or 2 interleaves each input column (three taps) once for
// the up to three output pixels that read it. A tap in the padding points at a block of zero points.
#ifndef ITG_KERNELS_X86_DEPTHWISE_H
#define ITG_KERNELS_X86_DEPTHWISE_H

#include "graph/graph.h"
#include "kernels/x86/rescale.h"

enum {
  BYTE_CHANNELS = 4 * LANES, // Channels of a block: one vector of codes.
  WORD_CHANNELS = 2 * LANES,
  DEPTHWISE_HEADER = 64,
  STRIP = 4, // Output pixels of a 3x3 tile.
};

// Packed: header, a block of zero points (VECTOR_BYTES), then for each block its parameters and [group of taps][vector]
// weights. Groups of a 3x3 window are its columns.
typedef struct {
  int64_t way;
} depthwise_header;

typedef struct {
  size_t taps, groups, blocks, block_channels, block_bytes;
  int vectors;
  bool words, columns;
} depthwise_shape;

static inline depthwise_shape depthwise_shape_of(const itg_conv_task *t) {
  depthwise_shape s = {.words = t->in_type == ITG_TASK_U16};
  s.taps = (size_t)t->kernel_h * (size_t)t->kernel_w;
  s.columns = !s.words && t->kernel_h == 3 && t->kernel_w == 3 && t->dilation_w == 1 && t->stride_w <= 2;
  s.groups = s.columns ? 3 : s.words ? (s.taps + 1) / 2 : (s.taps + 3) / 4;
  s.vectors = s.words ? 2 : 4;
  s.block_channels = s.words ? WORD_CHANNELS : BYTE_CHANNELS;
  s.blocks = ((size_t)t->in_c + s.block_channels - 1) / s.block_channels;
  s.block_bytes = (size_t)s.vectors * (PARAMETER_BYTES + s.groups * (s.words ? VECTOR_BYTES : DOT_BYTES));
  return s;
}

static bool depthwise_supports(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
#ifdef DEPTHWISE_MOST_CHANNELS
  if (t->in_c > DEPTHWISE_MOST_CHANNELS) return false;
#endif
  return t->group == t->in_c && t->out_c == t->in_c && !t->wide &&
         (t->in_type == ITG_TASK_U8 || t->in_type == ITG_TASK_U16) &&
         (t->out_type == ITG_TASK_U8 || t->out_type == ITG_TASK_U16);
}

static size_t depthwise_packed_size(const itg_task *task) {
  const depthwise_shape s = depthwise_shape_of(&task->conv);
  return DEPTHWISE_HEADER + VECTOR_BYTES + s.blocks * s.block_bytes;
}

// The tap at place `place` of group `group`, or SIZE_MAX for a place that stays zero.
static inline size_t tap_of(const depthwise_shape *s, size_t group, size_t place) {
  if (s->columns) return place < 3 ? place * 3 + group : SIZE_MAX;
  const size_t tap = group * (s->words ? 2 : 4) + place;
  return tap < s->taps ? tap : SIZE_MAX;
}

static void depthwise_pack(const itg_task *task, void *packed) {
  const itg_conv_task *t = &task->conv;
  const depthwise_shape s = depthwise_shape_of(t);
  const rescale_way way = rescale_way_of(t);
  __builtin_memset(packed, 0, depthwise_packed_size(task));
  ((depthwise_header *)packed)->way = way;
  uint8_t *zeros = (uint8_t *)packed + DEPTHWISE_HEADER;
  v_store(zeros, s.words ? v_set16(t->in_zero) : v_set8(t->in_zero));
  uint8_t *block = zeros + VECTOR_BYTES;
  const int64_t zero = s.words ? (int64_t)t->in_zero - 32768 : t->in_zero;
  const size_t step_bytes = s.words ? VECTOR_BYTES : DOT_BYTES, places = s.words ? 2 : 4;
  for (size_t b = 0; b < s.blocks; b++, block += s.block_bytes) {
    uint8_t *weights = block + (size_t)s.vectors * PARAMETER_BYTES;
    for (size_t v = 0; v < (size_t)s.vectors; v++) {
      int32_t *parameters = (int32_t *)(void *)(block + v * PARAMETER_BYTES);
      for (size_t lane = 0; lane < LANES; lane++) {
        const size_t o = b * s.block_channels + lane_channel((size_t)s.vectors, v, lane);
        if (o >= (size_t)t->out_c) {
          pack_parameters(parameters, lane, t, SIZE_MAX, 0, way);
          continue;
        }
        const int64_t w = (int64_t)(o * s.taps);
        int64_t sum = 0;
        for (size_t i = 0; i < s.taps; i++) sum += itg_conv_weight(t, w + (int64_t)i);
        pack_parameters(parameters, lane, t, o, t->bias[o] - zero * sum, way);
        for (size_t g = 0; g < s.groups; g++) {
          uint8_t *step = weights + (g * (size_t)s.vectors + v) * step_bytes;
          for (size_t place = 0; place < places; place++) {
            const size_t tap = tap_of(&s, g, place);
            if (tap == SIZE_MAX) continue;
            const int32_t code = itg_conv_weight(t, w + (int64_t)tap);
            if (s.words) {
              ((int16_t *)(void *)step)[2 * lane + place] = (int16_t)code;
            } else {
              pack_tap(step, lane, place, (int8_t)code);
            }
          }
        }
      }
    }
  }
}

// One pointer a tap, only for the windows that are not 3x3.
static size_t depthwise_scratch_size(const itg_task *task) {
  const depthwise_shape s = depthwise_shape_of(&task->conv);
  return s.columns ? 0 : s.groups * 4 * sizeof(const uint8_t *);
}

static size_t depthwise_units(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  return (size_t)t->batch * (size_t)t->out_h * depthwise_shape_of(t).blocks;
}

// Four rows of codes of 4*LANES channels -> four vectors whose lanes hold the four taps of a channel.
VECTOR_INLINE void interleave4(vector a, vector b, vector c, vector d, bytes4 *out) {
  const vector ab_low = v_unpack_low8(a, b), ab_high = v_unpack_high8(a, b);
  const vector cd_low = v_unpack_low8(c, d), cd_high = v_unpack_high8(c, d);
  out[0] = v_prepare_bytes(v_unpack_low16(ab_low, cd_low));
  out[1] = v_prepare_bytes(v_unpack_high16(ab_low, cd_low));
  out[2] = v_prepare_bytes(v_unpack_low16(ab_high, cd_high));
  out[3] = v_prepare_bytes(v_unpack_high16(ab_high, cd_high));
}

VECTOR_INLINE const int32_t *block_parameters(const uint8_t *block, int v) {
  return (const int32_t *)(const void *)(block + v * PARAMETER_BYTES);
}

// `pixels` outputs of a 3x3 window: `columns[3*i + ky]` is the code of row ky in column i of (pixels - 1)*stride + 3.
VECTOR_INLINE void columns_tile(const uint8_t *const *columns, const uint8_t *block, const int pixels, const int stride,
                                const ending *e, uint8_t *out, size_t out_stride, size_t channels) {
  vector acc[STRIP * 4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) {
    const vector bias = parameter(block_parameters(block, v), PARAMETER_BIAS);
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++) acc[p * 4 + v] = bias;
  }
  const uint8_t *weights = block + 4 * PARAMETER_BYTES;
#pragma GCC unroll 9
  for (int i = 0; i < (pixels - 1) * stride + 3; i++) {
    bytes4 x[4];
    interleave4(v_load(columns[3 * i]), v_load(columns[3 * i + 1]), v_load(columns[3 * i + 2]), v_zero(), x);
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++) {
      const int kx = i - p * stride;
      if (kx < 0 || kx > 2) continue;
#pragma GCC unroll 4
      for (int v = 0; v < 4; v++)
        acc[p * 4 + v] = v_dot_bytes(acc[p * 4 + v], x[v], weights + (kx * 4 + v) * DOT_BYTES);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) rescale_vector(acc + v, pixels, 4, block_parameters(block, v), e);
#pragma GCC unroll 4
  for (int p = 0; p < pixels; p++) store_block(acc + p * 4, 4, e, out + (size_t)p * out_stride, channels);
}

typedef void (*strip_function)(const uint8_t *const *, const uint8_t *, const ending *, uint8_t *, size_t, size_t);
#define STRIP_FUNCTION(pixels, stride)                                                                        \
  static void strip_##pixels##_##stride(const uint8_t *const *columns, const uint8_t *block, const ending *e, \
                                        uint8_t *out, size_t out_stride, size_t channels) {                   \
    columns_tile(columns, block, pixels, stride, e, out, out_stride, channels);                               \
  }
STRIP_FUNCTION(1, 1)
STRIP_FUNCTION(2, 1)
STRIP_FUNCTION(3, 1)
STRIP_FUNCTION(4, 1)
STRIP_FUNCTION(2, 2)
STRIP_FUNCTION(3, 2)
STRIP_FUNCTION(4, 2)
#undef STRIP_FUNCTION
static const strip_function strips[2][STRIP] = {{strip_1_1, strip_2_1, strip_3_1, strip_4_1},
                                                {strip_1_1, strip_2_2, strip_3_2, strip_4_2}};

// One output row of one block of channels. `lines[ky]`: the input row's first code of the block, NULL in the padding.
static void run_columns(const itg_conv_task *t, const uint8_t *const *lines, const uint8_t *zeros, const uint8_t *block,
                        const ending *e, uint8_t *out, size_t out_stride, size_t channels) {
  enum { MOST_COLUMNS = (STRIP - 1) * 2 + 3 };
  const uint8_t *columns[3 * MOST_COLUMNS];
  const size_t pixel = (size_t)t->in_c;
  for (int32_t ox = 0; ox < t->out_w;) {
    const int32_t rest = t->out_w - ox;
    // The last pixels are shared out: 5 are 3 and 2, not 4 and 1.
    const int32_t pixels = rest > 2 * STRIP || rest == STRIP ? STRIP : rest > STRIP ? (rest + 1) / 2 : rest;
    const int32_t count = (pixels - 1) * t->stride_w + 3, first = ox * t->stride_w - t->pad_left;
    for (int32_t i = 0; i < count; i++) {
      const bool inside = first + i >= 0 && first + i < t->in_w;
      for (int ky = 0; ky < 3; ky++)
        columns[3 * i + ky] = inside && lines[ky] ? lines[ky] + (size_t)(first + i) * pixel : zeros;
    }
    strips[t->stride_w - 1][pixels - 1](columns, block, e, out + (size_t)ox * out_stride, out_stride, channels);
    ox += pixels;
  }
}

// One output pixel of any window; `taps` holds a pointer for every place of every group.
static void run_taps_bytes(const depthwise_shape *s, const uint8_t *const *taps, const uint8_t *block, const ending *e,
                           uint8_t *out, size_t channels) {
  vector acc[4];
  for (int v = 0; v < 4; v++) acc[v] = parameter(block_parameters(block, v), PARAMETER_BIAS);
  const uint8_t *weights = block + 4 * PARAMETER_BYTES;
  for (size_t g = 0; g < s->groups; g++, taps += 4, weights += 4 * DOT_BYTES) {
    bytes4 x[4];
    interleave4(v_load(taps[0]), v_load(taps[1]), v_load(taps[2]), v_load(taps[3]), x);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) acc[v] = v_dot_bytes(acc[v], x[v], weights + v * DOT_BYTES);
  }
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) rescale_vector(acc + v, 1, 4, block_parameters(block, v), e);
  store_block(acc, 4, e, out, channels);
}

static void run_taps_words(const depthwise_shape *s, const uint8_t *const *taps, const uint8_t *block, const ending *e,
                           uint8_t *out, size_t channels) {
  vector acc[2];
  for (int v = 0; v < 2; v++) acc[v] = parameter(block_parameters(block, v), PARAMETER_BIAS);
  const uint8_t *weights = block + 2 * PARAMETER_BYTES;
  const vector half = v_set16(-32768);
  for (size_t g = 0; g < s->groups; g++, taps += 2, weights += 2 * VECTOR_BYTES) {
    const vector a = v_xor(v_load(taps[0]), half), b = v_xor(v_load(taps[1]), half);
    acc[0] = v_dot_words(acc[0], v_unpack_low16(a, b), weights);
    acc[1] = v_dot_words(acc[1], v_unpack_high16(a, b), weights + VECTOR_BYTES);
  }
#pragma GCC unroll 2
  for (int v = 0; v < 2; v++) rescale_vector(acc + v, 1, 2, block_parameters(block, v), e);
  store_block(acc, 2, e, out, channels);
}

// One output row of one block of channels, any window.
static void run_taps(const itg_conv_task *t, const depthwise_shape *s, const uint8_t *in, int64_t top,
                     const uint8_t *zeros, const uint8_t *block, const ending *e, uint8_t *out, size_t out_stride,
                     size_t channels, const uint8_t **taps) {
  const size_t pixel = (size_t)t->in_c * (s->words ? 2 : 1), places = s->groups * (s->words ? 2 : 4);
  for (size_t i = s->taps; i < places; i++) taps[i] = zeros;
  for (int32_t ox = 0; ox < t->out_w; ox++) {
    const int64_t left = (int64_t)ox * t->stride_w - t->pad_left;
    size_t i = 0;
    for (int32_t ky = 0; ky < t->kernel_h; ky++) {
      const int64_t y = top + (int64_t)ky * t->dilation_h;
      const bool line = y >= 0 && y < t->in_h;
      for (int32_t kx = 0; kx < t->kernel_w; kx++) {
        const int64_t x = left + (int64_t)kx * t->dilation_w;
        taps[i++] = line && x >= 0 && x < t->in_w ? in + (size_t)(y * t->in_w + x) * pixel : zeros;
      }
    }
    if (s->words) {
      run_taps_words(s, taps, block, e, out + (size_t)ox * out_stride, channels);
    } else {
      run_taps_bytes(s, taps, block, e, out + (size_t)ox * out_stride, channels);
    }
  }
}

static void depthwise_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_conv_task *t = &task->conv;
  const depthwise_shape s = depthwise_shape_of(t);
  const size_t in_size = s.words ? 2 : 1, out_size = t->out_type == ITG_TASK_U16 ? 2 : 1;
  const uint8_t *packed = call->packed, *zeros = packed + DEPTHWISE_HEADER;
  const ending e = ending_of(t, (rescale_way)((const depthwise_header *)call->packed)->way);
  const size_t image = (size_t)t->in_h * (size_t)t->in_w * (size_t)t->in_c * in_size;
  const size_t line = (size_t)t->in_w * (size_t)t->in_c * in_size, out_stride = (size_t)t->out_c * out_size;
  for (size_t unit = begin; unit < end; unit++) {
    const size_t b = unit % s.blocks, row = unit / s.blocks;
    const size_t n = row / (size_t)t->out_h, oy = row % (size_t)t->out_h, first = b * s.block_channels;
    const size_t rest = (size_t)t->out_c - first, channels = rest < s.block_channels ? rest : s.block_channels;
    const uint8_t *in = (const uint8_t *)call->inputs[0] + n * image + first * in_size;
    const uint8_t *block = zeros + VECTOR_BYTES + b * s.block_bytes;
    uint8_t *out = (uint8_t *)call->outputs[0] + row * (size_t)t->out_w * out_stride + first * out_size;
    const int64_t top = (int64_t)oy * t->stride_h - t->pad_top;
    if (s.columns) {
      const uint8_t *lines[3];
      for (int ky = 0; ky < 3; ky++) {
        const int64_t y = top + (int64_t)ky * t->dilation_h;
        lines[ky] = y >= 0 && y < t->in_h ? in + (size_t)y * line : NULL;
      }
      run_columns(t, lines, zeros, block, &e, out, out_stride, channels);
    } else {
      run_taps(t, &s, in, top, zeros, block, &e, out, out_stride, channels, call->scratch);
    }
  }
}

#define DEPTHWISE_KERNEL(symbol)                                     \
  const itg_kernel symbol = {.name = #symbol,                        \
                             .op = ITG_OP_Q_CONV,                    \
                             .isa = KERNEL_ISA,                      \
                             .supports = depthwise_supports,         \
                             .packed_size = depthwise_packed_size,   \
                             .pack = depthwise_pack,                 \
                             .scratch_size = depthwise_scratch_size, \
                             .units = depthwise_units,               \
                             .run = depthwise_run}

#endif
