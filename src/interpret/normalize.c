// Normalisations and per-channel affine functions, f32. Statistics are summed in f64.
#include <math.h>
#include <string.h>

#include "interpret/executor.h"

enum { LANES = 8 };

// Sum of (x - shift)^power, power 1 or 2, in a fixed order that vectorises.
ITG_VECTORISED static double sum_run(const float *x, size_t n, double shift, int power) {
  double lanes[LANES] = {0}, sum = 0;
  size_t i = 0;
  if (power == 1) {
    for (; i + LANES <= n; i += LANES) {
      for (int lane = 0; lane < LANES; lane++) lanes[lane] += (double)x[i + (size_t)lane];
    }
    for (; i < n; i++) sum += (double)x[i];
  } else {
    for (; i + LANES <= n; i += LANES) {
      for (int lane = 0; lane < LANES; lane++) {
        const double v = (double)x[i + (size_t)lane] - shift;
        lanes[lane] += v * v;
      }
    }
    for (; i < n; i++) sum += ((double)x[i] - shift) * ((double)x[i] - shift);
  }
  for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
  return sum;
}

// y = (x - mean)*factor
ITG_VECTORISED static void standardise(const float *x, float *y, size_t n, float mean, float factor) {
  for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor;
}
// y = x*scale + bias, element by element; bias may be NULL.
ITG_VECTORISED static void affine_rows(const float *x, float *y, size_t n, const float *scale, const float *bias) {
  if (bias) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] * scale[i] + bias[i];
  } else {
    for (size_t i = 0; i < n; i++) y[i] = x[i] * scale[i];
  }
}
ITG_VECTORISED static void affine_run(const float *x, float *y, size_t n, float scale, float bias) {
  for (size_t i = 0; i < n; i++) y[i] = x[i] * scale + bias;
}
ITG_VECTORISED static void add_run(const float *a, const float *b, float *y, size_t n) {
  for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

itg_status itg_prepare_norm(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  return itg_require_f32(call, diagnostic);
}

// ---- BATCH_NORM, AFFINE, ADD_AFFINE ----

itg_status itg_prepare_batch_norm(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_require_f32(call, diagnostic));
  preparation->scratch = 2 * call->inputs[1].count * sizeof(float); // Scale and bias of each channel.
  return ITG_OK;
}

// Channels along a dimension that `inner` elements follow.
static void affine_channels(const float *x, float *y, size_t outer, size_t channels, size_t inner, const float *scale,
                            const float *bias) {
  for (size_t o = 0; o < outer; o++, x += channels * inner, y += channels * inner) {
    if (inner == 1) {
      affine_rows(x, y, channels, scale, bias);
      continue;
    }
    for (size_t c = 0; c < channels; c++) affine_run(x + c * inner, y + c * inner, inner, scale[c], bias[c]);
  }
}

itg_status itg_run_batch_norm(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_norm_attributes *attributes = &call->node->attributes.norm;
  const itg_operand *x = &call->inputs[0];
  const float *gamma = call->inputs[1].data, *beta = call->inputs[2].data;
  const float *mean = call->inputs[3].data, *variance = call->inputs[4].data;
  const size_t channels = call->inputs[1].count;
  const size_t inner = itg_dims_product(itg_operand_dims(x), attributes->axis + 1, itg_operand_rank(x));
  float *scale = call->scratch, *bias = scale + channels;
  for (size_t c = 0; c < channels; c++) {
    const double factor = (double)gamma[c] / sqrt((double)variance[c] + attributes->epsilon);
    scale[c] = (float)factor;
    bias[c] = (float)((double)beta[c] - (double)mean[c] * factor);
  }
  if (x->count)
    affine_channels(x->data, call->outputs[0].data, x->count / channels / inner, channels, inner, scale, bias);
  return ITG_OK;
}

itg_status itg_run_affine(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0];
  const size_t channels = call->inputs[1].count;
  if (x->count)
    affine_channels(x->data, call->outputs[0].data, x->count / channels, channels, 1, call->inputs[1].data,
                    call->inputs[2].data);
  return ITG_OK;
}

itg_status itg_run_add_affine(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *sum = itg_call_output(call, 0), *affine = itg_call_output(call, 1);
  const float *a = call->inputs[0].data, *b = call->inputs[1].data;
  const size_t channels = call->inputs[2].count, rows = call->inputs[0].count / (channels ? channels : 1);
  for (size_t r = 0; r < rows; r++, a += channels, b += channels) {
    float *to = sum ? (float *)sum->data + r * channels : NULL,
          *second = affine ? (float *)affine->data + r * channels : NULL;
    add_run(a, b, to ? to : second, channels);
    if (second) affine_rows(to ? to : second, second, channels, call->inputs[2].data, call->inputs[3].data);
  }
  return ITG_OK;
}

// ---- LAYER_NORM, RMS_NORM: over all dimensions from the axis on ----

itg_status itg_prepare_row_norm(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  ITG_TRY(itg_require_f32(call, diagnostic));
  const itg_operand *x = &call->inputs[0];
  const size_t n = itg_dims_product(itg_operand_dims(x), call->node->attributes.norm.axis, itg_operand_rank(x));
  for (int32_t i = 1; i < call->input_count; i++) {
    if (call->inputs[i].tensor && call->inputs[i].count != n)
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, call->node->name, "scale and bias must have %zu elements, not %zu", n,
               call->inputs[i].count);
  }
  return ITG_OK;
}

itg_status itg_run_row_norm(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_norm_attributes *attributes = &call->node->attributes.norm;
  const itg_operand *x = &call->inputs[0], *gamma = itg_call_input(call, 1), *beta = itg_call_input(call, 2);
  const size_t n = itg_dims_product(itg_operand_dims(x), attributes->axis, itg_operand_rank(x));
  const bool centred = call->node->op == ITG_OP_LAYER_NORM;
  for (size_t r = 0; n > 0 && r < x->count / n; r++) {
    const float *row = (const float *)x->data + r * n;
    float *y = (float *)call->outputs[0].data + r * n;
    const double mean = centred ? sum_run(row, n, 0, 1) / (double)n : 0;
    const double variance = sum_run(row, n, mean, 2) / (double)n;
    standardise(row, y, n, (float)mean, (float)(1 / sqrt(variance + attributes->epsilon)));
    if (gamma) affine_rows(y, y, n, gamma->data, beta ? beta->data : NULL);
  }
  return ITG_OK;
}

// ---- INSTANCE_NORM, GROUP_NORM: over the pixels of a group of channels ----

itg_status itg_prepare_group_norm(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  (void)preparation;
  ITG_TRY(itg_require_f32(call, diagnostic));
  const itg_norm_attributes *attributes = &call->node->attributes.norm;
  const size_t channels = (size_t)itg_operand_dims(&call->inputs[0])[attributes->axis], count = call->inputs[1].count;
  if (call->inputs[2].count != count || (count != channels && count != (size_t)attributes->groups))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "scale and bias must have one element a channel or group");
  return ITG_OK;
}

typedef struct group_layout {
  size_t channels, inner; // `inner` elements of one channel are neighbours.
  size_t spatial;         // Channel axis last: pixels of a sample; else 1.
} group_layout;

// Sum over channels [first, first + count) of one sample: channels first: contiguous; channels last: strided.
static double group_sum(const float *x, const group_layout *layout, size_t first, size_t count, double shift,
                        int power) {
  if (layout->spatial == 1) return sum_run(x + first * layout->inner, count * layout->inner, shift, power);
  double sum = 0;
  for (size_t p = 0; p < layout->spatial; p++) sum += sum_run(x + p * layout->channels + first, count, shift, power);
  return sum;
}

itg_status itg_run_group_norm(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_norm_attributes *attributes = &call->node->attributes.norm;
  const itg_operand *x = &call->inputs[0];
  const int rank = itg_operand_rank(x);
  const int64_t *dims = itg_operand_dims(x);
  if (x->count == 0) return ITG_OK;
  const size_t batch = (size_t)dims[0], channels = (size_t)dims[attributes->axis];
  const bool last = attributes->axis == rank - 1 && rank > 2;
  const size_t pixels = x->count / batch / channels;
  const group_layout layout = {channels, last ? 1 : pixels, last ? pixels : 1};
  const size_t groups = call->node->op == ITG_OP_GROUP_NORM ? (size_t)attributes->groups : channels;
  const size_t width = channels / groups;
  const bool by_group = call->inputs[1].count != channels;
  const float *gamma = call->inputs[1].data, *beta = call->inputs[2].data;
  for (size_t g = 0; g < batch * groups; g++) {
    const size_t first = g % groups * width;
    const float *sample = (const float *)x->data + g / groups * channels * pixels;
    float *y = (float *)call->outputs[0].data + g / groups * channels * pixels;
    const double n = (double)(width * pixels), mean = group_sum(sample, &layout, first, width, 0, 1) / n;
    const double factor = 1 / sqrt(group_sum(sample, &layout, first, width, mean, 2) / n + attributes->epsilon);
    for (size_t c = first; c < first + width; c++) {
      const double scale = factor * (double)gamma[by_group ? c / width : c];
      const double bias = (double)beta[by_group ? c / width : c];
      // (x - mean) first: a large mean must not cancel in f32.
      for (size_t p = 0; p < pixels; p++) {
        const size_t at = last ? p * channels + c : c * pixels + p;
        y[at] = (float)(((double)sample[at] - mean) * scale + bias);
      }
    }
  }
  return ITG_OK;
}

// ---- LP_NORM, LRN ----

itg_status itg_run_lp_norm(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_norm_attributes *attributes = &call->node->attributes.norm;
  const itg_operand *x = &call->inputs[0];
  const int64_t *dims = itg_operand_dims(x);
  const size_t n = (size_t)dims[attributes->axis],
               inner = itg_dims_product(dims, attributes->axis + 1, itg_operand_rank(x));
  const size_t outer = itg_dims_product(dims, 0, attributes->axis);
  for (size_t o = 0; o < outer * inner; o++) {
    const float *from = (const float *)x->data + o / inner * n * inner + o % inner;
    float *to = (float *)call->outputs[0].data + (from - (const float *)x->data);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
      const double v = (double)from[i * inner];
      sum += attributes->groups == 1 ? fabs(v) : v * v;
    }
    const double norm = attributes->groups == 1 ? sum : sqrt(sum);
    // ONNX leaves a zero row at zero.
    for (size_t i = 0; i < n; i++) to[i * inner] = norm > 0 ? (float)((double)from[i * inner] / norm) : 0;
  }
  return ITG_OK;
}

itg_status itg_run_lrn(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_norm_attributes *attributes = &call->node->attributes.norm;
  const itg_operand *x = &call->inputs[0];
  const int64_t *dims = itg_operand_dims(x), size = attributes->groups, channels = dims[attributes->axis];
  const size_t inner = itg_dims_product(dims, attributes->axis + 1, itg_operand_rank(x));
  const size_t outer = itg_dims_product(dims, 0, attributes->axis);
  for (size_t o = 0; o < outer * inner; o++) {
    const size_t base = o / inner * (size_t)channels * inner + o % inner;
    const float *from = (const float *)x->data + base;
    float *to = (float *)call->outputs[0].data + base;
    for (int64_t c = 0; c < channels; c++) {
      const int64_t low = c - (size - 1) / 2, high = c + size / 2; // ceil((size - 1)/2) after the channel.
      double sum = 0;
      for (int64_t i = low < 0 ? 0 : low; i <= high && i < channels; i++) {
        const double v = (double)from[(size_t)i * inner];
        sum += v * v;
      }
      const double base_value = attributes->bias + attributes->alpha / (double)size * sum;
      to[(size_t)c * inner] = (float)((double)from[(size_t)c * inner] / pow(base_value, attributes->beta));
    }
  }
  return ITG_OK;
}
