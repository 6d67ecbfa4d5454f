// Float references of language models (data/vlm, data/vlm-full): arrays that another implementation computed, and graphs of
// this one run on the same inputs.
#ifndef ITG_TESTS_SUPPORT_LANGUAGE_REFERENCE_H
#define ITG_TESTS_SUPPORT_LANGUAGE_REFERENCE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/language/build.h"
#include "interpret/interpret.h"
#include "support/oracle.h"
#include "tensor/npy.h"

// An array of the reference as floats (integers too); NULL when there is none. *dims[4] is filled up with ones.
static inline float *reference_array(const char *folder, const char *name, int64_t dims[4]) {
  char path[32768];
  itg_npy npy;
  snprintf(path, sizeof path, "%s/%s.npy", folder, name);
  if (itg_npy_open(path, NULL, &npy) != ITG_OK) return NULL;
  float *values = malloc(npy.count * sizeof *values + 1);
  for (int i = 0; i < 4; i++) dims[i] = i < npy.shape.rank ? npy.shape.dims[i] : 1;
  const itg_status status = itg_npy_floats(&npy, 0, npy.count, NULL, values);
  itg_npy_close(&npy);
  if (status == ITG_OK) return values;
  free(values);
  return NULL;
}

// Largest difference over the root mean square of `b`.
static inline double reference_error(const float *a, const float *b, size_t count) {
  double largest = 0, squares = 0;
  for (size_t i = 0; i < count; i++) {
    const double difference = fabs((double)a[i] - (double)b[i]);
    if (!(difference <= largest)) largest = difference; // NaN too.
    squares += (double)b[i] * (double)b[i];
  }
  return largest / sqrt(squares / (double)(count ? count : 1) + 1e-30);
}

typedef struct reference_watch { // One inner tensor that is wanted beside the output.
  const char *name;
  float *out;
  size_t count;
} reference_watch;
static inline bool reference_observe(void *context, const itg_tensor *tensor, const void *data) {
  const reference_watch *watch = context;
  if (watch->name && strcmp(tensor->name, watch->name) == 0) memcpy(watch->out, data, watch->count * sizeof(float));
  return true;
}

// Runs a graph whose first input is `x`; tables and position of a decoder start at 0, states have no past.
static inline itg_status reference_run(itg_graph *graph, const itg_language_config *config, const float *x,
                                       reference_watch *watch, float *out, itg_diagnostic *diagnostic) {
  itg_interpreter *interpreter = NULL;
  itg_interpreter_state *state = NULL;
  const int32_t position = 0;
  const void *inputs[8] = {x, NULL, NULL, &position};
  const void *all[1100] = {NULL};
  float *tables = NULL;
  itg_status status = ITG_OK;
  for (int i = 0; i < 4; i++) all[i] = inputs[i];
  if (graph->input_count > 3) {
    const int64_t rows = graph->inputs[1]->shape.dims[0], pairs = graph->inputs[1]->shape.dims[1];
    tables = malloc((size_t)(2 * rows * pairs) * sizeof *tables);
    status = itg_rope_tables(config, 0, rows, diagnostic, tables, tables + rows * pairs);
    all[1] = tables;
    all[2] = tables + rows * pairs;
  }
  if (status == ITG_OK) status = itg_interpreter_create(graph, diagnostic, &interpreter);
  if (status == ITG_OK) status = itg_interpreter_state_create(interpreter, diagnostic, &state);
  if (status == ITG_OK)
    status = itg_interpreter_run(state, all, (void *[]){out}, watch ? reference_observe : NULL, watch, diagnostic);
  itg_interpreter_state_destroy(state);
  itg_interpreter_destroy(interpreter);
  free(tables);
  return status;
}

#endif
