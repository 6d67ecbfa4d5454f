// Placing buffers with known lifetimes into one block.
#ifndef ITG_PLAN_MEMORY_H
#define ITG_PLAN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { ITG_MEMORY_ALIGNMENT = 64 };

typedef struct itg_buffer {
  size_t size;         // Bytes, a multiple of 64.
  int64_t first, last; // Steps at which it is alive, inclusive.
  size_t offset;       // Result: a multiple of 64.
} itg_buffer;

// Greedy by size: the largest buffer first, each at the lowest offset where it meets no buffer that is alive at the same
// time (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). Deterministic. Writes offsets
// and the size of the whole block. Errors: MEMORY, LIMIT (the block does not fit size_t).
ITG_MUST_USE itg_status itg_memory_place(itg_buffer *buffers, size_t count, itg_diagnostic *diagnostic, size_t *total);

#endif
