// An object's arena: many allocations, freed together.
//
// One thread at a time. Allocations are zeroed and aligned to 64 bytes when 64 bytes or larger, else to 16.
// Under AddressSanitizer every allocation is followed by a poisoned gap.
#ifndef ITG_BASE_ARENA_H
#define ITG_BASE_ARENA_H

#include <stddef.h>

typedef struct itg_arena {
  struct itg_arena_block *blocks; // Newest first.
  size_t used, capacity;          // Of the newest block.
  size_t total;                   // Bytes of all blocks.
} itg_arena;

// An arena starts as zeroes: `itg_arena arena = {0};`.
void itg_arena_free(itg_arena *arena);
// Zeroed memory of `size` bytes (1 when 0 is asked for), or NULL.
void *itg_arena_allocate(itg_arena *arena, size_t size);
// Zeroed array; NULL on overflow or no memory.
void *itg_arena_array(itg_arena *arena, size_t count, size_t element_size);
// Copy of `size` bytes, or NULL.
void *itg_arena_copy(itg_arena *arena, const void *source, size_t size);
// NUL-terminated copy of the first `length` characters, or NULL.
char *itg_arena_string(itg_arena *arena, const char *text, size_t length);

// Gives memory that was freed back to the system, where the allocator keeps it.
void itg_memory_trim(void);

#endif
