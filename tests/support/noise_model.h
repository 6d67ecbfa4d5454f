// Real models compiled on noise, for tests that judge arithmetic and not accuracy. After <cmocka.h>.
#ifndef ITG_TESTS_SUPPORT_NOISE_MODEL_H
#define ITG_TESTS_SUPPORT_NOISE_MODEL_H

#include <stdio.h>

#include "intaglio/compiler.h"
#include "support/oracle.h"

typedef struct real_model {
  const char *path, *precision, *shape;
} real_model;

static inline float noise(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

static inline itg_status read_noise(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  const itg_compiler *compiler = context;
  (void)diagnostic;
  for (size_t i = 0; i < itg_compiler_input_count(compiler); i++) {
    uint32_t state = (uint32_t)(index * 977 + i + 1);
    float *values = inputs[i];
    for (size_t k = 0; k < itg_compiler_input(compiler, i)->count; k++) values[k] = noise(&state);
  }
  return ITG_OK;
}

// target NULL: our own kernels only.
static inline void compile_on_noise(const real_model *m, const char *target, const char *output) {
  char path[4096];
  itg_compiler *compiler = NULL;
  itg_diagnostic why = {0};
  itg_source_options source = {.struct_size = sizeof source, .shapes = &m->shape, .shape_count = m->shape ? 1 : 0};
  itg_compile_options options;
  itg_compile_options_default(&options);
  snprintf(path, sizeof path, "%s/%s", oracle_models(), m->path);
  if (itg_compiler_open(path, &source, &why, &compiler) != ITG_OK)
    fail_msg("%s: %s: %s", path, why.subject, why.message);
  options.precision = m->precision;
  options.allow_collapse = 1;
  options.targets = &target;
  options.target_count = target ? 1 : 0;
  options.calibration = (itg_samples){.context = compiler, .count = 1, .read = read_noise};
  if (itg_compiler_compile(compiler, &options, output, &why, NULL) != ITG_OK)
    fail_msg("%s: %s: %s", path, why.subject, why.message);
  itg_compiler_close(compiler);
}

#endif
