// The inner loops of calibration. Written so that the compiler vectorises them; the order of the additions is fixed, so
// sums do not depend on anything but the values.
#include "calibrate/observe.h"

#include <float.h>

static void observe_rows(const float *values, int64_t rows, int64_t channels, float *restrict low, float *restrict high,
                         double *restrict sum, double *restrict squares) {
  for (int64_t r = 0; r < rows; r++) {
    const float *row = values + r * channels;
    for (int64_t c = 0; c < channels; c++) {
      const float v = row[c];
      low[c] = v < low[c] ? v : low[c];
      high[c] = v > high[c] ? v : high[c];
      sum[c] += (double)v;
      squares[c] += (double)v * (double)v;
    }
  }
}

void itg_observe_channels(const float *values, int64_t rows, int64_t channels, float *low, float *high, double *sum,
                          double *squares) {
  for (int64_t c = 0; c < channels; c++) {
    low[c] = FLT_MAX;
    high[c] = -FLT_MAX;
    sum[c] = squares[c] = 0;
  }
  observe_rows(values, rows, channels, low, high, sum, squares);
}

// Four histograms side by side, so that equal neighbours (zeros after a ReLU) do not wait for each other's store.
void itg_observe_histogram(const float *values, int64_t count, double low, double high, int32_t bin_count,
                           uint64_t *bins, uint32_t *scratch) {
  const float origin = (float)low, factor = (float)(high > low ? bin_count / (high - low) : 0);
  const float top = (float)(bin_count - 1);
  int32_t index[64];
  for (int64_t begin = 0; begin < count; begin += 64) {
    const int64_t size = count - begin < 64 ? count - begin : 64;
    for (int64_t i = 0; i < size; i++) {
      float t = (values[begin + i] - origin) * factor;
      t = t > 0 ? t : 0; // Also catches NaN.
      t = t < top ? t : top;
      index[i] = (int32_t)t;
    }
    for (int64_t i = 0; i < size; i++) scratch[(i & (ITG_OBSERVE_LANES - 1)) * bin_count + index[i]]++;
  }
  for (int32_t b = 0; b < bin_count; b++) {
    uint64_t total = 0;
    for (int32_t lane = 0; lane < ITG_OBSERVE_LANES; lane++) {
      total += scratch[lane * bin_count + b];
      scratch[lane * bin_count + b] = 0;
    }
    bins[b] += total;
  }
}
