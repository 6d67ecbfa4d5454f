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

// One loop for each combination, so that each is one pass.
#define FINISH(expression)                        \
  for (size_t r = 0; r < rows; r++, y += pitch) { \
    for (size_t i = 0; i < n; i++) {              \
      const float v = y[i];                       \
      y[i] = (expression);                        \
    }                                             \
  }
ITG_VECTORISED static void finish_rows(const itg_epilogue *e, float *y, size_t rows, size_t n, size_t pitch) {
  const float low = e->low, high = e->high, slope = e->slope, *bias = e->bias, *slopes = e->slopes;
  switch (e->kind) {
  case ITG_ACTIVATION_CLIP:
    if (bias)
      FINISH(BOUNDED(v + bias[i], low, high))
    else
      FINISH(BOUNDED(v, low, high))
    break;
  case ITG_ACTIVATION_LEAKY:
    if (bias)
      FINISH(v + bias[i] < 0 ? (v + bias[i]) * slope : v + bias[i])
    else
      FINISH(v < 0 ? v * slope : v)
    break;
  case ITG_ACTIVATION_PRELU:
    if (bias)
      FINISH(v + bias[i] < 0 ? (v + bias[i]) * slopes[i] : v + bias[i])
    else
      FINISH(v < 0 ? v * slopes[i] : v)
    break;
  default: FINISH(v + bias[i]) break;
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

void itg_epilogue_rows(const itg_epilogue *epilogue, float *y, size_t rows, size_t channels, size_t pitch) {
  if (!epilogue->bias && epilogue->kind == ITG_ACTIVATION_NONE) return;
  itg_epilogue own = *epilogue;
  if (own.kind == ITG_ACTIVATION_PRELU && own.slope_count == 1) { // One slope for all channels is a leaky activation.
    own.kind = ITG_ACTIVATION_LEAKY;
    own.slope = own.slopes[0];
  }
  finish_rows(&own, y, rows, channels, pitch);
}

void itg_epilogue_plane(const itg_epilogue *epilogue, float *y, size_t count, size_t channel) {
  if (!epilogue->bias && epilogue->kind == ITG_ACTIVATION_NONE) return;
  finish_plane(epilogue, y, count, epilogue->bias ? epilogue->bias[channel] : 0, slope_of(epilogue, channel));
}
