// The rules of the integer dialect, for itg_graph_verify at stage LEGAL.
#ifndef ITG_GRAPH_VERIFY_INTEGER_H
#define ITG_GRAPH_VERIFY_INTEGER_H

#include "graph/graph.h"

// Checks every node of a graph whose links, arities and inferred shapes are already known to be right: operands of the
// integer dialect (graph/integer_ops.h), constant shapes, multiplier and shift ranges, code ranges, table sizes, indices.
// Errors: FORMAT, SHAPE, UNSUPPORTED (an operation that is not of the dialect), QUANTIZATION; the subject is the node.
ITG_MUST_USE itg_status itg_verify_integer(const itg_graph *graph, itg_diagnostic *diagnostic);

#endif
