// A network source that opens float models (.onnx) in the interpreter.
#ifndef ITG_TESTS_SUPPORT_FLOAT_SOURCE_H
#define ITG_TESTS_SUPPORT_FLOAT_SOURCE_H

#include <stdio.h>

#include "intaglio/compiler.h"
#include "intaglio/services.h"

static inline itg_status float_source_open(void *context, const char *folder, const char *name,
                                           const char *const *shapes, size_t shape_count, itg_diagnostic *diagnostic,
                                           itg_network *out) {
  const itg_source_options options = {sizeof options, shapes, shape_count};
  itg_float_network *network = NULL;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
  const itg_status status = itg_float_network_open(path, &options, diagnostic, &network);
  if (status != ITG_OK) return status;
  *out = itg_network_from_float(network);
  if (context) ++*(size_t *)context;
  return ITG_OK;
}
static inline void float_source_close(void *context, itg_network *network) {
  if (context) --*(size_t *)context;
  itg_float_network_close(network->context);
}
// `open_count` (may be NULL) counts the networks that are open.
static inline itg_network_source float_source(size_t *open_count) {
  return (itg_network_source){open_count, float_source_open, float_source_close};
}

#endif
