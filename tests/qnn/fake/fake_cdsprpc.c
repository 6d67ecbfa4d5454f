// A FastRPC library that is not the system's: rpcmem buffers are memory files, so that the other side can map them.
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "intaglio/status.h"

enum { MAX_BUFFERS = 64, SYSTEM_HEAP = 25 };
static struct {
  void *data;
  size_t size;
  int file;
} buffers[MAX_BUFFERS];
static long live;
static int refuses;

ITG_API void rpcmem_init(void);
ITG_API void *rpcmem_alloc(int heap, uint32_t flags, int size);
ITG_API void rpcmem_free(void *memory);
ITG_API int rpcmem_to_fd(void *memory);
ITG_API long fake_rpcmem_live(void);
ITG_API void fake_rpcmem_refuse(int refuse);

static int initialized;
void rpcmem_init(void) { initialized = 1; }
long fake_rpcmem_live(void) { return live; }
void fake_rpcmem_refuse(int refuse) { refuses = refuse; }

void *rpcmem_alloc(int heap, uint32_t flags, int size) {
  if (!initialized || heap != SYSTEM_HEAP || flags != 1 || size <= 0) abort(); // A bug of ours.
  for (int i = 0; i < MAX_BUFFERS && !refuses; i++) {
    if (buffers[i].data) continue;
    const int file = memfd_create("rpcmem", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, size) != 0) return NULL;
    void *data = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) return NULL;
    buffers[i].data = data;
    buffers[i].size = (size_t)size;
    buffers[i].file = file;
    live++;
    return data;
  }
  return NULL;
}

void rpcmem_free(void *memory) {
  for (int i = 0; i < MAX_BUFFERS; i++) {
    if (buffers[i].data != memory) continue;
    munmap(memory, buffers[i].size);
    close(buffers[i].file);
    buffers[i].data = NULL;
    live--;
    return;
  }
  abort();
}

int rpcmem_to_fd(void *memory) {
  for (int i = 0; i < MAX_BUFFERS; i++) {
    if (buffers[i].data == memory) return buffers[i].file;
  }
  return -1;
}
