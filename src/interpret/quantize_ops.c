// The operations of quantized ONNX models: QUANTIZE_LINEAR, DEQUANTIZE_LINEAR, DYNAMIC_QUANTIZE, CONV_INTEGER,
// MATMUL_INTEGER. Rounding is half to even, results saturate, sums are exact in s32 (modulo 2^32).
#include <math.h>

#include "interpret/broadcast.h"
#include "interpret/executor.h"
#include "interpret/geometry.h"

// Which scale belongs to an element of x: per tensor (axis -1 or one scale), per slice of an axis, or per block of it.
typedef struct scale_layout {
  size_t inner, axis_size, block; // x is [outer, axis_size, inner]; scales are [outer, axis_size / block, inner].
  bool per_tensor, blocked;
} scale_layout;

static size_t scale_index(const scale_layout *layout, size_t i) {
  if (layout->per_tensor) return 0;
  const size_t slice = i / layout->inner % layout->axis_size;
  if (!layout->blocked) return slice;
  const size_t outer = i / layout->inner / layout->axis_size,
               blocks = (layout->axis_size + layout->block - 1) / layout->block;
  return (outer * blocks + slice / layout->block) * layout->inner + i % layout->inner;
}

static itg_status prepare_scales(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *scale = &call->inputs[1], *zero = itg_call_input(call, 2);
  const int axis = call->node->attributes.axis.axis, rank = itg_operand_rank(x);
  if (scale->dtype != ITG_DTYPE_F32) return itg_refuse_dtype(call, scale->dtype, diagnostic);
  scale_layout *layout = itg_arena_allocate(preparation->arena, sizeof *layout);
  ITG_TRY_MEMORY(layout, diagnostic);
  preparation->prepared = layout;
  layout->per_tensor = scale->count == 1 || axis < 0;
  if (zero && zero->count != scale->count)
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "scale and zero point must have the same shape");
  if (layout->per_tensor && scale->count == 1) return ITG_OK;
  if (axis < 0 || axis >= rank) ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "the axis is out of range");
  layout->axis_size = (size_t)itg_operand_dims(x)[axis];
  layout->inner = itg_dims_product(itg_operand_dims(x), axis + 1, rank);
  if (itg_operand_rank(scale) == rank && rank > 1) {
    const int64_t blocks = itg_operand_dims(scale)[axis];
    layout->blocked = true;
    layout->block = blocks > 0 ? (layout->axis_size + (size_t)blocks - 1) / (size_t)blocks : 1;
    const size_t outer = itg_dims_product(itg_operand_dims(x), 0, axis);
    if (scale->count != outer * (size_t)blocks * layout->inner)
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "scales do not match the blocks");
  } else if (scale->count != layout->axis_size) {
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "%zu scales for an axis of %zu", scale->count,
             layout->axis_size);
  }
  return ITG_OK;
}

static bool code_range(itg_dtype dtype, double *low, double *high) {
  switch (dtype) {
  case ITG_DTYPE_U8: *low = 0, *high = UINT8_MAX; return true;
  case ITG_DTYPE_S8: *low = INT8_MIN, *high = INT8_MAX; return true;
  case ITG_DTYPE_U16: *low = 0, *high = UINT16_MAX; return true;
  case ITG_DTYPE_S16: *low = INT16_MIN, *high = INT16_MAX; return true;
  default: return false;
  }
}

itg_status itg_prepare_quantize_linear(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  double low, high;
  const itg_operand *x = &call->inputs[0], *zero = itg_call_input(call, 2);
  if (x->dtype != ITG_DTYPE_F32 && x->dtype != ITG_DTYPE_S32) return itg_refuse_dtype(call, x->dtype, diagnostic);
  if (!code_range(call->outputs[0].dtype, &low, &high))
    return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  if (zero && zero->dtype != call->outputs[0].dtype) return itg_refuse_dtype(call, zero->dtype, diagnostic);
  return prepare_scales(call, preparation, diagnostic);
}

static int32_t quantize(float x, float scale, int64_t zero, double low, double high) {
  const double code = (double)rintf(x / scale) + (double)zero; // The division is f32, as in the reference.
  if (code != code) return (int32_t)zero;
  return (int32_t)(code < low ? low : (code > high ? high : code));
}

static void store_code(itg_dtype dtype, void *y, size_t i, int32_t code) {
  switch (dtype) {
  case ITG_DTYPE_U8: ((uint8_t *)y)[i] = (uint8_t)code; break;
  case ITG_DTYPE_S8: ((int8_t *)y)[i] = (int8_t)code; break;
  case ITG_DTYPE_U16: ((uint16_t *)y)[i] = (uint16_t)code; break;
  default: ((int16_t *)y)[i] = (int16_t)code; break;
  }
}

itg_status itg_run_quantize_linear(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0], *zero = itg_call_input(call, 2), *y = &call->outputs[0];
  const float *scales = call->inputs[1].data;
  double low = 0, high = 0;
  code_range(y->dtype, &low, &high);
  for (size_t i = 0; i < y->count; i++) {
    const size_t s = scale_index(call->prepared, i);
    const float value = x->dtype == ITG_DTYPE_F32 ? ((const float *)x->data)[i] : (float)((const int32_t *)x->data)[i];
    store_code(y->dtype, y->data, i, quantize(value, scales[s], zero ? itg_operand_integer(zero, s) : 0, low, high));
  }
  return ITG_OK;
}

itg_status itg_prepare_dequantize_linear(const itg_call *call, itg_preparation *preparation,
                                         itg_diagnostic *diagnostic) {
  const itg_operand *x = &call->inputs[0], *zero = itg_call_input(call, 2);
  if (itg_dtype_is_float(x->dtype) || itg_dtype_size(x->dtype) > 4 || x->dtype == ITG_DTYPE_BOOL)
    return itg_refuse_dtype(call, x->dtype, diagnostic);
  if (zero && zero->dtype != x->dtype) return itg_refuse_dtype(call, zero->dtype, diagnostic);
  if (call->outputs[0].dtype != ITG_DTYPE_F32) return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  return prepare_scales(call, preparation, diagnostic);
}

itg_status itg_run_dequantize_linear(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0], *zero = itg_call_input(call, 2);
  const float *scales = call->inputs[1].data;
  float *y = call->outputs[0].data;
  for (size_t i = 0; i < x->count; i++) {
    const size_t s = scale_index(call->prepared, i);
    y[i] = (float)(itg_operand_integer(x, i) - (zero ? itg_operand_integer(zero, s) : 0)) * scales[s];
  }
  return ITG_OK;
}

itg_status itg_prepare_dynamic_quantize(const itg_call *call, itg_preparation *preparation,
                                        itg_diagnostic *diagnostic) {
  (void)preparation;
  static const itg_dtype dtypes[3] = {ITG_DTYPE_U8, ITG_DTYPE_F32, ITG_DTYPE_U8};
  if (call->inputs[0].dtype != ITG_DTYPE_F32) return itg_refuse_dtype(call, call->inputs[0].dtype, diagnostic);
  for (int32_t i = 0; i < call->output_count && i < 3; i++) {
    if (call->outputs[i].tensor && call->outputs[i].dtype != dtypes[i])
      return itg_refuse_dtype(call, call->outputs[i].dtype, diagnostic);
  }
  return ITG_OK;
}

itg_status itg_run_dynamic_quantize(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_operand *x = &call->inputs[0];
  const itg_operand *y = itg_call_output(call, 0), *scale_out = itg_call_output(call, 1),
                    *zero_out = itg_call_output(call, 2);
  const float *values = x->data;
  float low = 0, high = 0;
  for (size_t i = 0; i < x->count; i++) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  const float scale = high == low ? 1 : (high - low) / 255;
  const float position = rintf(-low / scale);
  const uint8_t zero = (uint8_t)(position < 0 ? 0 : (position > 255 ? 255 : position));
  if (scale_out) *(float *)scale_out->data = scale;
  if (zero_out) *(uint8_t *)zero_out->data = zero;
  for (size_t i = 0; y && i < x->count; i++)
    ((uint8_t *)y->data)[i] = (uint8_t)quantize(values[i], scale, zero, 0, 255);
  return ITG_OK;
}

// ---- integer products ----

static itg_status require_bytes(const itg_call *call, itg_diagnostic *diagnostic) {
  for (int32_t i = 0; i < call->input_count; i++) {
    const itg_operand *x = &call->inputs[i];
    if (x->tensor && x->dtype != ITG_DTYPE_U8 && x->dtype != ITG_DTYPE_S8)
      return itg_refuse_dtype(call, x->dtype, diagnostic);
  }
  if (call->outputs[0].dtype != ITG_DTYPE_S32) return itg_refuse_dtype(call, call->outputs[0].dtype, diagnostic);
  return ITG_OK;
}

static int32_t zero_point(const itg_operand *zero, size_t index) {
  return zero ? (int32_t)itg_operand_integer(zero, zero->count == 1 ? 0 : index) : 0;
}

// Widens bytes of either sign and subtracts the zero point: differences are exact in s16.
static void widen_bytes(const itg_operand *x, size_t first, size_t count, int32_t zero, int16_t *out) {
  const uint8_t *bytes = (const uint8_t *)x->data + first;
  if (x->dtype == ITG_DTYPE_U8) {
    for (size_t i = 0; i < count; i++) out[i] = (int16_t)(bytes[i] - zero);
  } else {
    for (size_t i = 0; i < count; i++) out[i] = (int16_t)((int8_t)bytes[i] - zero);
  }
}

itg_status itg_prepare_conv_integer(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_bytes(call, diagnostic));
  const itg_conv_attributes *attributes = &call->node->attributes.conv;
  itg_geometry *g = itg_arena_allocate(preparation->arena, sizeof *g);
  ITG_TRY_MEMORY(g, diagnostic);
  *g = itg_geometry_of(&attributes->window, attributes->layout, &call->inputs[0].tensor->shape,
                       &call->outputs[0].tensor->shape);
  preparation->scratch = (call->inputs[0].count + call->inputs[1].count) * sizeof(int16_t);
  preparation->prepared = g;
  return ITG_OK;
}

itg_status itg_run_conv_integer(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const itg_geometry *g = call->prepared;
  const itg_operand *weight = &call->inputs[1], *weight_zero = itg_call_input(call, 3);
  const int64_t group = call->node->attributes.conv.group, group_in = g->channels / group,
                group_out = g->out_channels / group;
  const int64_t k = g->taps * group_in;
  int16_t *x = call->scratch, *w = x + call->inputs[0].count;
  widen_bytes(&call->inputs[0], 0, call->inputs[0].count, zero_point(itg_call_input(call, 2), 0), x);
  for (int64_t o = 0; o < g->out_channels; o++)
    widen_bytes(weight, (size_t)(o * k), (size_t)k, zero_point(weight_zero, (size_t)o), w + o * k);
  int32_t *y = call->outputs[0].data;
  for (int64_t position = 0; position < g->batch * g->out_count; position++) {
    const int64_t n = position / g->out_count, p = position % g->out_count;
    int64_t at[3], t[3];
    itg_geometry_split(g->out, p, at);
    for (int64_t o = 0; o < g->out_channels; o++) {
      uint32_t sum = 0;
      for (int64_t tap = 0; tap < g->taps; tap++) {
        itg_geometry_split(g->kernel, tap, t);
        const int64_t source = itg_geometry_source(g, at, t);
        if (source < 0) continue;
        for (int64_t c = 0; c < group_in; c++) {
          const int64_t channel = o / group_out * group_in + c;
          const int64_t xi = g->channels_last ? (n * g->in_count + source) * g->channels + channel
                                              : (n * g->channels + channel) * g->in_count + source;
          const int64_t wi = g->channels_last ? (o * g->taps + tap) * group_in + c : (o * group_in + c) * g->taps + tap;
          sum += (uint32_t)(x[xi] * w[wi]);
        }
      }
      y[g->channels_last ? (n * g->out_count + p) * g->out_channels + o
                         : (n * g->out_channels + o) * g->out_count + p] = (int32_t)sum;
    }
  }
  return ITG_OK;
}

typedef struct integer_matmul_plan {
  itg_broadcast batches; // Strides count matrices.
  size_t m, n, k;
} integer_matmul_plan;

itg_status itg_prepare_matmul_integer(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic) {
  ITG_TRY(require_bytes(call, diagnostic));
  const itg_operand *a = &call->inputs[0], *b = &call->inputs[1];
  const int ra = itg_operand_rank(a), rb = itg_operand_rank(b);
  integer_matmul_plan *plan = itg_arena_allocate(preparation->arena, sizeof *plan);
  ITG_TRY_MEMORY(plan, diagnostic);
  plan->k = (size_t)itg_operand_dims(a)[ra - 1];
  plan->m = ra > 1 ? (size_t)itg_operand_dims(a)[ra - 2] : 1;
  plan->n = rb > 1 ? (size_t)itg_operand_dims(b)[rb - 1] : 1;
  const itg_shape batch_a = itg_shape_of(ra > 2 ? ra - 2 : 0, itg_operand_dims(a));
  const itg_shape batch_b = itg_shape_of(rb > 2 ? rb - 2 : 0, itg_operand_dims(b));
  itg_shape batch;
  if (!itg_shape_broadcast(&batch_a, &batch_b, &batch))
    ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, call->node->name, "batch dimensions do not broadcast");
  const itg_operand *za = itg_call_input(call, 2), *zb = itg_call_input(call, 3);
  if ((za && za->count != 1 && za->count != plan->m) || (zb && zb->count != 1 && zb->count != plan->n))
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, call->node->name,
             "zero points must be one, or one a row of A and column of B");
  itg_broadcast_plan(&batch, (const itg_shape *[]){&batch_a, &batch_b}, 2, &plan->batches);
  preparation->scratch = (plan->m + plan->n) * plan->k * sizeof(int16_t);
  preparation->prepared = plan;
  return ITG_OK;
}

static void multiply_integers(void *context, const int64_t *offsets, int64_t output_offset) {
  const itg_call *call = context;
  const integer_matmul_plan *plan = call->prepared;
  const size_t m = plan->m, n = plan->n, k = plan->k;
  const int inner = plan->batches.rank - 1;
  const itg_operand *za = itg_call_input(call, 2), *zb = itg_call_input(call, 3);
  int16_t *a = call->scratch, *b = a + m * k; // b transposed: [n, k].
  for (int64_t batch = 0; batch < plan->batches.dims[inner]; batch++) {
    const size_t ia = (size_t)(offsets[0] + batch * plan->batches.strides[0][inner]) * m * k;
    const size_t ib = (size_t)(offsets[1] + batch * plan->batches.strides[1][inner]) * k * n;
    for (size_t i = 0; i < m; i++) widen_bytes(&call->inputs[0], ia + i * k, k, zero_point(za, i), a + i * k);
    for (size_t p = 0; p < k; p++) {
      for (size_t j = 0; j < n; j++) widen_bytes(&call->inputs[1], ib + p * n + j, 1, zero_point(zb, j), b + j * k + p);
    }
    int32_t *y = (int32_t *)call->outputs[0].data + (size_t)(output_offset + batch) * m * n;
    for (size_t i = 0; i < m; i++) {
      for (size_t j = 0; j < n; j++) {
        uint32_t sum = 0;
        for (size_t p = 0; p < k; p++) sum += (uint32_t)(a[i * k + p] * b[j * k + p]);
        y[i * n + j] = (int32_t)sum;
      }
    }
  }
}

itg_status itg_run_matmul_integer(const itg_call *call, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const integer_matmul_plan *plan = call->prepared;
  itg_broadcast_walk(&plan->batches, multiply_integers, (void *)call);
  return ITG_OK;
}
