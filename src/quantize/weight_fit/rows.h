// The integer weights of one layer under construction: what they must hold, and the rules that every way of choosing them
// shares (docs/ARITHMETIC.md 1).
#ifndef ITG_QUANTIZE_WEIGHT_FIT_ROWS_H
#define ITG_QUANTIZE_WEIGHT_FIT_ROWS_H

#include <stdint.h>

typedef struct itg_weight_rows {
  const float *weight, *bias; // bias NULL: none
  int64_t rows, length;       // Scales, and weights a scale.
  int64_t outputs;            // Biases; a multiple of rows (grouped transposed convolutions).
  const double *means;        // Of the input's channels; NULL: no correction.
  int64_t width, group;       // Input channels a weight row sees at each tap; groups.
  double input_scale;
  int32_t method;        // itg_weight_method
  int32_t most;          // Largest code: 127 or 7.
  int64_t block;         // LPBQ: weights that share a block scale; 0 for none.
  double smallest_scale; // The NPU cannot hold less; 0 for our own kernels.
  double snap_unit;      // NPU: scale / snap_unit is the requantization factor; 0 for our own kernels.
  int snap_bits;         // Mantissa bits that the NPU keeps of the factor.
  // The result.
  double *scales;        // [rows]
  int8_t *codes;         // [rows, length]
  uint8_t *block_scales; // [rows, length / block] or NULL
  int32_t *bias_codes;   // [outputs] or NULL
} itg_weight_rows;

// The nearest code of value / scale within [-most, most], half up.
int8_t itg_weight_encode(double value, double reciprocal, int32_t most);
// The real value of one unit of the code at [row, k]: the row's scale, times the block's.
double itg_weight_unit(const itg_weight_rows *rows, int64_t row, int64_t k);
// The nearest scale at or above `scale` that the bias and the target allow.
double itg_weight_allowed_scale(const itg_weight_rows *rows, int64_t row, double scale);
// Sets the scale of a row, and of its blocks, and nearest codes: `fill` times what the largest weight asks for. fill 1 and below.
void itg_weight_round_row(const itg_weight_rows *rows, int64_t row, double fill);
// The same with the method nearest or mse of `rows`, for all of them, and biases with the mean error of the rounding taken
// back where `means` are known (bias correction, arXiv 1906.04721).
void itg_weight_round(const itg_weight_rows *rows);
// bias_codes[output] of a real bias. Needs the row's scale.
void itg_weight_set_bias(const itg_weight_rows *rows, int64_t output, double bias);

#endif
