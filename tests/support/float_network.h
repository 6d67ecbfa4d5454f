// A float model in the interpreter as a pipeline's network.
#ifndef ITG_TESTS_SUPPORT_FLOAT_NETWORK_H
#define ITG_TESTS_SUPPORT_FLOAT_NETWORK_H

#include "intaglio/compiler.h"
#include "intaglio/pipelines.h"

static inline itg_status float_network_run(void *context, const float *const *inputs, float *const *outputs,
                                           itg_diagnostic *diagnostic) {
  enum { MOST = 8 };
  const void *in[MOST] = {NULL};
  void *out[MOST] = {NULL};
  for (size_t i = 0; i < itg_float_network_input_count(context) && i < MOST; i++) in[i] = inputs[i];
  for (size_t i = 0; i < itg_float_network_output_count(context) && i < MOST; i++) out[i] = outputs[i];
  return itg_float_network_run(context, in, out, diagnostic);
}
static inline const itg_tensor_info *float_network_input(void *context, size_t index) {
  return itg_float_network_input(context, index);
}
static inline const itg_tensor_info *float_network_output(void *context, size_t index) {
  return itg_float_network_output(context, index);
}
// `run` stays NULL when the model cannot be opened. Close the context with itg_float_network_close.
static inline itg_network float_network_open(const char *path, itg_diagnostic *diagnostic) {
  itg_float_network *network = NULL;
  if (itg_float_network_open(path, NULL, diagnostic, &network) != ITG_OK) return (itg_network){0};
  return (itg_network){.context = network,
                       .input_count = itg_float_network_input_count(network),
                       .output_count = itg_float_network_output_count(network),
                       .run = float_network_run,
                       .input = float_network_input,
                       .output = float_network_output};
}

#endif
