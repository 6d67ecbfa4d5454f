// The report as one HTML page, readable in a minute: verdict, accuracy, charts, then speed, memory and layers.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "report/report.h"
#include "tensor/dtype.h"

static const double NEAR_COSINE = 0.95; // Below it the page does not speak of success.

static const char STYLE[] =
    ":root{color-scheme:light "
    "dark;--ink:#1c2024;--soft:#60666d;--line:#d9dde1;--paper:#fff;--mark:#2563a8;--same:#b4540a;"
    "--good:#1a7f37;--bad:#b42318}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--soft:#9aa1a8;--line:#363b40;--paper:#15181b;--mark:#"
    "6cb0f2;"
    "--same:#f0a35e;--good:#57c274;--bad:#ff8478}}"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.25rem .6rem;border-bottom:1px solid "
    "var(--line)}th:first-child,td:first-child{text-align:left;overflow-wrap:break-word;max-width:14em}th{color:var(--"
    "soft);font-weight:"
    "600}"
    "p.note,figcaption{color:var(--soft)}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}"
    "svg{width:100%;height:auto}svg "
    "text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--line)}.axis{stroke:var(--soft)}"
    ".trace{fill:none;stroke:var(--soft);stroke-width:1.5}.second{stroke:var(--mark)}.alarm{fill:var(--bad)}"
    ".mark,.hot{fill:var(--mark)}.same,.cold{fill:var(--same)}.mark,.same{fill-opacity:.75}"
    ".pair{display:flex;gap:1.5rem;flex-wrap:wrap}.pair figure{flex:1 1 16rem;margin:0}"
    ".scroll{overflow-x:auto}details summary{cursor:pointer}";

void itg_html_text(FILE *stream, const char *text) {
  for (; *text; text++) {
    switch (*text) {
    case '<': fputs("&lt;", stream); break;
    case '>': fputs("&gt;", stream); break;
    case '&': fputs("&amp;", stream); break;
    case '"': fputs("&quot;", stream); break;
    default: fputc(*text, stream);
    }
  }
}

static void cell(FILE *stream, const char *format, double value) {
  fputs("<td>", stream);
  if (isnan(value))
    fputs("&ndash;", stream);
  else if (isinf(value))
    fputs("&infin;", stream);
  else
    fprintf(stream, format, value);
  fputs("</td>", stream);
}

static void text_row(FILE *stream, const char *label, const char *format, ...) ITG_PRINTF(3, 4);
static void text_row(FILE *stream, const char *label, const char *format, ...) {
  va_list arguments;
  fprintf(stream, "<tr><td>%s</td><td>", label);
  va_start(arguments, format);
  vfprintf(stream, format, arguments);
  va_end(arguments);
  fputs("</td></tr>", stream);
}

static double mebibytes(size_t bytes) { return (double)bytes / (1 << 20); }

// The first output that is not near float any more, or NULL.
static const itg_output_accuracy *far_output(const itg_report *report) {
  for (size_t i = 0; i < report->output_count; i++) {
    if (report->outputs[i].summary.cosine_mean < NEAR_COSINE) return &report->outputs[i].summary;
  }
  return NULL;
}

static void write_head(FILE *stream, const itg_report *report) {
  const itg_output_accuracy *far = far_output(report);
  fputs("<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Intaglio: ",
        stream);
  itg_html_text(stream, report->source);
  fprintf(stream, "</title><style>%s</style></head><body><h1>", STYLE);
  itg_html_text(stream, report->source);
  fprintf(stream, "</h1><p class=\"note\">Intaglio %s, %s", ITG_VERSION, report->command);
  if (report->precision) {
    fputs(", precision ", stream);
    itg_html_text(stream, report->precision);
  }
  if (report->calibration_count) fprintf(stream, ", %zu calibration samples", report->calibration_count);
  fprintf(stream, ", %zu judged samples</p>", report->judge_count);
  if (report->collapsed) {
    fputs("<p class=\"bad\">Collapsed: ", stream);
    itg_html_text(stream, report->collapse_reason ? report->collapse_reason : "the accuracy is lost");
    fputs("</p>", stream);
  } else if (far) {
    fputs("<p class=\"bad\">Not collapsed, but far from float: output ", stream);
    itg_html_text(stream, far->name);
    fprintf(stream, " has a mean cosine of %.3f. Try a higher precision (a16w8) or more calibration samples.</p>",
            far->cosine_mean);
  } else {
    fputs("<p class=\"good\">The integer program keeps what the float model can do on these samples.</p>", stream);
  }
  if (report->judged_on_calibration)
    fputs("<p class=\"note\">Judged on the calibration samples themselves, for want of others: "
          "expect slightly less on new data.</p>",
          stream);
}

static void write_accuracy(FILE *stream, const itg_report *report) {
  fputs("<h2>Accuracy: integer against float</h2><div class=\"scroll\"><table><tr><th>output</th><th>cosine mean</th>"
        "<th>cosine min</th><th>centred cosine</th><th>spread kept</th><th>SQNR dB</th><th>pair "
        "agreement</th><th>neighbours kept</th><th>length</th></tr>",
        stream);
  for (size_t i = 0; i < report->output_count; i++) {
    const itg_output_accuracy *output = &report->outputs[i].summary;
    fputs("<tr><td>", stream);
    itg_html_text(stream, output->name);
    fputs("</td>", stream);
    cell(stream, "%.5f", output->cosine_mean);
    cell(stream, "%.5f", output->cosine_min);
    cell(stream, "%.5f", output->centred_cosine_mean);
    cell(stream, "%.3f", output->spread_ratio);
    cell(stream, "%.1f", output->sqnr_db);
    cell(stream, "%.5f", output->pair_agreement);
    cell(stream, "%.1f&nbsp;%%", 100 * output->retrieval_overlap);
    cell(stream, "%.3f", output->norm_ratio);
    fputs("</tr>", stream);
  }
  fputs("</table></div>", stream);
  bool known = false;
  for (size_t i = 0; i < report->output_count; i++) known |= !isnan(report->outputs[i].summary.float_margin);
  if (!known) return;
  fputs("<h2>Who is who</h2><p class=\"note\">Margin: lowest similarity within an identity minus the highest between "
        "two. Verification: correctly told pairs at the best threshold, both kinds weighing the same.</p>"
        "<div class=\"scroll\"><table><tr><th>output</th><th>margin, float</th><th>margin, integer</th>"
        "<th>verification, float</th><th>verification, integer</th></tr>",
        stream);
  for (size_t i = 0; i < report->output_count; i++) {
    const itg_output_accuracy *output = &report->outputs[i].summary;
    fputs("<tr><td>", stream);
    itg_html_text(stream, output->name);
    fputs("</td>", stream);
    cell(stream, "%.4f", output->float_margin);
    cell(stream, "%.4f", output->integer_margin);
    cell(stream, "%.2f&nbsp;%%", 100 * output->float_verification);
    cell(stream, "%.2f&nbsp;%%", 100 * output->integer_verification);
    fputs("</tr>", stream);
  }
  fputs("</table></div>", stream);
}

static void write_worst(FILE *stream, const itg_report *report, const itg_accuracy *accuracy) {
  if (accuracy->worst_count == 0) return;
  fprintf(stream, "<details><summary>The %zu worst samples, value by value: float grey, integer blue</summary>",
          accuracy->worst_count);
  for (size_t i = 0; i < accuracy->worst_count; i++) {
    const itg_worst_sample *worst = &accuracy->worst[i];
    const char *name = report->names ? report->names[worst->sample] : NULL;
    fputs("<p class=\"note\">", stream);
    if (name)
      itg_html_text(stream, name);
    else
      fprintf(stream, "sample %zu", worst->sample);
    fprintf(stream, ", cosine %.5f, %zu of %zu values</p>", accuracy->cosine[worst->sample], worst->count,
            accuracy->elements);
    itg_chart_values(stream, worst->reference, worst->result, worst->count);
  }
  fputs("</details>", stream);
}

// Where it was lost, in one sentence and one chart.
static void write_loss(FILE *stream, const itg_report *report) {
  char sentence[256];
  itg_report_loss_sentence(report, sentence, sizeof sentence);
  if (!*sentence) return;
  fputs("<h2>Where it was lost</h2><p>", stream);
  itg_html_text(stream, sentence);
  fputs(".</p>", stream);
  if (!report->layer_samples) return;
  size_t alarms = 0, dead = 0, saturated = 0;
  for (size_t i = 0; i < report->layer_count; i++) {
    const itg_layer_loss *loss = &report->layers[i].loss;
    alarms += itg_layer_is_alarming(loss);
    dead += loss->dead_channels;
    saturated += loss->saturated > 1e-3;
  }
  fprintf(
      stream,
      "<p class=\"note\">Dots: signal to error of each layer alone, fed with float values; line: what has accumulated. "
      "Red deserves a look: %zu layers, %zu dead channels, %zu layers with more than 0.1 %% of their values "
      "saturated. On %zu samples",
      alarms, dead, saturated, report->layer_samples);
  if (!isnan(report->explained))
    fprintf(stream, "; the single losses add up to %.0f %% of the whole", 100 * report->explained);
  fputs(".</p>", stream);
  itg_chart_layers(stream, report);
}

static void write_remedies(FILE *stream, const itg_report *report) {
  const itg_report_mixed *mixed = report->mixed;
  if (mixed)
    fprintf(stream,
            "<h2>Mixed precision</h2><p>%zu of %zu choices got 16 bits, at %.2f times the cost of a8w8 (a8w8+s16: "
            "%.2f). On "
            "the %zu selecting samples the cosine is %.5f.</p>",
            mixed->picked_count, mixed->choice_count, mixed->cost, mixed->stream_cost, mixed->selection_count,
            mixed->cosine_mean);
  if (!report->ablation_count) return;
  fputs(
      "<h2>What each method bought</h2><p class=\"note\">Noise at the outputs without it over noise with it; hovering "
      "says what it does.</p>",
      stream);
  itg_chart_ablation(stream, report);
}

static void write_charts(FILE *stream, const itg_report *report) {
  for (size_t i = 0; i < report->output_count; i++) {
    const itg_accuracy *accuracy = &report->outputs[i];
    fputs("<h2>Samples: ", stream);
    itg_html_text(stream, accuracy->summary.name);
    fputs("</h2>", stream);
    itg_chart_cosines(stream, accuracy, report->names);
    write_worst(stream, report, accuracy);
    if (accuracy->samples < 3) continue;
    fputs(
        "<p class=\"note\">Similarity of pairs, float to the right, integer upwards: on the diagonal nothing changed.",
        stream);
    if (report->groups) fputs(" Orange: the same identity.", stream);
    fputs("</p>", stream);
    itg_chart_pairs(stream, accuracy, report->groups);
    itg_chart_matrices(stream, accuracy, report->names);
  }
}

static void write_cost(FILE *stream, const itg_report *report) {
  fputs("<h2>Size, speed, memory</h2><table><tr><th></th><th></th></tr>", stream);
  text_row(stream, "float model", "%.2f MiB", mebibytes(report->source_bytes));
  if (report->file_bytes) text_row(stream, "compiled file", "%.2f MiB", mebibytes(report->file_bytes));
  text_row(stream, "float interpreter, one thread", "%.2f ms", report->float_milliseconds);
  text_row(stream, "integer program, one thread", "%.2f ms, %s", report->integer_milliseconds,
           report->cpu ? report->cpu : "");
  text_row(stream, "activations of a session", "%.2f MiB", mebibytes(report->workspace_bytes));
  text_row(stream, "peak memory of this run", "%.0f MiB", mebibytes(report->peak_memory_bytes));
  for (size_t i = 0; i < report->phase_count; i++)
    text_row(stream, report->phases[i].name, "%.2f s", report->phases[i].seconds);
  fputs("</table>", stream);
}

static void write_layers(FILE *stream, const itg_report *report) {
  if (report->layer_count == 0) return;
  double total = 0;
  for (size_t i = 0; i < report->layer_count; i++) total += report->layers[i].microseconds;
  fprintf(
      stream,
      "<h2>Layers</h2><details><summary>%zu steps</summary><div class=\"scroll\"><table><tr><th>name</th><th>op</th>"
      "<th>output</th><th>codes</th><th>kernel</th><th>M MAC</th><th>µs</th><th>share</th><th>alone "
      "dB</th><th>accumulated dB</th><th>of the loss</th><th>dead</th></tr>",
      report->layer_count);
  for (size_t i = 0; i < report->layer_count; i++) {
    const itg_report_layer *layer = &report->layers[i];
    char shape[128] = "";
    if (layer->shape.rank >= 0) itg_shape_print(&layer->shape, shape, sizeof shape);
    fputs("<tr><td>", stream);
    itg_html_text(stream, layer->name);
    fprintf(stream, "</td><td>%s</td><td>%s</td><td>", layer->op, shape);
    if (layer->storage != ITG_DTYPE_NONE)
      fprintf(stream, "%s&rarr;%s", itg_dtype_name(layer->input_storage), itg_dtype_name(layer->storage));
    fprintf(stream, "</td><td>%s</td><td>%.2f</td><td>%.1f</td><td>%.1f&nbsp;%%</td>",
            layer->kernel ? layer->kernel : "", (double)layer->multiply_accumulates / 1e6, layer->microseconds,
            total > 0 ? 100 * layer->microseconds / total : 0);
    cell(stream, "%.1f", layer->loss.local_db);
    cell(stream, "%.1f", layer->loss.accumulated_db);
    cell(stream, "%.1f&nbsp;%%", 100 * layer->loss.share);
    fprintf(stream, "<td>%zu</td></tr>", layer->loss.dead_channels);
  }
  fputs("</table></div></details>", stream);
}

itg_status itg_report_write_html(const itg_report *report, const char *path, itg_diagnostic *diagnostic) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  ITG_TRY_MEMORY(stream, diagnostic);
  write_head(stream, report);
  write_accuracy(stream, report);
  write_loss(stream, report);
  write_remedies(stream, report);
  write_charts(stream, report);
  write_cost(stream, report);
  write_layers(stream, report);
  fputs("</body></html>\n", stream);
  const bool failed = ferror(stream) != 0;
  if (fclose(stream) != 0 || failed) {
    free(text);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  const itg_status status = itg_write_file(path, text, size, diagnostic);
  free(text);
  return status;
}
