// How long a program takes, roughly, so that precisions can be weighed against each other (npu/cost.def).
#ifndef ITG_COMPILE_COST_H
#define ITG_COMPILE_COST_H

#include "graph/graph.h"
#include "npu/target.h"

// Of a LEGAL graph, in 8-bit multiply-accumulates. target NULL: the CPU. The same on every machine.
double itg_program_cost(const itg_graph *legal, const itg_target *target);
// Of one node, as if its activations had the storage `operand` (U8 or U16; NONE: as they are).
double itg_node_cost(const itg_node *legal, const itg_target *target, itg_dtype operand);
// Of one element of that storage, written by an operation without products.
double itg_element_cost(const itg_target *target, itg_dtype storage);

#endif
