// Precision "mixed": which tensors get 16 bits, within a budget (facts/quantization: sensitivity at the network's output, greedy
// choice, measured again, one round of swaps).
#ifndef ITG_COMPILE_MIXED_PRECISION_H
#define ITG_COMPILE_MIXED_PRECISION_H

#include "compile/build.h"
#include "quantize/recipe.h"
#include "report/report.h"

// "cost=1.3": at most 1.3 times what a8w8 takes by the cost model of the target, with as little noise as possible.
// "cosine=0.998": as cheap as possible, with at least this mean cosine of the worst output on the selecting samples.
typedef struct itg_budget {
  double cost;   // 0: not limited.
  double cosine; // NaN: not asked for.
} itg_budget;
// NULL: cost=1.3. Errors: ARGUMENT.
ITG_MUST_USE itg_status itg_budget_parse(const char *text, itg_diagnostic *diagnostic, itg_budget *out);

typedef struct itg_mixed_options {
  itg_build_options build;
  itg_samples selection; // On which alternatives are compared: neither calibrating nor judging ones.
  itg_budget budget;
} itg_mixed_options;

// `recipe` is a8w8+s16 with the methods and range rules to use; its rules are replaced by the ones found. `calibrated` was made
// for it. Channels that were made alike for 8-bit operands leave more to lose in the weights; where so much has become wide that
// 16-bit operands are the better ones to prepare for, the recipe says so, its weights are fitted as those of a16w8, and
// `calibrated` is replaced. Deterministic. Errors: QUANTIZATION (no choice reaches the cosine), those of building and judging.
ITG_MUST_USE itg_status itg_mixed_precision(const itg_float_network *network, itg_calibrated *calibrated,
                                            const itg_mixed_options *options, itg_diagnostic *diagnostic,
                                            itg_recipe *recipe, itg_report_mixed *out);

#endif
