// See fetch.h.
#include "server/fetch.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "intaglio/hub.h"
#include "server/log.h"
#include "server/statistics.h"

enum { FAILURES = 16, NAME = 128, RETRY_SECONDS = 60, LOG_SECONDS = 10 };

typedef struct failure {
  char name[NAME];
  double at;
  itg_diagnostic why;
} failure;

struct itg_fetch {
  itg_fetch_options options;
  pthread_mutex_t lock; // Over what follows.
  pthread_cond_t ended; // A download.
  bool busy;
  size_t waiting;
  itg_fetch_report running; // Of the one that is busy.
  failure failures[FAILURES];
  size_t failure_count; // Ever; the ring keeps the newest.
  double logged;
  atomic_bool cancelled;
};

bool itg_fetch_is_there(const char *folder) {
  static const char *const names[] = {"model.itg", "model.onnx"};
  for (int i = 0; i < 2; i++) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0) return true;
  }
  return false;
}

itg_status itg_fetch_create(const itg_fetch_options *options, itg_diagnostic *diagnostic, itg_fetch **out) {
  itg_fetch *fetch = calloc(1, sizeof *fetch);
  ITG_TRY_MEMORY(fetch, diagnostic);
  fetch->options = *options;
  pthread_mutex_init(&fetch->lock, NULL);
  pthread_cond_init(&fetch->ended, NULL);
  *out = fetch;
  return ITG_OK;
}

void itg_fetch_destroy(itg_fetch *fetch) {
  if (!fetch) return;
  pthread_cond_destroy(&fetch->ended);
  pthread_mutex_destroy(&fetch->lock);
  free(fetch);
}

void itg_fetch_cancel(itg_fetch *fetch) { atomic_store(&fetch->cancelled, true); }

static int show_progress(void *context, const char *stage, long long done, long long total) {
  itg_fetch *fetch = context;
  const double now = itg_clock();
  pthread_mutex_lock(&fetch->lock);
  snprintf(fetch->running.file, sizeof fetch->running.file, "%s", stage);
  fetch->running.done = done;
  fetch->running.total = total;
  pthread_mutex_unlock(&fetch->lock);
  if (now - fetch->logged >= LOG_SECONDS) {
    fetch->logged = now;
    itg_log(ITG_LOG_INFO, "fetching %s: %.1f of %.1f MiB", stage, (double)done / (1 << 20), (double)total / (1 << 20));
  }
  return atomic_load(&fetch->cancelled);
}

static const failure *find_failure(const itg_fetch *fetch, const char *name) {
  for (size_t i = 0; i < FAILURES; i++) {
    const failure *f = &fetch->failures[i];
    if (strcmp(f->name, name) == 0 && itg_clock() - f->at < RETRY_SECONDS) return f;
  }
  return NULL;
}

static void remember(itg_fetch *fetch, const char *name, const itg_diagnostic *why) {
  failure *f = &fetch->failures[fetch->failure_count++ % FAILURES];
  snprintf(f->name, sizeof f->name, "%s", name);
  f->at = itg_clock();
  f->why = *why;
}

static itg_status pull(itg_fetch *fetch, const char *name, itg_diagnostic *diagnostic) {
  itg_hub_options options;
  itg_hub_options_default(&options);
  options.organization = fetch->options.organization;
  options.progress = show_progress;
  options.progress_context = fetch;
  size_t fetched = 0, kept = 0;
  fetch->logged = itg_clock();
  itg_log(ITG_LOG_INFO, "fetching the model '%s' into %s", name, fetch->options.cache);
  ITG_TRY(itg_hub_pull(fetch->options.cache, name, &options, diagnostic, &fetched, &kept));
  itg_log(ITG_LOG_INFO, "fetched the model '%s': %zu files, %zu were there", name, fetched, kept);
  return ITG_OK;
}

// Waits until nobody fetches; with the lock held.
static itg_status wait_for_turn(itg_fetch *fetch, const char *name, bool (*gone)(void *), void *gone_context,
                                itg_diagnostic *diagnostic) {
  if (!fetch->busy) return ITG_OK;
  if (fetch->waiting >= fetch->options.most_waiting)
    ITG_FAIL(diagnostic, ITG_ERROR_TIMEOUT, name, "a model is being fetched; ask again later");
  bool left = false;
  fetch->waiting++;
  while (fetch->busy && !left) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_cond_timedwait(&fetch->ended, &fetch->lock, &until);
    left = gone && gone(gone_context);
  }
  fetch->waiting--;
  if (left) ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, name, "nobody waits for the answer any more");
  return ITG_OK;
}

// Without the lock; this call alone fetches.
static itg_status fetch_once(itg_fetch *fetch, const char *name, const char *folder, itg_diagnostic *diagnostic) {
  if (atomic_load(&fetch->cancelled)) ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, name, "the service is about to stop");
  itg_status status = pull(fetch, name, diagnostic);
  if (status == ITG_OK && !itg_fetch_is_there(folder))
    status =
        itg_fail(diagnostic, ITG_ERROR_IO, name, __FILE__, __LINE__, "the hub's model has nothing for %.200s", folder);
  if (status != ITG_OK) itg_log(ITG_LOG_ERROR, "cannot fetch the model '%s': %s", name, diagnostic->message);
  return status;
}

itg_status itg_fetch_model(itg_fetch *fetch, const char *name, const char *folder, bool (*gone)(void *context),
                           void *gone_context, itg_diagnostic *diagnostic) {
  itg_diagnostic why = {0};
  pthread_mutex_lock(&fetch->lock);
  itg_status status = wait_for_turn(fetch, name, gone, gone_context, &why);
  const failure *before = status == ITG_OK ? find_failure(fetch, name) : NULL;
  if (before) {
    why = before->why;
    status = why.status;
  } else if (status == ITG_OK && !itg_fetch_is_there(folder)) {
    fetch->busy = true;
    fetch->running = (itg_fetch_report){0};
    snprintf(fetch->running.model, sizeof fetch->running.model, "%s", name);
    pthread_mutex_unlock(&fetch->lock);
    status = fetch_once(fetch, name, folder, &why);
    pthread_mutex_lock(&fetch->lock);
    if (status != ITG_OK && status != ITG_ERROR_CANCELLED) remember(fetch, name, &why);
    fetch->busy = false;
    pthread_cond_broadcast(&fetch->ended);
  }
  pthread_mutex_unlock(&fetch->lock);
  if (status != ITG_OK && diagnostic) *diagnostic = why;
  return status;
}

bool itg_fetch_running(itg_fetch *fetch, itg_fetch_report *out) {
  pthread_mutex_lock(&fetch->lock);
  const bool busy = fetch->busy;
  *out = fetch->running;
  pthread_mutex_unlock(&fetch->lock);
  return busy;
}
