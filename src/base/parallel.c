// See parallel.h.
#include "base/parallel.h"

#include <pthreadpool.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define PLAIN_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PLAIN_THREADS 1
#endif
#endif

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

#ifdef PLAIN_THREADS
// The thread sanitizer does not see how the installed pthreadpool synchronises, so its builds use threads of their own.
#include <pthread.h>
#include <stdatomic.h>

typedef struct plain_loop {
  atomic_size_t next;
  size_t count;
  itg_parallel_function function;
  void *context;
} plain_loop;

static void *take_indices(void *argument) {
  plain_loop *loop = argument;
  for (size_t i; (i = atomic_fetch_add(&loop->next, 1)) < loop->count;) loop->function(loop->context, i);
  return NULL;
}

static void run_loop(const itg_pool *pool, size_t count, itg_parallel_function function, void *context) {
  enum { MAX_THREADS = 16 };
  plain_loop loop = {.count = count, .function = function, .context = context};
  pthread_t threads[MAX_THREADS];
  int started = 0;
  while (started + 1 < pool->count && started < MAX_THREADS &&
         pthread_create(&threads[started], NULL, take_indices, &loop) == 0)
    started++;
  take_indices(&loop);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
#else
static void run_loop(const itg_pool *pool, size_t count, itg_parallel_function function, void *context) {
  pthreadpool_parallelize_1d(pool->threads, function, context, count, 0);
}
#endif

void itg_parallel_for(itg_pool *pool, size_t count, itg_parallel_function function, void *context) {
  if (!pool || !pool->threads || count < 2) {
    for (size_t i = 0; i < count; i++) function(context, i);
    return;
  }
  run_loop(pool, count, function, context);
}
