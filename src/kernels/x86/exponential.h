// The exponential of softmax and attention in vectors of eight lanes (docs/ARITHMETIC.md 4); the reference is
// kernels/reference/exponential.h.
#ifndef ITG_KERNELS_X86_EXPONENTIAL_H
#define ITG_KERNELS_X86_EXPONENTIAL_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/exp2_table.h"

#define EIGHT_INLINE static inline __attribute__((always_inline, unused))

enum { GONE = 25 }; // From 2^-25 on the exponential is 0.

// 64-bit distances, limited to GONE << 16 so that they fit 32 bits.
EIGHT_INLINE __m256i limited(__m256i distance) {
  const __m256i most = _mm256_set1_epi64x((int64_t)GONE << 16);
  return _mm256_blendv_epi8(distance, most, _mm256_cmpgt_epi64(distance, most));
}

// Q24 exponentials of eight distances d = largest - code (>= 0); the factor of a code is k * 2^-shift (Q16, log2 units).
EIGHT_INLINE __m256i exponentials(__m256i d, int32_t factor, int32_t shift) {
  const __m256i k = _mm256_set1_epi32(factor), half = _mm256_set1_epi64x((int64_t)1 << (shift - 1));
  const __m128i count = _mm_cvtsi32_si128(shift);
  const __m256i d_odd = _mm256_srli_epi64(d, 32);
  const __m256i even = limited(_mm256_srl_epi64(_mm256_add_epi64(_mm256_mul_epi32(d, k), half), count));
  const __m256i odd = limited(_mm256_srl_epi64(_mm256_add_epi64(_mm256_mul_epi32(d_odd, k), half), count));
  const __m256i w = _mm256_blend_epi32(even, _mm256_shuffle_epi32(odd, 0xA0), 0xAA);
  const __m256i n = _mm256_srli_epi32(w, 16), f = _mm256_and_si256(w, _mm256_set1_epi32(65535));
  const __m256i i = _mm256_srli_epi32(f, 8), o = _mm256_and_si256(f, _mm256_set1_epi32(255));
  const int *table = (const int *)itg_exp2_table;
  const __m256i first = _mm256_i32gather_epi32(table, i, 4), second = _mm256_i32gather_epi32(table + 1, i, 4);
  const __m256i part =
      _mm256_mullo_epi32(_mm256_sub_epi32(first, second), o); // Below 2^31: neighbours differ by less than 2^23.
  const __m256i value = _mm256_sub_epi32(first, _mm256_srli_epi32(_mm256_add_epi32(part, _mm256_set1_epi32(128)), 8));
  // value <= 2^31 and 2^(n+6) <= 2^30: the sum fits u32.
  const __m256i round = _mm256_sllv_epi32(_mm256_set1_epi32(64), n);
  const __m256i e = _mm256_srlv_epi32(_mm256_add_epi32(value, round), _mm256_add_epi32(n, _mm256_set1_epi32(7)));
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(n, _mm256_set1_epi32(GONE - 1)), e);
}

// The same for codes of a row below `largest`; codes above it (behind the row, or masked) count as `largest`.
EIGHT_INLINE __m256i exponentials_of_codes(const uint16_t *codes, int32_t largest, int32_t factor, int32_t shift) {
  const __m256i code = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes));
  const __m256i d = _mm256_max_epi32(_mm256_sub_epi32(_mm256_set1_epi32(largest), code), _mm256_setzero_si256());
  return exponentials(d, factor, shift);
}

// Four 64-bit sums plus those of eight u32.
EIGHT_INLINE __m256i add_exponentials(__m256i sum, __m256i e) {
  const __m256i low = _mm256_and_si256(e, _mm256_set1_epi64x(UINT32_MAX));
  return _mm256_add_epi64(sum, _mm256_add_epi64(low, _mm256_srli_epi64(e, 32)));
}
EIGHT_INLINE uint64_t total_of(__m256i sum) {
  uint64_t lanes[4];
  _mm256_storeu_si256((__m256i *)(void *)lanes, sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

// Exponentials of a whole row into e (zeros up to a multiple of eight); returns their sum. `codes` is readable that far.
static inline __attribute__((unused)) uint64_t exponentials_of_row(const uint16_t *codes, size_t count, int32_t largest,
                                                                   int32_t factor, int32_t shift, uint32_t *e) {
  __m256i sum = _mm256_setzero_si256();
  for (size_t i = 0; i < count; i += 8) {
    __m256i values = exponentials_of_codes(codes + i, largest, factor, shift);
    if (count - i < 8) {
      const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      values = _mm256_and_si256(values, _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)(count - i)), lane));
    }
    _mm256_storeu_si256((__m256i *)(void *)(e + i), values);
    sum = add_exponentials(sum, values);
  }
  return total_of(sum);
}

// e * reciprocal, rounded half up from Q47 by `drop` bits.
EIGHT_INLINE __m256i scaled_exponentials(const uint32_t *e, __m256i reciprocal, int32_t drop) {
  const __m256i values = _mm256_loadu_si256((const __m256i *)(const void *)e);
  const __m256i half = _mm256_set1_epi64x((int64_t)1 << (drop - 1));
  const __m128i count = _mm_cvtsi32_si128(drop);
  const __m256i even = _mm256_srl_epi64(_mm256_add_epi64(_mm256_mul_epu32(values, reciprocal), half), count);
  const __m256i upper = _mm256_mul_epu32(_mm256_srli_epi64(values, 32), reciprocal);
  const __m256i odd = _mm256_srl_epi64(_mm256_add_epi64(upper, half), count);
  return _mm256_blend_epi32(even, _mm256_shuffle_epi32(odd, 0xA0), 0xAA);
}

// u16 probabilities.
EIGHT_INLINE __m256i probabilities_of(const uint32_t *e, __m256i reciprocal) {
  return _mm256_min_epi32(scaled_exponentials(e, reciprocal, 31), _mm256_set1_epi32(65535));
}

#endif
