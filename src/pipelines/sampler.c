// See sampler.h.
#include "pipelines/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef struct itg_candidate {
  int32_t id;
  float logit;
  double probability;
} itg_candidate;

void itg_sampler_seed(itg_sampler *sampler, uint64_t seed) { sampler->state = seed; }

void itg_sampler_free(itg_sampler *sampler) {
  free(sampler->candidates);
  *sampler = (itg_sampler){0};
}

// SplitMix64 (Steele, Lea and Flood 2014); 53 bits in [0, 1).
static double draw(itg_sampler *sampler) {
  uint64_t x = sampler->state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return (double)(x >> 11) * 0x1p-53;
}

static int32_t likeliest(const float *logits, size_t count) {
  size_t best = 0;
  for (size_t i = 1; i < count; i++) {
    if (logits[i] > logits[best]) best = i;
  }
  return (int32_t)best;
}

// Keskar et al. 2019 (CTRL). Ids that come again are marked by a list of what was already changed.
static void penalize(itg_sampler *sampler, double penalty, const int32_t *seen, size_t seen_count, float *logits,
                     size_t count) {
  uint8_t *done = (uint8_t *)sampler->candidates; // Large enough, and not used yet.
  memset(done, 0, count);
  for (size_t i = 0; i < seen_count; i++) {
    if (seen[i] < 0 || (size_t)seen[i] >= count || done[seen[i]]) continue;
    done[seen[i]] = 1;
    float *logit = &logits[seen[i]];
    *logit = (float)(*logit > 0 ? (double)*logit / penalty : (double)*logit * penalty);
  }
}

// Greater logits first, then lower ids: one order for all.
static int by_logit(const void *left, const void *right) {
  const itg_candidate *a = left, *b = right;
  if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
  return a->id < b->id ? -1 : 1;
}

static itg_status reserve(itg_sampler *sampler, size_t count, itg_diagnostic *diagnostic) {
  if (count <= sampler->capacity) return ITG_OK;
  itg_candidate *grown = realloc(sampler->candidates, count * sizeof *grown);
  ITG_TRY_MEMORY(grown, diagnostic);
  sampler->candidates = grown;
  sampler->capacity = count;
  return ITG_OK;
}

// Candidates that can matter: within 40 temperatures (e^-40) of the greatest, so that sorting stays cheap.
static size_t collect(itg_sampler *sampler, const itg_chat_settings *settings, const float *logits, size_t count) {
  const float floor = logits[likeliest(logits, count)] - (float)(40 * settings->temperature);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (logits[i] >= floor) sampler->candidates[kept++] = (itg_candidate){.id = (int32_t)i, .logit = logits[i]};
  }
  qsort(sampler->candidates, kept, sizeof sampler->candidates[0], by_logit);
  return settings->top_k > 0 && kept > (size_t)settings->top_k ? (size_t)settings->top_k : kept;
}

// The number of candidates whose probabilities reach top_p together and that are at least min_p of the likeliest.
static size_t cut(const itg_chat_settings *settings, itg_candidate *candidates, size_t count) {
  double sum = 0, reached = 0;
  for (size_t i = 0; i < count; i++) {
    candidates[i].probability = exp((double)(candidates[i].logit - candidates[0].logit) / settings->temperature);
    sum += candidates[i].probability;
  }
  size_t kept = 0;
  while (kept < count && (kept == 0 || reached < settings->top_p * sum) &&
         candidates[kept].probability >= settings->min_p)
    reached += candidates[kept++].probability;
  return kept;
}

itg_status itg_sampler_choose(itg_sampler *sampler, const itg_chat_settings *settings, const int32_t *seen,
                              size_t seen_count, float *logits, size_t count, itg_diagnostic *diagnostic,
                              int32_t *out) {
  ITG_TRY(reserve(sampler, count, diagnostic));
  if (settings->repetition_penalty != 1)
    penalize(sampler, settings->repetition_penalty, seen, seen_count, logits, count);
  if (settings->temperature <= 0) {
    *out = likeliest(logits, count);
    return ITG_OK;
  }
  itg_candidate *candidates = sampler->candidates;
  const size_t kept = cut(settings, candidates, collect(sampler, settings, logits, count));
  double sum = 0, reached = 0;
  for (size_t i = 0; i < kept; i++) sum += candidates[i].probability;
  const double target = draw(sampler) * sum;
  size_t chosen = 0;
  for (; chosen + 1 < kept; chosen++) {
    reached += candidates[chosen].probability;
    if (target < reached) break;
  }
  *out = candidates[chosen].id;
  return ITG_OK;
}
