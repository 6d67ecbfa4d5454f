// Choosing the next token from its logits.
#ifndef ITG_PIPELINES_SAMPLER_H
#define ITG_PIPELINES_SAMPLER_H

#include "intaglio/language.h"

// One thread at a time; starts as zeroes.
typedef struct itg_sampler {
  uint64_t state;
  struct itg_candidate *candidates; // Room for a whole vocabulary.
  size_t capacity;
} itg_sampler;

// Starts the random numbers anew. They are the sampler's own (SplitMix64), the same on every machine.
void itg_sampler_seed(itg_sampler *sampler, uint64_t seed);
void itg_sampler_free(itg_sampler *sampler);
// Chooses among `count` logits (which the repetition penalty changes). `seen` are the ids it applies to; one that occurs
// twice counts once. Order: penalty, then with temperature 0 the greatest (the lowest id of equal ones), else top-k, softmax
// with temperature, top-p, min-p, and a draw. Errors: MEMORY.
ITG_MUST_USE itg_status itg_sampler_choose(itg_sampler *sampler, const itg_chat_settings *settings, const int32_t *seen,
                                           size_t seen_count, float *logits, size_t count, itg_diagnostic *diagnostic,
                                           int32_t *out);

#endif
