// The status for programs: JSON, and the text format that Prometheus reads (exposition format 0.0.4).
#include <stdlib.h>

#include "intaglio/intaglio.h"
#include "server/page/page.h"

static void write_percentiles(itg_reply *reply, const char *name, const itg_statistics *statistics) {
  itg_reply_print(reply, "\"%s\":{\"count\":%llu,\"p50\":%.6f,\"p90\":%.6f,\"p99\":%.6f}", name,
                  (unsigned long long)atomic_load(&statistics->count), itg_statistics_percentile(statistics, 0.5),
                  itg_statistics_percentile(statistics, 0.9), itg_statistics_percentile(statistics, 0.99));
}

static void write_model(itg_reply *reply, const itg_model_status *model) {
  static const char *const states[] = {"absent", "loaded", "failed"};
  static const char *const places[] = {"npu", "simulated", "cpu", "float"};
  itg_reply_text(reply, "{\"name\":");
  itg_reply_json_string(reply, model->name);
  itg_reply_print(reply, ",\"task\":\"%s\",\"type\":\"%s\",\"state\":\"%s\",\"kept\":%s,\"compiling\":%s,\"problem\":",
                  itg_service_task(model->kind), itg_service_type(model->kind), states[model->state],
                  model->preloaded ? "true" : "false", model->compiling ? "true" : "false");
  itg_reply_json_string(reply, model->problem);
  itg_reply_text(reply, ",\"networks\":[");
  for (size_t i = 0; i < model->network_count; i++) {
    itg_reply_text(reply, i ? ",{\"name\":" : "{\"name\":");
    itg_reply_json_string(reply, model->networks[i].name);
    itg_reply_print(reply, ",\"place\":\"%s\",\"reason\":", places[model->networks[i].place]);
    itg_reply_json_string(reply, model->networks[i].reason);
    itg_reply_text(reply, "}");
  }
  itg_reply_print(reply,
                  "],\"waiting\":%zu,\"runs\":%llu,\"failures\":%llu,\"loads\":%llu,\"load_seconds\":%.4f,"
                  "\"idle_seconds\":%.1f,\"p50\":%.6f,\"p90\":%.6f,\"p99\":%.6f}",
                  model->waiting, model->runs, model->failures, model->loads, model->load_seconds, model->idle_seconds,
                  model->p50, model->p90, model->p99);
}

static void write_fetching(const itg_page *page, itg_reply *reply) {
  itg_fetch_report report;
  if (!itg_models_fetching(page->models, &report)) {
    itg_reply_text(reply, "null");
    return;
  }
  itg_reply_text(reply, "{\"model\":");
  itg_reply_json_string(reply, report.model);
  itg_reply_text(reply, ",\"file\":");
  itg_reply_json_string(reply, report.file);
  itg_reply_print(reply, ",\"done\":%lld,\"total\":%lld}", report.done, report.total);
}

void itg_page_json(const itg_page *page, itg_reply *reply) {
  const itg_memory_use memory = itg_memory_now();
  itg_model_status *model = malloc(sizeof *model);
  if (!model) {
    reply->failed = true;
    return;
  }
  itg_reply_print(reply, "{\"version\":\"%s\",\"uptime_seconds\":%.1f,\"queue\":{\"waiting\":%zu,\"running\":%zu,",
                  ITG_VERSION, itg_clock() - page->counters->start, page->waiting, page->running);
  itg_reply_print(reply,
                  "\"capacity\":%zu,\"workers\":%zu},\"memory\":{\"process\":%zu,\"available\":%zu,\"total\":%zu},",
                  page->queue_capacity, page->worker_count, memory.process, memory.available, memory.total);
  itg_reply_text(reply, "\"npu\":");
  itg_reply_json_string(reply, page->npu);
  itg_reply_text(reply, ",");
  write_percentiles(reply, "predict", &page->counters->predict);
  itg_reply_text(reply, ",");
  write_percentiles(reply, "ping", &page->counters->ping);
  itg_reply_text(reply, ",\"models\":[");
  for (size_t i = 0; itg_models_status(page->models, i, model); i++) {
    if (i) itg_reply_text(reply, ",");
    write_model(reply, model);
  }
  itg_reply_text(reply, "],\"fetching\":");
  write_fetching(page, reply);
  itg_reply_text(reply, "}");
  free(model);
}

void itg_page_metrics(const itg_page *page, itg_reply *reply) {
  static const char *const classes[] = {"left", NULL, "2xx", "3xx", "4xx", "5xx"};
  const struct {
    const char *name;
    const itg_statistics *statistics;
  } routes[] = {{"predict", &page->counters->predict}, {"ping", &page->counters->ping}};
  const double shares[] = {0.5, 0.9, 0.99};
  itg_reply_text(reply, "# TYPE intaglio_answers_total counter\n");
  for (int i = 0; i < 6; i++)
    if (classes[i])
      itg_reply_print(reply, "intaglio_answers_total{class=\"%s\"} %llu\n", classes[i],
                      (unsigned long long)atomic_load(&page->counters->answers[i]));
  itg_reply_text(reply, "# TYPE intaglio_answer_seconds summary\n");
  for (int r = 0; r < 2; r++) {
    for (int i = 0; i < 3; i++)
      itg_reply_print(reply, "intaglio_answer_seconds{route=\"%s\",quantile=\"%g\"} %.6f\n", routes[r].name, shares[i],
                      itg_statistics_percentile(routes[r].statistics, shares[i]));
    itg_reply_print(
        reply, "intaglio_answer_seconds_sum{route=\"%s\"} %.6f\nintaglio_answer_seconds_count{route=\"%s\"} %llu\n",
        routes[r].name, 1e-6 * (double)atomic_load(&routes[r].statistics->microseconds), routes[r].name,
        (unsigned long long)atomic_load(&routes[r].statistics->count));
  }
  itg_reply_print(reply,
                  "# TYPE intaglio_queue_waiting gauge\nintaglio_queue_waiting %zu\n"
                  "# TYPE intaglio_queue_running gauge\nintaglio_queue_running %zu\n"
                  "# TYPE intaglio_resident_bytes gauge\nintaglio_resident_bytes %zu\n",
                  page->waiting, page->running, itg_memory_now().process);
}
