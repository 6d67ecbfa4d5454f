// Shapes of the integer dialect (operands: graph/integer_ops.h).
#ifndef ITG_GRAPH_INFER_INTEGER_H
#define ITG_GRAPH_INFER_INTEGER_H

#include "graph/graph.h"

// For a node whose operation has ITG_OP_INTEGER: checks that every operand is there with the right dtype and shape
// (constants, vectors, tables, window geometry) and sets the outputs' shapes. Output dtypes (u8 or u16) are the builder's
// choice and are checked. Values of the operands are verify_integer.h's business.
// Errors: SHAPE, UNSUPPORTED (dtype), LIMIT, FORMAT (a missing operand); the subject is the node's name.
ITG_MUST_USE itg_status itg_infer_integer_node(const itg_node *node, itg_diagnostic *diagnostic);

#endif
