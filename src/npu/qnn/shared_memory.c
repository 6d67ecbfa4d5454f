// See shared_memory.h. Facts: the public FastRPC library (BSD-3), rpcmem.h.
#include "npu/qnn/shared_memory.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SYSTEM_HEAP = 25, CACHED = 1 };

typedef struct rpcmem {
  void *(*allocate)(int heap, uint32_t flags, int size);
  void (*free)(void *memory);
  int (*to_file)(void *memory);
} rpcmem;

static struct {
  pthread_mutex_t lock;
  bool is_open; // Once open, the library stays: its buffers may be in use.
  rpcmem functions;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool find(void *handle, const char *name, void *function, size_t size) {
  void *symbol = dlsym(handle, name);
  memcpy(function, &symbol, size); // ISO C has no cast from an object pointer to a function pointer.
  return symbol != NULL;
}

static bool open_library(const char *directory) {
  char path[600] = "";
  if (directory && snprintf(path, sizeof path, "%s/libcdsprpc.so", directory) >= (int)sizeof path) path[0] = 0;
  void *handle = path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!handle) handle = dlopen("libcdsprpc.so", RTLD_NOW | RTLD_LOCAL);
  if (!handle) handle = dlopen("libcdsprpc.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return false;
  rpcmem found;
  if (!find(handle, "rpcmem_alloc", &found.allocate, sizeof found.allocate) ||
      !find(handle, "rpcmem_free", &found.free, sizeof found.free) ||
      !find(handle, "rpcmem_to_fd", &found.to_file, sizeof found.to_file)) {
    dlclose(handle);
    return false;
  }
  void (*initialize)(void); // Older ones need it.
  if (find(handle, "rpcmem_init", &initialize, sizeof initialize)) initialize();
  shared.functions = found;
  return true;
}

_Bool itg_shared_memory_allocate(const char *directory, size_t size, itg_shared_memory *out) {
  *out = (itg_shared_memory){.file = -1};
  pthread_mutex_lock(&shared.lock);
  shared.is_open = shared.is_open || open_library(directory);
  const bool is_open = shared.is_open;
  pthread_mutex_unlock(&shared.lock);
  if (!is_open || size == 0 || size > INT_MAX) return false;
  void *data = shared.functions.allocate(SYSTEM_HEAP, CACHED, (int)size);
  if (!data) return false;
  const int file = shared.functions.to_file(data);
  if (file < 0) {
    shared.functions.free(data);
    return false;
  }
  memset(data, 0, size);
  *out = (itg_shared_memory){data, size, file};
  return true;
}

void itg_shared_memory_free(itg_shared_memory *memory) {
  if (memory->data) shared.functions.free(memory->data);
  *memory = (itg_shared_memory){.file = -1};
}
