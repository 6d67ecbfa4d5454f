// SVG charts of where accuracy was lost and of what protected it. Colours come from the page's style sheet.
#include <math.h>
#include <stdlib.h>

#include "report/report.h"

static const double WIDTH = 640, LEFT = 52, TOP = 10, MAX_DECIBELS = 80;

static bool is_measured(const itg_report_layer *layer) { return layer->loss.channels > 0; }

static double height_of(double decibels, double height) {
  return TOP + height * (1 - fmin(fmax(decibels, 0), MAX_DECIBELS) / MAX_DECIBELS);
}

static void layer_title(FILE *stream, const itg_report_layer *layer) {
  const itg_layer_loss *loss = &layer->loss;
  fputs("<title>", stream);
  itg_html_text(stream, layer->name);
  fprintf(stream, " (%s): alone %.1f dB, accumulated %.1f dB", layer->op, loss->local_db, loss->accumulated_db);
  if (!isnan(loss->share)) fprintf(stream, ", %.1f %% of the loss", 100 * loss->share);
  if (loss->dead_channels) fprintf(stream, ", %zu of %zu channels dead", loss->dead_channels, loss->channels);
  if (loss->saturated > 0) fprintf(stream, ", %.2f %% saturated", 100 * loss->saturated);
  if (!isnan(loss->gain)) fprintf(stream, ", gain %.1f", loss->gain);
  fputs("</title>", stream);
}

static void decibel_grid(FILE *stream, double height) {
  for (int decibels = 0; decibels <= (int)MAX_DECIBELS; decibels += 20) {
    const double y = height_of(decibels, height);
    fprintf(stream,
            "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\"/>"
            "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%d dB</text>",
            LEFT, LEFT + WIDTH, y, y, LEFT - 6, y + 4, decibels);
  }
}

// Above: what each layer does alone (dots) and what has accumulated (line). Below: its share of the loss.
void itg_chart_layers(FILE *stream, const itg_report *report) {
  const double height = 150, shares = 70, gap = 14;
  size_t count = 0, at = 0;
  for (size_t i = 0; i < report->layer_count; i++) count += is_measured(&report->layers[i]);
  if (count == 0) return;
  const double step = WIDTH / (double)count, base = TOP + height + gap + shares;
  double largest = 0.1;
  for (size_t i = 0; i < report->layer_count; i++) largest = fmax(largest, report->layers[i].loss.share); // NaN loses.
  fprintf(stream,
          "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Signal to error and share of the loss of each layer\">",
          WIDTH + LEFT + 8, base + 24);
  decibel_grid(stream, height);
  fputs("<polyline class=\"trace\" points=\"", stream);
  for (size_t i = 0; i < report->layer_count; i++) {
    const itg_report_layer *layer = &report->layers[i];
    if (!is_measured(layer)) continue;
    const double x = LEFT + step * ((double)at++ + 0.5);
    if (isnan(layer->loss.accumulated_db)) continue;
    fprintf(stream, "%.1f,%.1f ", x, height_of(layer->loss.accumulated_db, height));
  }
  fputs("\"/>", stream);
  at = 0;
  for (size_t i = 0; i < report->layer_count; i++) {
    const itg_report_layer *layer = &report->layers[i];
    if (!is_measured(layer)) continue;
    const double x = LEFT + step * ((double)at++ + 0.5), radius = fmin(4, fmax(1.5, step * 0.35));
    const char *kind = itg_layer_is_alarming(&layer->loss) ? "alarm" : "mark";
    if (!isnan(layer->loss.local_db)) {
      fprintf(stream, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", kind, x,
              height_of(layer->loss.local_db, height), radius);
      layer_title(stream, layer);
      fputs("</circle>", stream);
    }
    if (!(layer->loss.share > 0)) continue;
    const double tall = shares * layer->loss.share / largest;
    fprintf(stream, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", kind, x - step * 0.4,
            base - tall, step * 0.8, tall);
    layer_title(stream, layer);
    fputs("</rect>", stream);
  }
  fprintf(stream,
          "<line class=\"axis\" x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\"/>"
          "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.0f %%</text><text x=\"%g\" y=\"%g\">%zu layers in the order "
          "they run; below: share of the loss at the outputs</text></svg>",
          LEFT, LEFT + WIDTH, base, base, LEFT - 6, base - shares + 8, 100 * largest, LEFT, base + 16, count);
}

// One bar a method: decibels of noise that it takes away; to the left of 0 it hurts.
void itg_chart_ablation(FILE *stream, const itg_report *report) {
  const double row = 20, left = 170, width = 420;
  double most = 1, least = 0;
  for (size_t i = 1; i < report->ablation_count; i++) {
    most = fmax(most, report->ablation[i].bought_db);
    least = fmin(least, report->ablation[i].bought_db);
  }
  if (report->ablation_count < 2) return;
  const double scale = width / (most - least), zero = left - least * scale;
  const double height = row * (double)(report->ablation_count - 1);
  fprintf(stream, "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Decibels that each method buys\">",
          left + width + 70, height + 8);
  for (size_t i = 1; i < report->ablation_count; i++) {
    const itg_ablation *at = &report->ablation[i];
    const double y = row * (double)(i - 1) + 4, length = isnan(at->bought_db) ? 0 : at->bought_db * scale;
    fprintf(stream, "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">", left - 8, y + 12);
    itg_html_text(stream, i + 1 == report->ablation_count ? "all of them together" : at->method);
    fprintf(stream, "</text><rect class=\"%s\" x=\"%.1f\" y=\"%g\" width=\"%.1f\" height=\"%g\"><title>",
            length < 0 ? "alarm" : "mark", fmin(zero, zero + length), y + 2, fabs(length), row - 6);
    itg_html_text(stream, at->effect);
    fprintf(stream, "; without it cosine %.5f, min %.5f</title></rect><text x=\"%.1f\" y=\"%g\">", at->cosine_mean,
            at->cosine_min, fmax(zero, zero + length) + 6, y + 12);
    if (at->failure)
      fputs("no program without it", stream);
    else
      fprintf(stream, "%+.2f dB", at->bought_db);
    fputs("</text>", stream);
  }
  fprintf(stream, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%g\"/></svg>", zero, zero, height + 6);
}

static void trace(FILE *stream, const char *kind, const float *values, size_t count, double low, double high,
                  double height) {
  fprintf(stream, "<polyline class=\"%s\" points=\"", kind);
  for (size_t i = 0; i < count; i++)
    fprintf(stream, "%.1f,%.1f ", LEFT + WIDTH * ((double)i + 0.5) / (double)count,
            TOP + height * (high - (double)values[i]) / (high - low));
  fputs("\"/>", stream);
}

// Float and integer values of one sample, one behind the other.
void itg_chart_values(FILE *stream, const float *reference, const float *result, size_t count) {
  const double height = 90;
  double low = 0, high = 0;
  for (size_t i = 0; i < count; i++) {
    low = fmin(low, fmin((double)reference[i], (double)result[i]));
    high = fmax(high, fmax((double)reference[i], (double)result[i]));
  }
  if (!(high > low)) high = low + 1;
  fprintf(
      stream,
      "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Values of a sample, float and integer\">"
      "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.3g</text><text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.3g</text>",
      WIDTH + LEFT + 8, TOP + height + 6, LEFT - 6, TOP + 8, high, LEFT - 6, TOP + height, low);
  trace(stream, "trace", reference, count, low, high, height);
  trace(stream, "trace second", result, count, low, high, height);
  fputs("</svg>", stream);
}
