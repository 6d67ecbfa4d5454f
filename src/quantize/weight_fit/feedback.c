// Factorization for rounding with feedback. See feedback.h.
#include "quantize/weight_fit/feedback.h"

#include <math.h>
#include <stdlib.h>

#include "base/vectorised.h"

static const double damping = 0.01; // Of the mean on the diagonal.
enum { MOST_TRIES = 4 };

typedef struct ranked {
  double value;
  int64_t column;
} ranked;

static int compare_ranked(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return (x->column > y->column) - (x->column < y->column);
}

ITG_VECTORISED static double dot(const double *a, const double *b, int64_t count) {
  double lanes[8] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int l = 0; l < 8; l++) lanes[l] += a[i + l] * b[i + l];
  }
  for (; i < count; i++) sum += a[i] * b[i];
  for (int l = 0; l < 8; l++) sum += lanes[l];
  return sum;
}

// Row by row; a holds the lower triangle and becomes the factor. False when a pivot is not positive.
static bool factorize(double *a, int64_t size) {
  for (int64_t i = 0; i < size; i++) {
    double *row = a + i * size;
    for (int64_t j = 0; j < i; j++) row[j] = (row[j] - dot(row, a + j * size, j)) / a[j * size + j];
    const double pivot = row[i] - dot(row, row, i);
    if (!(pivot > 0)) return false;
    row[i] = sqrt(pivot);
  }
  return true;
}

// Of h in the order of rounding, the first column last, with `added` on the diagonal.
static bool fill_and_factorize(itg_feedback *f, const double *h, double added) {
  const int64_t size = f->size;
  for (int64_t i = 0; i < size; i++) {
    for (int64_t j = 0; j <= i; j++)
      f->factor[i * size + j] = h[f->order[size - 1 - i] * size + f->order[size - 1 - j]] + (i == j ? added : 0);
  }
  return factorize(f->factor, size);
}

itg_status itg_feedback_create(const double *h, int64_t size, itg_arena *arena, itg_diagnostic *diagnostic,
                               itg_feedback *out) {
  const size_t n = (size_t)size;
  itg_feedback f = {.size = size};
  f.order = itg_arena_array(arena, n, sizeof f.order[0]);
  f.feedback = itg_arena_array(arena, n * n, sizeof f.feedback[0]);
  f.factor = itg_arena_array(arena, n * n, sizeof f.factor[0]);
  ranked *columns = itg_arena_array(arena, n, sizeof columns[0]);
  ITG_TRY_MEMORY(f.order && f.feedback && f.factor && columns, diagnostic);
  double mean = 0;
  for (int64_t i = 0; i < size; i++) {
    columns[i] = (ranked){h[i * size + i], i};
    mean += h[i * size + i] / (double)size;
  }
  qsort(columns, n, sizeof columns[0], compare_ranked);
  for (int64_t i = 0; i < size; i++) f.order[i] = columns[i].column;
  // Inputs that hardly move around large means leave moments of rounding errors, which may even be negative: more is added, in the
  // end so much that every weight counts the same.
  double added = mean > 0 ? damping * mean : 1, largest = 0;
  bool done = false;
  for (int i = 0; i < MOST_TRIES && !done; i++, added *= 10) done = fill_and_factorize(&f, h, added);
  for (size_t i = 0; i < n * n && !done; i++) largest = fmax(largest, fabs(h[i]));
  if (!done && !fill_and_factorize(&f, h, 1 + 2 * (double)size * largest))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, NULL, "the moments of a layer's input are not finite");
  for (int64_t k = 0; k < size; k++) {
    const int64_t reverse = size - 1 - k;
    for (int64_t j = 0; j < k; j++)
      f.feedback[k * size + j] =
          (float)(f.factor[(size - 1 - j) * size + reverse] / f.factor[reverse * size + reverse]);
  }
  *out = f;
  return ITG_OK;
}

void itg_feedback_solve(const itg_feedback *f, const double *b, double *x, double *scratch) {
  const int64_t n = f->size;
  for (int64_t i = 0; i < n; i++)
    scratch[i] = (b[f->order[n - 1 - i]] - dot(f->factor + i * n, scratch, i)) / f->factor[i * n + i];
  for (int64_t i = n - 1; i >= 0; i--) {
    scratch[i] /= f->factor[i * n + i];
    for (int64_t j = 0; j < i; j++) scratch[j] -= f->factor[i * n + j] * scratch[i];
  }
  for (int64_t i = 0; i < n; i++) x[f->order[n - 1 - i]] = scratch[i];
}
