// How near an integer network came to its float original: the numbers behind the accuracy record, the collapse guard and
// the report.
//
// Cosine alone hides collapse: embeddings that all point the same way have a high cosine to the originals and cannot be
// told apart any more. So the measures after centring (subtracting the float mean over the samples) and the spread of the
// cosines between pairs of samples stand beside it.
#ifndef ITG_REPORT_ACCURACY_H
#define ITG_REPORT_ACCURACY_H

#include "base/status.h"
#include "intaglio/compiler.h"

enum { ITG_WORST_SAMPLES = 3, ITG_WORST_VALUES = 128 };

// A sample that float and integer disagree on: some of its values, spread evenly.
typedef struct itg_worst_sample {
  size_t sample, count;
  float reference[ITG_WORST_VALUES], result[ITG_WORST_VALUES];
} itg_worst_sample;

// Measures of one output over a number of samples. One thread at a time.
typedef struct itg_accuracy {
  itg_output_accuracy summary; // Valid after itg_accuracy_finish; `name` is borrowed.
  size_t samples;
  size_t elements;         // Of one sample.
  size_t stride;           // Only every stride-th element is kept for the pair measures, to bound memory.
  size_t kept;             // Elements kept a sample.
  double *cosine;          // [samples]
  double *float_pairs;     // [samples, samples] cosines between samples; NULL with one sample.
  double *integer_pairs;   // Likewise.
  float *float_values;     // [samples, kept]; freed by finish.
  float *integer_values;   // Likewise.
  double signal, error;    // Sums of squares over everything.
  itg_worst_sample *worst; // [worst_count], the lowest cosine first; from finish on.
  size_t worst_count;
} itg_accuracy;

// `name` is borrowed. Errors: MEMORY, ARGUMENT (no samples).
ITG_MUST_USE itg_status itg_accuracy_begin(const char *name, size_t samples, size_t elements,
                                           itg_diagnostic *diagnostic, itg_accuracy *out);
// Values of sample `index` < samples, [elements] each. Elements whose float value is not finite are left out.
void itg_accuracy_add(itg_accuracy *accuracy, size_t index, const float *reference, const float *result);
// Computes the summary. `groups` (may be NULL): a text a sample, equal for the same identity, NULL where unknown.
ITG_MUST_USE itg_status itg_accuracy_finish(itg_accuracy *accuracy, const char *const *groups,
                                            itg_diagnostic *diagnostic);
void itg_accuracy_free(itg_accuracy *accuracy);

// The rule of itg_compiler_compile; fills `reason` with a sentence about the first output that broke it.
int itg_accuracy_collapsed(const itg_accuracy *outputs, size_t count, char *reason, size_t size);

#endif
