// A pool of worker threads and a parallel loop (own threads).
//
// The pool may be used by one caller at a time; loops do not nest. Results must not depend on the split: each index
// writes its own output, and reductions are done in index order afterwards.
#ifndef ITG_BASE_PARALLEL_H
#define ITG_BASE_PARALLEL_H

#include <stddef.h>

#include "base/status.h"

typedef struct itg_pool itg_pool;
typedef void (*itg_parallel_function)(void *context, size_t index);

// Processors that this process may run on (its affinity), at least 1.
int itg_processor_count(void);
// `thread_count` 0 means one per available processor. The calling thread is one of them.
ITG_MUST_USE itg_status itg_pool_create(int thread_count, itg_diagnostic *diagnostic, itg_pool **out);
void itg_pool_destroy(itg_pool *pool);           // NULL is allowed.
int itg_pool_thread_count(const itg_pool *pool); // 1 for NULL.
// Calls function(context, i) once for every i < count and returns when all are done. NULL pool: in the calling thread.
void itg_parallel_for(itg_pool *pool, size_t count, itg_parallel_function function, void *context);

#endif
