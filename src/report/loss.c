// The loss of the layers in plain words. See report.h.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"

// Local SQNR, accumulated SQNR and gain from which a layer deserves a look (facts: a healthy 8-bit step has 30 dB and more).
static const double LOW_LOCAL = 20, LOW_ACCUMULATED = 10, HIGH_GAIN = 4, MUCH_SATURATED = 1e-3;

const itg_report_layer *itg_report_first_offender(const itg_report *report) {
  const itg_report_layer *worst = NULL;
  for (size_t i = 0; i < report->layer_count; i++) {
    const itg_report_layer *layer = &report->layers[i];
    if (layer->loss.share > 0 && (!worst || layer->loss.share > worst->loss.share)) worst = layer;
  }
  return worst;
}

bool itg_layer_is_alarming(const itg_layer_loss *loss) {
  return loss->local_db < LOW_LOCAL || loss->accumulated_db < LOW_ACCUMULATED || loss->gain > HIGH_GAIN ||
         loss->saturated > MUCH_SATURATED || loss->dead_channels > 0;
}

void itg_report_loss_sentence(const itg_report *report, char *text, size_t size) {
  const itg_report_layer *worst = itg_report_first_offender(report);
  if (!worst) {
    snprintf(text, size, "%s", report->layers_reason ? report->layers_reason : "");
    return;
  }
  const double percent = 100 * worst->loss.share;
  char name[64];
  snprintf(name, sizeof name, "%.60s", worst->name);
  if (percent >= 20)
    snprintf(text, size, "%s (%s) explains %.0f %% of the loss; its own error is %.0f dB below its signal", name,
             worst->op, percent, worst->loss.local_db);
  else
    snprintf(text, size, "spread over many layers; the largest part, %.0f %%, comes from %s (%s)", percent, name,
             worst->op);
}
