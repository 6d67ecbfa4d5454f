// Scales, codes and biases of one layer, row by row. See rows.h.
#include "quantize/weight_fit/rows.h"

#include <math.h>
#include <stddef.h>

#include "quantize/recipe.h"

enum { MAX_BLOCK_SCALE = 16, MSE_STEPS = 30 };
static const double bias_limit = 0x1p30;

int8_t itg_weight_encode(double value, double reciprocal, int32_t most) {
  const double code = floor(value * reciprocal + 0.5);
  return (int8_t)(code < -most ? -most : code > most ? most : code);
}

double itg_weight_unit(const itg_weight_rows *rows, int64_t row, int64_t k) {
  const double scale = rows->scales[row];
  return rows->block ? scale * rows->block_scales[(row * rows->length + k) / rows->block] : scale;
}

static double squared_error(const float *row, int64_t length, double scale, int32_t most) {
  double error = 0;
  for (int64_t k = 0; k < length; k++) {
    const double difference = itg_weight_encode((double)row[k], 1 / scale, most) * scale - (double)row[k];
    error += difference * difference;
  }
  return error;
}

// The scale of a row, or of a block of one: of its largest weight, or smaller where the squared error is.
static double wanted_scale(const float *row, int64_t length, int32_t method, int32_t most) {
  float largest = 0;
  for (int64_t k = 0; k < length; k++) largest = fmaxf(largest, fabsf(row[k]));
  const double full = (double)largest / most;
  if (method != ITG_WEIGHT_MSE || full == 0) return full;
  double best = full, best_error = squared_error(row, length, full, most);
  for (int step = 1; step < MSE_STEPS; step++) {
    const double scale = full * (1 - 0.02 * step), error = squared_error(row, length, scale, most);
    if (error < best_error) {
      best = scale;
      best_error = error;
    }
  }
  return best;
}

// A scale of which the bias fits: |b| <= 2^30 * s_x * s_w, with a little room for the rounding of the scale to float.
static double scale_for_bias(const itg_weight_rows *rows, int64_t row) {
  double largest = 0;
  for (int64_t o = row; rows->bias && o < rows->outputs; o += rows->rows)
    largest = fmax(largest, fabs((double)rows->bias[o]));
  return largest / (rows->input_scale * bias_limit) * (1 + 0x1p-20);
}

// The next larger scale whose factor has a mantissa of `bits` bits, so that the NPU's own rounding of the factor changes
// nothing (facts: 24 -> 2 codes on 16-bit activations of v68).
static double snapped(double scale, double unit, int bits) {
  int exponent;
  const double mantissa = frexp(scale / unit, &exponent);
  return ldexp(ceil(ldexp(mantissa, bits) - 1e-6), exponent - bits) * unit;
}

double itg_weight_allowed_scale(const itg_weight_rows *rows, int64_t row, double scale) {
  scale = fmax(fmax(scale, scale_for_bias(rows, row)), rows->smallest_scale);
  if (rows->snap_unit > 0 && scale > 0) scale = snapped(scale, rows->snap_unit, rows->snap_bits);
  scale = (double)(float)scale;
  return scale > 0x1p-100 ? scale : 1.0 / rows->most; // All zero: any scale will do.
}

// LPBQ: block b wants the scale d_b; the channel's is max d_b / 16, and each block takes the nearest multiple of it.
static void round_blocks(const itg_weight_rows *rows, int64_t r, int32_t method, double fill) {
  const int64_t count = rows->length / rows->block;
  const float *row = rows->weight + r * rows->length;
  uint8_t *multiples = rows->block_scales + r * count;
  double largest = 0;
  for (int64_t b = 0; b < count; b++)
    largest = fmax(largest, fill * wanted_scale(row + b * rows->block, rows->block, method, rows->most));
  const double scale = rows->scales[r] = itg_weight_allowed_scale(rows, r, largest / MAX_BLOCK_SCALE);
  for (int64_t b = 0; b < count; b++) {
    const float *weight = row + b * rows->block;
    const double wanted = floor(fill * wanted_scale(weight, rows->block, method, rows->most) / scale + 0.5);
    multiples[b] = (uint8_t)(wanted < 1 ? 1 : wanted > MAX_BLOCK_SCALE ? MAX_BLOCK_SCALE : wanted);
    int8_t *codes = rows->codes + r * rows->length + b * rows->block;
    for (int64_t k = 0; k < rows->block; k++)
      codes[k] = itg_weight_encode((double)weight[k], 1 / (scale * multiples[b]), rows->most);
  }
}

static void round_row(const itg_weight_rows *rows, int64_t r, int32_t method, double fill) {
  if (rows->block) {
    round_blocks(rows, r, method, fill);
    return;
  }
  const float *row = rows->weight + r * rows->length;
  const double scale = itg_weight_allowed_scale(rows, r, fill * wanted_scale(row, rows->length, method, rows->most));
  rows->scales[r] = scale;
  for (int64_t k = 0; k < rows->length; k++)
    rows->codes[r * rows->length + k] = itg_weight_encode((double)row[k], 1 / scale, rows->most);
}

void itg_weight_round_row(const itg_weight_rows *rows, int64_t row, double fill) {
  round_row(rows, row, ITG_WEIGHT_NEAREST, fill);
}

// What the rounded weights of a row lack on average.
static double mean_shift(const itg_weight_rows *rows, int64_t row) {
  const float *weight = rows->weight + row * rows->length;
  const int8_t *codes = rows->codes + row * rows->length;
  const double *means = rows->means + row / (rows->rows / rows->group) * rows->width;
  double shift = 0;
  for (int64_t k = 0; k < rows->length; k++)
    shift += ((double)weight[k] - codes[k] * itg_weight_unit(rows, row, k)) * means[k % rows->width];
  return shift;
}

void itg_weight_set_bias(const itg_weight_rows *rows, int64_t output, double bias) {
  const double code = floor(bias / (rows->input_scale * rows->scales[output % rows->rows]) + 0.5);
  rows->bias_codes[output] = (int32_t)(code < -bias_limit ? -bias_limit : code > bias_limit ? bias_limit : code);
}

void itg_weight_round(const itg_weight_rows *rows) {
  for (int64_t r = 0; r < rows->rows; r++) round_row(rows, r, rows->method, 1);
  for (int64_t o = 0; rows->bias_codes && o < rows->outputs; o++) {
    const double bias = rows->bias ? (double)rows->bias[o] : 0;
    itg_weight_set_bias(rows, o, bias + (rows->means ? mean_shift(rows, o % rows->rows) : 0));
  }
}
