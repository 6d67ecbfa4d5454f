// Bias and activation; see epilogue.h.
#include "interpret/epilogue.h"

itg_epilogue itg_epilogue_of(const itg_call *call) {
  const itg_activation *activation = &call->node->attributes.conv.activation;
  const itg_operand *bias = itg_call_input(call, 2), *slope = itg_call_input(call, 3);
  itg_epilogue epilogue = {.kind = activation->kind,
                           .low = (float)activation->low,
                           .high = (float)activation->high,
                           .slope = (float)activation->slope,
                           .bias = bias ? bias->data : NULL};
  if (epilogue.kind == ITG_ACTIVATION_PRELU) {
    epilogue.slopes = slope ? slope->data : NULL;
    epilogue.slope_count = slope ? slope->count : 0;
  }
  return epilogue;
}

#define BOUNDED(v, low, high) ((v) < (low) ? (low) : ((v) > (high) ? (high) : (v)))

ITG_VECTORISED static void finish_row(const itg_epilogue *e, float *y, size_t n, const float *bias,
                                      const float *slopes) {
  const float low = e->low, high = e->high, slope = e->slope;
  if (bias) {
    for (size_t i = 0; i < n; i++) y[i] += bias[i];
  }
  switch (e->kind) {
  case ITG_ACTIVATION_CLIP:
    for (size_t i = 0; i < n; i++) y[i] = BOUNDED(y[i], low, high);
    break;
  case ITG_ACTIVATION_LEAKY:
    for (size_t i = 0; i < n; i++) y[i] = y[i] < 0 ? y[i] * slope : y[i];
    break;
  case ITG_ACTIVATION_PRELU:
    for (size_t i = 0; i < n; i++) y[i] = y[i] < 0 ? y[i] * slopes[i] : y[i];
    break;
  default: break;
  }
}

ITG_VECTORISED static void finish_plane(const itg_epilogue *e, float *y, size_t n, float bias, float slope) {
  const float low = e->low, high = e->high;
  switch (e->kind) {
  case ITG_ACTIVATION_CLIP:
    for (size_t i = 0; i < n; i++) {
      const float v = y[i] + bias;
      y[i] = BOUNDED(v, low, high);
    }
    break;
  case ITG_ACTIVATION_LEAKY:
  case ITG_ACTIVATION_PRELU:
    for (size_t i = 0; i < n; i++) {
      const float v = y[i] + bias;
      y[i] = v < 0 ? v * slope : v;
    }
    break;
  default:
    for (size_t i = 0; i < n; i++) y[i] += bias;
    break;
  }
}

static float slope_of(const itg_epilogue *epilogue, size_t channel) {
  if (epilogue->kind != ITG_ACTIVATION_PRELU) return epilogue->slope;
  return epilogue->slopes[epilogue->slope_count == 1 ? 0 : channel];
}

void itg_epilogue_rows(const itg_epilogue *epilogue, float *y, size_t rows, size_t channels, size_t pitch,
                       size_t first) {
  if (!epilogue->bias && epilogue->kind == ITG_ACTIVATION_NONE) return;
  itg_epilogue own = *epilogue;
  if (own.kind == ITG_ACTIVATION_PRELU && own.slope_count == 1) { // One slope for all channels is a leaky activation.
    own.kind = ITG_ACTIVATION_LEAKY;
    own.slope = own.slopes[0];
  }
  for (size_t r = 0; r < rows; r++)
    finish_row(&own, y + r * pitch, channels, own.bias ? own.bias + first : NULL,
               own.slopes ? own.slopes + first : NULL);
}

void itg_epilogue_plane(const itg_epilogue *epilogue, float *y, size_t count, size_t channel) {
  if (!epilogue->bias && epilogue->kind == ITG_ACTIVATION_NONE) return;
  finish_plane(epilogue, y, count, epilogue->bias ? epilogue->bias[channel] : 0, slope_of(epilogue, channel));
}
