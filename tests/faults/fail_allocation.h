// Makes the Nth allocation of our libraries fail, and counts allocations and live blocks. Include it in one file of a
// program in tests/faults/ (tests.cmake wraps the allocator there). Shared libraries and libc itself are not touched.
#ifndef ITG_TESTS_FAULTS_FAIL_ALLOCATION_H
#define ITG_TESTS_FAULTS_FAIL_ALLOCATION_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static atomic_long fail_countdown;   // The allocation that brings it from 1 to 0 fails.
static atomic_long fail_allocations; // Allocations so far, failed ones included.
static atomic_long fail_live;        // Blocks that were allocated and not freed.

// The `number`th allocation from now fails (1: the next one); 0: none.
static inline void fail_allocation(long number) { atomic_store(&fail_countdown, number); }
static inline long allocation_count(void) { return atomic_load(&fail_allocations); }
static inline long live_blocks(void) { return atomic_load(&fail_live); }
// True when the failure that was asked for has not happened yet.
static inline bool fail_is_pending(void) { return atomic_load(&fail_countdown) > 0; }

static inline bool fail_now(void) {
  atomic_fetch_add(&fail_allocations, 1);
  if (atomic_load(&fail_countdown) <= 0) return false;
  return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

static inline void *fail_counted(void *memory) {
  if (memory) atomic_fetch_add(&fail_live, 1);
  return memory;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
char *__real_realpath(const char *path, char *resolved);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
char *__wrap_realpath(const char *path, char *resolved);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size) { return fail_now() ? NULL : fail_counted(__real_malloc(size)); }
void *__wrap_calloc(size_t count, size_t size) { return fail_now() ? NULL : fail_counted(__real_calloc(count, size)); }
void *__wrap_realloc(void *memory, size_t size) {
  if (fail_now()) return NULL;
  void *grown = __real_realloc(memory, size);
  return memory ? grown : fail_counted(grown);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return fail_now() ? NULL : fail_counted(__real_aligned_alloc(alignment, size));
}
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
  if (fail_now()) return ENOMEM;
  const int error = __real_posix_memalign(memory, alignment, size);
  if (error == 0) atomic_fetch_add(&fail_live, 1);
  return error;
}
char *__wrap_strdup(const char *text) { return fail_now() ? NULL : fail_counted(__real_strdup(text)); }
char *__wrap_strndup(const char *text, size_t size) {
  return fail_now() ? NULL : fail_counted(__real_strndup(text, size));
}
char *__wrap_realpath(const char *path, char *resolved) {
  if (resolved) return __real_realpath(path, resolved);
  if (!fail_now()) return fail_counted(__real_realpath(path, NULL));
  errno = ENOMEM;
  return NULL;
}
void __wrap_free(void *memory) {
  if (memory) atomic_fetch_sub(&fail_live, 1);
  __real_free(memory);
}

#endif
