// LEGAL graph -> context binary, through the vendor's offline compiler.
#ifndef ITG_LOWER_QNN_PREPARE_H
#define ITG_LOWER_QNN_PREPARE_H

#include "graph/graph.h"
#include "lower/qnn/partition.h"
#include "npu/qnn/context.h"

typedef struct itg_qnn_prepare_options {
  const char *directory;  // Of the vendor's library; NULL searches (itg_qnn_search_path).
  int optimization_level; // 1..3; 0 stands for 3.
  int timeout_seconds;    // Of itg_qnn_prepare_isolated; 0 stands for 600 and 6 more a MiB of constants.
  size_t memory_bytes;    // Address space the child may take; 0 stands for 8 GiB.
  bool survey_only;       // Only asks the validator: no binary, `refusals` are complete.
} itg_qnn_prepare_options;

typedef struct itg_qnn_blob {
  void *data; // malloc'ed
  size_t size;
  itg_qnn_port *inputs, *outputs; // malloc'ed; order of the partition (itg_qnn_partition_make with these refusals)
  uint32_t input_count, output_count;
  char *refusals; // malloc'ed: for each node in order a NUL-terminated text, empty when the NPU takes it.
  size_t refusals_size;
  size_t op_count;          // QNN operations.
  char build[128];          // Of the library that made it,
  itg_qnn_version core;     // and its core API.
  size_t peak_memory_bytes; // Of the process that made it.
} itg_qnn_blob;

// Name of the one graph inside every context binary of ours.
#define ITG_QNN_GRAPH_NAME "intaglio"
// Behind the name of a graph input or output inside a context: it holds codes, and the plain name is left for the real values
// of models around it (export).
#define ITG_QNN_CODES_SUFFIX "/codes"

// Builds in this process: the vendor's code may crash or hang, so servers and commands run it in a child. Every node is shown
// to the vendor's validator first; what it refuses is left to the CPU (partition.h).
// Errors: UNSUPPORTED (node and rule, in the validator's words), DEVICE, VERSION, MEMORY.
ITG_MUST_USE itg_status itg_qnn_prepare(const itg_graph *graph, const itg_target *target,
                                        const itg_qnn_prepare_options *options, itg_diagnostic *diagnostic,
                                        itg_qnn_blob *out);
// The same in a child process with limits on time and memory: a crash or hang of the vendor's code is an error of this call,
// and nothing it prints reaches our standard output. Equal inputs give equal bytes. Additional error: TIMEOUT.
ITG_MUST_USE itg_status itg_qnn_prepare_isolated(const itg_graph *graph, const itg_target *target,
                                                 const itg_qnn_prepare_options *options, itg_diagnostic *diagnostic,
                                                 itg_qnn_blob *out);
void itg_qnn_blob_free(itg_qnn_blob *blob);
// The partition that a binary was made with. Errors: those of itg_qnn_partition_make, INTERNAL.
ITG_MUST_USE itg_status itg_qnn_blob_partition(const itg_qnn_blob *blob, const itg_graph *graph,
                                               itg_diagnostic *diagnostic, itg_qnn_partition *out);

#endif
