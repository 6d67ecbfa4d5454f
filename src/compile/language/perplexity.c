// See perplexity.h.
#include "compile/language/perplexity.h"

#include <math.h>
#include <stdlib.h>

#include "interpret/vector_math.h"

// ln of the sum of e^x, and where the largest is.
static double log_sum(const float *x, size_t count, float *largest, size_t *top) {
  size_t best = 0;
  for (size_t i = 1; i < count; i++) best = x[i] > x[best] ? i : best;
  const float most = x[best];
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += (double)itg_expf(x[i] - most);
  *largest = most;
  *top = best;
  return (double)most + log(sum);
}

itg_status itg_token_accuracy_add(itg_token_accuracy *accuracy, const float *reference, const float *result,
                                  size_t vocabulary, int32_t next, itg_diagnostic *diagnostic) {
  if (accuracy->positions == accuracy->capacity) {
    const size_t capacity = accuracy->capacity ? 2 * accuracy->capacity : 1024;
    float *grown = realloc(accuracy->divergences, capacity * sizeof *grown);
    ITG_TRY_MEMORY(grown, diagnostic);
    accuracy->divergences = grown;
    accuracy->capacity = capacity;
  }
  float largest, ignored;
  size_t top, other;
  const double sum = log_sum(reference, vocabulary, &largest, &top);
  const double result_sum = log_sum(result, vocabulary, &ignored, &other);
  double divergence = 0, weight = 0;
  for (size_t i = 0; i < vocabulary; i++) {
    const double p = (double)itg_expf(reference[i] - largest);
    weight += p;
    divergence += p * ((double)reference[i] - (double)result[i]);
  }
  divergence = fmax(0, divergence / weight - sum + result_sum);
  accuracy->divergences[accuracy->positions++] = (float)divergence;
  accuracy->divergence += divergence;
  accuracy->same_top += top == other;
  if (next < 0 || (size_t)next >= vocabulary) return ITG_OK;
  accuracy->tokens++;
  accuracy->float_loss += sum - (double)reference[next];
  accuracy->integer_loss += result_sum - (double)result[next];
  return ITG_OK;
}

void itg_token_accuracy_free(itg_token_accuracy *accuracy) {
  free(accuracy->divergences);
  *accuracy = (itg_token_accuracy){0};
}

static int compare_floats(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

itg_token_summary itg_token_accuracy_summary(itg_token_accuracy *accuracy) {
  itg_token_summary summary = {.tokens = accuracy->tokens, .positions = accuracy->positions};
  const double tokens = (double)accuracy->tokens, positions = (double)accuracy->positions;
  summary.float_perplexity = exp(accuracy->float_loss / tokens);
  summary.integer_perplexity = exp(accuracy->integer_loss / tokens);
  summary.ratio = summary.integer_perplexity / summary.float_perplexity;
  summary.divergence_mean = accuracy->divergence / positions;
  summary.top1 = (double)accuracy->same_top / positions;
  summary.divergence_999 = NAN;
  if (accuracy->positions) {
    qsort(accuracy->divergences, accuracy->positions, sizeof accuracy->divergences[0], compare_floats);
    summary.divergence_999 = (double)accuracy->divergences[(size_t)(0.999 * (positions - 1))];
  }
  return summary;
}
