// Graphs over the rows of a sequence: the same graph for another length, and graphs joined end to end.
#ifndef ITG_GRAPH_SEQUENCE_H
#define ITG_GRAPH_SEQUENCE_H

#include "graph/graph.h"

// Changes a graph whose activations are [1,T,..] (T the rows of input 0, tables [T,..]) and whose states are [G,C,D] to `rows`
// and `context`: shapes of inputs and of reshapes, the rest by inference. Encodings, weights and names stay. A graph that
// mixes rows other than in attention fails in inference or in what comes after. Errors: ARGUMENT, those of itg_infer_node.
ITG_MUST_USE itg_status itg_graph_set_rows(itg_graph *graph, int64_t rows, int64_t context, itg_diagnostic *diagnostic);

// Copies the nodes of `part` (with their constants, into the arena) behind those of `graph`. An input of `part` is the tensor of
// that name in `graph` where there is one, which must have the same type, shape and encoding; otherwise it becomes a
// graph input. `outputs` (may be NULL) receives the copies of part's outputs, which do not become graph outputs.
// Errors: SHAPE, QUANTIZATION (encodings differ), MEMORY.
ITG_MUST_USE itg_status itg_graph_append(itg_graph *graph, const itg_graph *part, itg_diagnostic *diagnostic,
                                         itg_tensor **outputs);

#endif
