// See rule.h.
#include "kernels/htp/rule.h"

// The order of the float32 operations decides rare ties; this one fits best.
static double factor_of(double in_scale, double weight_scale, double out_scale) {
  const float product = (float)((float)in_scale * (float)weight_scale);
  return (double)(float)(product / (float)out_scale);
}

int32_t itg_htp_bias(int is_v73, int is_wide, double in_scale, double weight_scale, double out_scale, int32_t bias) {
  int exponent;
  __builtin_frexp(factor_of(in_scale, weight_scale, out_scale), &exponent);
  if (is_v73) return bias;
  const int dropped = is_wide ? 9 : -exponent - 3; // Bits of the sum that are cut off, not rounded.
  if (dropped < 1 || dropped > 30) return bias;
  const int64_t corrected = (int64_t)bias + ((int64_t)1 << (dropped - 1));
  return corrected > INT32_MAX ? INT32_MAX : (int32_t)corrected;
}

void itg_htp_rule_make(int is_v73, int is_wide, double in_scale, double weight_scale, double out_scale, int32_t bias,
                       int64_t weight_sum, int32_t in_zero, int32_t out_zero, itg_htp_rule *rule) {
  const double s = factor_of(in_scale, weight_scale, out_scale);
  int exponent;
  const double m = __builtin_frexp(is_wide ? 256 * s : s, &exponent);
  const int bits = !is_v73 ? 11 : is_wide ? 22 : 12;
  *rule = (itg_htp_rule){
      .mantissa = itg_htp_round(__builtin_ldexp(m, bits)), .exponent = exponent, .is_v73 = is_v73, .is_wide = is_wide};
  if (!is_wide) {
    rule->addend = bias + (is_v73 ? 0 : (int64_t)__builtin_rint(out_zero / s));
    return;
  }
  const int64_t zero_term = -itg_htp_round((double)in_zero * (double)weight_sum / 256);
  rule->addend = zero_term + (is_v73 ? bias / 256 // Towards zero.
                                     : (int64_t)__builtin_floor((bias + out_zero / s) / 256));
}

itg_htp_gain itg_htp_fit_gain(int is_v73, int is_wide, int one_tap, double gain, double offset, double in_scale,
                              double out_scale, int32_t out_zero) {
  const int bits = is_wide && one_tap ? 15 : !is_v73 ? 11 : is_wide ? 22 : 12;
  const double unit = out_scale / in_scale, size = __builtin_fabs(gain);
  // Channels with next to no gain take a larger scale: their shift must fit 2^30 units of it, and the NPU adds the zero point
  // in those units (as for convolutions, quantize/weights.c).
  const double zero_units = __builtin_ldexp(out_zero > 1 ? out_zero : 1, is_wide ? -37 : -29) * unit;
  double least = __builtin_ldexp(__builtin_fabs(offset) / in_scale, -30);
  least = least > zero_units ? least : zero_units;
  least = least > 0x1p-100 ? least : 0x1p-100;
  itg_htp_gain best = {0};
  double smallest = __builtin_inf();
  for (int w = 127; w >= 64; w--) {
    int exponent;
    const double mantissa = __builtin_frexp(size / w / unit, &exponent);
    const double rounded = __builtin_floor(__builtin_ldexp(mantissa, bits) + 0.5);
    const double candidate = (double)(float)(__builtin_ldexp(rounded, exponent - bits) * unit);
    const double error = __builtin_fabs(candidate * w - size);
    if (candidate < least || error >= smallest) continue;
    smallest = error;
    best = (itg_htp_gain){.weight = (int8_t)(gain < 0 ? -w : w), .scale = candidate};
  }
  if (best.scale == 0) best = (itg_htp_gain){.weight = (int8_t)__builtin_floor(gain / least + 0.5), .scale = least};
  best.bias = (int32_t)__builtin_floor(offset / (best.scale * in_scale) + 0.5);
  return best;
}
