// Memory that the CPU and the NPU share, so that FastRPC copies nothing: rpcmem of the system's libcdsprpc.so, found at run time.
#ifndef ITG_NPU_QNN_SHARED_MEMORY_H
#define ITG_NPU_QNN_SHARED_MEMORY_H

#include <stddef.h>

typedef struct itg_shared_memory {
  void *data; // Page-aligned, zeroed; NULL: none.
  size_t size;
  int file; // Owned by the library.
} itg_shared_memory;

// False when there is no such library (x86-64; `directory`, which may be NULL, is looked into first) or it gives nothing: plain
// memory does as well, with a copy. Thread-safe.
_Bool itg_shared_memory_allocate(const char *directory, size_t size, itg_shared_memory *out);
void itg_shared_memory_free(itg_shared_memory *memory);

#endif
