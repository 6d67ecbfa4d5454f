// Hostile .itg files: an error, or a model that runs inside its memory.
//
// Even first byte: the rest is a file. Odd: the rest is a list of changes (offset u16, byte) to a good file with every
// operation, whose checksums then fit again; so the checks behind the checksums and the kernels are reached at once.
#include "container/container.h"
#include "support/hostile_file.h"
#include "support/rich_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t *good;
  static size_t good_size;
  if (!good) {
    itg_graph *graph = builder_rich_graph();
    if (itg_container_encode(graph, NULL, 0, NULL, &good, &good_size) != ITG_OK) abort();
    itg_graph_destroy(graph);
  }
  if (size < 1) return 0;
  uint8_t *file = malloc(good_size + size);
  if (!file) return 0;
  size_t length = size - 1;
  if (data[0] & 1) {
    memcpy(file, good, good_size);
    for (size_t i = 1; i + 3 <= size; i += 3) file[(data[i] | (size_t)data[i + 1] << 8) % good_size] = data[i + 2];
    length = good_size;
  } else {
    memcpy(file, data + 1, length);
  }
  fix_checksums(file, length);
  if (open_and_run(file, length, 1) == ITG_ERROR_INTERNAL) abort();
  free(file);
  return 0;
}
