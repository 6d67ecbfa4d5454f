// See digest.h.
#include "hub/digest.h"

#include <stdio.h>

enum { BLOCK = 64 };

typedef void (*block_function)(uint32_t *state, const uint8_t *block);

static uint32_t rotate_left(uint32_t x, int bits) { return x << bits | x >> (32 - bits); }
static uint32_t rotate_right(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }
static uint32_t big_endian(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void sha1_block(uint32_t *state, const uint8_t *block) {
  static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
  uint32_t w[80];
  for (int t = 0; t < 16; t++) w[t] = big_endian(block + 4 * t);
  for (int t = 16; t < 80; t++) w[t] = rotate_left(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int t = 0; t < 80; t++) {
    const uint32_t f = t < 20   ? (b & c) | (~b & d)
                       : t < 40 ? b ^ c ^ d
                       : t < 60 ? (b & c) | (b & d) | (c & d)
                                : b ^ c ^ d;
    const uint32_t next = rotate_left(a, 5) + f + e + constants[t / 20] + w[t];
    e = d;
    d = c;
    c = rotate_left(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

static void sha256_block(uint32_t *state, const uint8_t *block) {
  static const uint32_t constants[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  uint32_t w[64], s[8];
  for (int t = 0; t < 16; t++) w[t] = big_endian(block + 4 * t);
  for (int t = 16; t < 64; t++) {
    const uint32_t low = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t high = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + low + w[t - 7] + high;
  }
  memcpy(s, state, sizeof s);
  for (int t = 0; t < 64; t++) {
    const uint32_t sum1 = rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25);
    const uint32_t sum0 = rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22);
    const uint32_t first = s[7] + sum1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[t] + w[t];
    const uint32_t second = sum0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

// Hashes `head` (shorter than a block) followed by `bytes`; the state's words come out as hexadecimal digits.
static void digest(uint32_t *state, int words, block_function function, itg_span head, itg_span bytes, char *out) {
  uint8_t block[2 * BLOCK] = {0};
  size_t used = head.size, at = 0;
  if (used) memcpy(block, head.data, used);
  if (used && used + bytes.size >= BLOCK) {
    at = BLOCK - used;
    memcpy(block + used, bytes.data, at);
    function(state, block);
    used = 0;
  }
  if (used == 0)
    for (; bytes.size - at >= BLOCK; at += BLOCK) function(state, bytes.data + at);
  if (bytes.size > at) memcpy(block + used, bytes.data + at, bytes.size - at);
  used += bytes.size - at;
  memset(block + used, 0, sizeof block - used);
  block[used] = 0x80;
  const uint64_t bits = 8 * ((uint64_t)head.size + bytes.size);
  const size_t length = used + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
  for (int i = 0; i < 8; i++) block[length - 1 - (size_t)i] = (uint8_t)(bits >> 8 * i);
  for (size_t start = 0; start < length; start += BLOCK) function(state, block + start);
  for (int i = 0; i < words; i++) snprintf(out + 8 * i, 9, "%08x", state[i]);
}

void itg_sha256_hex(itg_span bytes, char out[ITG_HEX_SHA256]) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  digest(state, 8, sha256_block, (itg_span){0}, bytes, out);
}

void itg_git_blob_hex(itg_span bytes, char out[ITG_HEX_SHA1]) {
  uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  char head[32];
  const int length = snprintf(head, sizeof head, "blob %zu", bytes.size);
  digest(state, 5, sha1_block, (itg_span){(const uint8_t *)head, (size_t)length + 1}, bytes, out);
}
