// A float model in the interpreter as a pipeline's network.
#ifndef ITG_TESTS_SUPPORT_FLOAT_NETWORK_H
#define ITG_TESTS_SUPPORT_FLOAT_NETWORK_H

#include "intaglio/compiler.h"
#include "intaglio/pipelines.h"

// `run` stays NULL when the model cannot be opened. Close the context with itg_float_network_close.
static inline itg_network float_network_open(const char *path, itg_diagnostic *diagnostic) {
  itg_float_network *network = NULL;
  if (itg_float_network_open(path, NULL, diagnostic, &network) != ITG_OK) return (itg_network){0};
  return itg_network_from_float(network);
}

#endif
