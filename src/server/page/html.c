// The status page. Everything is in the one answer: style, no script, no picture, nothing from elsewhere.
#include <stdio.h>
#include <stdlib.h>

#include "intaglio/intaglio.h"
#include "server/log.h"
#include "server/page/page.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Intaglio for Immich</title><style>"
    ":root{color-scheme:light dark;--line:#8884;--soft:#8882}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;padding:1.5rem;max-width:64rem}"
    "h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}p{margin:.2rem 0}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem .3rem 0;"
    "border-bottom:1px solid var(--line);vertical-align:top}th{font-weight:600}td.n,th.n{text-align:right}"
    ".tile{display:inline-block;background:var(--soft);border-radius:.5rem;padding:.5rem .9rem;margin:.3rem .4rem 0 0}"
    ".tile b{display:block;font-size:1.15rem}.good{color:#188038}.bad{color:#c5221f}.soft{opacity:.7}"
    "pre{background:var(--soft);border-radius:.5rem;padding:.6rem;overflow:auto;font-size:.85rem}"
    "@media(prefers-color-scheme:dark){.good{color:#81c995}.bad{color:#f28b82}}</style></head><body>";

static void write_duration(itg_reply *reply, double seconds) {
  if (seconds < 1)
    itg_reply_print(reply, "%.*f ms", seconds < 0.01 ? 1 : 0, 1e3 * seconds);
  else if (seconds < 120)
    itg_reply_print(reply, "%.1f s", seconds);
  else if (seconds < 7200)
    itg_reply_print(reply, "%.0f min", seconds / 60);
  else
    itg_reply_print(reply, "%.1f h", seconds / 3600);
}

static void write_tile(itg_reply *reply, const char *label, const char *value) {
  itg_reply_print(reply, "<div class=\"tile\">%s<b>%s</b></div>", label, value);
}

static void write_tiles(const itg_page *page, itg_reply *reply) {
  const itg_memory_use memory = itg_memory_now();
  const double mib = 1 << 20;
  char text[64];
  snprintf(text, sizeof text, "%zu waiting, %zu running", page->waiting, page->running);
  write_tile(reply, "Queue", text);
  snprintf(text, sizeof text, "%.0f MiB", (double)memory.process / mib);
  write_tile(reply, "Memory of this service", text);
  snprintf(text, sizeof text, "%.0f of %.0f MiB", (double)memory.available / mib, (double)memory.total / mib);
  write_tile(reply, "Free on this machine", text);
  snprintf(text, sizeof text, "%llu good, %llu refused, %llu failed",
           (unsigned long long)atomic_load(&page->counters->answers[2]),
           (unsigned long long)atomic_load(&page->counters->answers[4]),
           (unsigned long long)atomic_load(&page->counters->answers[5]));
  write_tile(reply, "Answers", text);
}

static void write_latency(itg_reply *reply, const char *name, const itg_statistics *statistics) {
  itg_reply_print(reply, "<tr><td>%s</td><td class=\"n\">%llu</td>", name,
                  (unsigned long long)atomic_load(&statistics->count));
  static const double shares[] = {0.5, 0.9, 0.99};
  for (int i = 0; i < 3; i++) {
    itg_reply_text(reply, "<td class=\"n\">");
    write_duration(reply, itg_statistics_percentile(statistics, shares[i]));
    itg_reply_text(reply, "</td>");
  }
  itg_reply_text(reply, "</tr>");
}

static void write_places(itg_reply *reply, const itg_model_status *model) {
  for (size_t i = 0; i < model->network_count; i++) {
    const itg_network_report *network = &model->networks[i];
    itg_reply_print(reply, "%s<span class=\"%s\">%s</span>: %s", i ? "<br>" : "",
                    network->place == ITG_PLACE_FLOAT ? "bad" : "good", network->name, itg_place_name(network->place));
    if (!network->reason[0]) continue;
    itg_reply_text(reply, " <span class=\"soft\">(");
    itg_reply_html(reply, network->reason);
    itg_reply_text(reply, ")</span>");
  }
  if (model->compiling) itg_reply_text(reply, "<br><span class=\"soft\">being compiled</span>");
  if (model->problem[0]) {
    itg_reply_text(reply, "<br><span class=\"bad\">");
    itg_reply_html(reply, model->problem);
    itg_reply_text(reply, "</span>");
  }
}

static void write_model(itg_reply *reply, const itg_model_status *model) {
  static const char *const states[] = {"not loaded", "loaded", "failed"};
  itg_reply_text(reply, "<tr><td>");
  itg_reply_html(reply, model->name);
  itg_reply_print(reply, "<br><span class=\"soft\">%s, %s</span></td><td><span class=\"%s\">%s</span>%s<br>",
                  itg_service_task(model->kind), itg_service_type(model->kind),
                  model->state == ITG_MODEL_LOADED   ? "good"
                  : model->state == ITG_MODEL_FAILED ? "bad"
                                                     : "soft",
                  states[model->state], model->preloaded ? ", kept" : "");
  if (model->loads) {
    itg_reply_text(reply, "<span class=\"soft\">in ");
    write_duration(reply, model->load_seconds);
    itg_reply_text(reply, "</span>");
  }
  itg_reply_text(reply, "</td><td>");
  write_places(reply, model);
  itg_reply_print(reply, "</td><td class=\"n\">%llu</td><td class=\"n\">%llu</td>", model->runs, model->failures);
  const double percentiles[] = {model->p50, model->p90, model->p99};
  for (int i = 0; i < 3; i++) {
    itg_reply_text(reply, "<td class=\"n\">");
    write_duration(reply, percentiles[i]);
    itg_reply_text(reply, "</td>");
  }
  itg_reply_text(reply, "</tr>");
}

static void write_models(const itg_page *page, itg_reply *reply) {
  itg_model_status *model = malloc(sizeof *model);
  if (!model) {
    reply->failed = true;
    return;
  }
  itg_reply_text(reply, "<h2>Models</h2>");
  size_t count = 0;
  for (; itg_models_status(page->models, count, model); count++) {
    if (count == 0)
      itg_reply_text(reply, "<table id=\"models\"><tr><th>Model</th><th>State</th><th>Runs on</th><th class=\"n\">Runs"
                            "</th><th class=\"n\">Failed</th><th class=\"n\">p50</th><th class=\"n\">p90</th>"
                            "<th class=\"n\">p99</th></tr>");
    write_model(reply, model);
  }
  itg_reply_text(reply, count ? "</table>" : "<p>No model has been asked for yet.</p>");
  free(model);
}

static void write_fetching(const itg_page *page, itg_reply *reply) {
  itg_fetch_report report;
  if (!itg_models_fetching(page->models, &report)) return;
  itg_reply_text(reply, "<p id=\"fetching\">Being fetched: ");
  itg_reply_html(reply, report.model);
  if (report.file[0]) {
    itg_reply_text(reply, " <span class=\"soft\">(");
    itg_reply_html(reply, report.file);
    itg_reply_print(reply, ", %.1f of %.1f MiB)</span>", (double)report.done / (1 << 20),
                    (double)report.total / (1 << 20));
  }
  itg_reply_text(reply, "</p>");
}

static void write_npu(const itg_page *page, itg_reply *reply) {
  itg_reply_text(reply, "<h2>NPU</h2><p id=\"npu\">");
  itg_reply_html(reply, page->npu);
  itg_reply_text(reply, "</p>");
}

static void write_errors(itg_reply *reply) {
  static _Thread_local char lines[ITG_LOG_KEPT][ITG_LOG_LINE];
  const size_t count = itg_log_recent(lines, ITG_LOG_KEPT);
  itg_reply_text(reply, "<h2>Last warnings and errors</h2>");
  if (count == 0) {
    itg_reply_text(reply, "<p id=\"errors\">None.</p>");
    return;
  }
  itg_reply_text(reply, "<pre id=\"errors\">");
  for (size_t i = 0; i < count; i++) {
    itg_reply_html(reply, lines[i]);
    itg_reply_text(reply, "\n");
  }
  itg_reply_text(reply, "</pre>");
}

void itg_page_html(const itg_page *page, itg_reply *reply) {
  itg_reply_text(reply, head);
  itg_reply_print(reply, "<h1>Intaglio for Immich</h1><p class=\"soft\">version %s, up for ", ITG_VERSION);
  write_duration(reply, itg_clock() - page->counters->start);
  itg_reply_text(reply, "</p>");
  write_tiles(page, reply);
  write_models(page, reply);
  write_fetching(page, reply);
  write_npu(page, reply);
  itg_reply_text(reply, "<h2>Answers</h2><table id=\"latency\"><tr><th>Route</th><th class=\"n\">Count</th>"
                        "<th class=\"n\">p50</th><th class=\"n\">p90</th><th class=\"n\">p99</th></tr>");
  write_latency(reply, "/predict", &page->counters->predict);
  write_latency(reply, "/ping", &page->counters->ping);
  itg_reply_text(reply, "</table>");
  write_errors(reply);
  itg_reply_text(reply, "</body></html>\n");
}
