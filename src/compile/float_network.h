// A graph with its interpreter, as the public itg_float_network and as the oracle of the judge.
#ifndef ITG_COMPILE_FLOAT_NETWORK_H
#define ITG_COMPILE_FLOAT_NETWORK_H

#include "graph/graph.h"
#include "intaglio/compiler.h"
#include "interpret/interpret.h"

// Wraps a canonical graph, which is owned from then on (also when the call fails).
ITG_MUST_USE itg_status itg_float_network_from_graph(itg_graph *graph, itg_diagnostic *diagnostic,
                                                     itg_float_network **out);
// The graph it runs; it lives as long as the network.
const itg_graph *itg_float_network_graph(const itg_float_network *network);
// Name of the source file without folders and its size; "" and 0 for a network made from a graph.
const char *itg_float_network_source(const itg_float_network *network, size_t *bytes);

// A second runner on the same prepared weights, for another thread; the network must outlive it.
typedef struct itg_float_runner itg_float_runner;
ITG_MUST_USE itg_status itg_float_runner_create(const itg_float_network *network, itg_diagnostic *diagnostic,
                                                itg_float_runner **out);
void itg_float_runner_destroy(itg_float_runner *runner); // NULL is allowed.
// As itg_float_network_run.
ITG_MUST_USE itg_status itg_float_runner_run(itg_float_runner *runner, const void *const *inputs, void *const *outputs,
                                             itg_diagnostic *diagnostic);

// Bytes of one dense value as the public interface passes it: floats of any width are f32 there.
bool itg_public_bytes(const itg_tensor_info *info, size_t *bytes);
// dtype of such a value.
itg_dtype itg_public_dtype(itg_dtype dtype);
// Between public values and the graph's own dtype; `count` elements. Copies where both are the same.
void itg_from_public(itg_dtype dtype, const void *values, void *own, size_t count);
void itg_to_public(itg_dtype dtype, const void *own, void *values, size_t count);
// Any public value as floats.
void itg_public_to_float(itg_dtype dtype, const void *values, float *out, size_t count);

#endif
