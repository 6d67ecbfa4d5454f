// RESIZE: nearest, linear and cubic interpolation of ONNX, one dimension after the other (all are separable).
//
// Coordinates are computed in f32, as ONNX Runtime does: where an output falls on a tie, both choose the same pixel.
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "interpret/executor.h"

// One dimension: outputs[i] = sum over t < taps of weights[i*taps + t] * input[indices[i*taps + t]].
typedef struct resize_axis {
  int64_t in, out;
  int64_t outer, inner; // Products of the dimensions around it when its turn comes.
  int taps;
  int64_t *indices;
  float *weights;
  bool *outside; // TF_CROP: outputs that get the extrapolation value; NULL: none.
} resize_axis;

typedef struct resize_plan {
  resize_axis axes[ITG_MAX_RANK];
  int axis_count;
  bool nearest, extrapolates;
  float extrapolation;
  size_t half; // Elements of each of the two intermediate buffers.
} resize_plan;

static float source_coordinate(const itg_resize_attributes *a, int d, int64_t o, int64_t in, int64_t out) {
  const float scale = (float)a->scale[d], position = (float)o;
  switch (a->coordinates) {
  case ITG_RESIZE_ALIGN_CORNERS: {
    // ONNX divides by the size that the scale asks for, which may be fractional and is then rounded down to `out`.
    const float asked = scale * (float)in, length = fabsf(asked - (float)out) < 1e-3f ? (float)out : asked;
    return out == 1 ? 0 : position * (float)(in - 1) / (length - 1);
  }
  case ITG_RESIZE_ASYMMETRIC: return position / scale;
  case ITG_RESIZE_PYTORCH_HALF_PIXEL: return out > 1 ? (position + 0.5f) / scale - 0.5f : 0;
  case ITG_RESIZE_TF_HALF_PIXEL: return (position + 0.5f) / scale;
  case ITG_RESIZE_TF_CROP: {
    const float start = (float)a->roi_start[d], end = (float)a->roi_end[d], last = (float)(in - 1);
    return out > 1 ? start * last + position * (end - start) * last / (float)(out - 1) : 0.5f * (start + end) * last;
  }
  case ITG_RESIZE_HALF_PIXEL_SYMMETRIC: {
    const float adjustment = (float)out / (scale * (float)in), centre = (float)in / 2;
    return centre * (1 - adjustment) + (position + 0.5f) / scale - 0.5f;
  }
  default: return (position + 0.5f) / scale - 0.5f;
  }
}

static int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : (i >= n ? n - 1 : i); }

static int64_t nearest_index(int rounding, float x) {
  switch (rounding) {
  case ITG_NEAREST_ROUND_PREFER_CEIL: return (int64_t)roundf(x);
  case ITG_NEAREST_FLOOR: return (int64_t)floorf(x);
  case ITG_NEAREST_CEIL: return (int64_t)ceilf(x);
  default: return x == (float)(int64_t)x + 0.5f ? (int64_t)floorf(x) : (int64_t)roundf(x);
  }
}

static double cubic_weight(double a, double distance) {
  const double d = fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}
static double triangle_weight(double distance) { return fabs(distance) < 1 ? 1 - fabs(distance) : 0; }

// Weights of one output; taps whose pixel is outside are clamped, or left out with exclude_outside.
static void fill_taps(const itg_resize_attributes *a, double x, double stretch, int64_t first, int taps, int64_t in,
                      bool exclude, int64_t *indices, float *weights) {
  double sum = 0;
  for (int t = 0; t < taps; t++) {
    const int64_t i = first + t;
    const double distance = ((double)i - x) * stretch;
    double w = a->mode == ITG_RESIZE_CUBIC ? cubic_weight(a->cubic_a, distance) : triangle_weight(distance);
    if (exclude && (i < 0 || i >= in)) w = 0;
    indices[t] = clamp_index(i, in);
    weights[t] = (float)w;
    sum += w;
  }
  if (!exclude && stretch == 1) return; // Sums to 1 already.
  for (int t = 0; t < taps; t++) weights[t] = sum != 0 ? (float)((double)weights[t] / sum) : 0;
}

static itg_status prepare_axis(const itg_call *call, int d, resize_axis *axis, itg_arena *arena,
                               itg_diagnostic *diagnostic) {
  const itg_resize_attributes *a = &call->node->attributes.resize;
  const double stretch = a->antialias && a->mode != ITG_RESIZE_NEAREST && a->scale[d] < 1 ? a->scale[d] : 1;
  // A filter wider than the input sees nothing more, however small the scale.
  const double widest = axis->in < 1 << 28 ? (double)axis->in + 1 : (double)(1 << 28);
  const double support = fmin((a->mode == ITG_RESIZE_CUBIC ? 2 : 1) / stretch, widest < 2 ? 2 : widest);
  axis->taps = a->mode == ITG_RESIZE_NEAREST ? 1 : (stretch < 1 ? (int)ceil(2 * support) + 1 : (int)(2 * support));
  const size_t entries = (size_t)axis->out * (size_t)axis->taps;
  axis->indices = itg_arena_array(arena, entries, sizeof *axis->indices);
  axis->weights = itg_arena_array(arena, entries, sizeof *axis->weights);
  axis->outside = itg_arena_array(arena, (size_t)axis->out, sizeof *axis->outside);
  if (!axis->indices || !axis->weights || !axis->outside) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  for (int64_t o = 0; o < axis->out; o++) {
    int64_t *indices = axis->indices + o * axis->taps;
    float *weights = axis->weights + o * axis->taps;
    float x = axis->in == axis->out && a->coordinates != ITG_RESIZE_TF_CROP
                  ? (float)o
                  : source_coordinate(a, d, o, axis->in, axis->out);
    axis->outside[o] = a->coordinates == ITG_RESIZE_TF_CROP && (x < 0 || x > (float)(axis->in - 1));
    // Whatever a hostile scale gives, the pixel index stays in a range that integers hold.
    if (!(x > -1e6f)) x = -1e6f;
    if (x > (float)axis->in + 1e6f) x = (float)axis->in + 1e6f;
    if (a->mode == ITG_RESIZE_NEAREST) {
      indices[0] = clamp_index(nearest_index(a->nearest_rounding, x), axis->in);
      weights[0] = 1;
    } else if (stretch < 1) {
      fill_taps(a, (double)x, stretch, (int64_t)floor((double)x - support) + 1, axis->taps, axis->in, true, indices,
                weights);
    } else if (a->mode == ITG_RESIZE_LINEAR) {
      const float bounded = x < 0 ? 0 : (x > (float)(axis->in - 1) ? (float)(axis->in - 1) : x);
      fill_taps(a, (double)bounded, 1, (int64_t)floorf(bounded), 2, axis->in, false, indices, weights);
    } else {
      fill_taps(a, (double)x, 1, (int64_t)floorf(x) - 1, 4, axis->in, a->exclude_outside != 0, indices, weights);
    }
  }
  return ITG_OK;
}

itg_status itg_prepare_resize(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_resize_attributes *a = &call->node->attributes.resize;
  const itg_operand *x = &call->inputs[0], *y = &call->outputs[0];
  const bool nearest = a->mode == ITG_RESIZE_NEAREST;
  if (nearest ? itg_dtype_size(x->dtype) == 0 : x->dtype != ITG_DTYPE_F32)
    return itg_refuse_dtype(call, x->dtype, diagnostic);
  resize_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  plan->nearest = nearest;
  plan->extrapolation = (float)a->extrapolation;
  plan->extrapolates = a->coordinates == ITG_RESIZE_TF_CROP && !nearest;
  const int rank = itg_operand_rank(x);
  const int64_t *in = itg_operand_dims(x), *out = itg_operand_dims(y);
  for (int d = 0; d < rank; d++) {
    if (in[d] == 0 && out[d] > 0)
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "cannot resize an empty dimension");
    const bool cropped = a->coordinates == ITG_RESIZE_TF_CROP && (a->roi_start[d] != 0 || a->roi_end[d] != 1);
    if (in[d] == out[d] && !cropped) continue;
    if (!(a->scale[d] > 0) || !isfinite(a->scale[d]))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, call->node->name, "scale %g of dimension %d is not positive", a->scale[d],
               d);
    resize_axis *axis = &plan->axes[plan->axis_count++];
    *axis = (resize_axis){.in = in[d], .out = out[d]};
    axis->outer = (int64_t)itg_dims_product(out, 0, d); // Dimensions before it have been resized.
    axis->inner = (int64_t)itg_dims_product(in, d + 1, rank);
    ITG_TRY(prepare_axis(call, d, axis, preparation->arena, diagnostic));
    size_t elements = 0;
    if (!itg_checked_multiply((size_t)axis->outer * (size_t)axis->out, (size_t)axis->inner, &elements) ||
        elements > SIZE_MAX / 64)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, call->node->name, "an intermediate picture is too large");
    if (elements > plan->half) plan->half = elements;
  }
  plan->half = (plan->half + 15) / 16 * 16;
  if (plan->axis_count > 1) preparation->scratch = 2 * plan->half * itg_dtype_size(x->dtype);
  preparation->prepared = plan;
  return ITG_OK;
}

ITG_VECTORISED static void blend2(const float *a, const float *b, float wa, float wb, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = wa * a[i] + wb * b[i];
}
ITG_VECTORISED static void accumulate(const float *a, float w, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += w * a[i];
}

static void resize_axis_f32(const resize_axis *axis, const float *x, float *y) {
  const int64_t inner = axis->inner;
  for (int64_t outer = 0; outer < axis->outer; outer++, x += axis->in * inner) {
    for (int64_t o = 0; o < axis->out; o++, y += inner) {
      const int64_t *indices = axis->indices + o * axis->taps;
      const float *weights = axis->weights + o * axis->taps;
      if (axis->taps == 2) {
        if (inner == 1)
          y[0] = weights[0] * x[indices[0]] + weights[1] * x[indices[1]];
        else
          blend2(x + indices[0] * inner, x + indices[1] * inner, weights[0], weights[1], y, inner);
        continue;
      }
      for (int64_t i = 0; i < inner; i++) y[i] = weights[0] * x[indices[0] * inner + i];
      for (int t = 1; t < axis->taps; t++) accumulate(x + indices[t] * inner, weights[t], y, inner);
    }
  }
}

static void resize_axis_nearest(const resize_axis *axis, size_t size, const char *x, char *y) {
  const size_t run = (size_t)axis->inner * size;
  for (int64_t outer = 0; outer < axis->outer; outer++, x += (size_t)axis->in * run) {
    for (int64_t o = 0; o < axis->out; o++, y += run) {
      const char *from = x + (size_t)axis->indices[o] * run;
      if (run == 4) // The common case: columns of a channels-first image.
        memcpy(y, from, 4);
      else
        memcpy(y, from, run);
    }
  }
}

// TF_CROP: an output with any coordinate outside of the input gets the extrapolation value.
static void extrapolate(const resize_plan *plan, float *y, size_t count) {
  for (int a = 0; a < plan->axis_count; a++) {
    const resize_axis *axis = &plan->axes[a];
    // Elements behind one index of the axis in the finished output.
    size_t inner = count / (size_t)(axis->outer * axis->out);
    for (int64_t row = 0; row < axis->outer * axis->out; row++) {
      if (!axis->outside[row % axis->out]) continue;
      for (size_t i = 0; i < inner; i++) y[(size_t)row * inner + i] = plan->extrapolation;
    }
  }
}

itg_status itg_run_resize(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const resize_plan *plan = call->prepared;
  const itg_operand *x = &call->inputs[0], *y = &call->outputs[0];
  const size_t size = itg_dtype_size(x->dtype);
  if (y->count == 0) return ITG_OK;
  if (plan->axis_count == 0) {
    memcpy(y->data, x->data, y->count * size);
    return ITG_OK;
  }
  const char *from = x->data;
  for (int a = 0; a < plan->axis_count; a++) {
    char *to = a == plan->axis_count - 1 ? y->data : (char *)call->scratch + (size_t)(a % 2) * plan->half * size;
    if (plan->nearest)
      resize_axis_nearest(&plan->axes[a], size, from, to);
    else
      resize_axis_f32(&plan->axes[a], (const void *)from, (void *)to);
    from = to;
  }
  if (plan->extrapolates) extrapolate(plan, y->data, y->count);
  return ITG_OK;
}
