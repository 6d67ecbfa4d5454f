// Human-readable text of a graph, one node a line; deterministic, so that dumps can be compared.
#ifndef ITG_GRAPH_PRINT_H
#define ITG_GRAPH_PRINT_H

#include <stdio.h>

#include "graph/graph.h"

void itg_graph_print(const itg_graph *graph, FILE *stream);
void itg_node_print(const itg_node *node, FILE *stream);

#endif
