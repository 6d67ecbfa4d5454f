// Choosing the codes of a layer by the error they make in its outputs.
#ifndef ITG_QUANTIZE_WEIGHT_FIT_FIT_H
#define ITG_QUANTIZE_WEIGHT_FIT_FIT_H

#include "quantize/weight_fit/moments.h"
#include "quantize/weight_fit/rows.h"

// What may be tried; each is used for the layer only where it lowers the error on the held samples.
typedef struct itg_weight_fit_options {
  bool feedback; // Rounding with feedback (GPTQ).
  bool target;   // Weights that answer for what the layers before have lost.
  bool gain;     // A gain a row, in its scale (the bias takes the mean in any case).
} itg_weight_fit_options;

// Fills scales, codes, block scales and bias codes of `rows` (all rows; bias_codes not NULL). Scales are the best of a grid
// by the error in the outputs (AIMET's sequential MSE), on what the target allows. Deterministic for any number of threads.
// Errors: MEMORY, QUANTIZATION.
ITG_MUST_USE itg_status itg_weight_fit(const itg_weight_rows *rows, const itg_moments *moments,
                                       const itg_weight_fit_options *options, itg_pool *pool,
                                       itg_diagnostic *diagnostic);

#endif
