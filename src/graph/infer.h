// Shapes and types of a node's outputs from its inputs and attributes.
#ifndef ITG_GRAPH_INFER_H
#define ITG_GRAPH_INFER_H

#include "graph/graph.h"

// Checks the node's inputs and attributes completely (ranks, dimensions, dtypes, window geometry, overflow) and sets
// dtype and shape of its outputs. Operations whose output shape is not a function of the inputs (RESHAPE, EXPAND, TILE,
// RESIZE, SLICE, ONE_HOT, TOP_K: the builder sets it) have it checked instead.
// Errors: SHAPE, UNSUPPORTED (dtype), LIMIT; the diagnostic's subject is the node's name.
ITG_MUST_USE itg_status itg_infer_node(const itg_node *node, itg_diagnostic *diagnostic);

#endif
