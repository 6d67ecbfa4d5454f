// A part of a graph as a graph of its own.
#ifndef ITG_GRAPH_EXTRACT_H
#define ITG_GRAPH_EXTRACT_H

#include "graph/graph.h"

// The nodes that compute `outputs` from `inputs` (tensors of `graph`; those that are not needed are left out, the order stays).
// Constants and encodings are shared: `graph` must outlive the result. Stage and names are kept.
// Errors: ARGUMENT when something else than `inputs` and constants would be needed, MEMORY.
ITG_MUST_USE itg_status itg_graph_extract(const itg_graph *graph, itg_tensor *const *inputs, int32_t input_count,
                                          itg_tensor *const *outputs, int32_t output_count, itg_diagnostic *diagnostic,
                                          itg_graph **out);

#endif
