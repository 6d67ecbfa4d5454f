// From CANONICAL to ADAPTED: the float graph that the target can hold. Rewrites are exact in real arithmetic.
#ifndef ITG_ADAPT_ADAPT_H
#define ITG_ADAPT_ADAPT_H

#include "graph/graph.h"

// Adapts to our own integer kernels: an Add whose sum goes through a per-channel Affine (the BatchNorm that reads a residual
// stream) becomes AddAffine with both results. Verifies; leaves stage ADAPTED.
// Errors: MEMORY, those of itg_graph_verify.
ITG_MUST_USE itg_status itg_adapt_run(itg_graph *graph, itg_diagnostic *diagnostic);

#endif
