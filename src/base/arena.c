// See arena.h. Blocks of at least 64 KiB; a large request gets a block of its own size.
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/checked.h"

#if defined(__SANITIZE_ADDRESS__)
#define ITG_ARENA_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ITG_ARENA_POISON 1
#endif
#endif
#ifdef ITG_ARENA_POISON
#include <sanitizer/asan_interface.h>
#define POISON(pointer, size) __asan_poison_memory_region((pointer), (size))
#define UNPOISON(pointer, size) __asan_unpoison_memory_region((pointer), (size))
#define REDZONE 64
#else
#define POISON(pointer, size) ((void)0)
#define UNPOISON(pointer, size) ((void)0)
#define REDZONE 0
#endif

enum { BLOCK_BYTES = 64 * 1024, BLOCK_ALIGNMENT = 64 };

struct itg_arena_block {
  struct itg_arena_block *next;
  size_t size;
};

static bool add_block(itg_arena *arena, size_t size) {
  const size_t header = itg_align_up(sizeof(struct itg_arena_block), BLOCK_ALIGNMENT);
  size_t bytes = size > BLOCK_BYTES ? size : BLOCK_BYTES, total;
  if (!itg_checked_add(bytes, header + BLOCK_ALIGNMENT, &total)) return false;
  total &= ~(size_t)(BLOCK_ALIGNMENT - 1);
  struct itg_arena_block *block = aligned_alloc(BLOCK_ALIGNMENT, total);
  if (!block) return false;
  block->next = arena->blocks;
  block->size = total;
  POISON((char *)block + header, total - header);
  arena->blocks = block;
  arena->used = header;
  arena->capacity = total;
  arena->total += total;
  return true;
}

void *itg_arena_allocate(itg_arena *arena, size_t size) {
  if (size == 0) size = 1;
  if (size > SIZE_MAX / 2) return NULL;
  const size_t alignment = size >= 64 ? 64 : 16;
  size_t start = itg_align_up(arena->used, alignment);
  if (!arena->blocks || start > arena->capacity || size + REDZONE > arena->capacity - start) {
    if (!add_block(arena, size + REDZONE)) return NULL;
    start = arena->used;
  }
  void *memory = (char *)arena->blocks + start;
  UNPOISON(memory, size);
  memset(memory, 0, size);
  arena->used = start + size + REDZONE;
  return memory;
}

void *itg_arena_array(itg_arena *arena, size_t count, size_t element_size) {
  size_t size;
  return itg_checked_multiply(count, element_size, &size) ? itg_arena_allocate(arena, size) : NULL;
}

void *itg_arena_copy(itg_arena *arena, const void *source, size_t size) {
  void *memory = itg_arena_allocate(arena, size);
  if (memory && size) memcpy(memory, source, size);
  return memory;
}

char *itg_arena_string(itg_arena *arena, const char *text, size_t length) {
  if (length == SIZE_MAX) return NULL;
  char *copy = itg_arena_allocate(arena, length + 1);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

void itg_arena_free(itg_arena *arena) {
  for (struct itg_arena_block *block = arena->blocks, *next; block; block = next) {
    next = block->next;
    UNPOISON(block, block->size);
    free(block);
  }
  *arena = (itg_arena){0};
}

void itg_memory_trim(void) {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}
