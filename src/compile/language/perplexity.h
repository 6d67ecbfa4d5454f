// How near an integer decoder comes to its float original on text, token by token.
#ifndef ITG_COMPILE_LANGUAGE_PERPLEXITY_H
#define ITG_COMPILE_LANGUAGE_PERPLEXITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

// Sums over positions; start from zeroes. One thread at a time.
typedef struct itg_token_accuracy {
  size_t tokens;                   // Positions whose next token is known.
  size_t positions;                // All.
  double float_loss, integer_loss; // Sums of -ln p(next token).
  double divergence;               // Sum of KL(float || integer), natural logarithm.
  size_t same_top;                 // Positions whose most probable token is the same.
  float *divergences;              // Of each position; malloc'ed.
  size_t capacity;
} itg_token_accuracy;

// One position: the logits of both, and the token that follows (-1: unknown). Errors: MEMORY.
ITG_MUST_USE itg_status itg_token_accuracy_add(itg_token_accuracy *accuracy, const float *reference,
                                               const float *result, size_t vocabulary, int32_t next,
                                               itg_diagnostic *diagnostic);
void itg_token_accuracy_free(itg_token_accuracy *accuracy);

typedef struct itg_token_summary {
  size_t tokens, positions;
  double float_perplexity, integer_perplexity, ratio; // NaN without tokens.
  double divergence_mean, divergence_999;             // The largest but one in a thousand.
  double top1;                                        // Share of positions.
} itg_token_summary;
// Sorts the divergences.
itg_token_summary itg_token_accuracy_summary(itg_token_accuracy *accuracy);

#endif
