// What fitting the weights of a network costs.
#ifndef ITG_QUANTIZE_WEIGHT_FIT_WORK_H
#define ITG_QUANTIZE_WEIGHT_FIT_WORK_H

#include "graph/graph.h"

enum { ITG_FIT_MOST_SAMPLES = 64, ITG_FIT_MOST_WINDOWS = 8192 }; // Windows: of all samples of a layer together.

// Multiply-accumulates, roughly, of the walk through a canonical graph over `samples` samples (as many of them as the walk
// takes) with weight method gptq: running the layers twice, their moments, and the ways that are tried.
double itg_weight_fit_work(const itg_graph *graph, size_t samples);

#endif
