// Second moments of what the weights of a layer multiply: the matrix in which the error of rounded weights is measured.
//
// A row of weights w sees windows x of the exact network and windows x' of the rounded one. The squared error of its outputs
// under rounded weights v, with the mean taken out (the bias gives that back), is
//   sum (w x - v x')^2 = const + (v - w) H (v - w)' - 2 (v - w) T' w',   H = sum x' x'^T,   T = sum (x - x') x'^T.
// (GPTQ, arXiv 2210.17323, has H; T corrects for what the layers before have lost.)
#ifndef ITG_QUANTIZE_WEIGHT_FIT_MOMENTS_H
#define ITG_QUANTIZE_WEIGHT_FIT_MOMENTS_H

#include "base/parallel.h"
#include "graph/graph.h"

// Columns that are taken together; longer rows of weights are cut into parts of nearly equal size, between which errors
// count as independent. Bounds the memory of a layer: 4 matrices of doubles and 2 of floats a part, so at most
// 40 * 1152 bytes a weight of a row (53 MB for 1152 columns) and 32 KiB a sampled window.
enum { ITG_MOMENT_COLUMNS = 1152 };

// Which samples: those that choose, and those that tell whether a choice helps. Disjoint.
enum { ITG_MOMENT_FIT = 0, ITG_MOMENT_HELD = 1, ITG_MOMENT_SETS = 2 };

// Of the columns [first, first + size) of the weight rows of one group.
typedef struct itg_moment_part {
  int64_t group, first, size;
  double *h[ITG_MOMENT_SETS], *t[ITG_MOMENT_SETS]; // [size, size], means taken out.
} itg_moment_part;

typedef struct itg_moments {
  int64_t groups, length;            // Weights a row.
  double count[ITG_MOMENT_SETS];     // Windows.
  double *mean_exact, *mean_rounded; // [groups, length], over both sets.
  itg_moment_part *parts;            // Sorted by group, then by column.
  size_t part_count;
} itg_moments;

// Reads the windows that `node` (CONV channels last, FULLY_CONNECTED) sees in the values of its first input: exact[i] and
// rounded[i] of sample i. Even samples fit, odd ones are held. Of each sample at most `most_windows`, evenly spread.
// Deterministic for any number of threads. Arena memory. Errors: MEMORY.
ITG_MUST_USE itg_status itg_moments_collect(const itg_node *node, const float *const *exact,
                                            const float *const *rounded, size_t samples, int64_t most_windows,
                                            itg_pool *pool, itg_arena *arena, itg_diagnostic *diagnostic,
                                            itg_moments *out);

#endif
