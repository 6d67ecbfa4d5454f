// See memory.h.
#include "plan/memory.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/checked.h"

// Larger first; among equals the one that comes first, so that the order does not depend on qsort.
static int by_size(const void *left, const void *right) {
  const itg_buffer *a = *(itg_buffer *const *)left, *b = *(itg_buffer *const *)right;
  if (a->size != b->size) return a->size > b->size ? -1 : 1;
  return a < b ? -1 : a > b;
}

static bool meet(const itg_buffer *a, const itg_buffer *b) { return a->first <= b->last && b->first <= a->last; }

// The lowest gap among `placed` (sorted by offset) where `buffer` fits.
static size_t find_offset(const itg_buffer *buffer, itg_buffer *const *placed, size_t count) {
  size_t offset = 0;
  for (size_t i = 0; i < count; i++) {
    if (!meet(buffer, placed[i])) continue;
    if (placed[i]->offset >= offset && placed[i]->offset - offset >= buffer->size) break;
    const size_t end = placed[i]->offset + placed[i]->size;
    if (end > offset) offset = end;
  }
  return offset;
}

itg_status itg_memory_place(itg_buffer *buffers, size_t count, itg_diagnostic *diagnostic, size_t *total) {
  itg_buffer **order = calloc(2 * count + 1, sizeof *order), **placed = order + count;
  ITG_TRY_MEMORY(order, diagnostic);
  size_t sum = 0;
  bool fits = true;
  for (size_t i = 0; i < count; i++) {
    order[i] = &buffers[i];
    fits = fits && itg_checked_add(sum, buffers[i].size, &sum); // No offset below can overflow when the sum does not.
  }
  if (!fits) {
    free(order);
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "the activations do not fit the address space");
  }
  qsort(order, count, sizeof *order, by_size);
  *total = 0;
  for (size_t i = 0; i < count; i++) {
    itg_buffer *buffer = order[i];
    buffer->offset = find_offset(buffer, placed, i);
    size_t at = i;
    for (; at > 0 && placed[at - 1]->offset > buffer->offset; at--) placed[at] = placed[at - 1];
    placed[at] = buffer;
    if (buffer->offset + buffer->size > *total) *total = buffer->offset + buffer->size;
  }
  free(order);
  return ITG_OK;
}
