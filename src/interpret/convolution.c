// CONV as products with packed operands (packed_gemm.h).
//
// Channels last: the weights are packed once, [taps*C/group] x [O/group]; a block of output pixels gathers its windows (or
// points to the pixels themselves for 1x1) and is multiplied with all panels. Channels first: a tile of output pixels is
// gathered straight into panel form, [C/group*taps] x [pixels], and the rows of the weight matrix are multiplied with it.
// Gathered data stays in the cache until it is used. Depth-wise convolutions have loops of their own (depthwise.c).
#include "interpret/convolution.h"

#include <string.h>

#include "interpret/epilogue.h"
#include "interpret/geometry.h"
#include "interpret/packed_gemm.h"

typedef struct conv_plan {
  itg_geometry geometry;
  int64_t group, group_in, group_out; // Channels of a group.
  size_t k;                           // Depth of the products: taps * group_in.
  bool direct;                        // 1x1 without padding: pixels are rows already.
  const float *packed;                // Channels last, constant weights: panels of all groups.
  size_t packed_count;                // Floats of one group's panels.
} conv_plan;

static size_t align_floats(size_t count) { return (count + 15) / 16 * 16; }

static void pack_weights(const conv_plan *plan, const float *weight, float *panels) {
  const size_t out = (size_t)plan->group_out;
  for (int64_t g = 0; g < plan->group; g++)
    itg_gemm_pack(weight + (size_t)g * out * plan->k, 1, plan->k, plan->k, out,
                  panels + (size_t)g * plan->packed_count);
}

itg_status itg_prepare_conv(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_require_f32(call, diagnostic));
  const itg_conv_attributes *attributes = &call->node->attributes.conv;
  if (itg_depthwise_applies(call)) return itg_prepare_depthwise(call, preparation, diagnostic);
  conv_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  itg_geometry *g = &plan->geometry;
  *g = itg_geometry_of(&attributes->window, attributes->layout, &call->inputs[0].tensor->shape,
                       &call->outputs[0].tensor->shape);
  plan->group = attributes->group;
  plan->group_in = g->channels / plan->group;
  plan->group_out = g->out_channels / plan->group;
  plan->k = (size_t)(g->taps * plan->group_in);
  plan->direct = g->taps == 1;
  for (int d = 0; d < 3; d++) // No window lies in the padding, at either end.
    plan->direct = plan->direct && g->pad[d] == 0 && (g->out[d] - 1) * g->stride[d] < g->in[d];
  if (g->channels_last) {
    plan->packed_count = align_floats(itg_gemm_packed_count(plan->k, (size_t)plan->group_out));
    const size_t all = plan->packed_count * (size_t)plan->group;
    const size_t block = plan->direct ? 0 : align_floats(ITG_GEMM_MAX_ROWS * plan->k);
    if (call->inputs[1].data) {
      float *packed = itg_arena_array(preparation->arena, all + 16, sizeof *packed);
      ITG_TRY_MEMORY(packed, diagnostic);
      pack_weights(plan, call->inputs[1].data, packed);
      plan->packed = packed;
    }
    preparation->scratch = (block + (plan->packed ? 0 : all)) * sizeof(float);
  } else {
    preparation->scratch = align_floats(plan->k * itg_gemm_columns()) * sizeof(float);
  }
  preparation->prepared = plan;
  return ITG_OK;
}

// ---- channels last ----

// Windows are short: a call of memcpy would cost more than the copy.
static inline float *copy_floats(float *to, const float *from, size_t count) {
  for (; count >= 16; count -= 16, to += 16, from += 16) memcpy(to, from, 64);
  for (; count >= 4; count -= 4, to += 4, from += 4) memcpy(to, from, 16);
  for (; count > 0; count--) *to++ = *from++;
  return to;
}
static inline float *clear_floats(float *to, size_t count) {
  memset(to, 0, count * sizeof *to);
  return to + count;
}

// One window as a row [kd, kh, kw, C/group]; padding is 0.
static void gather_window(const conv_plan *plan, const float *x, const int64_t o[3], float *row) {
  const itg_geometry *g = &plan->geometry;
  const size_t channels = (size_t)plan->group_in, length = (size_t)g->kernel[2] * channels;
  const int64_t begin = o[2] * g->stride[2] - g->pad[2];
  // Taps of one kernel row are neighbours.
  const bool run = plan->group == 1 && g->dilation[2] == 1 && begin >= 0 && begin + g->kernel[2] <= g->in[2];
  for (int64_t kd = 0; kd < g->kernel[0]; kd++) {
    const int64_t id = o[0] * g->stride[0] - g->pad[0] + kd * g->dilation[0];
    for (int64_t kh = 0; kh < g->kernel[1]; kh++) {
      const int64_t ih = o[1] * g->stride[1] - g->pad[1] + kh * g->dilation[1];
      if (id < 0 || id >= g->in[0] || ih < 0 || ih >= g->in[1]) {
        row = clear_floats(row, length);
        continue;
      }
      const float *line = x + (id * g->in[1] + ih) * g->in[2] * g->channels;
      if (run) {
        row = copy_floats(row, line + begin * g->channels, length);
        continue;
      }
      for (int64_t kw = 0; kw < g->kernel[2]; kw++) {
        const int64_t iw = begin + kw * g->dilation[2];
        row = iw < 0 || iw >= g->in[2] ? clear_floats(row, channels)
                                       : copy_floats(row, line + iw * g->channels, channels);
      }
    }
  }
}

static void next_position(const int64_t dims[3], int64_t o[3]) {
  if (++o[2] < dims[2]) return;
  o[2] = 0;
  if (++o[1] < dims[1]) return;
  o[1] = 0;
  o[0]++;
}

static void run_channels_last(const itg_call *call, const conv_plan *plan, const itg_epilogue *epilogue) {
  const itg_geometry *g = &plan->geometry;
  const float *packed = plan->packed;
  float *block = call->scratch;
  if (!packed) {
    float *panels = (float *)call->scratch + (plan->direct ? 0 : align_floats(ITG_GEMM_MAX_ROWS * plan->k));
    pack_weights(plan, call->inputs[1].data, panels);
    packed = panels;
  }
  const size_t out_channels = (size_t)g->out_channels, group_out = (size_t)plan->group_out;
  for (int64_t n = 0; n < g->batch; n++) {
    const float *x = (const float *)call->inputs[0].data + (size_t)(n * g->in_count * g->channels);
    float *y = (float *)call->outputs[0].data + (size_t)(n * g->out_count) * out_channels;
    size_t rows;
    for (size_t p = 0; p < (size_t)g->out_count; p += rows) {
      rows = itg_gemm_next_rows((size_t)g->out_count - p);
      int64_t first[3];
      itg_geometry_split(g->out, (int64_t)p, first);
      for (int64_t group = 0; group < plan->group; group++) {
        const float *pointers[ITG_GEMM_MAX_ROWS];
        const float *x_group = x + group * plan->group_in;
        int64_t o[3] = {first[0], first[1], first[2]};
        for (size_t r = 0; r < rows; r++, next_position(g->out, o)) {
          if (plan->direct) {
            pointers[r] = x_group + itg_geometry_source(g, o, (const int64_t[3]){0, 0, 0}) * g->channels;
          } else {
            gather_window(plan, x_group, o, block + r * plan->k);
            pointers[r] = block + r * plan->k;
          }
        }
        itg_gemm_rows(pointers, rows, plan->k, packed + (size_t)group * plan->packed_count, group_out,
                      y + p * out_channels + (size_t)group * group_out, out_channels);
      }
      itg_epilogue_rows(epilogue, y + p * out_channels, rows, out_channels, out_channels);
    }
  }
}

// ---- channels first ----

// Fills a panel [C/group*taps][columns] with the windows of `width` pixels from `position` on.
static void gather_panel(const conv_plan *plan, const float *x, int64_t position, size_t width, size_t columns,
                         float *panel) {
  const itg_geometry *g = &plan->geometry;
  int64_t pixels[ITG_GEMM_MAX_COLUMNS][3], offsets[ITG_GEMM_MAX_COLUMNS], t[3];
  const size_t taps = (size_t)g->taps;
  itg_geometry_split(g->out, position, pixels[0]);
  for (size_t j = 1; j < width; j++) {
    memcpy(pixels[j], pixels[j - 1], sizeof pixels[j]);
    next_position(g->out, pixels[j]);
  }
  for (size_t tap = 0; tap < taps; tap++) {
    itg_geometry_split(g->kernel, (int64_t)tap, t);
    bool run = width == columns, inside = width == columns;
    for (size_t j = 0; j < width; j++) {
      offsets[j] = itg_geometry_source(g, pixels[j], t);
      inside = inside && offsets[j] >= 0;
      run = run && inside && offsets[j] == offsets[0] + (int64_t)j;
    }
    for (int64_t c = 0; c < plan->group_in; c++) {
      const float *plane = x + c * g->in_count;
      float *row = panel + ((size_t)c * taps + tap) * columns;
      if (run) {
        copy_floats(row, plane + offsets[0], columns);
      } else if (inside) {
        for (size_t j = 0; j < columns; j++) row[j] = plane[offsets[j]];
      } else {
        for (size_t j = 0; j < width; j++) row[j] = offsets[j] < 0 ? 0 : plane[offsets[j]];
        for (size_t j = width; j < columns; j++) row[j] = 0;
      }
    }
  }
}

static void run_channels_first(const itg_call *call, const conv_plan *plan, const itg_epilogue *epilogue) {
  const itg_geometry *g = &plan->geometry;
  const size_t columns = itg_gemm_columns(), pixels = (size_t)g->out_count, group_out = (size_t)plan->group_out;
  const float *weight = call->inputs[1].data;
  float *panel = call->scratch;
  for (int64_t n = 0; n < g->batch; n++) {
    for (int64_t group = 0; group < plan->group; group++) {
      const float *x =
          (const float *)call->inputs[0].data + (size_t)((n * g->channels + group * plan->group_in) * g->in_count);
      float *y =
          (float *)call->outputs[0].data + ((size_t)n * (size_t)g->out_channels + (size_t)group * group_out) * pixels;
      const float *w = weight + (size_t)group * group_out * plan->k;
      for (size_t p = 0; p < pixels; p += columns) {
        const size_t width = pixels - p < columns ? pixels - p : columns;
        gather_panel(plan, x, (int64_t)p, width, itg_gemm_panel_width(width), panel);
        size_t rows;
        for (size_t o = 0; o < group_out; o += rows) {
          rows = itg_gemm_next_rows(group_out - o);
          const float *pointers[ITG_GEMM_MAX_ROWS];
          for (size_t r = 0; r < rows; r++) pointers[r] = w + (o + r) * plan->k;
          itg_gemm_rows(pointers, rows, plan->k, panel, width, y + o * pixels + p, pixels);
          for (size_t r = 0; r < rows; r++)
            itg_epilogue_plane(epilogue, y + (o + r) * pixels + p, width, (size_t)group * group_out + o + r);
        }
      }
    }
  }
}

itg_status itg_run_conv(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  if (call->outputs[0].count == 0) return ITG_OK;
  if (itg_depthwise_applies(call)) {
    itg_run_depthwise(call);
    return ITG_OK;
  }
  const conv_plan *plan = call->prepared;
  const itg_epilogue epilogue = itg_epilogue_of(call);
  if (plan->geometry.channels_last)
    run_channels_last(call, plan, &epilogue);
  else
    run_channels_first(call, plan, &epilogue);
  return ITG_OK;
}
