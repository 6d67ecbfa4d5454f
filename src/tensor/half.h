// IEEE 754 binary16 and bfloat16 to and from float32, round to nearest even; in plain integer arithmetic, so that every
// machine gives the same bits.
#ifndef ITG_TENSOR_HALF_H
#define ITG_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t itg_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline float itg_float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float itg_bf16_to_f32(uint16_t code) { return itg_float_from_bits((uint32_t)code << 16); }
static inline uint16_t itg_f32_to_bf16(float value) {
  const uint32_t bits = itg_float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40); // NaN stays a (quiet) NaN.
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float itg_f16_to_f32(uint16_t code) {
  const uint32_t sign = (uint32_t)(code & 0x8000u) << 16, exponent = code >> 10 & 31u, fraction = code & 0x3ffu;
  if (exponent == 31) return itg_float_from_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return itg_float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = (float)fraction * 0x1p-24f; // Zero or subnormal: exact.
  return itg_float_from_bits(sign | itg_float_bits(magnitude));
}
static inline uint16_t itg_f32_to_f16(float value) {
  const uint32_t bits = itg_float_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);  // NaN
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); // Rounds to infinity: 65520 and above.
  if (magnitude >= 0x38800000u)                                    // Normal: 2^-14 and above.
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
  if (magnitude < 0x33000000u) return (uint16_t)sign;                                             // Below 2^-25: zero.
  const uint32_t shift = 126 - (magnitude >> 23), fraction = (magnitude & 0x7fffffu) | 0x800000u; // 14..24
  const uint32_t quotient = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
  return (uint16_t)(sign | (quotient + (rest > half || (rest == half && (quotient & 1u)))));
}

#endif
