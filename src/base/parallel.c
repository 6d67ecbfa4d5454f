// See parallel.h. The caller takes part and never waits for a thread that has not begun: on a machine whose processors are all
// busy a loop then costs what it costs on one thread. (A pool that waits until every thread has been awake makes a small network
// 15 times slower there.)
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, INSIDE = 0x7fff, OPEN = 0x8000, GENERATION_SHIFT = 16 };
#if defined(__x86_64__) || defined(__i386__)
enum { SPINS = 1000 }; // About 40 microseconds: the next loop of a network mostly comes sooner.
static inline void pause_briefly(void) { __builtin_ia32_pause(); }
#else
enum { SPINS = 20000 };
static inline void pause_briefly(void) {}
#endif

struct itg_pool {
  int count;          // Threads, the caller included.
  pthread_t *threads; // count - 1; those that were started.
  int started;
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  atomic_int sleeping; // Threads that wait for `work`.
  atomic_bool ending;
  // The loop under way: its number, whether threads may still enter, and how many are inside.
  _Atomic uint64_t entry;
  itg_parallel_function function;
  void *context;
  size_t total, chunk;
  atomic_size_t next;
};

int itg_processor_count(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : online > MAX_THREADS ? MAX_THREADS : (int)online;
}

static void take_indices(itg_pool *pool) {
  for (;;) {
    const size_t first = atomic_fetch_add(&pool->next, pool->chunk);
    if (first >= pool->total) return;
    const size_t rest = pool->total - first, end = first + (rest < pool->chunk ? rest : pool->chunk);
    for (size_t i = first; i < end; i++) pool->function(pool->context, i);
  }
}

// ---- the threads ----

static bool is_new(uint64_t entry, uint64_t seen) { return (entry & OPEN) && entry >> GENERATION_SHIFT != seen; }

// Waits for a loop that is not number `seen`; false at the end of the pool.
static bool wait_for_loop(itg_pool *pool, uint64_t seen) {
  for (int i = 0; i < SPINS; i++) {
    if (is_new(atomic_load(&pool->entry), seen)) return true;
    pause_briefly();
  }
  pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->sleeping, 1); // Before the look at `entry`: the caller does the two the other way round.
  while (!is_new(atomic_load(&pool->entry), seen) && !atomic_load(&pool->ending))
    pthread_cond_wait(&pool->work, &pool->lock);
  atomic_fetch_sub(&pool->sleeping, 1);
  pthread_mutex_unlock(&pool->lock);
  return !atomic_load(&pool->ending);
}

static void *work(void *argument) {
  itg_pool *pool = argument;
  uint64_t seen = 0;
  while (wait_for_loop(pool, seen)) {
    uint64_t entry = atomic_load(&pool->entry);
    bool entered = false;
    while (!entered && is_new(entry, seen)) entered = atomic_compare_exchange_weak(&pool->entry, &entry, entry + 1);
    if (!entered) continue;
    seen = entry >> GENERATION_SHIFT;
    take_indices(pool);
    const uint64_t before = atomic_fetch_sub(&pool->entry, 1);
    if ((before & OPEN) || (before & INSIDE) != 1) continue;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
  }
  return NULL;
}

// ---- the caller ----

itg_status itg_pool_create(int thread_count, itg_diagnostic *diagnostic, itg_pool **out) {
  if (thread_count < 0 || thread_count > MAX_THREADS)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "thread count %d is not in 0..%d", thread_count, MAX_THREADS);
  if (thread_count == 0) thread_count = itg_processor_count();
  itg_pool *pool = calloc(1, sizeof *pool);
  ITG_TRY_MEMORY(pool, diagnostic);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, NULL);
  pool->count = thread_count;
  pool->threads = calloc((size_t)thread_count, sizeof *pool->threads);
  bool good = pool->threads != NULL;
  while (good && pool->started < thread_count - 1) {
    good = pthread_create(&pool->threads[pool->started], NULL, work, pool) == 0;
    pool->started += good;
  }
  if (!good) {
    itg_pool_destroy(pool);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "cannot start %d threads", thread_count);
  }
  *out = pool;
  return ITG_OK;
}

void itg_pool_destroy(itg_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->ending, true);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->threads[i], NULL);
  pthread_cond_destroy(&pool->work);
  pthread_cond_destroy(&pool->done);
  pthread_mutex_destroy(&pool->lock);
  free(pool->threads);
  free(pool);
}

int itg_pool_thread_count(const itg_pool *pool) { return pool ? pool->count : 1; }

// Waits for the threads that are in the middle of something; nobody enters any more.
static void close_loop(itg_pool *pool) {
  uint64_t entry = atomic_fetch_and(&pool->entry, ~(uint64_t)OPEN);
  for (int i = 0; (entry & INSIDE) && i < SPINS; i++) {
    pause_briefly();
    entry = atomic_load(&pool->entry);
  }
  if (!(entry & INSIDE)) return;
  pthread_mutex_lock(&pool->lock);
  while (atomic_load(&pool->entry) & INSIDE) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

void itg_parallel_for(itg_pool *pool, size_t count, itg_parallel_function function, void *context) {
  enum { CHUNKS_A_THREAD = 8 };
  if (!pool || pool->started == 0 || count < 2) {
    for (size_t i = 0; i < count; i++) function(context, i);
    return;
  }
  pool->function = function;
  pool->context = context;
  pool->total = count;
  pool->chunk = count / ((size_t)pool->count * CHUNKS_A_THREAD);
  if (pool->chunk == 0) pool->chunk = 1;
  atomic_store(&pool->next, 0);
  const uint64_t number = (atomic_load(&pool->entry) >> GENERATION_SHIFT) + 1;
  atomic_store(&pool->entry, number << GENERATION_SHIFT | OPEN);
  if (atomic_load(&pool->sleeping) > 0) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
  }
  take_indices(pool);
  close_loop(pool);
}
