// Depth-wise convolutions: direct loops in both layouts.
#include <string.h>

#include "interpret/convolution.h"
#include "interpret/epilogue.h"
#include "interpret/geometry.h"

// 16 floats; compilers split it where registers are narrower. Loads need only the alignment of a float.
typedef float lanes __attribute__((vector_size(64), aligned(4)));
enum { LANES = 16, BLOCK = 4 }; // Channels of one pass: 64.

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
  if (!plan->geometry.channels_last) return ITG_OK;
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

// ---- channels last: one output pixel at a time, channels in the lanes ----

typedef struct pixel_taps {
  int64_t begin[3], first[3], end[3]; // Input coordinate of tap 0, and the taps inside of the input.
} pixel_taps;

ITG_VECTORISED static void pixel(const itg_geometry *g, const pixel_taps *taps, const float *x, const float *weight,
                                 float *y) {
  const int64_t channels = g->channels;
  for (int64_t c = 0; c < channels;) {
    const int64_t left = channels - c;
    lanes sums[BLOCK] = {{0}};
    float tail[LANES] = {0};
    const int blocks = left >= LANES * BLOCK ? BLOCK : (left >= LANES ? 1 : 0);
    for (int64_t d = taps->first[0]; d < taps->end[0]; d++) {
      for (int64_t h = taps->first[1]; h < taps->end[1]; h++) {
        const int64_t line = (taps->begin[0] + d * g->dilation[0]) * g->in[1] + taps->begin[1] + h * g->dilation[1];
        for (int64_t w = taps->first[2]; w < taps->end[2]; w++) {
          const float *xs = x + (line * g->in[2] + taps->begin[2] + w * g->dilation[2]) * channels + c;
          const float *ws = weight + ((d * g->kernel[1] + h) * g->kernel[2] + w) * channels + c;
          if (blocks == BLOCK) {
            for (int b = 0; b < BLOCK; b++)
              sums[b] += *(const lanes *)(xs + b * LANES) * *(const lanes *)(ws + b * LANES);
          } else if (blocks == 1) {
            sums[0] += *(const lanes *)xs * *(const lanes *)ws;
          } else {
            for (int64_t i = 0; i < left; i++) tail[i] += xs[i] * ws[i];
          }
        }
      }
    }
    if (blocks == 0) {
      memcpy(y + c, tail, (size_t)left * sizeof *y);
      return;
    }
    for (int b = 0; b < blocks; b++) *(lanes *)(y + c + b * LANES) = sums[b];
    c += blocks * LANES;
  }
}

static void run_channels_last(const itg_call *call, const depthwise_plan *plan, const itg_epilogue *epilogue) {
  const itg_geometry *g = &plan->geometry;
  const float *weight = plan->weight;
  if (!weight) {
    transpose_weight(g, call->inputs[1].data, call->scratch);
    weight = call->scratch;
  }
  for (int64_t n = 0; n < g->batch; n++) {
    const float *x = (const float *)call->inputs[0].data + n * g->in_count * g->channels;
    float *y = (float *)call->outputs[0].data + n * g->out_count * g->channels;
    for (int64_t p = 0; p < g->out_count; p++, y += g->channels) {
      pixel_taps taps;
      int64_t o[3];
      itg_geometry_split(g->out, p, o);
      for (int d = 0; d < 3; d++) {
        taps.begin[d] = o[d] * g->stride[d] - g->pad[d];
        tap_range(taps.begin[d], g->dilation[d], g->kernel[d], g->in[d], &taps.first[d], &taps.end[d]);
      }
      pixel(g, &taps, x, weight, y);
      itg_epilogue_rows(epilogue, y, 1, (size_t)g->channels, (size_t)g->channels, 0);
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

static void row(const itg_geometry *g, const float *x, const float *weight, const int64_t o[3], float *y) {
  memset(y, 0, (size_t)g->out[2] * sizeof *y);
  int64_t begin[2], first[2], end[2];
  for (int d = 0; d < 2; d++) {
    begin[d] = o[d] * g->stride[d] - g->pad[d];
    tap_range(begin[d], g->dilation[d], g->kernel[d], g->in[d], &first[d], &end[d]);
  }
  for (int64_t d = first[0]; d < end[0]; d++) {
    for (int64_t h = first[1]; h < end[1]; h++) {
      const float *line = x + ((begin[0] + d * g->dilation[0]) * g->in[1] + begin[1] + h * g->dilation[1]) * g->in[2];
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

static void run_channels_first(const itg_call *call, const depthwise_plan *plan, const itg_epilogue *epilogue) {
  const itg_geometry *g = &plan->geometry;
  for (int64_t plane = 0; plane < g->batch * g->channels; plane++) {
    const int64_t channel = plane % g->channels;
    const float *x = (const float *)call->inputs[0].data + plane * g->in_count;
    const float *weight = (const float *)call->inputs[1].data + channel * g->taps;
    float *y = (float *)call->outputs[0].data + plane * g->out_count;
    for (int64_t line = 0; line < g->out[0] * g->out[1]; line++)
      row(g, x, weight, (const int64_t[3]){line / g->out[1], line % g->out[1], 0}, y + line * g->out[2]);
    itg_epilogue_plane(epilogue, y, (size_t)g->out_count, (size_t)channel);
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
