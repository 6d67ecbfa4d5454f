// See rule.h. hu(v) = floor(v + 0.5).
#include "kernels/htp/rule.h"

void itg_htp_rule_make(int is_v73, int is_wide, double in_scale, double weight_scale, double out_scale, int32_t bias,
                       int64_t weight_sum, int32_t in_zero, int32_t out_zero, itg_htp_rule *rule) {
  // The order of the float32 operations decides rare ties; this one fits best.
  const float product = (float)((float)in_scale * (float)weight_scale);
  const double s = (double)(float)(product / (float)out_scale);
  int exponent;
  const double m = __builtin_frexp(is_wide ? 256 * s : s, &exponent);
  const int bits = !is_v73 ? 11 : is_wide ? 22 : 12;
  *rule = (itg_htp_rule){.mantissa = (int64_t)__builtin_floor(__builtin_ldexp(m, bits) + 0.5),
                         .exponent = exponent,
                         .is_v73 = is_v73,
                         .is_wide = is_wide};
  if (!is_wide) {
    rule->addend = bias + (is_v73 ? 0 : (int64_t)__builtin_rint(out_zero / s));
    return;
  }
  const int64_t zero_term = -(int64_t)__builtin_floor((double)in_zero * (double)weight_sum / 256 + 0.5);
  rule->addend = zero_term + (is_v73 ? bias / 256 // Towards zero.
                                     : (int64_t)__builtin_floor((bias + out_zero / s) / 256));
}
