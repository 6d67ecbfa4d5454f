// Formats that weights are stored in: plain floats and the blocks of GGUF, decoded to float32 row by row.
//
// Blocks (the format's public description): Q4_0 32 values, f16 scale, 4 bits - 8; Q4_1 32 values, f16 scale and minimum;
// Q8_0 32 values, f16 scale, s8; Q4_K 256 values in 8 groups with 6-bit scales and minima; Q6_K 256 values in 16 groups with
// s8 scales. Values of a block lie along the last dimension, which must be whole blocks.
#ifndef ITG_TENSOR_BLOCKS_H
#define ITG_TENSOR_BLOCKS_H

#include "base/span.h"
#include "tensor/dtype.h"

typedef enum itg_block_format { // Numbers of GGUF's tensor types.
  ITG_BLOCK_F32 = 0,
  ITG_BLOCK_F16 = 1,
  ITG_BLOCK_Q4_0 = 2,
  ITG_BLOCK_Q4_1 = 3,
  ITG_BLOCK_Q8_0 = 8,
  ITG_BLOCK_Q4_K = 12,
  ITG_BLOCK_Q6_K = 14,
  ITG_BLOCK_BF16 = 30,
  ITG_BLOCK_UNKNOWN = 255,
} itg_block_format;

// "Q4_K"; "?" for a number that this build does not know.
const char *itg_block_format_name(uint32_t format);
bool itg_block_format_is_known(uint32_t format);
// Bytes of a row of `columns` values; false when they are no whole blocks, on overflow and for unknown formats.
bool itg_block_row_bytes(itg_block_format format, int64_t columns, size_t *bytes);
// Decodes one row of `columns` values (whole blocks) at `row`, which may be unaligned.
void itg_block_decode_row(itg_block_format format, const uint8_t *row, int64_t columns, float *out);

#endif
