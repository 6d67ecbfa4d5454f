// Rounding with feedback: what the rounding of one weight loses is given to those that are rounded after it.
//
// With H = M D M^T, M unit upper triangular in the order of rounding, the error of a row is the sum of
// D_k (e_k + sum over j < k of e_j M_jk)^2, so rounding w_k + sum e_j M_jk to the nearest code is the best choice step by step.
// The same codes as GPTQ (arXiv 2210.17323) without the inverse of H; shown in QuIP (arXiv 2307.13304).
#ifndef ITG_QUANTIZE_WEIGHT_FIT_FEEDBACK_H
#define ITG_QUANTIZE_WEIGHT_FIT_FEEDBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct itg_feedback {
  int64_t size;
  int64_t *order;  // [size]: columns, largest diagonal of H first ("act-order").
  float *feedback; // [size, size]: row k holds M_jk of j < k, in the order of rounding.
  double *factor; // [size, size]: lower Cholesky factor of the damped H, rows and columns in reverse order of rounding.
} itg_feedback;

// Factors h [size, size] (symmetric, positive semidefinite) plus 1/100 of its mean diagonal. Arena memory. Errors: MEMORY,
// QUANTIZATION (no number in h).
ITG_MUST_USE itg_status itg_feedback_create(const double *h, int64_t size, itg_arena *arena, itg_diagnostic *diagnostic,
                                            itg_feedback *out);
// x with (damped H) x = b; x and b [size] in the order of the columns, may be one array. `scratch`: [size].
void itg_feedback_solve(const itg_feedback *feedback, const double *b, double *x, double *scratch);

#endif
