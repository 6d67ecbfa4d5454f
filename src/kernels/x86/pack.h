// Packing the constant weights of a convolution for tile.h (template; included by gemm.h and upsample.h).
#ifndef ITG_KERNELS_X86_PACK_H
#define ITG_KERNELS_X86_PACK_H

#include "kernels/x86/tile.h"

static inline size_t element_bytes(int32_t type) { return type == ITG_TASK_U16 ? 2 : 1; }

// Packs channels [first, first + count) of a convolution; channel o has its `k_count` weights at origin + o*weight_step.
static void pack_block(const itg_conv_task *t, size_t origin, size_t weight_step, size_t k_count, size_t first,
                       size_t count, size_t vectors, rescale_way way, uint8_t *out) {
  const bool words = t->in_type == ITG_TASK_U16;
  const int64_t zero = words ? (int64_t)t->in_zero - 32768 : t->in_zero;
  const size_t taps = words ? 2 : 4;
  uint8_t *weights = out + vectors * PARAMETER_BYTES;
  __builtin_memset(out, 0, block_bytes(vectors, k_count, words));
  for (size_t v = 0; v < vectors; v++) {
    int32_t *parameters = (int32_t *)(void *)(out + v * PARAMETER_BYTES);
    for (size_t lane = 0; lane < LANES; lane++) {
      const size_t channel = lane_channel(vectors, v, lane);
      if (channel >= count) {
        if (!t->wide) pack_parameters(parameters, lane, t, SIZE_MAX, 0, way);
        continue;
      }
      const size_t o = first + channel;
      const int64_t w = (int64_t)(origin + o * weight_step);
      int64_t sum = 0;
      for (size_t k = 0; k < k_count; k++) sum += itg_conv_weight(t, w + (int64_t)k);
      for (size_t k = 0; k < k_count; k += taps) {
        uint8_t *step = weights + (k / taps * vectors + v) * step_bytes_of(words);
        const size_t rest = k_count - k < taps ? k_count - k : taps;
        for (size_t tap = 0; tap < rest; tap++) {
          const int32_t code = itg_conv_weight(t, w + (int64_t)(k + tap));
          if (words) {
            ((int16_t *)(void *)step)[2 * lane + tap] = (int16_t)code;
          } else {
            pack_tap(step, lane, tap, (int8_t)code);
          }
        }
      }
      const int64_t bias = t->bias[o] - zero * sum;
      if (t->wide) {
        __builtin_memcpy((uint8_t *)parameters + lane * sizeof bias, &bias, sizeof bias);
      } else {
        pack_parameters(parameters, lane, t, o, bias, way);
      }
    }
  }
}

#endif
