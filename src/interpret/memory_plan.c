// Buffer placement; see memory_plan.h.
#include "interpret/memory_plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct itg_live_buffer {
  size_t offset, bytes;
  int64_t last_use;
} itg_live_buffer;

void itg_memory_plan_free(itg_memory_plan *plan) {
  free(plan->live);
  *plan = (itg_memory_plan){0};
}

void itg_memory_plan_release(itg_memory_plan *plan, int64_t time) {
  size_t kept = 0;
  for (size_t i = 0; i < plan->count; i++) {
    if (plan->live[i].last_use >= time) plan->live[kept++] = plan->live[i];
  }
  plan->count = kept;
}

bool itg_memory_plan_place(itg_memory_plan *plan, size_t bytes, int64_t last_use, size_t *offset) {
  if (plan->count == plan->capacity) {
    const size_t capacity = plan->capacity ? plan->capacity * 2 : 64;
    itg_live_buffer *grown = realloc(plan->live, capacity * sizeof *grown);
    if (!grown) return false;
    plan->live = grown;
    plan->capacity = capacity;
  }
  // The end of the last buffer always fits.
  size_t end = 0, position = plan->count, best_gap = SIZE_MAX, chosen = 0;
  for (size_t i = 0; i < plan->count; i++) {
    const size_t gap = plan->live[i].offset - end;
    if (gap >= bytes && gap < best_gap) {
      best_gap = gap;
      position = i;
      chosen = end;
    }
    end = plan->live[i].offset + plan->live[i].bytes;
  }
  if (best_gap == SIZE_MAX) chosen = end;
  if (bytes > SIZE_MAX / 2 - chosen) return false;
  memmove(&plan->live[position + 1], &plan->live[position], (plan->count - position) * sizeof plan->live[0]);
  plan->live[position] = (itg_live_buffer){chosen, bytes, last_use};
  plan->count++;
  if (chosen + bytes > plan->peak) plan->peak = chosen + bytes;
  *offset = chosen;
  return true;
}

void itg_memory_plan_extend(itg_memory_plan *plan, size_t offset, int64_t last_use) {
  for (size_t i = 0; i < plan->count; i++) {
    if (plan->live[i].offset == offset && plan->live[i].bytes > 0 && plan->live[i].last_use < last_use)
      plan->live[i].last_use = last_use;
  }
}
