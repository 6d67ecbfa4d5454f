// See immich.h: routes to handlers; the slow one goes through the queue.
#include "server/immich.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/log.h"
#include "server/page/page.h"
#include "server/predict.h"
#include "server/queue.h"

struct itg_immich {
  itg_immich_options options;
  itg_models *models;
  itg_http_server *http;
  itg_queue *queue;
  itg_service_counters counters;
};

static bool client_gone(void *request) { return itg_http_client_gone(request); }

// ---- handlers; on the input/output thread ----

static void answer_ping(void *context, itg_http_request *request) {
  (void)context;
  itg_http_respond_text(request, 200, "text/plain; charset=utf-8", "pong");
}

static void answer_reply(itg_http_request *request, int status, const char *content_type, itg_reply *reply) {
  if (reply->failed) {
    itg_reply_free(reply);
    itg_http_respond_detail(request, 503, "out of memory");
    return;
  }
  itg_http_respond(request, status, content_type, reply->data, reply->size);
}

static void fill_page(itg_immich *immich, itg_page *page) {
  *page = (itg_page){.models = immich->models, .counters = &immich->counters, .npu = immich->options.npu};
  itg_queue_count(immich->queue, &page->waiting, &page->running);
  page->queue_capacity = immich->options.queue_capacity;
  page->worker_count = immich->options.worker_count;
}

static void answer_root(void *context, itg_http_request *request) {
  itg_immich *immich = context;
  const char *accept = itg_http_header(request, "Accept");
  if (!accept || !strstr(accept, "text/html")) {
    itg_http_respond_text(request, 200, "application/json", "{\"message\":\"Immich ML\"}");
    return;
  }
  itg_page page;
  itg_reply reply = {0};
  fill_page(immich, &page);
  itg_page_html(&page, &reply);
  answer_reply(request, 200, "text/html; charset=utf-8", &reply);
}

static void answer_status(void *context, itg_http_request *request) {
  itg_page page;
  itg_reply reply = {0};
  fill_page(context, &page);
  itg_page_json(&page, &reply);
  answer_reply(request, 200, "application/json", &reply);
}

static void answer_metrics(void *context, itg_http_request *request) {
  itg_page page;
  itg_reply reply = {0};
  fill_page(context, &page);
  itg_page_metrics(&page, &reply);
  answer_reply(request, 200, "text/plain; version=0.0.4; charset=utf-8", &reply);
}

static void answer_predict(void *context, itg_http_request *request) {
  itg_immich *immich = context;
  if (!itg_queue_push(immich->queue, request)) itg_http_respond_detail(request, 503, "The queue is full");
}

static void observe(void *context, const itg_http_exchange *exchange) {
  itg_immich *immich = context;
  itg_log(ITG_LOG_DEBUG, "%s %s -> %d, %.1f ms, %zu bytes", exchange->method, exchange->path, exchange->status,
          1e3 * exchange->seconds, exchange->body_size);
  const int group = exchange->status / 100;
  atomic_fetch_add(&immich->counters.answers[group >= 2 && group <= 5 ? group : 0], 1);
  if (strcmp(exchange->path, "/predict") == 0) itg_statistics_add(&immich->counters.predict, exchange->seconds);
  if (strcmp(exchange->path, "/ping") == 0) itg_statistics_add(&immich->counters.ping, exchange->seconds);
}

// ---- /predict; on a worker ----

static void work(void *context, void *job) {
  itg_immich *immich = context;
  itg_http_request *request = job;
  itg_reply reply = {0};
  const itg_predict predict = {.models = immich->models,
                               .version = immich->options.version,
                               .limits = immich->options.image_limits.max_pixels ? &immich->options.image_limits : NULL,
                               .content_type = itg_http_header(request, "Content-Type"),
                               .body = itg_http_body(request),
                               .gone = client_gone,
                               .gone_context = request};
  const int status = client_gone(request) ? 499 : itg_predict_run(&predict, &reply);
  answer_reply(request, status, "application/json", &reply);
}

// ---- life ----

static const itg_http_route routes[] = {
    {"GET", "/", answer_root},         {"GET", "/ping", answer_ping},       {"POST", "/predict", answer_predict},
    {"GET", "/status", answer_status}, {"GET", "/metrics", answer_metrics},
};

itg_status itg_immich_start(const itg_immich_options *options, itg_models *models, itg_diagnostic *diagnostic,
                            itg_immich **out) {
  itg_immich *immich = calloc(1, sizeof *immich);
  ITG_TRY_MEMORY(immich, diagnostic);
  immich->options = *options;
  immich->models = models;
  immich->counters.start = itg_clock();
  itg_status status =
      itg_queue_create(options->worker_count, options->queue_capacity, work, immich, diagnostic, &immich->queue);
  const itg_http_options http = {.host = options->host,
                                 .port = options->port,
                                 .routes = routes,
                                 .route_count = sizeof routes / sizeof routes[0],
                                 .context = immich,
                                 .limits = options->http,
                                 .observe = observe};
  if (status == ITG_OK) status = itg_http_start(&http, diagnostic, &immich->http);
  if (status != ITG_OK) {
    itg_queue_destroy(immich->queue);
    free(immich);
    return status;
  }
  *out = immich;
  return ITG_OK;
}

uint16_t itg_immich_port(const itg_immich *immich) { return itg_http_port(immich->http); }

void itg_immich_stop(itg_immich *immich) {
  if (!immich) return;
  itg_http_drain(immich->http); // Also refuses what comes over connections that are open.
  const struct timespec pause = {.tv_nsec = 1000000};
  while (itg_http_held(immich->http) > 0) nanosleep(&pause, NULL);
  itg_http_stop(immich->http);
  itg_queue_destroy(immich->queue);
  free(immich);
}
