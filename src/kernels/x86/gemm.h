// Convolution and fully connected layers as a matrix product of gathered rows with packed weights (template; included by
// conv_<isa>.c after its vector header).
//
// Method: output pixels are rows, output channels columns; a register tile of rows x vectors of channels accumulates
// u8 x s8 in steps of four (v_dot_bytes) or (u16 - 32768) x s8 in steps of two (v_dot_words). The input's zero point is in the
// packed bias: acc = (b - z*sum(w)) + sum(w*x). Rows of a plain 1x1 convolution are read where they are; others are
// gathered into scratch with the padding filled in. Weights of the steps past K are zero, so what is read there (less than
// ITG_KERNEL_SLACK) does not matter.
#ifndef ITG_KERNELS_X86_GEMM_H
#define ITG_KERNELS_X86_GEMM_H

#include "graph/graph.h"
#include "kernels/x86/pack.h"

enum {
  ROW_BLOCK = 24,    // Rows of one unit.
  COPY_CHUNK = 32,   // Gathering copies in whole chunks.
  HEADER_BYTES = 64, // Packed: header, then for each group its blocks.
};

typedef struct {
  int64_t way;
} packed_header;

typedef struct {
  size_t k; // Elements of a row.
  size_t group_rows, out_group, groups;
  size_t blocks;      // of output channels in a group
  size_t group_bytes; // packed bytes of a group
  size_t row_bytes;   // of a gathered row
  bool words, direct, transposed;
} gemm_shape;

static inline gemm_shape shape_of(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  gemm_shape s = {.words = t->in_type == ITG_TASK_U16,
                  .transposed = task->op == ITG_OP_Q_CONV_TRANSPOSE,
                  .groups = (size_t)t->group};
  const size_t in_group = (size_t)(t->in_c / t->group);
  s.k = (size_t)t->kernel_h * (size_t)t->kernel_w * in_group;
  s.out_group = (size_t)(t->out_c / t->group);
  s.group_rows = (size_t)t->batch * (size_t)t->out_h * (size_t)t->out_w;
  for (size_t c = 0; c < s.out_group;) {
    const size_t vectors = block_vectors(s.out_group - c);
    s.group_bytes += block_bytes(vectors, s.k, s.words);
    s.blocks++;
    c += vectors * LANES;
  }
  s.row_bytes = (s.k * element_bytes(t->in_type) + COPY_CHUNK - 1) / COPY_CHUNK * COPY_CHUNK;
  // Every row lies in the input as it is: one tap, never outside.
  s.direct = !s.transposed && t->kernel_h == 1 && t->kernel_w == 1 && t->pad_top == 0 && t->pad_left == 0 &&
             (int64_t)(t->out_h - 1) * t->stride_h < t->in_h && (int64_t)(t->out_w - 1) * t->stride_w < t->in_w;
  return s;
}

static size_t gemm_packed_size(const itg_task *task) {
  const gemm_shape s = shape_of(task);
  return HEADER_BYTES + s.groups * s.group_bytes;
}

static size_t gemm_scratch_size(const itg_task *task) {
  const gemm_shape s = shape_of(task);
  const size_t gathered = s.direct ? 0 : ROW_BLOCK * s.row_bytes + COPY_CHUNK + ITG_KERNEL_SLACK;
  return gathered;
}

static void gemm_pack(const itg_task *task, void *packed) {
  const itg_conv_task *t = &task->conv;
  const gemm_shape s = shape_of(task);
  const rescale_way way = rescale_way_of(t);
  __builtin_memset(packed, 0, HEADER_BYTES);
  ((packed_header *)packed)->way = way;
  uint8_t *out = (uint8_t *)packed + HEADER_BYTES;
  for (size_t g = 0; g < s.groups; g++) {
    for (size_t c = 0; c < s.out_group;) {
      const size_t vectors = block_vectors(s.out_group - c);
      const size_t count = s.out_group - c < vectors * LANES ? s.out_group - c : vectors * LANES;
      pack_block(t, 0, s.k, s.k, g * s.out_group + c, count, vectors, way, out);
      out += block_bytes(vectors, s.k, s.words);
      c += vectors * LANES;
    }
  }
}

static inline size_t row_blocks_of(const gemm_shape *s) { return (s->group_rows + ROW_BLOCK - 1) / ROW_BLOCK; }

// Few rows: the blocks of channels are split as well, so that threads find enough units.
static inline size_t splits_of(const gemm_shape *s) {
  const size_t row_units = row_blocks_of(s) * s->groups;
  const size_t wanted = row_units >= 16 ? 1 : (16 + row_units - 1) / row_units;
  return wanted < s->blocks ? wanted : s->blocks;
}

static size_t gemm_units(const itg_task *task) {
  const gemm_shape s = shape_of(task);
  return s.groups * row_blocks_of(&s) * splits_of(&s);
}

// Copies whole chunks; what lies behind `bytes` is overwritten by the next copy or never read with a weight.
VECTOR_INLINE void copy_chunks(uint8_t *to, const uint8_t *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += COPY_CHUNK)
    _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_loadu_si256((const __m256i *)(const void *)(from + i)));
}

VECTOR_INLINE void fill_chunks(uint8_t *to, __m256i value, size_t bytes) {
  for (size_t i = 0; i < bytes; i += COPY_CHUNK) _mm256_storeu_si256((__m256i *)(void *)(to + i), value);
}

// Transposed convolution: a tap reads the input only where its position is a multiple of the stride; elsewhere it adds nothing.
static void gather_transposed(const itg_conv_task *t, const gemm_shape *s, const uint8_t *in, size_t first,
                              size_t count, uint8_t *out) {
  const size_t tap_bytes = (size_t)t->in_c * element_bytes(t->in_type);
  const __m256i zero = s->words ? _mm256_set1_epi16((short)t->in_zero) : _mm256_set1_epi8((char)t->in_zero);
  for (size_t r = 0; r < count; r++) {
    uint8_t *to = out + r * s->row_bytes;
    const size_t ox = (first + r) % (size_t)t->out_w, line = (first + r) / (size_t)t->out_w;
    const size_t oy = line % (size_t)t->out_h, n = line / (size_t)t->out_h;
    for (int32_t ky = 0; ky < t->kernel_h; ky++) {
      const int64_t y = (int64_t)oy + t->pad_top - (int64_t)ky * t->dilation_h;
      const bool row = y >= 0 && y % t->stride_h == 0 && y / t->stride_h < t->in_h;
      for (int32_t kx = 0; kx < t->kernel_w; kx++, to += tap_bytes) {
        const int64_t x = (int64_t)ox + t->pad_left - (int64_t)kx * t->dilation_w;
        if (row && x >= 0 && x % t->stride_w == 0 && x / t->stride_w < t->in_w) {
          const size_t pixel =
              (n * (size_t)t->in_h + (size_t)(y / t->stride_h)) * (size_t)t->in_w + (size_t)(x / t->stride_w);
          copy_chunks(to, in + pixel * tap_bytes, tap_bytes);
        } else {
          fill_chunks(to, zero, tap_bytes);
        }
      }
    }
  }
}

// Windows that lie inside the picture: output columns [first, last) of output rows whose window rows are all there.
typedef struct {
  int64_t first, last;
} interior;

static inline interior interior_columns(const itg_conv_task *t) {
  const int64_t room = (int64_t)t->in_w - t->kernel_w + t->pad_left;
  interior i = {(t->pad_left + t->stride_w - 1) / t->stride_w, room < 0 ? 0 : room / t->stride_w + 1};
  if (i.last > t->out_w) i.last = t->out_w;
  return i;
}

// `count` windows side by side, every one inside; `from` is the first one's corner.
static void gather_inside(const itg_conv_task *t, const gemm_shape *s, const uint8_t *from, size_t count,
                          uint8_t *out) {
  const size_t pixel_bytes = (size_t)t->in_c * element_bytes(t->in_type);
  const size_t line_bytes = (size_t)t->in_w * pixel_bytes * (size_t)t->dilation_h;
  const size_t row_bytes = (size_t)t->kernel_w * pixel_bytes, step = (size_t)t->stride_w * pixel_bytes;
  for (size_t r = 0; r < count; r++, from += step, out += s->row_bytes) {
    const uint8_t *line = from;
    uint8_t *to = out;
    for (int32_t ky = 0; ky < t->kernel_h; ky++, line += line_bytes, to += row_bytes) copy_chunks(to, line, row_bytes);
  }
}

// One window tap by tap, with padding.
static void gather_window(const itg_conv_task *t, const gemm_shape *s, const uint8_t *in, int64_t y0, int64_t x0,
                          __m256i zero, uint8_t *to) {
  const size_t size = element_bytes(t->in_type), tap_bytes = (size_t)(t->in_c / t->group) * size;
  const size_t pixel_bytes = (size_t)t->in_c * size, row_bytes = (size_t)t->kernel_w * tap_bytes;
  const bool dense = s->groups == 1 && t->dilation_w == 1 && x0 >= 0 && x0 + t->kernel_w <= t->in_w;
  for (int32_t ky = 0; ky < t->kernel_h; ky++) {
    const int64_t y = y0 + (int64_t)ky * t->dilation_h;
    if (y < 0 || y >= t->in_h) {
      fill_chunks(to, zero, row_bytes);
      to += row_bytes;
      continue;
    }
    const uint8_t *line = in + (size_t)y * (size_t)t->in_w * pixel_bytes;
    if (dense) { // The taps of a kernel row are one piece.
      copy_chunks(to, line + (size_t)x0 * pixel_bytes, row_bytes);
      to += row_bytes;
      continue;
    }
    for (int32_t kx = 0; kx < t->kernel_w; kx++, to += tap_bytes) {
      const int64_t x = x0 + (int64_t)kx * t->dilation_w;
      if (x < 0 || x >= t->in_w) {
        fill_chunks(to, zero, tap_bytes);
      } else {
        copy_chunks(to, line + (size_t)x * pixel_bytes, tap_bytes);
      }
    }
  }
}

// The taps of `count` output pixels from `first`, one row each.
static void gather_rows(const itg_conv_task *t, const gemm_shape *s, const uint8_t *in, size_t group, size_t first,
                        size_t count, uint8_t *out) {
  const size_t size = element_bytes(t->in_type), pixel_bytes = (size_t)t->in_c * size;
  const __m256i zero = s->words ? _mm256_set1_epi16((short)t->in_zero) : _mm256_set1_epi8((char)t->in_zero);
  const interior columns = interior_columns(t);
  const int64_t reach = (int64_t)(t->kernel_h - 1) * t->dilation_h + 1;
  for (size_t r = 0; r < count;) {
    const int64_t ox = (int64_t)((first + r) % (size_t)t->out_w);
    const size_t line = (first + r) / (size_t)t->out_w, n = line / (size_t)t->out_h;
    const int64_t y0 = (int64_t)(line % (size_t)t->out_h) * t->stride_h - t->pad_top,
                  x0 = ox * t->stride_w - t->pad_left;
    const uint8_t *image =
        in + n * (size_t)t->in_h * (size_t)t->in_w * pixel_bytes + group * (size_t)(t->in_c / t->group) * size;
    if (s->groups == 1 && t->dilation_w == 1 && ox >= columns.first && ox < columns.last && y0 >= 0 &&
        y0 + reach <= t->in_h) {
      const size_t rest = (size_t)(columns.last - ox), run = count - r < rest ? count - r : rest;
      gather_inside(t, s, image + (size_t)(y0 * t->in_w + x0) * pixel_bytes, run, out + r * s->row_bytes);
      r += run;
      continue;
    }
    gather_window(t, s, image, y0, x0, zero, out + r * s->row_bytes);
    r++;
  }
}

// Rows of a 1x1 convolution, where they are in the input.
static void point_at_rows(const itg_conv_task *t, const uint8_t *in, size_t group, size_t first, size_t count,
                          const uint8_t **rows) {
  const size_t pixel = (size_t)t->in_c * element_bytes(t->in_type);
  const size_t width = (size_t)t->out_w, height = (size_t)t->out_h;
  in += group * (size_t)(t->in_c / t->group) * element_bytes(t->in_type);
  if (t->stride_h == 1 && t->stride_w == 1 && t->out_h == t->in_h && t->out_w == t->in_w) {
    for (size_t r = 0; r < count; r++) rows[r] = in + (first + r) * pixel;
    return;
  }
  size_t x = first % width, line = first / width;
  for (size_t r = 0; r < count; r++) {
    const size_t y = line / height * (size_t)t->in_h + line % height * (size_t)t->stride_h;
    rows[r] = in + (y * (size_t)t->in_w + x * (size_t)t->stride_w) * pixel;
    if (++x == width) {
      x = 0;
      line++;
    }
  }
}

static void gemm_run(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end) {
  const itg_conv_task *c = &task->conv;
  const gemm_shape s = shape_of(task);
  const size_t row_blocks = row_blocks_of(&s), splits = splits_of(&s);
  const size_t out_size = element_bytes(c->out_type);
  const uint8_t *in = call->inputs[0];
  uint8_t *out = call->outputs[0];
  const wide_rescale wide = {.multiplier = c->multiplier,
                             .shift = c->shift,
                             .negative_multiplier = c->negative_multiplier,
                             .negative_shift = c->negative_shift,
                             .step = 1,
                             .pre_shift = c->pre_shift};
  tile t = {.steps = steps_of(s.k, s.words),
            .out_stride = (size_t)c->out_c * out_size,
            .words = s.words,
            .wide = c->wide ? &wide : NULL,
            .end = ending_of(c, (rescale_way)((const packed_header *)call->packed)->way)};
  const uint8_t *rows[ROW_BLOCK];
  size_t prepared = SIZE_MAX; // The (group, row block) that `rows` holds.
  for (size_t unit = begin; unit < end; unit++) {
    const size_t split = unit % splits, position = unit / splits;
    const size_t group = position / row_blocks, block = position % row_blocks;
    const size_t first = block * s.group_rows / row_blocks, last = (block + 1) * s.group_rows / row_blocks;
    if (position != prepared) {
      prepared = position;
      if (s.transposed) {
        gather_transposed(c, &s, in, first, last - first, call->scratch);
      } else if (!s.direct) {
        gather_rows(c, &s, in, group, first, last - first, call->scratch);
      }
      if (s.direct) {
        point_at_rows(c, in, group, first, last - first, rows);
      } else {
        for (size_t r = 0; r < last - first; r++) rows[r] = (const uint8_t *)call->scratch + r * s.row_bytes;
      }
    }
    const uint8_t *packed = (const uint8_t *)call->packed + HEADER_BYTES + group * s.group_bytes;
    const size_t first_block = split * s.blocks / splits, last_block = (split + 1) * s.blocks / splits;
    for (size_t b = 0, channel = 0; b < last_block; b++) {
      const size_t vectors = block_vectors(s.out_group - channel);
      const size_t width = vectors * LANES;
      if (b >= first_block) {
        t.block = packed;
        t.channels = s.out_group - channel < width ? s.out_group - channel : width;
        const size_t first_channel = group * s.out_group + channel;
        run_rows(&t, vectors, first_channel, rows, out + (first * (size_t)c->out_c + first_channel) * out_size,
                 last - first);
      }
      packed += block_bytes(vectors, s.k, s.words);
      channel += width;
    }
  }
}

static bool gemm_supports(const itg_task *task) {
  const itg_conv_task *t = &task->conv;
  return (t->in_type == ITG_TASK_U8 || t->in_type == ITG_TASK_U16) &&
         (t->out_type == ITG_TASK_U8 || t->out_type == ITG_TASK_U16) &&
         (task->op != ITG_OP_Q_CONV_TRANSPOSE || t->group == 1);
}

#define GEMM_KERNEL(symbol, operation)                          \
  const itg_kernel symbol = {.name = #symbol,                   \
                             .op = operation,                   \
                             .isa = KERNEL_ISA,                 \
                             .supports = gemm_supports,         \
                             .packed_size = gemm_packed_size,   \
                             .pack = gemm_pack,                 \
                             .scratch_size = gemm_scratch_size, \
                             .units = gemm_units,               \
                             .run = gemm_run}

#endif
