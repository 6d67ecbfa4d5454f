// How long a program takes, roughly, so that precisions can be weighed against each other (npu/cost.def).
#ifndef ITG_COMPILE_COST_H
#define ITG_COMPILE_COST_H

#include "graph/graph.h"
#include "npu/target.h"

// Of a LEGAL graph, in 8-bit multiply-accumulates. target NULL: the CPU. The same on every machine.
double itg_program_cost(const itg_graph *legal, const itg_target *target);

#endif
