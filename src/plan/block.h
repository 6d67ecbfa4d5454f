// Running a graph with states over fewer rows than it was compiled for.
//
// The decoder of a language model takes blocks of T positions: every activation is [1,T,..] and only attention looks at other
// rows. So the same steps, weights and buffers compute any number of rows up to T, and what follows the last attention can be
// left out or computed for one row alone. Nothing but the numbers in the tasks changes.
#ifndef ITG_PLAN_BLOCK_H
#define ITG_PLAN_BLOCK_H

#include "plan/plan.h"

// What a plan needs for blocks; all zero for a graph without states.
typedef struct itg_block_info {
  int64_t rows;               // T; 0: the graph has no states.
  int64_t capacity;           // C: positions that the caches hold.
  int64_t prefix;             // P: positions that are in them from the beginning.
  size_t tail;                // Index of the first step after the last attention.
  const itg_tensor *position; // The graph input that counts the cached positions.
} itg_block_info;

// Errors: UNSUPPORTED when the graph has states but mixes rows in other ways, or its attentions differ in T, C or position.
ITG_MUST_USE itg_status itg_plan_block_info(const itg_plan *plan, itg_diagnostic *diagnostic, itg_block_info *out);
// True for tensors of one row a position: [1,T,..], or rotary tables [T,D/2].
bool itg_tensor_has_rows(const itg_tensor *tensor, int64_t rows);
// The plan's steps for `rows` rows (1 .. info->rows) into out[plan->step_count]: equal but for task, units, cost and
// multiply_accumulates. Errors: INTERNAL, LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_plan_block_steps(const itg_plan *plan, const itg_block_info *info, int64_t rows,
                                             itg_diagnostic *diagnostic, itg_step *out);

#endif
