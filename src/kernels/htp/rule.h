// The NPU's own requantization (docs/ARITHMETIC.md 6), as measured on the vendor's library: what a convolution, fully
// connected layer or MatMul does with its sums on Hexagon v68/v69 and on v73 and later. Integer once the rule is made.
#ifndef ITG_KERNELS_HTP_RULE_H
#define ITG_KERNELS_HTP_RULE_H

#include "kernels/task.h"
#include "tensor/requantize.h"

// hu(value): to the nearest, halves up.
static inline int64_t itg_htp_round(double value) { return (int64_t)__builtin_floor(value + 0.5); }

// One output channel. S = f32(f32(s_x*s_w)/s_y), for 16 bits 256*S; S = M*2^exponent with M in [0.5, 1).
typedef struct itg_htp_rule {
  int64_t mantissa; // hu(M*2^bits), bits = 11 (v68), 12 (v73, 8 bits), 22 (v73, 16 bits)
  int64_t addend;   // Joins the sum: bias and, on v68, the output zero point; for 16 bits in units of 256.
  int32_t exponent;
  int32_t is_v73, is_wide; // wide: 16-bit activations
} itg_htp_rule;

// The bias that a convolution or fully connected layer gets on the NPU. v68 cuts low bits of its sums off, which moves every
// result down by a sixteenth of a code on average (u8) and, layer after layer, costs a network 1 % of its cosine: half of
// what is cut is added to the bias. v73 rounds.
int32_t itg_htp_bias(int is_v73, int is_wide, double in_scale, double weight_scale, double out_scale, int32_t bias);

// Gain and shift of one channel as the NPU computes them: y = weight*scale*x + bias*scale*in_scale, with a weight of seven bits.
typedef struct itg_htp_gain {
  int8_t weight;
  double scale; // A value of float32.
  int32_t bias;
} itg_htp_gain;
enum { ITG_HTP_ONE_TAP_CHANNELS = 256 }; // 16-bit affines of more channels are kernels of two taps (lower/qnn).
// The weight and the scale whose factor the NPU's mantissa holds exactly, as near to `gain` as there is. one_tap: a 16-bit kernel
// of one tap, whose factors have 15 bits everywhere.
itg_htp_gain itg_htp_fit_gain(int is_v73, int is_wide, int one_tap, double gain, double offset, double in_scale,
                              double out_scale, int32_t out_zero);

// Makes the rule of a channel. `bias` is what the NPU is given; `weight_sum` the sum of the channel's weights over all taps.
void itg_htp_rule_make(int is_v73, int is_wide, double in_scale, double weight_scale, double out_scale, int32_t bias,
                       int64_t weight_sum, int32_t in_zero, int32_t out_zero, itg_htp_rule *rule);

// floor(value * 2^exponent) for |exponent| <= 62.
static inline int64_t itg_htp_scale(int64_t value, int32_t exponent) {
  return exponent < 0 ? value >> (exponent < -62 ? 62 : -exponent) : value * ((int64_t)1 << exponent);
}

// `raw` is the sum of w*x over the codes as they are (zero point included; padding holds the zero point), `centred` the sum
// of w*(x - zero point).
static inline int32_t itg_htp_apply(const itg_htp_rule *rule, int64_t raw, int64_t centred, int32_t out_zero,
                                    int32_t low, int32_t high) {
  int64_t code;
  if (!rule->is_wide) {
    const int64_t a = itg_htp_scale(centred + rule->addend, rule->exponent + 3);
    code = rule->is_v73 ? out_zero + (((2 * a + 1) * rule->mantissa + (1 << 15)) >> 16)
                        : (a * rule->mantissa + (1 << 13)) >> 14;
  } else {
    const int64_t a = (raw >> 8) + rule->addend;
    if (rule->is_v73) {
      code = out_zero + (((2 * itg_htp_scale(a, rule->exponent + 7) + 1) * rule->mantissa + (1 << 29)) >> 30);
    } else {
      const int32_t shift = 11 - rule->exponent;
      code = shift < 1
                 ? itg_htp_scale(a * rule->mantissa, -shift)
                 : (a * rule->mantissa + ((int64_t)1 << (shift > 62 ? 61 : shift - 1))) >> (shift > 62 ? 62 : shift);
    }
  }
  return (int32_t)itg_clamp_i64(code, low, high);
}

#endif
