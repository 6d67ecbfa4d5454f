// Places buffers with known lifetimes into one block: the smallest gap that fits, in order of execution.
#ifndef ITG_INTERPRET_MEMORY_PLAN_H
#define ITG_INTERPRET_MEMORY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct itg_memory_plan {
  struct itg_live_buffer *live; // Sorted by offset.
  size_t count, capacity;
  size_t peak; // Bytes of the block so far.
} itg_memory_plan;

// A plan starts as zeroes.
void itg_memory_plan_free(itg_memory_plan *plan);
// Forgets the buffers whose last use lies before `time`.
void itg_memory_plan_release(itg_memory_plan *plan, int64_t time);
// False without memory or when the block would pass SIZE_MAX / 2. `bytes` is a multiple of the wanted alignment.
bool itg_memory_plan_place(itg_memory_plan *plan, size_t bytes, int64_t last_use, size_t *offset);
// The live buffer at `offset` is used until `last_use`.
void itg_memory_plan_extend(itg_memory_plan *plan, size_t offset, int64_t last_use);

#endif
