// A FastRPC library that is not the system's: rpcmem buffers are memory files, so that the other side can map them.
#include <pthread.h>
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
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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

static void *map_buffer(int index, size_t size) {
  const int file = memfd_create("rpcmem", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)size) != 0) return NULL;
  void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return NULL;
  buffers[index].data = data;
  buffers[index].size = size;
  buffers[index].file = file;
  live++;
  return data;
}

void *rpcmem_alloc(int heap, uint32_t flags, int size) {
  if (!initialized || heap != SYSTEM_HEAP || flags != 1 || size <= 0) abort(); // A bug of ours.
  pthread_mutex_lock(&lock);
  int index = 0;
  while (index < MAX_BUFFERS && buffers[index].data) index++;
  void *data = index < MAX_BUFFERS && !refuses ? map_buffer(index, (size_t)size) : NULL;
  pthread_mutex_unlock(&lock);
  return data;
}

static int find(const void *memory) {
  for (int i = 0; i < MAX_BUFFERS; i++) {
    if (buffers[i].data == memory) return i;
  }
  abort(); // A bug of ours.
}

void rpcmem_free(void *memory) {
  pthread_mutex_lock(&lock);
  const int index = find(memory);
  munmap(memory, buffers[index].size);
  close(buffers[index].file);
  buffers[index].data = NULL;
  live--;
  pthread_mutex_unlock(&lock);
}

int rpcmem_to_fd(void *memory) {
  pthread_mutex_lock(&lock);
  const int file = buffers[find(memory)].file;
  pthread_mutex_unlock(&lock);
  return file;
}
