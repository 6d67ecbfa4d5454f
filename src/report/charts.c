// Inline SVG charts of the report. Colours come from the page's style sheet, so that they follow light and dark.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

enum { MAX_CELLS = 64, MAX_POINTS = 4000 };

typedef struct ranked {
  double value;
  size_t index;
} ranked;

static int by_value(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static void sample_title(FILE *stream, const char *const *names, size_t index) {
  if (names && names[index])
    itg_html_text(stream, names[index]);
  else
    fprintf(stream, "sample %zu", index);
}

// The largest 1 - 10^-k below or equal to the value: the chart then starts at 0, .9, .99, ..
static double axis_floor(double lowest) {
  if (lowest < 0) return -1;
  double base = 0;
  for (double next = 0.9, gap = 0.1; next <= lowest && gap > 1e-5; gap /= 10, next = 1 - gap) base = next;
  return base;
}

void itg_chart_cosines(FILE *stream, const itg_accuracy *accuracy, const char *const *names) {
  ranked *order = calloc(accuracy->samples, sizeof *order);
  if (!order) return; // The table above says the same in numbers.
  for (size_t i = 0; i < accuracy->samples; i++) order[i] = (ranked){accuracy->cosine[i], i};
  qsort(order, accuracy->samples, sizeof *order, by_value);
  const double low = axis_floor(order[0].value), width = 640, height = 160, left = 52, top = 8;
  fprintf(stream, "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Cosine of each sample, worst at the left\">",
          width + left + 8, height + top + 22);
  for (int i = 0; i <= 4; i++) {
    const double y = top + height * (4 - i) / 4, value = low + (1 - low) * i / 4;
    fprintf(stream,
            "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\"/>"
            "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.*f</text>",
            left, left + width, y, y, left - 6, y + 4, low < 0.99 ? 3 : 5, value);
  }
  const double step = width / (double)accuracy->samples;
  for (size_t i = 0; i < accuracy->samples; i++) {
    const double x = left + step * ((double)i + 0.5), share = (order[i].value - low) / (1 - low);
    const double y = top + height * (1 - share), radius = fmin(5, fmax(1.5, step * 0.4));
    fprintf(stream, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>", x, y, radius);
    sample_title(stream, names, order[i].index);
    fprintf(stream, ": %.5f</title></circle>", order[i].value);
  }
  fprintf(stream, "<text x=\"%g\" y=\"%g\">%zu samples, worst first</text></svg>", left, height + top + 18,
          accuracy->samples);
  free(order);
}

void itg_chart_pairs(FILE *stream, const itg_accuracy *accuracy, const char *const *groups) {
  const size_t n = accuracy->samples, pairs = n * (n - 1) / 2;
  if (n < 3) return;
  double low = 1;
  for (size_t i = 0; i < n * n; i++) low = fmin(low, fmin(accuracy->float_pairs[i], accuracy->integer_pairs[i]));
  low = low < 0 ? -ceil(-low * 5) / 5 : floor(low * 5) / 5; // To the next fifth.
  if (low >= 1) low = 0.8;
  const double size = 320, left = 44, top = 8, scale = size / (1 - low);
  fprintf(stream,
          "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"Similarity of pairs: float against integer\" "
          "style=\"max-width:26rem\">",
          size + left + 12, size + top + 40);
  for (int i = 0; i <= 4; i++) {
    const double value = low + (1 - low) * i / 4, x = left + (value - low) * scale, y = top + (1 - value) * scale;
    fprintf(stream,
            "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\"/>"
            "<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%g\" y2=\"%g\"/>"
            "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%.2f</text>"
            "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%.2f</text>",
            left, left + size, y, y, x, x, top, top + size, left - 6, y + 4, value, x, top + size + 16, value);
  }
  fprintf(stream, "<line class=\"axis\" x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\"/>", left, top + size, left + size, top);
  const size_t every = pairs / MAX_POINTS + 1;
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < i; j++) {
      const int same = groups && groups[i] && groups[j] && strcmp(groups[i], groups[j]) == 0;
      if (k++ % every != 0 && !same) continue;
      fprintf(stream, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>", same ? "same" : "mark",
              left + (accuracy->float_pairs[i * n + j] - low) * scale,
              top + (1 - accuracy->integer_pairs[i * n + j]) * scale);
    }
  }
  fprintf(stream, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">float</text></svg>", left + size / 2,
          top + size + 34);
}

static void matrix(FILE *stream, const double *pairs, const itg_accuracy *accuracy, const char *const *names,
                   const char *title) {
  const size_t n = accuracy->samples;
  const double cell = 320 / (double)n;
  fprintf(stream, "<figure><svg viewBox=\"0 0 320 320\" role=\"img\" aria-label=\"%s\">", title);
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) {
      const double value = pairs[i * n + j];
      fprintf(stream,
              "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill-opacity=\"%.3f\"><title>",
              value < 0 ? "cold" : "hot", (double)j * cell, (double)i * cell, cell + 0.05, cell + 0.05, fabs(value));
      sample_title(stream, names, i);
      fputs(" / ", stream);
      sample_title(stream, names, j);
      fprintf(stream, ": %.3f</title></rect>", value);
    }
  }
  fprintf(stream, "</svg><figcaption>%s</figcaption></figure>", title);
}

void itg_chart_matrices(FILE *stream, const itg_accuracy *accuracy, const char *const *names) {
  if (accuracy->samples < 3 || accuracy->samples > MAX_CELLS) return;
  fputs("<div class=\"pair\">", stream);
  matrix(stream, accuracy->float_pairs, accuracy, names, "float");
  matrix(stream, accuracy->integer_pairs, accuracy, names, "integer");
  fputs("</div>", stream);
}
