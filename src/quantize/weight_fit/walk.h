// Running a graph layer by layer over several samples at once, twice: exactly, and with everything before a layer already
// rounded as the integer program will round it. So the weights of each layer can be fitted to what they will really see.
#ifndef ITG_QUANTIZE_WEIGHT_FIT_WALK_H
#define ITG_QUANTIZE_WEIGHT_FIT_WALK_H

#include "base/parallel.h"
#include "calibrate/calibrate.h"
#include "graph/graph.h"

typedef struct itg_walk itg_walk; // One thread at a time; a step works on the pool.

// Reads the samples: as many, evenly spread, as keep all values that are alive at a time within `memory` bytes, at most
// `most`. The graph's activations have their encodings; its constants are still floats. Uses tensor->scratch.
// *out becomes NULL, without an error, where fewer than two samples fit or the graph has state.
// Errors: MEMORY, those of the source.
ITG_MUST_USE itg_status itg_walk_create(const itg_graph *graph, const itg_sample_source *samples, size_t memory,
                                        size_t most, itg_pool *pool, itg_diagnostic *diagnostic, itg_walk **out);
void itg_walk_destroy(itg_walk *walk); // NULL is allowed.
size_t itg_walk_sample_count(const itg_walk *walk);
// Values of a tensor that a coming node reads: one pointer a sample.
const float *const *itg_walk_exact(const itg_walk *walk, const itg_tensor *tensor);
const float *const *itg_walk_rounded(const itg_walk *walk, const itg_tensor *tensor);
// Computes the outputs of the next node. weight and bias: the real values of its integer weights and biases for the rounded
// run (NULL: those of the node). Afterwards values that no later node reads are gone.
// Errors: MEMORY, those of the interpreter.
ITG_MUST_USE itg_status itg_walk_step(itg_walk *walk, const itg_node *node, const float *weight, const float *bias,
                                      itg_diagnostic *diagnostic);

#endif
