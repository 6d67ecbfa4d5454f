// Decoding of stored weights. See blocks.h.
#include "tensor/blocks.h"

#include "base/checked.h"
#include "tensor/half.h"

typedef void (*decode_function)(const uint8_t *block, float *out);

static uint16_t read_u16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }
static float read_f16(const uint8_t *at) { return itg_f16_to_f32(read_u16(at)); }

static void decode_f32(const uint8_t *block, float *out) { memcpy(out, block, sizeof *out); }
static void decode_f16(const uint8_t *block, float *out) { *out = read_f16(block); }
static void decode_bf16(const uint8_t *block, float *out) { *out = itg_bf16_to_f32(read_u16(block)); }

// The low nibbles are the first half of a block, the high ones the second.
static void decode_q4_0(const uint8_t *block, float *out) {
  const float scale = read_f16(block);
  for (int i = 0; i < 16; i++) {
    out[i] = (float)((block[2 + i] & 15) - 8) * scale;
    out[i + 16] = (float)((block[2 + i] >> 4) - 8) * scale;
  }
}

static void decode_q4_1(const uint8_t *block, float *out) {
  const float scale = read_f16(block), minimum = read_f16(block + 2);
  for (int i = 0; i < 16; i++) {
    out[i] = (float)(block[4 + i] & 15) * scale + minimum;
    out[i + 16] = (float)(block[4 + i] >> 4) * scale + minimum;
  }
}

static void decode_q8_0(const uint8_t *block, float *out) {
  const float scale = read_f16(block);
  for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)block[2 + i] * scale;
}

// Scale and minimum of group `g`: 6 bits each, the upper two bits of the last four groups beside the first four.
static void group_of_q4_k(const uint8_t *packed, int g, int *scale, int *minimum) {
  if (g < 4) {
    *scale = packed[g] & 63;
    *minimum = packed[g + 4] & 63;
  } else {
    *scale = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
    *minimum = packed[g + 4] >> 4 | (packed[g] >> 6) << 4;
  }
}

static void decode_q4_k(const uint8_t *block, float *out) {
  const float scale = read_f16(block), minimum = read_f16(block + 2);
  const uint8_t *codes = block + 16;
  for (int g = 0; g < 8; g++, out += 32) {
    int s, m;
    group_of_q4_k(block + 4, g, &s, &m);
    const float step = scale * (float)s, offset = minimum * (float)m;
    const uint8_t *from = codes + g / 2 * 32;
    for (int i = 0; i < 32; i++) out[i] = step * (float)(g & 1 ? from[i] >> 4 : from[i] & 15) - offset;
  }
}

static void decode_q6_k(const uint8_t *block, float *out) {
  const uint8_t *low = block, *high = block + 128;
  const int8_t *scales = (const int8_t *)(block + 192);
  const float scale = read_f16(block + 208);
  for (int half = 0; half < 2; half++) {
    for (int part = 0; part < 4; part++) { // 32 values each: low nibbles, low, high, high; two more bits from `high`.
      for (int i = 0; i < 32; i++) {
        const uint8_t nibbles = low[half * 64 + (part & 1) * 32 + i];
        const int upper = high[half * 32 + i] >> (2 * part) & 3;
        const int code = ((part < 2 ? nibbles & 15 : nibbles >> 4) | upper << 4) - 32;
        out[half * 128 + part * 32 + i] = scale * (float)scales[half * 8 + part * 2 + i / 16] * (float)code;
      }
    }
  }
}

static const struct {
  itg_block_format format;
  const char *name;
  int64_t values;
  size_t bytes;
  decode_function decode;
} formats[] = {{ITG_BLOCK_F32, "F32", 1, 4, decode_f32},        {ITG_BLOCK_F16, "F16", 1, 2, decode_f16},
               {ITG_BLOCK_BF16, "BF16", 1, 2, decode_bf16},     {ITG_BLOCK_Q4_0, "Q4_0", 32, 18, decode_q4_0},
               {ITG_BLOCK_Q4_1, "Q4_1", 32, 20, decode_q4_1},   {ITG_BLOCK_Q8_0, "Q8_0", 32, 34, decode_q8_0},
               {ITG_BLOCK_Q4_K, "Q4_K", 256, 144, decode_q4_k}, {ITG_BLOCK_Q6_K, "Q6_K", 256, 210, decode_q6_k}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static int find(uint32_t format) {
  for (int i = 0; i < FORMATS; i++) {
    if ((uint32_t)formats[i].format == format) return i;
  }
  return -1;
}

const char *itg_block_format_name(uint32_t format) {
  const int index = find(format);
  return index < 0 ? "?" : formats[index].name;
}

bool itg_block_format_is_known(uint32_t format) { return find(format) >= 0; }

bool itg_block_row_bytes(itg_block_format format, int64_t columns, size_t *bytes) {
  const int index = find((uint32_t)format);
  if (index < 0 || columns < 0 || columns % formats[index].values != 0) return false;
  return itg_checked_multiply((size_t)(columns / formats[index].values), formats[index].bytes, bytes);
}

void itg_block_decode_row(itg_block_format format, const uint8_t *row, int64_t columns, float *out) {
  const int index = find((uint32_t)format);
  if (format == ITG_BLOCK_F32) { // The block loops below cost a call a block.
    memcpy(out, row, (size_t)columns * sizeof *out);
    return;
  }
  if (format == ITG_BLOCK_BF16) {
    for (int64_t i = 0; i < columns; i++) out[i] = itg_bf16_to_f32(read_u16(row + 2 * i));
    return;
  }
  for (int64_t i = 0; i < columns; i += formats[index].values, row += formats[index].bytes)
    formats[index].decode(row, out + i);
}
