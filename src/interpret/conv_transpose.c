// CONV_TRANSPOSE: every input pixel's channels times the weights, [C/group] x [taps*O/group], added to the outputs that its
// taps reach: output = input*stride + tap*dilation - pad.
#include <string.h>

#include "interpret/epilogue.h"
#include "interpret/executor.h"
#include "interpret/geometry.h"
#include "interpret/packed_gemm.h"

typedef struct transpose_plan {
  itg_geometry geometry; // `in` and `out` as of the node; stride and pad apply to the output.
  int64_t group, group_in, group_out;
  size_t columns;      // taps * group_out: columns of the product, tap by tap.
  size_t packed_count; // Floats of one group's panels.
  const float *packed; // Constant weights.
} transpose_plan;

static size_t align_floats(size_t count) { return (count + 15) / 16 * 16; }

// Packs column by column order (tap, o): channels first has weight [C, O/group, taps], channels last [O/group, taps, C]
// with the groups' channels side by side in C.
static void pack_weights(const transpose_plan *plan, const float *weight, float *rearranged, float *panels) {
  const itg_geometry *g = &plan->geometry;
  for (int64_t group = 0; group < plan->group; group++) {
    for (int64_t c = 0; c < plan->group_in; c++) {
      float *row = rearranged + (size_t)c * plan->columns;
      const int64_t channel = group * plan->group_in + c;
      for (int64_t t = 0; t < g->taps; t++) {
        for (int64_t o = 0; o < plan->group_out; o++)
          row[t * plan->group_out + o] = g->channels_last ? weight[(o * g->taps + t) * g->channels + channel]
                                                          : weight[(channel * plan->group_out + o) * g->taps + t];
      }
    }
    itg_gemm_pack(rearranged, plan->columns, 1, (size_t)plan->group_in, plan->columns,
                  panels + (size_t)group * plan->packed_count);
  }
}

itg_status itg_prepare_conv_transpose(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_require_f32(call, diagnostic));
  const itg_conv_attributes *attributes = &call->node->attributes.conv;
  transpose_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  plan->geometry = itg_geometry_of(&attributes->window, attributes->layout, &call->inputs[0].tensor->shape,
                                   &call->outputs[0].tensor->shape);
  plan->group = attributes->group;
  plan->group_in = plan->geometry.channels / plan->group;
  plan->group_out = plan->geometry.out_channels / plan->group;
  plan->columns = (size_t)(plan->geometry.taps * plan->group_out);
  plan->packed_count = align_floats(itg_gemm_packed_count((size_t)plan->group_in, plan->columns));
  const size_t rearranged = align_floats((size_t)plan->group_in * plan->columns);
  const size_t packed = plan->packed_count * (size_t)plan->group;
  size_t floats =
      align_floats(ITG_GEMM_MAX_ROWS * plan->columns) + align_floats(ITG_GEMM_MAX_ROWS * (size_t)plan->group_in);
  if (call->inputs[1].data) {
    float *memory = itg_arena_array(preparation->arena, packed + rearranged + 16, sizeof *memory);
    ITG_TRY_MEMORY(memory, diagnostic);
    pack_weights(plan, call->inputs[1].data, memory + packed, memory);
    plan->packed = memory;
  } else {
    floats += packed + rearranged;
  }
  preparation->scratch = floats * sizeof(float);
  preparation->prepared = plan;
  return ITG_OK;
}

// Adds the product row of input pixel `position` to the outputs. y: first channel of the group.
static void scatter(const transpose_plan *plan, int64_t position, const float *products, float *y) {
  const itg_geometry *g = &plan->geometry;
  int64_t i[3], t[3];
  itg_geometry_split(g->in, position, i);
  const int64_t pixel_stride = g->channels_last ? g->out_channels : 1,
                channel_stride = g->channels_last ? 1 : g->out_count;
  for (int64_t tap = 0; tap < g->taps; tap++, products += plan->group_out) {
    itg_geometry_split(g->kernel, tap, t);
    int64_t target = 0;
    bool inside = true;
    for (int d = 0; d < 3; d++) {
      const int64_t o = i[d] * g->stride[d] + t[d] * g->dilation[d] - g->pad[d];
      inside = inside && o >= 0 && o < g->out[d];
      target = target * g->out[d] + o;
    }
    if (!inside) continue;
    float *to = y + target * pixel_stride;
    for (int64_t c = 0; c < plan->group_out; c++) to[c * channel_stride] += products[c];
  }
}

itg_status itg_run_conv_transpose(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const transpose_plan *plan = call->prepared;
  const itg_geometry *g = &plan->geometry;
  const itg_operand *y = &call->outputs[0];
  if (y->count == 0) return ITG_OK;
  float *products = call->scratch, *pixels = products + align_floats(ITG_GEMM_MAX_ROWS * plan->columns);
  const float *packed = plan->packed;
  if (!packed) {
    float *panels = pixels + align_floats(ITG_GEMM_MAX_ROWS * (size_t)plan->group_in);
    pack_weights(plan, call->inputs[1].data, panels + plan->packed_count * (size_t)plan->group, panels);
    packed = panels;
  }
  memset(y->data, 0, y->count * sizeof(float));
  for (int64_t n = 0; n < g->batch; n++) {
    const float *x = (const float *)call->inputs[0].data + n * g->in_count * g->channels;
    float *to = (float *)y->data + n * g->out_count * g->out_channels;
    size_t rows;
    for (size_t p = 0; p < (size_t)g->in_count; p += rows) {
      rows = itg_gemm_next_rows((size_t)g->in_count - p);
      for (int64_t group = 0; group < plan->group; group++) {
        const float *pointers[ITG_GEMM_MAX_ROWS];
        const int64_t first = group * plan->group_in;
        for (size_t r = 0; r < rows; r++) {
          if (g->channels_last) {
            pointers[r] = x + (int64_t)(p + r) * g->channels + first;
            continue;
          }
          float *pixel = pixels + r * (size_t)plan->group_in;
          for (int64_t c = 0; c < plan->group_in; c++) pixel[c] = x[(first + c) * g->in_count + (int64_t)(p + r)];
          pointers[r] = pixel;
        }
        itg_gemm_rows(pointers, rows, (size_t)plan->group_in, packed + (size_t)group * plan->packed_count,
                      plan->columns, products, plan->columns);
        for (size_t r = 0; r < rows; r++)
          scatter(plan, (int64_t)(p + r), products + r * plan->columns,
                  to + group * plan->group_out * (g->channels_last ? 1 : g->out_count));
      }
    }
    const itg_epilogue epilogue = itg_epilogue_of(call);
    if (g->channels_last)
      itg_epilogue_rows(&epilogue, to, (size_t)g->out_count, (size_t)g->out_channels, (size_t)g->out_channels);
    for (int64_t c = 0; !g->channels_last && c < g->out_channels; c++)
      itg_epilogue_plane(&epilogue, to + c * g->out_count, (size_t)g->out_count, (size_t)c);
  }
  return ITG_OK;
}
