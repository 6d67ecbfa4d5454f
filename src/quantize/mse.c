// Range of least squared error from histograms (OMSE; facts/quantization.md 1.1).
#include <math.h>

#include "quantize/plan.h"

// What clipping costs, relative to as much squared error by rounding. Errors of rounding differ from element to element and
// average out in the sums behind; those of clipping have one sign, come together where a feature is strong, and grow on
// samples that were not seen. (a8w8+s16, 1 -> 2.5: MiniLM 21.8 -> 23.1 dB, YOLOv8n 94.9 -> 99.0 % of its boxes, RFB-320 96.7 ->
// 97.3 %, face embedder 24.3 -> 24.5 dB; with 10 half of it is lost again. docs/ACCURACY.md has what
// else was tried.)
static const double clip_weight = 2.5;

// Running sums over the bins of one histogram: what clipping at an edge costs follows in constant time.
typedef struct moments {
  double count[ITG_HISTOGRAM_BINS + 1], first[ITG_HISTOGRAM_BINS + 1], second[ITG_HISTOGRAM_BINS + 1];
  double low, width; // Of the histogram and of one bin.
} moments;

static void accumulate(const itg_tensor_statistics *statistics, moments *m) {
  m->low = statistics->low;
  m->width = (statistics->high - statistics->low) / ITG_HISTOGRAM_BINS;
  m->count[0] = m->first[0] = m->second[0] = 0;
  for (int b = 0; b < ITG_HISTOGRAM_BINS; b++) {
    const double x = m->low + (b + 0.5) * m->width, n = (double)statistics->histogram[b];
    m->count[b + 1] = m->count[b] + n;
    m->first[b + 1] = m->first[b] + n * x;
    m->second[b + 1] = m->second[b] + n * x * x;
  }
}

// Number of whole bins below x.
static int bins_below(const moments *m, double x) {
  if (!(m->width > 0) || x <= m->low) return 0;
  const double b = floor((x - m->low) / m->width + 0.5);
  return b >= ITG_HISTOGRAM_BINS ? ITG_HISTOGRAM_BINS : (int)b;
}

static double clip_error(double count, double first, double second, double edge) {
  return fmax(0, second - 2 * edge * first + edge * edge * count);
}

static double error_of(const moments *m, double zeros, double low, double high, int32_t levels) {
  const int a = bins_below(m, low), b = bins_below(m, high);
  const double step = (high - low) / (levels - 1);
  const double below = clip_error(m->count[a], m->first[a], m->second[a], low);
  const double above =
      clip_error(m->count[ITG_HISTOGRAM_BINS] - m->count[b], m->first[ITG_HISTOGRAM_BINS] - m->first[b],
                 m->second[ITG_HISTOGRAM_BINS] - m->second[b], high);
  const double inside = b > a ? m->count[b] - m->count[a] - zeros : 0;
  return clip_weight * (below + above) + fmax(0, inside) * step * step / 12;
}

// Exact zeros (behind a ReLU) sit in the bin at the edge 0 and cost nothing.
static double exact_zeros(const itg_tensor_statistics *statistics) {
  if (statistics->low == 0) return (double)statistics->histogram[0];
  if (statistics->high == 0) return (double)statistics->histogram[ITG_HISTOGRAM_BINS - 1];
  return 0;
}

enum { STEPS = 64 };

static void search(const itg_tensor_statistics *statistics, moments *m, int32_t levels, double (*errors)[STEPS],
                   double low, double high) {
  accumulate(statistics, m);
  const double zeros = exact_zeros(statistics);
  for (int i = 0; i < (low < 0 ? STEPS : 1); i++) {
    for (int j = 0; j < (high > 0 ? STEPS : 1); j++) {
      const double lo = low * (STEPS - i) / STEPS, hi = high * (STEPS - j) / STEPS;
      errors[i][j] += error_of(m, zeros, lo, hi, levels);
    }
  }
}

void itg_range_mse(const itg_tensor_statistics *const *statistics, size_t count, int32_t levels, double *low,
                   double *high) {
  moments m;
  double errors[STEPS][STEPS] = {{0}};
  const double full_low = fmin(*low, 0), full_high = fmax(*high, 0);
  for (size_t i = 0; i < count; i++) {
    if (statistics[i]->count > 0) search(statistics[i], &m, levels, errors, full_low, full_high);
  }
  int best_i = 0, best_j = 0;
  for (int i = 0; i < (full_low < 0 ? STEPS : 1); i++) {
    for (int j = 0; j < (full_high > 0 ? STEPS : 1); j++) {
      if (errors[i][j] < errors[best_i][best_j]) {
        best_i = i;
        best_j = j;
      }
    }
  }
  *low = full_low * (STEPS - best_i) / STEPS;
  *high = full_high * (STEPS - best_j) / STEPS;
}
