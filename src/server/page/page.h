// What goes on in the server, as HTML for people, JSON for programs and text for Prometheus.
#ifndef ITG_SERVER_PAGE_PAGE_H
#define ITG_SERVER_PAGE_PAGE_H

#include "server/models.h"
#include "server/reply.h"
#include "server/statistics.h"

typedef struct itg_service_counters { // Starts as zeroes.
  double start;                       // itg_clock() when the server started.
  atomic_uint_fast64_t answers[6];    // By hundreds of the status; 0: the client left.
  itg_statistics predict, ping;
} itg_service_counters;

typedef struct itg_page {
  itg_models *models;
  const itg_service_counters *counters;
  size_t waiting, running, queue_capacity, worker_count;
  const char *npu; // A sentence: found, missing (and what), or not asked for.
} itg_page;

// The page needs no script and nothing from elsewhere; it asks for itself again every few seconds.
void itg_page_html(const itg_page *page, itg_reply *reply);
void itg_page_json(const itg_page *page, itg_reply *reply);
void itg_page_metrics(const itg_page *page, itg_reply *reply);

// Bytes of this process in memory, and of the machine in all and free; 0 where unknown.
typedef struct itg_memory_use {
  size_t process, total, available;
} itg_memory_use;
itg_memory_use itg_memory_now(void);

#endif
