// A bounded queue of jobs and the threads that work on it.
#ifndef ITG_SERVER_QUEUE_H
#define ITG_SERVER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct itg_queue itg_queue; // Any thread.
typedef void (*itg_queue_function)(void *context, void *job);

// `worker_count` threads call function(context, job), jobs in the order they came; at most `capacity` wait.
ITG_MUST_USE itg_status itg_queue_create(size_t worker_count, size_t capacity, itg_queue_function function,
                                         void *context, itg_diagnostic *diagnostic, itg_queue **out);
// False when the queue is full or ending; the job stays the caller's.
bool itg_queue_push(itg_queue *queue, void *job);
void itg_queue_count(itg_queue *queue, size_t *waiting, size_t *running);
// Finishes what was pushed, then ends the threads and frees. NULL is allowed.
void itg_queue_destroy(itg_queue *queue);

#endif
