// See accuracy.h.
#include "report/accuracy.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

// Floats kept for the pair measures, both networks together.
static const size_t KEPT_LIMIT = (size_t)32 << 20;
// Below these, float itself hardly tells the samples apart and a ratio would only amplify noise.
static const double MIN_CENTRED_NORM = 1e-3, MIN_SPREAD = 1e-4;
static const double LITTLE_VARIATION = 0.05; // Worth a hint.
static const double MIN_CENTRED_COSINE = 0.5, MIN_SPREAD_RATIO = 0.7, MIN_COSINE = 0.5;

itg_status itg_accuracy_begin(const char *name, size_t samples, size_t elements, itg_diagnostic *diagnostic,
                              itg_accuracy *out) {
  if (samples == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "no samples to measure");
  itg_accuracy accuracy = {.samples = samples, .elements = elements, .stride = 1};
  accuracy.summary = (itg_output_accuracy){.name = name, .samples = samples};
  const size_t share = KEPT_LIMIT / 2 / samples + 1;
  if (elements > share) accuracy.stride = (elements + share - 1) / share;
  accuracy.kept = (elements + accuracy.stride - 1) / accuracy.stride;
  size_t values, pairs;
  if (!itg_checked_multiply(samples, accuracy.kept + 1, &values) || !itg_checked_multiply(samples, samples, &pairs))
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, name, "too many samples");
  accuracy.cosine = calloc(samples, sizeof(double));
  accuracy.float_values = calloc(values, sizeof(float));
  accuracy.integer_values = calloc(values, sizeof(float));
  if (samples > 1) {
    accuracy.float_pairs = calloc(pairs, sizeof(double));
    accuracy.integer_pairs = calloc(pairs, sizeof(double));
  }
  if (!accuracy.cosine || !accuracy.float_values || !accuracy.integer_values ||
      (samples > 1 && (!accuracy.float_pairs || !accuracy.integer_pairs))) {
    itg_accuracy_free(&accuracy);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  *out = accuracy;
  return ITG_OK;
}

void itg_accuracy_free(itg_accuracy *accuracy) {
  free(accuracy->cosine);
  free(accuracy->float_values);
  free(accuracy->integer_values);
  free(accuracy->float_pairs);
  free(accuracy->integer_pairs);
  free(accuracy->worst);
  *accuracy = (itg_accuracy){0};
}

// Two vectors without length point the same way; one without length points nowhere.
static double cosine_of(double dot, double a, double b) {
  if (a <= 0 && b <= 0) return 1;
  if (a <= 0 || b <= 0) return 0;
  const double cosine = dot / sqrt(a * b);
  return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

void itg_accuracy_add(itg_accuracy *accuracy, size_t index, const float *reference, const float *result) {
  double dot = 0, reference_square = 0, result_square = 0, error = 0;
  for (size_t i = 0; i < accuracy->elements; i++) {
    if (!isfinite(reference[i])) continue;
    const double f = reference[i], q = result[i];
    dot += f * q;
    reference_square += f * f;
    result_square += q * q;
    error += (f - q) * (f - q);
  }
  accuracy->cosine[index] = cosine_of(dot, reference_square, result_square);
  accuracy->signal += reference_square;
  accuracy->error += error;
  float *f = accuracy->float_values + index * accuracy->kept, *q = accuracy->integer_values + index * accuracy->kept;
  for (size_t i = 0, k = 0; i < accuracy->elements; i += accuracy->stride, k++) {
    const int finite = isfinite(reference[i]);
    f[k] = finite ? reference[i] : 0;
    q[k] = finite ? result[i] : 0;
  }
}

static double dot_of(const float *a, const float *b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += (double)a[i] * b[i];
  return sum;
}

static itg_status fill_pairs(const float *values, size_t samples, size_t kept, double *pairs,
                             itg_diagnostic *diagnostic) {
  double *norms = calloc(samples, sizeof *norms);
  ITG_TRY_MEMORY(norms, diagnostic);
  for (size_t i = 0; i < samples; i++) norms[i] = dot_of(values + i * kept, values + i * kept, kept);
  for (size_t i = 0; i < samples; i++) {
    pairs[i * samples + i] = 1;
    for (size_t j = 0; j < i; j++) {
      const double dot = dot_of(values + i * kept, values + j * kept, kept);
      pairs[i * samples + j] = pairs[j * samples + i] = cosine_of(dot, norms[i], norms[j]);
    }
  }
  free(norms);
  return ITG_OK;
}

static itg_status centred_measures(itg_accuracy *accuracy, itg_diagnostic *diagnostic) {
  const size_t kept = accuracy->kept;
  double *mean = calloc(kept + 1, sizeof *mean);
  ITG_TRY_MEMORY(mean, diagnostic);
  for (size_t s = 0; s < accuracy->samples; s++) {
    for (size_t i = 0; i < kept; i++) mean[i] += accuracy->float_values[s * kept + i];
  }
  for (size_t i = 0; i < kept; i++) mean[i] /= (double)accuracy->samples;
  double sum = 0, whole = 0, centred = 0, error = 0;
  for (size_t s = 0; s < accuracy->samples; s++) {
    const float *f = accuracy->float_values + s * kept, *q = accuracy->integer_values + s * kept;
    double dot = 0, a = 0, b = 0;
    for (size_t i = 0; i < kept; i++) {
      const double x = f[i] - mean[i], y = q[i] - mean[i];
      dot += x * y;
      a += x * x;
      b += y * y;
      whole += (double)f[i] * f[i];
      error += (x - y) * (x - y);
    }
    centred += a;
    sum += cosine_of(dot, a, b);
  }
  free(mean);
  accuracy->summary.float_variation = whole > 0 ? sqrt(centred / whole) : 0;
  if (accuracy->summary.float_variation <= MIN_CENTRED_NORM) return ITG_OK;
  accuracy->summary.centred_cosine_mean = sum / (double)accuracy->samples;
  accuracy->summary.noise = error / centred;
  return ITG_OK;
}

static double norm_ratio(const itg_accuracy *accuracy) {
  double sum = 0, count = 0;
  for (size_t s = 0; s < accuracy->samples; s++) {
    const float *f = accuracy->float_values + s * accuracy->kept, *q = accuracy->integer_values + s * accuracy->kept;
    const double reference = dot_of(f, f, accuracy->kept);
    if (reference <= 0) continue;
    sum += sqrt(dot_of(q, q, accuracy->kept) / reference);
    count++;
  }
  return count > 0 ? sum / count : NAN;
}

// Marks the `wanted` samples nearest to `sample`; the earlier one of equally near ones.
static void mark_nearest(const double *cosines, size_t n, size_t sample, size_t wanted, bool *nearest) {
  memset(nearest, 0, n * sizeof *nearest);
  for (size_t k = 0; k < wanted; k++) {
    size_t best = n;
    for (size_t j = 0; j < n; j++) {
      if (j != sample && !nearest[j] && (best == n || cosines[j] > cosines[best])) best = j;
    }
    nearest[best] = true;
  }
}

static itg_status retrieval(itg_accuracy *accuracy, itg_diagnostic *diagnostic) {
  const size_t n = accuracy->samples, wanted = n - 1 >= 20 ? 10 : (n - 1) / 2;
  bool *marks = calloc(2 * n, sizeof *marks);
  ITG_TRY_MEMORY(marks, diagnostic);
  size_t same = 0;
  for (size_t i = 0; i < n; i++) {
    mark_nearest(accuracy->float_pairs + i * n, n, i, wanted, marks);
    mark_nearest(accuracy->integer_pairs + i * n, n, i, wanted, marks + n);
    for (size_t j = 0; j < n; j++) same += marks[j] && marks[n + j];
  }
  free(marks);
  accuracy->summary.retrieval_overlap = (double)same / (double)(n * wanted);
  accuracy->summary.retrieval_neighbours = wanted;
  return ITG_OK;
}

static void pair_measures(itg_accuracy *accuracy) {
  const size_t n = accuracy->samples;
  const double count = (double)n * (double)(n - 1) / 2;
  double float_sum = 0, integer_sum = 0, difference = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < i; j++) {
      const double f = accuracy->float_pairs[i * n + j], q = accuracy->integer_pairs[i * n + j];
      float_sum += f;
      integer_sum += q;
      difference += fabs(f - q);
    }
  }
  accuracy->summary.pair_error_mean = difference / count;
  accuracy->summary.pair_shift = (integer_sum - float_sum) / count;
  if (n < 3) return;
  double float_variance = 0, integer_variance = 0, covariance = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < i; j++) {
      const double f = accuracy->float_pairs[i * n + j] - float_sum / count;
      const double q = accuracy->integer_pairs[i * n + j] - integer_sum / count;
      float_variance += f * f;
      integer_variance += q * q;
      covariance += f * q;
    }
  }
  if (sqrt(float_variance / count) < MIN_SPREAD) return;
  accuracy->summary.spread_ratio = sqrt(integer_variance / float_variance);
  accuracy->summary.pair_agreement = integer_variance > 0 ? covariance / sqrt(float_variance * integer_variance) : 0;
}

typedef struct labelled_pair {
  double cosine;
  int same;
} labelled_pair;

static int by_cosine(const void *a, const void *b) {
  const double x = ((const labelled_pair *)a)->cosine, y = ((const labelled_pair *)b)->cosine;
  return (x > y) - (x < y);
}

// Lowest same minus highest different, and the best balanced accuracy over all thresholds ("same" at or above it).
static itg_status verification(const double *pairs, size_t n, const char *const *groups, itg_diagnostic *diagnostic,
                               double *margin, double *balanced) {
  labelled_pair *list = calloc(n * (n - 1) / 2 + 1, sizeof *list);
  ITG_TRY_MEMORY(list, diagnostic);
  size_t count = 0, same = 0, different = 0;
  double lowest_same = INFINITY, highest_different = -INFINITY;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < i; j++) {
      if (!groups[i] || !groups[j]) continue;
      const labelled_pair pair = {pairs[i * n + j], strcmp(groups[i], groups[j]) == 0};
      if (pair.same) {
        same++;
        lowest_same = fmin(lowest_same, pair.cosine);
      } else {
        different++;
        highest_different = fmax(highest_different, pair.cosine);
      }
      list[count++] = pair;
    }
  }
  if (same > 0 && different > 0) {
    qsort(list, count, sizeof *list, by_cosine);
    double best = 0.5;
    size_t rejected_different = 0, rejected_same = 0;
    for (size_t i = 0; i < count; i++) {
      if (list[i].same)
        rejected_same++;
      else
        rejected_different++;
      if (i + 1 < count && list[i + 1].cosine == list[i].cosine) continue; // A threshold cannot part equal values.
      best = fmax(
          best, 0.5 * ((double)rejected_different / (double)different + (double)(same - rejected_same) / (double)same));
    }
    *margin = lowest_same - highest_different;
    *balanced = best;
  }
  free(list);
  return ITG_OK;
}

static itg_status keep_worst(itg_accuracy *accuracy, itg_diagnostic *diagnostic) {
  const size_t n = accuracy->samples, kept = accuracy->kept;
  const size_t wanted = n < ITG_WORST_SAMPLES ? n : ITG_WORST_SAMPLES;
  accuracy->worst = calloc(wanted, sizeof *accuracy->worst);
  ITG_TRY_MEMORY(accuracy->worst, diagnostic);
  for (; accuracy->worst_count < wanted; accuracy->worst_count++) {
    itg_worst_sample *worst = &accuracy->worst[accuracy->worst_count];
    size_t best = n;
    for (size_t s = 0; s < n; s++) {
      bool taken = false;
      for (size_t w = 0; w < accuracy->worst_count; w++) taken = taken || accuracy->worst[w].sample == s;
      if (!taken && (best == n || accuracy->cosine[s] < accuracy->cosine[best])) best = s;
    }
    worst->sample = best;
    worst->count = kept < ITG_WORST_VALUES ? kept : ITG_WORST_VALUES;
    for (size_t i = 0; i < worst->count; i++) {
      const size_t at = best * kept + i * kept / worst->count;
      worst->reference[i] = accuracy->float_values[at];
      worst->result[i] = accuracy->integer_values[at];
    }
  }
  return ITG_OK;
}

itg_status itg_accuracy_finish(itg_accuracy *accuracy, const char *const *groups, itg_diagnostic *diagnostic) {
  itg_output_accuracy *summary = &accuracy->summary;
  const size_t n = accuracy->samples;
  summary->cosine_min = 1;
  for (size_t i = 0; i < n; i++) {
    summary->cosine_mean += accuracy->cosine[i] / (double)n;
    summary->cosine_min = fmin(summary->cosine_min, accuracy->cosine[i]);
  }
  summary->sqnr_db = accuracy->error > 0 ? 10 * log10(accuracy->signal / accuracy->error) : INFINITY;
  summary->centred_cosine_mean = summary->spread_ratio = summary->pair_agreement = summary->pair_error_mean = NAN;
  summary->pair_shift = summary->retrieval_overlap = summary->float_variation = NAN;
  summary->noise = accuracy->signal > 0 ? accuracy->error / accuracy->signal : accuracy->error > 0 ? INFINITY : 0;
  summary->norm_ratio = norm_ratio(accuracy);
  summary->float_margin = summary->integer_margin = NAN;
  summary->float_verification = summary->integer_verification = NAN;
  if (n > 1) {
    ITG_TRY(fill_pairs(accuracy->float_values, n, accuracy->kept, accuracy->float_pairs, diagnostic));
    ITG_TRY(fill_pairs(accuracy->integer_values, n, accuracy->kept, accuracy->integer_pairs, diagnostic));
    pair_measures(accuracy);
    if (n > 2) ITG_TRY(centred_measures(accuracy, diagnostic));
    if (n > 3) ITG_TRY(retrieval(accuracy, diagnostic));
    if (groups) {
      ITG_TRY(verification(accuracy->float_pairs, n, groups, diagnostic, &summary->float_margin,
                           &summary->float_verification));
      ITG_TRY(verification(accuracy->integer_pairs, n, groups, diagnostic, &summary->integer_margin,
                           &summary->integer_verification));
    }
  }
  ITG_TRY(keep_worst(accuracy, diagnostic));
  free(accuracy->float_values);
  free(accuracy->integer_values);
  accuracy->float_values = accuracy->integer_values = NULL;
  return ITG_OK;
}

// What to add when float itself hardly tells the samples apart: then the samples may be what is wrong.
static const char *hint_about(const itg_output_accuracy *summary, char *text, size_t size) {
  *text = '\0';
  if (summary->float_variation < LITTLE_VARIATION)
    snprintf(text, size, " (float itself differs by only %.1f %% between the samples: are they different enough?)",
             100 * summary->float_variation);
  return text;
}

int itg_accuracy_collapsed(const itg_accuracy *outputs, size_t count, char *reason, size_t size) {
  char hint[128];
  for (size_t i = 0; i < count; i++) {
    const itg_output_accuracy *summary = &outputs[i].summary;
    hint_about(summary, hint, sizeof hint);
    if (outputs[i].samples >= 3) {
      // NaN compares false: an output that float hardly changes between samples is judged by its cosine alone.
      if (summary->centred_cosine_mean < MIN_CENTRED_COSINE) {
        snprintf(reason, size,
                 "output \"%.60s\": centred cosine %.3f is below %.1f, samples can no longer be told apart%s",
                 summary->name, summary->centred_cosine_mean, MIN_CENTRED_COSINE, hint);
        return 1;
      }
      if (summary->spread_ratio < MIN_SPREAD_RATIO) {
        snprintf(reason, size, "output \"%.60s\": pair similarities kept %.0f %% of their spread, less than %.0f %%%s",
                 summary->name, 100 * summary->spread_ratio, 100 * MIN_SPREAD_RATIO, hint);
        return 1;
      }
    }
    if (summary->cosine_mean < MIN_COSINE) {
      snprintf(reason, size, "output \"%.60s\": cosine to float %.3f is below %.1f", summary->name,
               summary->cosine_mean, MIN_COSINE);
      return 1;
    }
  }
  return 0;
}
