// s4 codes: two a byte, the low four bits first, two's complement; rows follow each other without padding. Freestanding: kernels
// read packed weights through it.
#ifndef ITG_TENSOR_NIBBLES_H
#define ITG_TENSOR_NIBBLES_H

#include <stdint.h>

// Code `index` of a packed array: -8..7.
static inline int32_t itg_nibble(const uint8_t *packed, int64_t index) {
  return (int32_t)((packed[index >> 1] >> (4 * (index & 1)) & 15) ^ 8) - 8;
}

// Stores `code` (-8..7) at `index`; the other code of the byte stays as it is.
static inline void itg_nibble_set(uint8_t *packed, int64_t index, int32_t code) {
  const int shift = (int)(4 * (index & 1));
  packed[index >> 1] = (uint8_t)((packed[index >> 1] & (0xf0 >> shift)) | (code & 15) << shift);
}

// Codes [first, first + count) as s8. With LPBQ each is multiplied by the scale of its block of `block` codes (1..16, so the
// product fits); block_scale NULL: none.
static inline void itg_nibbles_unpack(const uint8_t *packed, const uint8_t *block_scale, int64_t block, int64_t first,
                                      int64_t count, int8_t *out) {
  for (int64_t i = 0; i < count; i++) {
    const int32_t scale = block_scale ? block_scale[(first + i) / block] : 1;
    out[i] = (int8_t)(itg_nibble(packed, first + i) * scale);
  }
}

#endif
