// The report of a compile or a comparison: one structure, written as JSON (docs/FORMATS.md) and as one HTML file.
#ifndef ITG_REPORT_REPORT_H
#define ITG_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "intaglio/compiler.h"
#include "report/accuracy.h"

typedef struct itg_report_phase {
  const char *name;
  double seconds;
} itg_report_phase;

// What one step of the program loses, against its float twin, over a few samples. NaN: not measured.
typedef struct itg_layer_loss {
  double local_db;       // Signal to error of the step alone, fed what the float network gives it; infinite: exact.
  double accumulated_db; // .. of its output in the whole integer program.
  double share;     // Of the loss at the outputs: its own error, put into the float network there, over the sum of all.
  double saturated; // Share of values beyond its range of codes.
  double gain;      // Of an affine: the most output codes that one input code moves (kappa); NaN for others.
  size_t channels, dead_channels; // Of the last dimension; dead: it moves in float, by less than rounding.
} itg_layer_loss;

typedef struct itg_report_layer { // One step of the plan.
  const char *name, *op, *kernel;
  itg_shape shape;         // Of the first output, NHWC inside; rank -1: unknown.
  itg_dtype storage;       // Of the first output's codes; NONE: unknown.
  itg_dtype input_storage; // Likewise of the first input.
  int64_t multiply_accumulates;
  double microseconds;
  itg_layer_loss loss;
} itg_report_layer;

// What the search for mixed precision found.
typedef struct itg_report_mixed {
  double cost, stream_cost;  // Over that of a8w8; of a8w8+s16, to compare.
  double cosine_mean, noise; // On the selecting samples.
  double predicted_noise;    // Sum of the single losses of what stayed narrow.
  size_t choice_count, picked_count, selection_count, sensitivity_samples;
  bool selected_on_calibration; // For want of samples.
} itg_report_mixed;

// Everything is borrowed; absent texts are NULL, absent counts 0.
typedef struct itg_report {
  const char *command;   // "compile" or "compare"
  const char *source;    // File name of the float model.
  const char *compiled;  // File name of the .itg.
  const char *precision; // NULL when unknown.
  size_t source_bytes, file_bytes, workspace_bytes, peak_memory_bytes;
  size_t calibration_count, judge_count;
  bool judged_on_calibration;
  bool collapsed;
  const char *collapse_reason;
  double float_milliseconds, integer_milliseconds;
  const char *cpu;
  const itg_accuracy *outputs;
  size_t output_count;
  const char *const *names;  // One a judged sample; NULL or entries NULL: numbered.
  const char *const *groups; // Likewise.
  const itg_report_phase *phases;
  size_t phase_count;
  const itg_report_layer *layers;
  size_t layer_count;
  const itg_report_mixed *mixed; // NULL: the recipe was given.
  const itg_ablation *ablation;
  size_t ablation_count;
  size_t layer_samples;            // On which the losses of the layers were measured; 0: they were not.
  double explained;                // Sum of the layers' parts over the loss of the whole program; NaN: unknown.
  const char *layers_reason;       // Why the losses were not measured, or NULL.
  const itg_placement *placements; // One an NPU target.
  size_t placement_count;
} itg_report;

// The layer with the largest share of the loss, or NULL where none is known.
const itg_report_layer *itg_report_first_offender(const itg_report *report);
// True for a layer that deserves a look: little signal to error, dead channels, saturation, a large gain.
bool itg_layer_is_alarming(const itg_layer_loss *loss);
// Where most of the loss arises, as a sentence; empty when nothing is known.
void itg_report_loss_sentence(const itg_report *report, char *text, size_t size);

// malloc'ed JSON text, or NULL without memory. Numbers that do not exist are null.
char *itg_report_json(const itg_report *report);
// The accuracy record stored in a .itg: like "accuracy" of the report, without anything that differs between runs.
char *itg_report_accuracy_json(const itg_report *report);
// The placements alone, without what differs between runs: the section "placement" of a .itg.
char *itg_report_placement_json(const itg_placement *placements, size_t count);
// Writes a self-contained HTML page (no scripts, no outside resources). Errors: IO, MEMORY.
ITG_MUST_USE itg_status itg_report_write_html(const itg_report *report, const char *path, itg_diagnostic *diagnostic);

// ---- pieces of the page ----

void itg_html_text(FILE *stream, const char *text); // Escaped.
// One mark a sample, worst at the left; hovering names it.
void itg_chart_cosines(FILE *stream, const itg_accuracy *accuracy, const char *const *names);
// Cosine of every pair of samples: float to the right, integer upwards; on the diagonal nothing changed.
void itg_chart_pairs(FILE *stream, const itg_accuracy *accuracy, const char *const *groups);
// Two similarity matrices side by side.
void itg_chart_matrices(FILE *stream, const itg_accuracy *accuracy, const char *const *names);
// Signal to error of every measured layer and its share of the loss; nothing where none was measured.
void itg_chart_layers(FILE *stream, const itg_report *report);
// Decibels that each method buys; nothing without ablation.
void itg_chart_ablation(FILE *stream, const itg_report *report);
// Values of one sample, float and integer; [count] each, finite.
void itg_chart_values(FILE *stream, const float *reference, const float *result, size_t count);

#endif
