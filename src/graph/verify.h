// What must hold after each stage.
#ifndef ITG_GRAPH_VERIFY_H
#define ITG_GRAPH_VERIFY_H

#include "graph/graph.h"

// Checks links (producers, users, order, names), arities, inferred shapes, and the rules of `stage`; names the offender.
// LEGAL also checks every operand of the integer dialect: constant shapes, multiplier and shift ranges, code ranges, table
// sizes, indices: whatever kernels rely on to stay in bounds. It is the gate for untrusted .itg files.
// Errors: FORMAT, SHAPE, UNSUPPORTED, QUANTIZATION.
ITG_MUST_USE itg_status itg_graph_verify(const itg_graph *graph, itg_stage stage, itg_diagnostic *diagnostic);

#endif
