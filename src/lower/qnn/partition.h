// Which nodes of a LEGAL graph run on the NPU, which on the CPU before and behind it, and why.
//
// One context takes one stretch of the graph. A node that the NPU cannot take is computed on the CPU: before the context
// together with everything it needs, or behind it together with everything that needs it, whichever leaves more
// multiplications to the NPU. Nothing moves silently: every node on the CPU has a reason.
#ifndef ITG_LOWER_QNN_PARTITION_H
#define ITG_LOWER_QNN_PARTITION_H

#include "graph/graph.h"

typedef enum itg_qnn_place { ITG_QNN_ON_NPU = 0, ITG_QNN_BEFORE = 1, ITG_QNN_BEHIND = 2 } itg_qnn_place;

// Borrows the graph. One thread at a time.
typedef struct itg_qnn_partition {
  itg_arena arena;
  size_t node_count, npu_count; // Nodes of the graph in its order; how many of them are on the NPU.
  itg_qnn_place *places;
  bool *refused;        // The NPU does not take the node; else, on the CPU, another one's refusal is its reason.
  const char **reasons; // NULL for nodes on the NPU.
  itg_tensor **inputs, **outputs; // Of the NPU's part: activations that cross its border.
  int32_t input_count, output_count;
} itg_qnn_partition;

// `refusals`: one a node, NULL or "" for nodes that the NPU takes; copied.
// Errors: UNSUPPORTED when nothing that multiplies would be left for the NPU (the first refusal is the reason), MEMORY.
ITG_MUST_USE itg_status itg_qnn_partition_make(const itg_graph *graph, const char *const *refusals,
                                               itg_diagnostic *diagnostic, itg_qnn_partition *out);
void itg_qnn_partition_free(itg_qnn_partition *partition);

#endif
