// Vectors of sixteen s32 lanes (AVX-512 with VNNI) for the kernel templates of this folder; vector_256.h is its twin.
//
// Interleaving and packing work inside 128-bit parts, so the lanes of a block of accumulators are not in channel order;
// lane_channel() of rescale.h says which channel a lane holds, and packing restores the order.
#ifndef ITG_KERNELS_X86_VECTOR_512_H
#define ITG_KERNELS_X86_VECTOR_512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_16 1
#define VECTOR_INLINE static inline __attribute__((always_inline, unused))

enum {
  LANES = 16,
  VECTOR_BYTES = 64,
  DOT_BYTES = 64, // Weights of one dot_bytes: four s8 a lane.
  // Rows of a register tile, by the number of vectors of output channels.
  TILE_ROWS_4 = 6,
  TILE_ROWS_2 = 8,
  TILE_ROWS_1 = 8,
};

typedef __m512i vector;
typedef __m512i bytes4;     // Four u8 a lane, ready for dot_bytes.
typedef __mmask16 selector; // A choice a lane.

VECTOR_INLINE vector v_load(const void *p) { return _mm512_loadu_si512(p); }
VECTOR_INLINE void v_store(void *p, vector a) { _mm512_storeu_si512(p, a); }
VECTOR_INLINE vector v_zero(void) { return _mm512_setzero_si512(); }
VECTOR_INLINE vector v_set8(int32_t a) { return _mm512_set1_epi8((char)a); }
VECTOR_INLINE vector v_set16(int32_t a) { return _mm512_set1_epi16((short)a); }
VECTOR_INLINE vector v_set32(int32_t a) { return _mm512_set1_epi32(a); }
VECTOR_INLINE vector v_set64(int64_t a) { return _mm512_set1_epi64(a); }
VECTOR_INLINE vector v_xor(vector a, vector b) { return _mm512_xor_si512(a, b); }
VECTOR_INLINE vector v_add32(vector a, vector b) { return _mm512_add_epi32(a, b); }
VECTOR_INLINE vector v_sub32(vector a, vector b) { return _mm512_sub_epi32(a, b); }
VECTOR_INLINE vector v_mullo32(vector a, vector b) { return _mm512_mullo_epi32(a, b); }
VECTOR_INLINE vector v_min32(vector a, vector b) { return _mm512_min_epi32(a, b); }
VECTOR_INLINE vector v_max32(vector a, vector b) { return _mm512_max_epi32(a, b); }
VECTOR_INLINE vector v_shift_left32(vector a, vector count) { return _mm512_sllv_epi32(a, count); }
VECTOR_INLINE vector v_shift_right32(vector a, vector count) { return _mm512_srav_epi32(a, count); }
VECTOR_INLINE vector v_shift_right32_same(vector a, int32_t count) {
  return _mm512_sra_epi32(a, _mm_cvtsi32_si128(count));
}
VECTOR_INLINE vector v_min_u8(vector a, vector b) { return _mm512_min_epu8(a, b); }
VECTOR_INLINE vector v_max_u8(vector a, vector b) { return _mm512_max_epu8(a, b); }
VECTOR_INLINE vector v_min_u16(vector a, vector b) { return _mm512_min_epu16(a, b); }
VECTOR_INLINE vector v_max_u16(vector a, vector b) { return _mm512_max_epu16(a, b); }
VECTOR_INLINE vector v_min_s16(vector a, vector b) { return _mm512_min_epi16(a, b); }
VECTOR_INLINE vector v_max_s16(vector a, vector b) { return _mm512_max_epi16(a, b); }
VECTOR_INLINE vector v_add_saturated16(vector a, vector b) { return _mm512_adds_epi16(a, b); }
VECTOR_INLINE vector v_shift_right16_1(vector a) { return _mm512_srai_epi16(a, 1); }
VECTOR_INLINE vector v_unpack_low8(vector a, vector b) { return _mm512_unpacklo_epi8(a, b); }
VECTOR_INLINE vector v_unpack_high8(vector a, vector b) { return _mm512_unpackhi_epi8(a, b); }
VECTOR_INLINE vector v_unpack_low16(vector a, vector b) { return _mm512_unpacklo_epi16(a, b); }
VECTOR_INLINE vector v_unpack_high16(vector a, vector b) { return _mm512_unpackhi_epi16(a, b); }
VECTOR_INLINE vector v_multiply_pairs(vector a, vector b) { return _mm512_madd_epi16(a, b); }
VECTOR_INLINE vector v_widen_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(p)); }
VECTOR_INLINE vector v_widen_u16(const void *p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256(p)); }

VECTOR_INLINE vector v_broadcast32(const void *p) {
  int32_t a;
  __builtin_memcpy(&a, p, sizeof a);
  return _mm512_set1_epi32(a);
}

VECTOR_INLINE vector v_or(vector a, vector b) { return _mm512_or_si512(a, b); }
VECTOR_INLINE vector v_shift_left32_same(vector a, int32_t count) {
  return _mm512_sll_epi32(a, _mm_cvtsi32_si128(count));
}
VECTOR_INLINE vector v_shift_left16(vector a, int32_t count) { return _mm512_sll_epi16(a, _mm_cvtsi32_si128(count)); }
VECTOR_INLINE vector v_shift_right16(vector a, int32_t count) { return _mm512_sra_epi16(a, _mm_cvtsi32_si128(count)); }
VECTOR_INLINE vector v_unpack_low32(vector a, vector b) { return _mm512_unpacklo_epi32(a, b); }
VECTOR_INLINE vector v_unpack_high32(vector a, vector b) { return _mm512_unpackhi_epi32(a, b); }
VECTOR_INLINE vector v_unpack_low64(vector a, vector b) { return _mm512_unpacklo_epi64(a, b); }
VECTOR_INLINE vector v_unpack_high64(vector a, vector b) { return _mm512_unpackhi_epi64(a, b); }
// 2*LANES bytes widened to 16 bits.
VECTOR_INLINE vector v_widen_s8_s16(const void *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p)); }
VECTOR_INLINE vector v_widen_u8_s16(const void *p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256(p)); }
// Four vectors whose 128-bit parts hold four sums each -> the sums over the parts, vector after vector.
VECTOR_INLINE vector v_sum_parts(const vector *w) {
  const __m512i a = _mm512_add_epi32(_mm512_shuffle_i32x4(w[0], w[1], 0x88), _mm512_shuffle_i32x4(w[0], w[1], 0xDD));
  const __m512i b = _mm512_add_epi32(_mm512_shuffle_i32x4(w[2], w[3], 0x88), _mm512_shuffle_i32x4(w[2], w[3], 0xDD));
  return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}

VECTOR_INLINE selector v_negative(vector a) { return _mm512_movepi32_mask(a); }
VECTOR_INLINE vector v_select(selector s, vector otherwise, vector chosen) {
  return _mm512_mask_mov_epi32(otherwise, s, chosen);
}

VECTOR_INLINE bytes4 v_prepare_bytes(vector x) { return x; }
// acc += the four products u8 * s8 of each lane.
VECTOR_INLINE vector v_dot_bytes(vector acc, bytes4 x, const void *weight) {
  return _mm512_dpbusd_epi32(acc, x, v_load(weight));
}
// acc += the two products s16 * s16 of each lane, modulo 2^32.
VECTOR_INLINE vector v_dot_words(vector acc, vector x, const void *weight) {
  return _mm512_dpwssd_epi32(acc, x, v_load(weight));
}
// acc += the two products s16 * s16 of each lane, modulo 2^32.
VECTOR_INLINE vector v_dot_pairs(vector acc, vector a, vector b) { return _mm512_dpwssd_epi32(acc, a, b); }
// Where the weight of (lane, tap) is inside the DOT_BYTES of one v_dot_bytes.
static inline void pack_tap(void *weights, size_t lane, size_t tap, int8_t value) {
  ((int8_t *)weights)[4 * lane + tap] = value;
}

// The upper halves of the 64-bit products of the lanes.
VECTOR_INLINE vector v_odd(vector a) { return _mm512_srli_epi64(a, 32); }
VECTOR_INLINE vector v_multiply_high(vector a, vector multiplier, vector multiplier_odd) {
  const __m512i even = _mm512_mul_epi32(a, multiplier), odd = _mm512_mul_epi32(v_odd(a), multiplier_odd);
  return _mm512_mask_shuffle_epi32(odd, 0x5555, even, (_MM_PERM_ENUM)0xF5);
}

// Saturating packs inside 128-bit parts.
VECTOR_INLINE vector v_pack_s16(vector a, vector b) { return _mm512_packs_epi32(a, b); }
VECTOR_INLINE vector v_pack_u16(vector a, vector b) { return _mm512_packus_epi32(a, b); }
VECTOR_INLINE vector v_pack_u8(vector a, vector b) { return _mm512_packus_epi16(a, b); }
// From two v_pack_u16 results of a block of four vectors to channel order.
VECTOR_INLINE void v_order_u16(vector *a, vector *b) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i low = _mm512_permutex2var_epi64(*a, first, *b), high = _mm512_permutex2var_epi64(*a, second, *b);
  *a = low;
  *b = high;
}

// From a v_pack_u8 of v_pack_s16 of vectors in memory order (a0, a1 from the first half) to memory order.
VECTOR_INLINE vector v_order_bytes(vector a) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), a);
}

// 64-bit lanes.
VECTOR_INLINE vector v_add64(vector a, vector b) { return _mm512_add_epi64(a, b); }
VECTOR_INLINE vector v_sub64(vector a, vector b) { return _mm512_sub_epi64(a, b); }
VECTOR_INLINE vector v_min64(vector a, vector b) { return _mm512_min_epi64(a, b); }
VECTOR_INLINE vector v_max64(vector a, vector b) { return _mm512_max_epi64(a, b); }
// The products of the even s32 lanes.
VECTOR_INLINE vector v_multiply64(vector a, vector b) { return _mm512_mul_epi32(a, b); }
VECTOR_INLINE vector v_shift_right64_same(vector a, int32_t count) {
  return _mm512_srl_epi64(a, _mm_cvtsi32_si128(count));
}
VECTOR_INLINE vector v_shift_right64_signed(vector a, vector count) { return _mm512_srav_epi64(a, count); }
VECTOR_INLINE vector v_shift_left64_32(vector a) { return _mm512_slli_epi64(a, 32); }
// The even s32 lanes, widened to 64 bits.
VECTOR_INLINE vector v_even_signed(vector a) { return _mm512_srai_epi64(_mm512_slli_epi64(a, 32), 32); }
// The lower halves: even lanes of the result from `even`, odd ones from `odd`.
VECTOR_INLINE vector v_merge_odd(vector even, vector odd) {
  return _mm512_mask_shuffle_epi32(even, 0xAAAA, odd, (_MM_PERM_ENUM)0xA0);
}

// Writes the first `count` bytes (0 .. VECTOR_BYTES).
VECTOR_INLINE void v_store_bytes(void *p, vector a, size_t count) {
  if (count >= VECTOR_BYTES) {
    v_store(p, a);
  } else {
    _mm512_mask_storeu_epi8(p, ((__mmask64)1 << count) - 1, a);
  }
}
// Writes the lanes, each in 0 .. 255 or 65535, as u8 or u16 in lane order.
VECTOR_INLINE void v_store_lanes_u8(void *p, vector a, size_t count) {
  const __mmask16 mask = count >= LANES ? (__mmask16)0xFFFF : (__mmask16)((1u << count) - 1);
  _mm512_mask_cvtepi32_storeu_epi8(p, mask, a);
}
VECTOR_INLINE void v_store_lanes_u16(void *p, vector a, size_t count) {
  const __mmask16 mask = count >= LANES ? (__mmask16)0xFFFF : (__mmask16)((1u << count) - 1);
  _mm256_mask_storeu_epi16(p, mask, _mm512_cvtepi32_epi16(a));
}
// Writes 2*LANES s16 lanes, each in 0 .. 255, as u8.
VECTOR_INLINE void v_store_words_u8(void *p, vector a, size_t count) {
  const __mmask32 mask = count >= 2 * LANES ? 0xFFFFFFFFu : (__mmask32)((1u << count) - 1);
  _mm256_mask_storeu_epi8(p, mask, _mm512_cvtepi16_epi8(a));
}

#endif
