// Branch-free f32 functions that compilers vectorise when inlined into a loop. Own minimax fits (weighted least squares
// iterated to equal ripple); the error bounds are checked against libm in tests/unit/test_interpret_math.c.
#ifndef ITG_INTERPRET_VECTOR_MATH_H
#define ITG_INTERPRET_VECTOR_MATH_H

#include <math.h>
#include <stdint.h>

#include "tensor/half.h" // itg_float_bits

// e^x within 1.5 ulp; subnormal results and overflow to infinity included. x = n*ln 2 + r, |r| <= ln(2)/2; 2^n is applied
// in two halves so that n may leave the exponent's range.
static inline float itg_expf(float x) {
  const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer kept in the low bits.
  float bounded = x < -104.0f ? -104.0f : x;
  bounded = bounded > 89.0f ? 89.0f : bounded;
  const float shifted = bounded * 1.44269504f + magic;
  const float n = shifted - magic;
  const float r = (bounded - n * 0.693145752f) - n * 1.42860677e-6f; // ln 2 in two parts; the first product is exact.
  float p = 0.0013814789178352696f;
  p = p * r + 0.008368728487028607f;
  p = p * r + 0.041668385028911174f;
  p = p * r + 0.16666520553845673f;
  p = p * r + 0.49999993462019665f;
  const float value = (p * r) * r + r + 1.0f;
  const int32_t exponent = (int32_t)(itg_float_bits(shifted) - 0x4b400000u), half = exponent >> 1;
  const float scale1 = itg_float_from_bits((uint32_t)(half + 127) << 23);
  const float scale2 = itg_float_from_bits((uint32_t)(exponent - half + 127) << 23);
  return value * scale1 * scale2;
}

// ln x within 1.5 ulp; -inf at 0, NaN below, subnormals included.
static inline float itg_logf(float x) {
  const int tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p25f : x;
  const uint32_t bits =
      itg_float_bits(scaled) - 0x3f3504f3u; // sqrt(1/2): the mantissa comes out in [sqrt(1/2), sqrt(2)).
  const float n = (float)((int32_t)bits >> 23) - (tiny ? 25.0f : 0.0f);
  const float f = itg_float_from_bits((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 0.06746638248466781f;
  p = p * f - 0.11675651205377757f;
  p = p * f + 0.11888162973187755f;
  p = p * f - 0.12405589064551087f;
  p = p * f + 0.14219552278638403f;
  p = p * f - 0.16667995843243932f;
  p = p * f + 0.20002118662911492f;
  p = p * f - 0.25000009599640105f;
  p = p * f + 0.33333312603992565f;
  const float square = f * f;
  float value = (p * f) * square + n * 1.42860677e-6f;
  value = value - 0.5f * square + f + n * 0.693145752f;
  value = x == 0.0f ? -INFINITY : value;
  value = x < 0.0f ? NAN : value;
  value = x > 3.40282347e38f ? x : value;
  return x != x ? x : value;
}

// tanh x within 2.5 ulp: odd polynomial below 0.625, else 1 - 2/(e^2|x| + 1).
static inline float itg_tanhf(float x) {
  const float magnitude = fabsf(x), square = x * x;
  float p = -0.005672425473004835f;
  p = p * square + 0.020603150779188277f;
  p = p * square - 0.053725232847229465f;
  p = p * square + 0.1333118578509076f;
  p = p * square - 0.33333263381246164f;
  const float small = p * square * x + x;
  const float large = copysignf(1.0f - 2.0f / (itg_expf(2.0f * magnitude) + 1.0f), x);
  return magnitude < 0.625f ? small : large;
}

// erf x within 2.5 ulp: odd polynomial below 0.65, else 1 - e^-q(|x|); 1 from 4 on.
static inline float itg_erff(float x) {
  const float magnitude = fabsf(x), square = x * x;
  float p = -0.000716296162236435f;
  p = p * square + 0.005160369393046961f;
  p = p * square - 0.026852489234256385f;
  p = p * square + 0.11283657828701969f;
  p = p * square - 0.37612634102091463f;
  const float small = p * square * x + 1.1283791668162388f * x;
  const float a = magnitude > 4.0f ? 4.0f : magnitude;
  float q = -2.393357032231729e-06f;
  q = q * a + 3.739215408468579e-05f;
  q = q * a - 0.00023231464410008494f;
  q = q * a + 0.0005437319363233602f;
  q = q * a + 0.001799559385354641f;
  q = q * a - 0.02137226842896039f;
  q = q * a + 0.10441823817236305f;
  q = q * a + 0.6358523552890959f;
  q = q * a + 1.128585574424999f;
  q = q * a - 2.4365005768940933e-05f;
  const float large = copysignf(1.0f - itg_expf(-q), x);
  return x != x ? x : (magnitude < 0.65f ? small : large);
}

static inline float itg_sigmoidf(float x) { return 1.0f / (1.0f + itg_expf(-x)); }
static inline float itg_geluf(float x) { return 0.5f * x * (1.0f + itg_erff(x * 0.707106781f)); }
static inline float itg_gelu_tanhf(float x) {
  return 0.5f * x * (1.0f + itg_tanhf(0.797884561f * (x + 0.044715f * x * x * x)));
}
// x*tanh(ln(1 + e^x)) = x*(e^2x + 2e^x)/(e^2x + 2e^x + 2); x itself from 20 on.
static inline float itg_mishf(float x) {
  const float e = itg_expf(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
  return x > 20.0f ? x : x * (n / (n + 2.0f));
}

#endif
