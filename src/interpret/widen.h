// Dtypes that are stored but not computed with.
#ifndef ITG_INTERPRET_WIDEN_H
#define ITG_INTERPRET_WIDEN_H

#include "base/arena.h"
#include "graph/graph.h"

// f16, bf16 -> f32; s4 -> s8; others stay.
static inline itg_dtype itg_widened_dtype(itg_dtype dtype) {
  if (dtype == ITG_DTYPE_F16 || dtype == ITG_DTYPE_BF16) return ITG_DTYPE_F32;
  return dtype == ITG_DTYPE_S4 ? ITG_DTYPE_S8 : dtype;
}

// The data of a constant as `dtype` (its own or the widened one), aligned to its element: the constant's own bytes where
// they will do, else a copy in the arena.
ITG_MUST_USE itg_status itg_aligned_constant(const itg_tensor *tensor, itg_dtype dtype, itg_arena *arena,
                                             itg_diagnostic *diagnostic, void **out);

#endif
