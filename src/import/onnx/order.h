// The order of a graph's nodes. ONNX demands topological order; files that break it are read all the same.
#ifndef ITG_IMPORT_ONNX_ORDER_H
#define ITG_IMPORT_ONNX_ORDER_H

#include "import/onnx/model.h"

// Sets *order to an array of graph->nodes.count indices (free with free()): the file's order when it is right, else a
// topological one. Names that no node of the graph produces are not judged here. Linear time.
// Errors: FORMAT (a cycle; an output that two nodes produce), MEMORY.
ITG_MUST_USE itg_status itg_onnx_order_nodes(const itg_onnx_graph *graph, const uint8_t *file,
                                             itg_diagnostic *diagnostic, uint32_t **order);

#endif
