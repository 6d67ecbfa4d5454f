// Resize to index and weight tables (docs/ARITHMETIC.md 3); coordinates after the ONNX operator's definition.
#include <math.h>

#include "lower/emit.h"
#include "lower/resize_table.h"

// The input coordinate of output position `i` in dimension d.
static double source_coordinate(const itg_resize_attributes *resize, int32_t d, int64_t i, int64_t in, int64_t out) {
  const double scale = resize->scale[d] > 0 ? resize->scale[d] : (double)out / (double)in;
  const double x = (double)i;
  switch (resize->coordinates) {
  case ITG_RESIZE_ALIGN_CORNERS: {
    // ONNX divides by the size that the scale asks for, which may be fractional and is then rounded down to `out`.
    const double asked = scale * (double)in, length = fabs(asked - (double)out) < 1e-3 ? (double)out : asked;
    return out > 1 ? x * (double)(in - 1) / (length - 1) : 0;
  }
  case ITG_RESIZE_ASYMMETRIC: return x / scale;
  case ITG_RESIZE_PYTORCH_HALF_PIXEL: return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
  case ITG_RESIZE_TF_HALF_PIXEL: return (x + 0.5) / scale;
  case ITG_RESIZE_HALF_PIXEL_SYMMETRIC: {
    const double adjustment = (double)out / (scale * (double)in), centre = (double)in / 2;
    return centre * (1 - adjustment) + (x + 0.5) / scale - 0.5;
  }
  default: return (x + 0.5) / scale - 0.5;
  }
}

static double nearest(double x, int32_t rounding) {
  switch (rounding) {
  case ITG_NEAREST_ROUND_PREFER_CEIL: return floor(x + 0.5);
  case ITG_NEAREST_FLOOR: return floor(x);
  case ITG_NEAREST_CEIL: return ceil(x);
  default: return ceil(x - 0.5);
  }
}

static double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

void itg_resize_table(const itg_resize_attributes *resize, int32_t d, int64_t in, int64_t out, int32_t *index,
                      int32_t *weight) {
  for (int64_t i = 0; i < out; i++) {
    const double x = source_coordinate(resize, d, i, in, out);
    if (resize->mode == ITG_RESIZE_NEAREST) {
      index[2 * i] = index[2 * i + 1] = (int32_t)clamp(nearest(x, resize->nearest_rounding), 0, (double)(in - 1));
      weight[i] = 0;
      continue;
    }
    const double inside = clamp(x, 0, (double)(in - 1)), first = floor(inside);
    index[2 * i] = (int32_t)first;
    index[2 * i + 1] = (int32_t)fmin(first + 1, (double)(in - 1));
    weight[i] = (int32_t)floor((inside - first) * ITG_RESIZE_WEIGHT_ONE + 0.5);
  }
}

static itg_status check(const itg_legalizer *l, const itg_node *node, const itg_tensor *x, const itg_tensor *y) {
  const itg_resize_attributes *resize = &node->attributes.resize;
  if (resize->mode != ITG_RESIZE_NEAREST && resize->mode != ITG_RESIZE_LINEAR)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "cubic Resize has no integer form; use linear");
  if (resize->coordinates == ITG_RESIZE_TF_CROP)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "Resize with a crop region has no integer form");
  if (x->shape.rank != 4 || x->shape.dims[0] != y->shape.dims[0] || x->shape.dims[3] != y->shape.dims[3])
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "Resize is only available over height and width");
  const bool shrinks = y->shape.dims[1] < x->shape.dims[1] || y->shape.dims[2] < x->shape.dims[2];
  if (resize->antialias && shrinks && resize->mode != ITG_RESIZE_NEAREST)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "Resize with antialias has no integer form");
  return ITG_OK;
}

itg_status itg_lower_resize(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(check(l, node, x, y));
  ITG_TRY(itg_emit_convert(l, x, y->encoding, &x));
  itg_tensor *inputs[5] = {x};
  for (int32_t d = 1; d <= 2; d++) {
    const int64_t in = x->shape.dims[d], out = y->shape.dims[d];
    int32_t *index = itg_arena_array(&l->scratch, (size_t)out * 2, sizeof index[0]);
    int32_t *weight = itg_arena_array(&l->scratch, (size_t)out, sizeof weight[0]);
    ITG_TRY_MEMORY(index && weight, l->diagnostic);
    itg_resize_table(&node->attributes.resize, d, in, out, index, weight);
    const itg_shape pairs = itg_shape_of(2, (const int64_t[]){out, 2});
    inputs[2 * d - 1] = itg_graph_add_constant(l->graph, "index", ITG_DTYPE_S32, &pairs, index);
    inputs[2 * d] = itg_emit_s32(l, "weight", out, weight);
    ITG_TRY_MEMORY(inputs[2 * d - 1] && inputs[2 * d], l->diagnostic);
  }
  ITG_TRY_MEMORY(itg_emit_node(l, ITG_OP_Q_RESIZE, node->name, inputs, 5, y), l->diagnostic);
  return ITG_OK;
}
