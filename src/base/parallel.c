// See parallel.h.
#include "base/parallel.h"

#include <pthreadpool.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

struct itg_pool {
  pthreadpool_t threads; // NULL when the pool has one thread: pthreadpool then runs in the caller.
  int count;
};

int itg_processor_count(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : online > 1024 ? 1024 : (int)online;
}

itg_status itg_pool_create(int thread_count, itg_diagnostic *diagnostic, itg_pool **out) {
  if (thread_count < 0 || thread_count > 1024)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "thread count %d is not in 0..1024", thread_count);
  if (thread_count == 0) thread_count = itg_processor_count();
  itg_pool *pool = calloc(1, sizeof *pool);
  ITG_TRY_MEMORY(pool, diagnostic);
  if (thread_count != 1) {
    pool->threads = pthreadpool_create((size_t)thread_count);
    if (!pool->threads) {
      free(pool);
      ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "cannot start %d threads", thread_count);
    }
  }
  pool->count = pool->threads ? (int)pthreadpool_get_threads_count(pool->threads) : 1;
  *out = pool;
  return ITG_OK;
}

void itg_pool_destroy(itg_pool *pool) {
  if (!pool) return;
  if (pool->threads) pthreadpool_destroy(pool->threads);
  free(pool);
}

int itg_pool_thread_count(const itg_pool *pool) { return pool ? pool->count : 1; }

void itg_parallel_for(itg_pool *pool, size_t count, itg_parallel_function function, void *context) {
  if (!pool || !pool->threads || count < 2) {
    for (size_t i = 0; i < count; i++) function(context, i);
    return;
  }
  pthreadpool_parallelize_1d(pool->threads, function, context, count, 0);
}
