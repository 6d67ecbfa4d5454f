// ONNX files of any bytes: an error, or a graph that passes the verifier. No external data.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "graph/verify.h"
#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const itg_import_options options = {.batch_is_one = true};
  itg_import_problems problems = {0};
  itg_diagnostic diagnostic;
  itg_graph *graph = NULL;
  // The last byte's parity chooses between stopping at the first problem and listing all.
  itg_import_problems *list = size > 0 && (data[size - 1] & 1) ? &problems : NULL;
  if (itg_import_onnx_memory((itg_span){data, size}, NULL, &options, list, &diagnostic, &graph) == ITG_OK &&
      itg_graph_verify(graph, ITG_STAGE_IMPORTED, &diagnostic) != ITG_OK) {
    fprintf(stderr, "%s: %s\n", diagnostic.subject, diagnostic.message);
    __builtin_trap();
  }
  itg_graph_destroy(graph);
  itg_arena_free(&problems.arena);
  return 0;
}
