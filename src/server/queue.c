// See queue.h: a ring under one lock.
#include "server/queue.h"

#include <pthread.h>
#include <stdlib.h>

struct itg_queue {
  pthread_mutex_t lock;
  pthread_cond_t more;
  itg_queue_function function;
  void *context;
  void **ring;
  size_t capacity, first, waiting, running, worker_count;
  bool ending;
  pthread_t *workers;
};

static void *work(void *argument) {
  itg_queue *queue = argument;
  pthread_mutex_lock(&queue->lock);
  for (;;) {
    while (queue->waiting == 0 && !queue->ending) pthread_cond_wait(&queue->more, &queue->lock);
    if (queue->waiting == 0) break;
    void *job = queue->ring[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    queue->waiting--;
    queue->running++;
    pthread_mutex_unlock(&queue->lock);
    queue->function(queue->context, job);
    pthread_mutex_lock(&queue->lock);
    queue->running--;
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

itg_status itg_queue_create(size_t worker_count, size_t capacity, itg_queue_function function, void *context,
                            itg_diagnostic *diagnostic, itg_queue **out) {
  itg_queue *queue = calloc(1, sizeof *queue);
  ITG_TRY_MEMORY(queue, diagnostic);
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->more, NULL);
  queue->function = function;
  queue->context = context;
  queue->capacity = capacity;
  queue->ring = calloc(capacity, sizeof *queue->ring);
  queue->workers = calloc(worker_count, sizeof *queue->workers);
  bool good = queue->ring && queue->workers;
  while (good && queue->worker_count < worker_count) {
    good = pthread_create(&queue->workers[queue->worker_count], NULL, work, queue) == 0;
    if (good) queue->worker_count++;
  }
  if (!good) {
    itg_queue_destroy(queue);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "no memory or no threads for %zu workers", worker_count);
  }
  *out = queue;
  return ITG_OK;
}

bool itg_queue_push(itg_queue *queue, void *job) {
  pthread_mutex_lock(&queue->lock);
  const bool room = !queue->ending && queue->waiting < queue->capacity;
  if (room) {
    queue->ring[(queue->first + queue->waiting) % queue->capacity] = job;
    queue->waiting++;
    pthread_cond_signal(&queue->more);
  }
  pthread_mutex_unlock(&queue->lock);
  return room;
}

void itg_queue_count(itg_queue *queue, size_t *waiting, size_t *running) {
  pthread_mutex_lock(&queue->lock);
  *waiting = queue->waiting;
  *running = queue->running;
  pthread_mutex_unlock(&queue->lock);
}

void itg_queue_destroy(itg_queue *queue) {
  if (!queue) return;
  pthread_mutex_lock(&queue->lock);
  queue->ending = true;
  pthread_cond_broadcast(&queue->more);
  pthread_mutex_unlock(&queue->lock);
  for (size_t i = 0; i < queue->worker_count; i++) pthread_join(queue->workers[i], NULL);
  pthread_cond_destroy(&queue->more);
  pthread_mutex_destroy(&queue->lock);
  free(queue->ring);
  free(queue->workers);
  free(queue);
}
