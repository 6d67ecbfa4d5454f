// Depth-wise convolutions: direct loops in both layouts.
#include <string.h>

#include "interpret/convolution.h"
#include "interpret/epilogue.h"
#include "interpret/geometry.h"
#include "interpret/strided_copy.h"

// 16 floats; compilers split it where registers are narrower. Loads need only the alignment of a float.
typedef float lanes __attribute__((vector_size(64), aligned(4)));
enum { LANES = 16, SHORT_ROW = 64, PIXELS = 6 }; // Six sums and their operands fit 16 registers of half the width.

typedef struct depthwise_plan {
  itg_geometry geometry;
  const float *weight; // Channels last, constant: [taps][C].
} depthwise_plan;

bool itg_depthwise_applies(const itg_call *call) {
  const itg_conv_attributes *attributes = &call->node->attributes.conv;
  const itg_shape *x = &call->inputs[0].tensor->shape, *y = &call->outputs[0].tensor->shape;
  const bool last = attributes->layout == ITG_LAYOUT_CHANNELS_LAST;
  const int64_t in = x->dims[last ? x->rank - 1 : 1], out = y->dims[last ? y->rank - 1 : 1];
  return attributes->group > 1 && attributes->group == in && in == out;
}

static void transpose_weight(const itg_geometry *g, const float *weight, float *transposed) {
  for (int64_t c = 0; c < g->channels; c++) {
    for (int64_t t = 0; t < g->taps; t++) transposed[t * g->channels + c] = weight[c * g->taps + t];
  }
}

itg_status itg_prepare_depthwise(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_conv_attributes *attributes = &call->node->attributes.conv;
  depthwise_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  plan->geometry = itg_geometry_of(&attributes->window, attributes->layout, &call->inputs[0].tensor->shape,
                                   &call->outputs[0].tensor->shape);
  preparation->prepared = plan;
  const itg_geometry *g = &plan->geometry;
  if (!g->channels_last) {
    if (g->out[2] < SHORT_ROW)
      preparation->scratch = (size_t)((g->in_count + g->out_count + g->taps) * LANES) * sizeof(float);
    return ITG_OK;
  }
  if (!call->inputs[1].data) {
    preparation->scratch = call->inputs[1].count * sizeof(float);
    return ITG_OK;
  }
  float *transposed = itg_arena_array(preparation->arena, call->inputs[1].count, sizeof *transposed);
  ITG_TRY_MEMORY(transposed, diagnostic);
  transpose_weight(&plan->geometry, call->inputs[1].data, transposed);
  plan->weight = transposed;
  return ITG_OK;
}

// Range of taps t for which begin + t*dilation lies in [0, in).
static void tap_range(int64_t begin, int64_t dilation, int64_t kernel, int64_t in, int64_t *first, int64_t *end) {
  *first = begin >= 0 ? 0 : (-begin + dilation - 1) / dilation;
  *end = begin >= in ? 0 : (in - 1 - begin) / dilation + 1;
  if (*end > kernel) *end = kernel;
}

// ---- channels last: a row of outputs at a time, 16 channels in the lanes, up to six pixels side by side ----

// The taps of one output row that are inside of the input in the first two dimensions.
typedef struct row_taps {
  int64_t begin[2], first[2], end[2]; // Input coordinate of tap 0; range of taps.
} row_taps;

// `count` neighbouring pixels whose taps [first, end) of the last dimension are all inside; x and y point to the block of
// channels, x to the pixel under tap 0 of the first output.
static inline __attribute__((always_inline)) void pixels(const itg_geometry *g, const row_taps *taps, int64_t first,
                                                         int64_t end, const float *x, const float *weight, float *y,
                                                         const int count) {
  const int64_t channels = g->channels, step = g->stride[2] * channels, tap_step = g->dilation[2] * channels;
  lanes sums[PIXELS];
  for (int i = 0; i < count; i++) sums[i] = (lanes){0};
  for (int64_t d = taps->first[0]; d < taps->end[0]; d++) {
    for (int64_t h = taps->first[1]; h < taps->end[1]; h++) {
      const int64_t line = (taps->begin[0] + d * g->dilation[0]) * g->in[1] + taps->begin[1] + h * g->dilation[1];
      const float *xs = x + line * g->in[2] * channels + first * tap_step;
      const float *ws = weight + ((d * g->kernel[1] + h) * g->kernel[2] + first) * channels;
      for (int64_t w = first; w < end; w++, xs += tap_step, ws += channels) {
        const lanes factor = *(const lanes *)ws;
        for (int i = 0; i < count; i++) sums[i] += *(const lanes *)(xs + i * step) * factor;
      }
    }
  }
  for (int i = 0; i < count; i++) *(lanes *)(y + i * channels) = sums[i];
}

// Fewer than 16 channels: one pixel, any taps.
static inline void narrow_pixel(const itg_geometry *g, const row_taps *taps, int64_t first, int64_t end, const float *x,
                                const float *weight, float *y) {
  const int64_t channels = g->channels;
  for (int64_t c = 0; c < channels; c++) y[c] = 0;
  for (int64_t d = taps->first[0]; d < taps->end[0]; d++) {
    for (int64_t h = taps->first[1]; h < taps->end[1]; h++) {
      const int64_t line = (taps->begin[0] + d * g->dilation[0]) * g->in[1] + taps->begin[1] + h * g->dilation[1];
      for (int64_t w = first; w < end; w++) {
        const float *xs = x + (line * g->in[2] + w * g->dilation[2]) * channels;
        const float *ws = weight + ((d * g->kernel[1] + h) * g->kernel[2] + w) * channels;
        for (int64_t c = 0; c < channels; c++) y[c] += xs[c] * ws[c];
      }
    }
  }
}

ITG_VECTORISED static void output_row(const itg_geometry *g, const row_taps *taps, const float *x, const float *weight,
                                      float *y) {
  const int64_t channels = g->channels, stride = g->stride[2];
  const int64_t span = (g->kernel[2] - 1) * g->dilation[2];
  // Outputs [low, high) see all their taps.
  int64_t low = (g->pad[2] + stride - 1) / stride;
  int64_t high = g->in[2] - 1 - span + g->pad[2] < 0 ? 0 : (g->in[2] - 1 - span + g->pad[2]) / stride + 1;
  if (high > g->out[2]) high = g->out[2];
  if (low > high) low = high;
  for (int64_t block = 0; block < channels; block += LANES) {
    // The last block overlaps the one before it.
    const int64_t c = channels < LANES ? 0 : (block + LANES > channels ? channels - LANES : block);
    for (int64_t o = 0; o < g->out[2];) {
      const int64_t begin = o * stride - g->pad[2];
      const float *xs = x + begin * channels + c, *ws = weight + c;
      float *ys = y + o * channels + c;
      int64_t first = 0, end = g->kernel[2];
      const bool whole = o >= low && o < high;
      if (!whole) tap_range(begin, g->dilation[2], g->kernel[2], g->in[2], &first, &end);
      if (channels < LANES) {
        narrow_pixel(g, taps, first, end, xs, ws, ys);
        o++;
        continue;
      }
      const int64_t count = whole ? (high - o < PIXELS ? high - o : PIXELS) : 1;
      switch (count) {
      case 6: pixels(g, taps, first, end, xs, ws, ys, 6); break;
      case 5: pixels(g, taps, first, end, xs, ws, ys, 5); break;
      case 4: pixels(g, taps, first, end, xs, ws, ys, 4); break;
      case 3: pixels(g, taps, first, end, xs, ws, ys, 3); break;
      case 2: pixels(g, taps, first, end, xs, ws, ys, 2); break;
      default: pixels(g, taps, first, end, xs, ws, ys, 1); break;
      }
      o += count;
    }
  }
}

static row_taps taps_of_row(const itg_geometry *g, const int64_t o[2]) {
  row_taps taps;
  for (int d = 0; d < 2; d++) {
    taps.begin[d] = o[d] * g->stride[d] - g->pad[d];
    tap_range(taps.begin[d], g->dilation[d], g->kernel[d], g->in[d], &taps.first[d], &taps.end[d]);
  }
  return taps;
}

static void run_channels_last(const itg_call *call, const depthwise_plan *plan, const itg_epilogue *epilogue) {
  const itg_geometry *g = &plan->geometry;
  const float *weight = plan->weight;
  if (!weight) {
    transpose_weight(g, call->inputs[1].data, call->scratch);
    weight = call->scratch;
  }
  const int64_t rows = g->out[0] * g->out[1];
  for (int64_t n = 0; n < g->batch; n++) {
    const float *x = (const float *)call->inputs[0].data + n * g->in_count * g->channels;
    float *y = (float *)call->outputs[0].data + n * g->out_count * g->channels;
    for (int64_t row = 0; row < rows; row++, y += g->out[2] * g->channels) {
      const row_taps taps = taps_of_row(g, (const int64_t[2]){row / g->out[1], row % g->out[1]});
      output_row(g, &taps, x, weight, y);
      itg_epilogue_rows(epilogue, y, (size_t)g->out[2], (size_t)g->channels, (size_t)g->channels);
    }
  }
}

// ---- channels first: one row of outputs at a time, columns in the lanes ----

ITG_VECTORISED static void add_row(float *y, const float *x, int64_t stride, float weight, int64_t count) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; i++) y[i] += weight * x[i];
  } else if (stride == 2) {
    for (int64_t i = 0; i < count; i++) y[i] += weight * x[2 * i];
  } else {
    for (int64_t i = 0; i < count; i++) y[i] += weight * x[i * stride];
  }
}

static void row_first(const itg_geometry *g, const float *x, const float *weight, const int64_t o[2], float *y) {
  memset(y, 0, (size_t)g->out[2] * sizeof *y);
  const row_taps taps = taps_of_row(g, o);
  for (int64_t d = taps.first[0]; d < taps.end[0]; d++) {
    for (int64_t h = taps.first[1]; h < taps.end[1]; h++) {
      const float *line =
          x + ((taps.begin[0] + d * g->dilation[0]) * g->in[1] + taps.begin[1] + h * g->dilation[1]) * g->in[2];
      const float *ws = weight + (d * g->kernel[1] + h) * g->kernel[2];
      for (int64_t w = 0; w < g->kernel[2]; w++) {
        // Outputs whose input column ow*stride + offset is inside.
        const int64_t offset = w * g->dilation[2] - g->pad[2], stride = g->stride[2];
        const int64_t from = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
        int64_t to = offset >= g->in[2] ? 0 : (g->in[2] - 1 - offset) / stride + 1;
        if (to > g->out[2]) to = g->out[2];
        if (from < to) add_row(y + from, line + from * stride + offset, stride, ws[w], to - from);
      }
    }
  }
}

// Short rows do not fill the lanes: 16 channels are transposed to channels last and back. Scratch: 16 channels of the
// input, of the output, and their weights.
static void sixteen_channels(const itg_geometry *g, const float *x, const float *weight, float *scratch, float *y) {
  itg_geometry narrow = *g;
  narrow.channels = LANES;
  float *pixels = scratch, *sums = pixels + g->in_count * LANES, *factors = sums + g->out_count * LANES;
  const itg_view gather = {.rank = 2, .dims = {g->in_count, LANES}, .strides = {1, g->in_count}};
  const itg_view spread = {.rank = 2, .dims = {LANES, g->out_count}, .strides = {1, LANES}};
  itg_view_copy(&gather, sizeof(float), x, pixels);
  transpose_weight(&narrow, weight, factors);
  for (int64_t row = 0; row < g->out[0] * g->out[1]; row++) {
    const row_taps taps = taps_of_row(g, (const int64_t[2]){row / g->out[1], row % g->out[1]});
    output_row(&narrow, &taps, pixels, factors, sums + row * g->out[2] * LANES);
  }
  itg_view_copy(&spread, sizeof(float), sums, y);
}

static void run_channels_first(const itg_call *call, const depthwise_plan *plan, const itg_epilogue *epilogue) {
  const itg_geometry *g = &plan->geometry;
  const float *weight = call->inputs[1].data;
  for (int64_t plane = 0; plane < g->batch * g->channels;) {
    const int64_t channel = plane % g->channels;
    const float *x = (const float *)call->inputs[0].data + plane * g->in_count;
    float *y = (float *)call->outputs[0].data + plane * g->out_count;
    const bool together = g->out[2] < SHORT_ROW && channel + LANES <= g->channels;
    const int64_t count = together ? LANES : 1;
    if (together) {
      sixteen_channels(g, x, weight + channel * g->taps, call->scratch, y);
    } else {
      for (int64_t line = 0; line < g->out[0] * g->out[1]; line++)
        row_first(g, x, weight + channel * g->taps, (const int64_t[2]){line / g->out[1], line % g->out[1]},
                  y + line * g->out[2]);
    }
    for (int64_t i = 0; i < count; i++)
      itg_epilogue_plane(epilogue, y + i * g->out_count, (size_t)g->out_count, (size_t)(channel + i));
    plane += count;
  }
}

void itg_run_depthwise(const itg_call *call) {
  const depthwise_plan *plan = call->prepared;
  const itg_epilogue epilogue = itg_epilogue_of(call);
  if (plan->geometry.channels_last)
    run_channels_last(call, plan, &epilogue);
  else
    run_channels_first(call, plan, &epilogue);
}
