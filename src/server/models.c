// See models.h. A table of entries under one lock; each entry has a line of waiters, and whoever is first may use or load it.
#include "server/models.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/status.h"
#include "server/compiling.h"
#include "server/fetch.h"
#include "server/log.h"

enum { MAX_MODELS = 64, GONE_POLL_MILLISECONDS = 50, RETRY_SECONDS = 5, TRIM_SECONDS = 5 };

typedef struct waiter {
  struct waiter *next;
} waiter;

typedef struct itg_model_entry {
  itg_service_kind kind;
  char name[ITG_MODEL_NAME], folder[PATH_MAX], label[ITG_MODEL_NAME + 64]; // Task, type and name, for the log.
  waiter *first, **last;                                                   // The first one has the lease.
  size_t waiting;

  // What follows belongs to the holder of the lease, but is written under the lock.
  itg_service *service;
  itg_networks networks;
  bool preloaded, in_use;
  itg_diagnostic failure; // Of the last load; its status is ITG_OK after a good one.
  double failed_at, load_seconds, last_used;
  unsigned long long runs, failures, loads;
  itg_statistics durations;
} itg_model_entry;

typedef struct wanted_model {
  itg_service_kind kind;
  char name[ITG_MODEL_NAME];
} wanted_model;

struct itg_models {
  itg_models_options options;
  pthread_mutex_t lock;
  pthread_cond_t turn; // Somebody left a line.
  pthread_cond_t wake; // For the housekeeper.
  itg_model_entry *entries[MAX_MODELS];
  size_t count;
  wanted_model wanted[MAX_MODELS]; // To be loaded and kept.
  size_t wanted_count;
  bool ending;
  double last_request;
  bool trimmed;
  pthread_t housekeeper;
  itg_fetch *fetch; // NULL: no downloads.
};

bool itg_model_folder_name(const char *name, char out[ITG_MODEL_NAME]) {
  const char *slash = strrchr(name, '/');
  size_t length = 0;
  for (const char *c = slash ? slash + 1 : name; *c; c++) {
    if (*c == '.') continue;
    if (length == ITG_MODEL_NAME - 1) return false;
    out[length++] = *c == ':' || *c == '\\' ? '_' : *c;
  }
  out[length] = '\0';
  return length > 0;
}

// ---- entries; all with the lock held ----

static const char *alias_of(const itg_models *models, const char *name) {
  for (size_t i = 0; i < models->options.alias_count; i++)
    if (strcmp(models->options.aliases[i].name, name) == 0) return models->options.aliases[i].stands_for;
  return name;
}

static itg_status model_folder(const itg_models *models, itg_service_kind kind, const char *name,
                               itg_diagnostic *diagnostic, char folder[PATH_MAX]) {
  char clean[ITG_MODEL_NAME];
  if (!itg_model_folder_name(name, clean)) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "no name for a model");
  const int length = snprintf(folder, PATH_MAX, "%s/%s/%s/%s", models->options.folder, itg_service_task(kind), clean,
                              itg_service_type(kind));
  if (length < 0 || length >= PATH_MAX) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, name, "the path is too long");
  return ITG_OK;
}

// Finds or adds. Only models that have a folder get an entry: names come from requests.
static itg_status find_entry(itg_models *models, itg_service_kind kind, const char *name, itg_diagnostic *diagnostic,
                             itg_model_entry **out) {
  char folder[PATH_MAX];
  ITG_TRY(model_folder(models, kind, alias_of(models, name), diagnostic, folder));
  for (size_t i = 0; i < models->count; i++) {
    if (strcmp(models->entries[i]->folder, folder) != 0) continue;
    *out = models->entries[i];
    return ITG_OK;
  }
  if (!itg_fetch_is_there(folder))
    ITG_FAIL(diagnostic, ITG_ERROR_IO, name, "there is no model in %.250s; put it there (intaglio pull)", folder);
  if (models->count == MAX_MODELS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, name, "more than %d models were asked for", MAX_MODELS);
  itg_model_entry *entry = calloc(1, sizeof *entry);
  ITG_TRY_MEMORY(entry, diagnostic);
  entry->kind = kind;
  snprintf(entry->name, sizeof entry->name, "%s", alias_of(models, name));
  memcpy(entry->folder, folder, strlen(folder) + 1);
  snprintf(entry->label, sizeof entry->label, "%s %s '%s'", itg_service_task(kind), itg_service_type(kind),
           entry->name);
  entry->last = &entry->first;
  models->entries[models->count++] = entry;
  *out = entry;
  return ITG_OK;
}

// ---- the line of an entry; with the lock held ----

static void leave_line(itg_models *models, itg_model_entry *entry, const waiter *self) {
  for (waiter **at = &entry->first; *at; at = &(*at)->next) {
    if (*at != self) continue;
    *at = self->next;
    if (entry->last == &self->next) entry->last = at;
    break;
  }
  entry->waiting--;
  pthread_cond_broadcast(&models->turn);
}

// Waits until `self` is first. False when the asker has gone.
static bool stand_in_line(itg_models *models, itg_model_entry *entry, waiter *self, bool (*gone)(void *),
                          void *gone_context) {
  *entry->last = self;
  entry->last = &self->next;
  entry->waiting++;
  while (entry->first != self || entry->in_use) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += GONE_POLL_MILLISECONDS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&models->turn, &models->lock, &until);
    if (gone && gone(gone_context)) {
      leave_line(models, entry, self);
      return false;
    }
  }
  entry->in_use = true;
  leave_line(models, entry, self);
  return true;
}

// ---- loading; by the holder of the lease, without the lock ----

static void unload(itg_models *models, itg_model_entry *entry) {
  itg_service *service = entry->service;
  pthread_mutex_lock(&models->lock);
  entry->service = NULL;
  pthread_mutex_unlock(&models->lock);
  itg_service_close(service);
}

static void request_compile(const itg_models *models, const itg_model_entry *entry) {
  for (size_t i = 0; models->options.compiling && i < entry->networks.count; i++)
    if (entry->networks.reports[i].place == ITG_PLACE_FLOAT && !entry->networks.reports[i].refused)
      itg_compile_service_request(models->options.compiling, entry->kind, entry->name, entry->folder,
                                  entry->networks.reports[i].name);
}

static itg_status load(itg_models *models, itg_model_entry *entry, itg_diagnostic *diagnostic) {
  const bool may_pass = entry->failure.status == ITG_ERROR_MEMORY; // Others may have given memory back since.
  if (entry->failure.status != ITG_OK && !may_pass && itg_clock() - entry->failed_at < RETRY_SECONDS) {
    if (diagnostic) *diagnostic = entry->failure;
    return entry->failure.status;
  }
  const double start = itg_clock();
  itg_diagnostic why = {0};
  itg_service *service = NULL;
  itg_networks networks = {.options = &models->options.network, .lock = &models->lock, .label = entry->label};
  pthread_mutex_lock(&models->lock);
  entry->networks = networks; // The source keeps its address.
  pthread_mutex_unlock(&models->lock);
  const itg_network_source source = itg_networks_source(&entry->networks);
  const itg_status status = itg_service_open(entry->kind, entry->folder, &source, &why, &service);
  pthread_mutex_lock(&models->lock);
  entry->service = service;
  entry->failure = why;
  entry->failure.status = status;
  entry->failed_at = itg_clock();
  entry->load_seconds = entry->failed_at - start;
  entry->loads += status == ITG_OK;
  pthread_mutex_unlock(&models->lock);
  if (status != ITG_OK) {
    itg_log(ITG_LOG_ERROR, "cannot load %s: %s (%s)", entry->label, why.message, why.subject);
    if (diagnostic) *diagnostic = why;
    return status;
  }
  itg_log(ITG_LOG_INFO, "loaded %s in %.0f ms", entry->label, 1e3 * entry->load_seconds);
  request_compile(models, entry);
  return ITG_OK;
}

itg_status itg_models_take(itg_models *models, itg_service_kind kind, const char *name, bool (*gone)(void *context),
                           void *gone_context, itg_diagnostic *diagnostic, itg_model_lease *out) {
  itg_model_entry *entry = NULL;
  waiter self = {0};
  pthread_mutex_lock(&models->lock);
  models->last_request = itg_clock();
  models->trimmed = false;
  itg_status status = find_entry(models, kind, name, diagnostic, &entry);
  if (status == ITG_ERROR_IO && models->fetch) { // Not there: others go on while it is fetched.
    pthread_mutex_unlock(&models->lock);
    char folder[PATH_MAX];
    status = model_folder(models, kind, alias_of(models, name), diagnostic, folder);
    if (status == ITG_OK)
      status = itg_fetch_model(models->fetch, alias_of(models, name), folder, gone, gone_context, diagnostic);
    pthread_mutex_lock(&models->lock);
    if (status == ITG_OK) status = find_entry(models, kind, name, diagnostic, &entry);
  }
  bool mine = status == ITG_OK && stand_in_line(models, entry, &self, gone, gone_context);
  pthread_mutex_unlock(&models->lock);
  ITG_TRY(status);
  if (!mine) ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, name, "nobody waits for the answer any more");
  if (entry->service && models->options.compiling &&
      itg_compile_service_take_result(models->options.compiling, entry->folder))
    unload(models, entry);
  if (!entry->service) status = load(models, entry, diagnostic);
  *out = (itg_model_lease){entry->service, entry, itg_clock()};
  if (status != ITG_OK) itg_models_give_back(models, out, true);
  return status;
}

void itg_models_give_back(itg_models *models, itg_model_lease *lease, bool failed) {
  itg_model_entry *entry = lease->entry;
  const double now = itg_clock();
  if (!failed) itg_statistics_add(&entry->durations, now - lease->start);
  pthread_mutex_lock(&models->lock);
  entry->in_use = false;
  entry->last_used = models->last_request = now;
  entry->runs += !failed;
  entry->failures += failed;
  pthread_cond_broadcast(&models->turn);
  pthread_mutex_unlock(&models->lock);
  *lease = (itg_model_lease){0};
}

// ---- housekeeping ----

// Closes what has been idle for too long. With the lock held; gives it up while closing.
static void close_idle(itg_models *models) {
  const double now = itg_clock();
  for (size_t i = 0; i < models->count; i++) {
    itg_model_entry *entry = models->entries[i];
    if (!entry->service || entry->in_use || entry->first || entry->preloaded) continue;
    if (models->options.idle_seconds <= 0 || now - entry->last_used < models->options.idle_seconds) continue;
    entry->in_use = true; // Nobody may take it meanwhile.
    itg_service *service = entry->service;
    entry->service = NULL;
    pthread_mutex_unlock(&models->lock);
    itg_service_close(service);
    itg_log(ITG_LOG_INFO, "closed %s after %d s without a request", entry->label, models->options.idle_seconds);
    pthread_mutex_lock(&models->lock);
    entry->in_use = false;
    models->trimmed = false;
    pthread_cond_broadcast(&models->turn);
  }
}

// Loads (and fetches) what is to be kept loaded. With the lock held; gives it up meanwhile.
static void load_wanted(itg_models *models) {
  while (models->wanted_count > 0 && !models->ending) {
    const wanted_model wanted = models->wanted[--models->wanted_count];
    itg_diagnostic why = {0};
    itg_model_lease lease;
    pthread_mutex_unlock(&models->lock);
    const itg_status status = itg_models_take(models, wanted.kind, wanted.name, NULL, NULL, &why, &lease);
    if (status == ITG_OK) itg_models_give_back(models, &lease, false);
    if (status != ITG_OK) itg_log(ITG_LOG_ERROR, "cannot preload '%s': %s", wanted.name, why.message);
    pthread_mutex_lock(&models->lock);
    itg_model_entry *entry;
    if (find_entry(models, wanted.kind, wanted.name, NULL, &entry) == ITG_OK) entry->preloaded = true;
  }
}

static void *keep_house(void *argument) {
  itg_models *models = argument;
  pthread_mutex_lock(&models->lock);
  while (!models->ending) {
    load_wanted(models);
    close_idle(models);
    if (!models->trimmed && itg_clock() - models->last_request > TRIM_SECONDS) {
      models->trimmed = true;
      pthread_mutex_unlock(&models->lock);
      itg_memory_trim(); // Of closed models and of big pictures.
      pthread_mutex_lock(&models->lock);
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += models->trimmed ? models->options.poll_seconds : 1;
    if (!models->ending && models->wanted_count == 0) pthread_cond_timedwait(&models->wake, &models->lock, &until);
  }
  pthread_mutex_unlock(&models->lock);
  return NULL;
}

void itg_models_preload(itg_models *models, itg_service_kind kind, const char *name) {
  pthread_mutex_lock(&models->lock);
  if (models->wanted_count < MAX_MODELS) {
    wanted_model *wanted = &models->wanted[models->wanted_count++];
    wanted->kind = kind;
    snprintf(wanted->name, sizeof wanted->name, "%s", name);
    pthread_cond_signal(&models->wake);
  }
  pthread_mutex_unlock(&models->lock);
}

// ---- life ----

itg_status itg_models_create(const itg_models_options *options, itg_diagnostic *diagnostic, itg_models **out) {
  itg_models *models = calloc(1, sizeof *models);
  ITG_TRY_MEMORY(models, diagnostic);
  models->options = *options;
  if (models->options.poll_seconds < 1) models->options.poll_seconds = 1;
  pthread_mutex_init(&models->lock, NULL);
  pthread_cond_init(&models->turn, NULL);
  pthread_cond_init(&models->wake, NULL);
  const itg_fetch_options fetch = {options->folder, options->organization, options->download_waiters};
  const itg_status status = options->download ? itg_fetch_create(&fetch, diagnostic, &models->fetch) : ITG_OK;
  if (status != ITG_OK) {
    free(models);
    return status;
  }
  if (pthread_create(&models->housekeeper, NULL, keep_house, models) != 0) {
    itg_fetch_destroy(models->fetch);
    free(models);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "no thread to be had");
  }
  *out = models;
  return ITG_OK;
}

void itg_models_cancel(itg_models *models) {
  if (models->fetch) itg_fetch_cancel(models->fetch);
}

void itg_models_destroy(itg_models *models) {
  if (!models) return;
  itg_models_cancel(models);
  pthread_mutex_lock(&models->lock);
  models->ending = true;
  pthread_cond_signal(&models->wake);
  pthread_mutex_unlock(&models->lock);
  pthread_join(models->housekeeper, NULL);
  for (size_t i = 0; i < models->count; i++) {
    itg_service_close(models->entries[i]->service);
    free(models->entries[i]);
  }
  pthread_cond_destroy(&models->turn);
  pthread_cond_destroy(&models->wake);
  pthread_mutex_destroy(&models->lock);
  itg_fetch_destroy(models->fetch);
  free(models);
}

// ---- the status page ----

bool itg_models_status(itg_models *models, size_t index, itg_model_status *out) {
  pthread_mutex_lock(&models->lock);
  const bool there = index < models->count;
  if (there) {
    const itg_model_entry *entry = models->entries[index];
    *out = (itg_model_status){.kind = entry->kind,
                              .state = entry->service                    ? ITG_MODEL_LOADED
                                       : entry->failure.status != ITG_OK ? ITG_MODEL_FAILED
                                                                         : ITG_MODEL_ABSENT,
                              .preloaded = entry->preloaded,
                              .network_count = entry->service ? entry->networks.count : 0,
                              .waiting = entry->waiting,
                              .runs = entry->runs,
                              .failures = entry->failures,
                              .loads = entry->loads,
                              .load_seconds = entry->load_seconds,
                              .idle_seconds = entry->last_used > 0 ? itg_clock() - entry->last_used : 0,
                              .p50 = itg_statistics_percentile(&entry->durations, 0.5),
                              .p90 = itg_statistics_percentile(&entry->durations, 0.9),
                              .p99 = itg_statistics_percentile(&entry->durations, 0.99)};
    memcpy(out->name, entry->name, sizeof out->name);
    if (out->state == ITG_MODEL_FAILED) snprintf(out->problem, sizeof out->problem, "%.250s", entry->failure.message);
    memcpy(out->networks, entry->networks.reports, sizeof out->networks);
    if (models->options.compiling)
      itg_compile_service_status(models->options.compiling, entry->folder, &out->compiling, out->problem,
                                 sizeof out->problem);
  }
  pthread_mutex_unlock(&models->lock);
  return there;
}

bool itg_models_fetching(itg_models *models, itg_fetch_report *out) {
  return models->fetch && itg_fetch_running(models->fetch, out);
}
