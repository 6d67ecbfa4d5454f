// The small graph of integer_graph.h evaluated in the plainest way, straight from docs/ARITHMETIC.md: what the runtime must
// give, written without the runtime.
#ifndef ITG_TESTS_SUPPORT_NAIVE_H
#define ITG_TESTS_SUPPORT_NAIVE_H

#include "graph/graph.h"
#include "graph/integer_ops.h"

// floor((value + 2^(shift-1)) / 2^shift) by division.
static inline __int128 naive_shift(__int128 value, int shift) {
  const __int128 divisor = (__int128)1 << shift, sum = value + divisor / 2;
  return sum >= 0 ? sum / divisor : -((-sum + divisor - 1) / divisor);
}

static inline int32_t naive_clamp(__int128 value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : (int32_t)value;
}

static inline int32_t naive_requantize(const itg_node *node, int64_t channel, int64_t acc) {
  const itg_q_conv_attributes *conv = &node->attributes.q_conv;
  const int32_t multiplier = ((const int32_t *)node->inputs[ITG_Q_CONV_MULTIPLIER]->data)[channel];
  const int32_t shift = ((const int32_t *)node->inputs[ITG_Q_CONV_SHIFT]->data)[channel];
  return naive_clamp(node->outputs[0]->encoding->zero_points[0] + naive_shift((__int128)acc * multiplier, shift),
                     conv->low, conv->high);
}

static inline void naive_conv(const itg_node *node, const int32_t *x, int32_t *out) {
  const itg_shape *in = &node->inputs[0]->shape, *to = &node->outputs[0]->shape;
  const itg_window *window = &node->attributes.q_conv.window;
  const int8_t *weight = node->inputs[ITG_Q_CONV_WEIGHT]->data;
  const int32_t zero = node->inputs[0]->encoding->zero_points[0];
  for (int64_t y = 0; y < to->dims[1]; y++) {
    for (int64_t c = 0; c < to->dims[2]; c++) {
      for (int64_t o = 0; o < to->dims[3]; o++) {
        int64_t acc = ((const int32_t *)node->inputs[ITG_Q_CONV_BIAS]->data)[o];
        for (int64_t ky = 0; ky < window->kernel[0]; ky++) {
          for (int64_t kx = 0; kx < window->kernel[1]; kx++) {
            const int64_t iy = y * window->stride[0] + ky - window->pad_begin[0];
            const int64_t ix = c * window->stride[1] + kx - window->pad_begin[1];
            if (iy < 0 || ix < 0 || iy >= in->dims[1] || ix >= in->dims[2]) continue;
            for (int64_t i = 0; i < in->dims[3]; i++)
              acc += weight[((o * window->kernel[0] + ky) * window->kernel[1] + kx) * in->dims[3] + i] *
                     (x[(iy * in->dims[2] + ix) * in->dims[3] + i] - zero);
          }
        }
        out[(y * to->dims[2] + c) * to->dims[3] + o] = naive_requantize(node, o, acc);
      }
    }
  }
}

// code[5] and sum[144] of the small graph.
static inline void naive_small_graph(const itg_graph *graph, const uint8_t *image, int32_t *code, int32_t *sum) {
  const itg_node *conv = graph->first, *skip = conv->next, *add = skip->next, *table = add->next;
  const itg_node *embed = graph->last;
  int32_t x[108], left[144], right[144], curve[144];
  for (int i = 0; i < 108; i++) x[i] = image[i];
  naive_conv(conv, x, left);
  naive_conv(skip, x, right);
  for (int i = 0; i < 144; i++) {
    const itg_q_add_attributes *attributes = &add->attributes.q_add;
    const int64_t a = left[i] - add->inputs[0]->encoding->zero_points[0];
    const int64_t b = right[i] - add->inputs[1]->encoding->zero_points[0];
    sum[i] = naive_clamp(add->outputs[0]->encoding->zero_points[0] +
                             naive_shift((__int128)attributes->a * a + (__int128)attributes->b * b, attributes->shift),
                         attributes->low, attributes->high);
    curve[i] = ((const uint8_t *)table->inputs[1]->data)[sum[i]];
  }
  for (int64_t o = 0; o < 5; o++) {
    int64_t acc = ((const int32_t *)embed->inputs[ITG_Q_CONV_BIAS]->data)[o];
    for (int64_t i = 0; i < 144; i++)
      acc += ((const int8_t *)embed->inputs[ITG_Q_CONV_WEIGHT]->data)[o * 144 + i] *
             (curve[i] - embed->inputs[0]->encoding->zero_points[0]);
    code[o] = naive_requantize(embed, o, acc);
  }
}

#endif
