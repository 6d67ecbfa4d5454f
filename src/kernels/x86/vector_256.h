// Vectors of eight s32 lanes (AVX2, with or without VNNI) for the kernel templates; see vector_512.h.
#ifndef ITG_KERNELS_X86_VECTOR_256_H
#define ITG_KERNELS_X86_VECTOR_256_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AVXVNNI__) || defined(__AVX512VNNI__)
#define VECTOR_VNNI 1
#endif
#define LANES_16 0
#define VECTOR_INLINE static inline __attribute__((always_inline, unused))

enum {
  LANES = 8,
  VECTOR_BYTES = 32,
#if defined(VECTOR_VNNI)
  DOT_BYTES = 32, // Weights of one v_dot_bytes: four s8 a lane.
#else
  DOT_BYTES = 64, // Four s16 a lane: taps 0 and 2 of all lanes, then taps 1 and 3.
#endif
  // Rows of a register tile, by the number of vectors of output channels.
  TILE_ROWS_4 = 3,
  TILE_ROWS_2 = 5,
  TILE_ROWS_1 = 8,
};

typedef __m256i vector;
#if defined(VECTOR_VNNI)
typedef __m256i bytes4; // Four u8 a lane, ready for v_dot_bytes.
#else
typedef struct {
  __m256i even, odd; // u16: bytes 0 and 2, bytes 1 and 3.
} bytes4;
#endif
typedef __m256i selector;

VECTOR_INLINE vector v_load(const void *p) { return _mm256_loadu_si256(p); }
VECTOR_INLINE void v_store(void *p, vector a) { _mm256_storeu_si256(p, a); }
VECTOR_INLINE vector v_zero(void) { return _mm256_setzero_si256(); }
VECTOR_INLINE vector v_set8(int32_t a) { return _mm256_set1_epi8((char)a); }
VECTOR_INLINE vector v_set16(int32_t a) { return _mm256_set1_epi16((short)a); }
VECTOR_INLINE vector v_set32(int32_t a) { return _mm256_set1_epi32(a); }
VECTOR_INLINE vector v_set64(int64_t a) { return _mm256_set1_epi64x(a); }
VECTOR_INLINE vector v_xor(vector a, vector b) { return _mm256_xor_si256(a, b); }
VECTOR_INLINE vector v_add32(vector a, vector b) { return _mm256_add_epi32(a, b); }
VECTOR_INLINE vector v_sub32(vector a, vector b) { return _mm256_sub_epi32(a, b); }
VECTOR_INLINE vector v_mullo32(vector a, vector b) { return _mm256_mullo_epi32(a, b); }
VECTOR_INLINE vector v_min32(vector a, vector b) { return _mm256_min_epi32(a, b); }
VECTOR_INLINE vector v_max32(vector a, vector b) { return _mm256_max_epi32(a, b); }
VECTOR_INLINE vector v_shift_left32(vector a, vector count) { return _mm256_sllv_epi32(a, count); }
VECTOR_INLINE vector v_shift_right32(vector a, vector count) { return _mm256_srav_epi32(a, count); }
VECTOR_INLINE vector v_shift_right32_same(vector a, int32_t count) {
  return _mm256_sra_epi32(a, _mm_cvtsi32_si128(count));
}
VECTOR_INLINE vector v_min_u8(vector a, vector b) { return _mm256_min_epu8(a, b); }
VECTOR_INLINE vector v_max_u8(vector a, vector b) { return _mm256_max_epu8(a, b); }
VECTOR_INLINE vector v_min_u16(vector a, vector b) { return _mm256_min_epu16(a, b); }
VECTOR_INLINE vector v_max_u16(vector a, vector b) { return _mm256_max_epu16(a, b); }
VECTOR_INLINE vector v_min_s16(vector a, vector b) { return _mm256_min_epi16(a, b); }
VECTOR_INLINE vector v_max_s16(vector a, vector b) { return _mm256_max_epi16(a, b); }
VECTOR_INLINE vector v_add_saturated16(vector a, vector b) { return _mm256_adds_epi16(a, b); }
VECTOR_INLINE vector v_shift_right16_1(vector a) { return _mm256_srai_epi16(a, 1); }
VECTOR_INLINE vector v_unpack_low8(vector a, vector b) { return _mm256_unpacklo_epi8(a, b); }
VECTOR_INLINE vector v_unpack_high8(vector a, vector b) { return _mm256_unpackhi_epi8(a, b); }
VECTOR_INLINE vector v_unpack_low16(vector a, vector b) { return _mm256_unpacklo_epi16(a, b); }
VECTOR_INLINE vector v_unpack_high16(vector a, vector b) { return _mm256_unpackhi_epi16(a, b); }
VECTOR_INLINE vector v_multiply_pairs(vector a, vector b) { return _mm256_madd_epi16(a, b); }
VECTOR_INLINE vector v_widen_u8(const void *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)); }
VECTOR_INLINE vector v_widen_u16(const void *p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128(p)); }

VECTOR_INLINE vector v_broadcast32(const void *p) {
  int32_t a;
  __builtin_memcpy(&a, p, sizeof a);
  return _mm256_set1_epi32(a);
}

VECTOR_INLINE vector v_or(vector a, vector b) { return _mm256_or_si256(a, b); }
VECTOR_INLINE vector v_shift_left32_same(vector a, int32_t count) {
  return _mm256_sll_epi32(a, _mm_cvtsi32_si128(count));
}
VECTOR_INLINE vector v_shift_left16(vector a, int32_t count) { return _mm256_sll_epi16(a, _mm_cvtsi32_si128(count)); }
VECTOR_INLINE vector v_shift_right16(vector a, int32_t count) { return _mm256_sra_epi16(a, _mm_cvtsi32_si128(count)); }
VECTOR_INLINE vector v_unpack_low32(vector a, vector b) { return _mm256_unpacklo_epi32(a, b); }
VECTOR_INLINE vector v_unpack_high32(vector a, vector b) { return _mm256_unpackhi_epi32(a, b); }
VECTOR_INLINE vector v_unpack_low64(vector a, vector b) { return _mm256_unpacklo_epi64(a, b); }
VECTOR_INLINE vector v_unpack_high64(vector a, vector b) { return _mm256_unpackhi_epi64(a, b); }
// 2*LANES bytes widened to 16 bits.
VECTOR_INLINE vector v_widen_s8_s16(const void *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(p)); }
VECTOR_INLINE vector v_widen_u8_s16(const void *p) { return _mm256_cvtepu8_epi16(_mm_loadu_si128(p)); }
// Two vectors whose 128-bit parts hold four sums each -> the sums over the parts, vector after vector.
VECTOR_INLINE vector v_sum_parts(const vector *w) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(w[0], w[1], 0x20), _mm256_permute2x128_si256(w[0], w[1], 0x31));
}

VECTOR_INLINE selector v_negative(vector a) { return a; }
VECTOR_INLINE vector v_select(selector s, vector otherwise, vector chosen) {
  return _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(otherwise), _mm256_castsi256_ps(chosen), _mm256_castsi256_ps(s)));
}

// acc += the two products s16 * s16 of each lane, modulo 2^32.
VECTOR_INLINE vector v_dot_pairs(vector acc, vector a, vector b) {
#if defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(acc, a, b);
#elif defined(VECTOR_VNNI)
  return _mm256_dpwssd_epi32(acc, a, b);
#else
  return v_add32(acc, v_multiply_pairs(a, b));
#endif
}

#if defined(VECTOR_VNNI)
VECTOR_INLINE bytes4 v_prepare_bytes(vector x) { return x; }
// acc += the four products u8 * s8 of each lane.
VECTOR_INLINE vector v_dot_bytes(vector acc, bytes4 x, const void *weight) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(acc, x, v_load(weight));
#else
  return _mm256_dpbusd_epi32(acc, x, v_load(weight));
#endif
}
// acc += the two products s16 * s16 of each lane, modulo 2^32.
VECTOR_INLINE vector v_dot_words(vector acc, vector x, const void *weight) {
#if defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(acc, x, v_load(weight));
#else
  return _mm256_dpwssd_epi32(acc, x, v_load(weight));
#endif
}
// Where the weight of (lane, tap) is inside the DOT_BYTES of one v_dot_bytes.
static inline void pack_tap(void *weights, size_t lane, size_t tap, int8_t value) {
  ((int8_t *)weights)[4 * lane + tap] = value;
}
#else
// Widened to 16 bits and multiplied with vpmaddwd: vpmaddubsw would saturate (docs/ARITHMETIC.md 1).
VECTOR_INLINE bytes4 v_prepare_bytes(vector x) {
  return (bytes4){.even = _mm256_and_si256(x, _mm256_set1_epi16(255)), .odd = _mm256_srli_epi16(x, 8)};
}
VECTOR_INLINE vector v_dot_bytes(vector acc, bytes4 x, const void *weight) {
  acc = v_add32(acc, v_multiply_pairs(x.even, v_load(weight)));
  return v_add32(acc, v_multiply_pairs(x.odd, v_load((const uint8_t *)weight + VECTOR_BYTES)));
}
VECTOR_INLINE vector v_dot_words(vector acc, vector x, const void *weight) {
  return v_add32(acc, v_multiply_pairs(x, v_load(weight)));
}
static inline void pack_tap(void *weights, size_t lane, size_t tap, int8_t value) {
  ((int16_t *)weights)[(tap & 1 ? 2 * LANES : 0) + 2 * lane + (tap >> 1)] = value;
}
#endif

// The upper halves of the 64-bit products of the lanes.
VECTOR_INLINE vector v_odd(vector a) { return _mm256_srli_epi64(a, 32); }
VECTOR_INLINE vector v_multiply_high(vector a, vector multiplier, vector multiplier_odd) {
  const __m256i even = _mm256_mul_epi32(a, multiplier), odd = _mm256_mul_epi32(v_odd(a), multiplier_odd);
  return _mm256_blend_epi32(_mm256_shuffle_epi32(even, 0xF5), odd, 0xAA);
}

// Saturating packs inside 128-bit parts.
VECTOR_INLINE vector v_pack_s16(vector a, vector b) { return _mm256_packs_epi32(a, b); }
VECTOR_INLINE vector v_pack_u16(vector a, vector b) { return _mm256_packus_epi32(a, b); }
VECTOR_INLINE vector v_pack_u8(vector a, vector b) { return _mm256_packus_epi16(a, b); }
// From two v_pack_u16 results of a block of four vectors to channel order.
VECTOR_INLINE void v_order_u16(vector *a, vector *b) {
  const __m256i low = _mm256_permute2x128_si256(*a, *b, 0x20), high = _mm256_permute2x128_si256(*a, *b, 0x31);
  *a = low;
  *b = high;
}

// From a v_pack_u8 of v_pack_s16 of vectors in memory order to memory order.
VECTOR_INLINE vector v_order_bytes(vector a) { return _mm256_permute4x64_epi64(a, 0xD8); }

// 64-bit lanes.
VECTOR_INLINE vector v_add64(vector a, vector b) { return _mm256_add_epi64(a, b); }
VECTOR_INLINE vector v_sub64(vector a, vector b) { return _mm256_sub_epi64(a, b); }
VECTOR_INLINE vector v_min64(vector a, vector b) { return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b)); }
VECTOR_INLINE vector v_max64(vector a, vector b) { return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b)); }
// The products of the even s32 lanes.
VECTOR_INLINE vector v_multiply64(vector a, vector b) { return _mm256_mul_epi32(a, b); }
VECTOR_INLINE vector v_shift_right64_same(vector a, int32_t count) {
  return _mm256_srl_epi64(a, _mm_cvtsi32_si128(count));
}
VECTOR_INLINE vector v_shift_right64_signed(vector a, vector count) {
  const __m256i sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), a);
  return _mm256_xor_si256(_mm256_srlv_epi64(_mm256_xor_si256(a, sign), count), sign);
}
VECTOR_INLINE vector v_shift_left64_32(vector a) { return _mm256_slli_epi64(a, 32); }
// The even s32 lanes, widened to 64 bits.
VECTOR_INLINE vector v_even_signed(vector a) {
  const __m256i sign = _mm256_srai_epi32(a, 31);
  return _mm256_blend_epi32(a, _mm256_slli_epi64(sign, 32), 0xAA);
}
// The lower halves: even lanes of the result from `even`, odd ones from `odd`.
VECTOR_INLINE vector v_merge_odd(vector even, vector odd) {
  return _mm256_blend_epi32(even, _mm256_shuffle_epi32(odd, 0xA0), 0xAA);
}

// Writes the first `count` bytes (0 .. VECTOR_BYTES).
VECTOR_INLINE void v_store_bytes(void *p, vector a, size_t count) {
  if (count >= VECTOR_BYTES) {
    v_store(p, a);
  } else {
    uint8_t bytes[VECTOR_BYTES];
    v_store(bytes, a);
    __builtin_memcpy(p, bytes, count);
  }
}
// Writes the lanes, each in 0 .. 255 or 65535, as u8 or u16 in lane order.
VECTOR_INLINE void v_store_lanes_u8(void *p, vector a, size_t count) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i bytes = _mm_packus_epi16(words, words);
  if (count >= LANES) {
    _mm_storel_epi64(p, bytes);
  } else {
    uint8_t copy[16];
    _mm_storeu_si128((__m128i *)(void *)copy, bytes);
    __builtin_memcpy(p, copy, count);
  }
}
VECTOR_INLINE void v_store_lanes_u16(void *p, vector a, size_t count) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  if (count >= LANES) {
    _mm_storeu_si128(p, words);
  } else {
    uint16_t copy[LANES];
    _mm_storeu_si128((__m128i *)(void *)copy, words);
    __builtin_memcpy(p, copy, 2 * count);
  }
}
// Writes 2*LANES s16 lanes, each in 0 .. 255, as u8.
VECTOR_INLINE void v_store_words_u8(void *p, vector a, size_t count) {
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  if (count >= 2 * LANES) {
    _mm_storeu_si128(p, bytes);
  } else {
    uint8_t copy[16];
    _mm_storeu_si128((__m128i *)(void *)copy, bytes);
    __builtin_memcpy(p, copy, count);
  }
}

#endif
