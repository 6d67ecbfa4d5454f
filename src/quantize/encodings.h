// Making encodings; shared with the rooms that lower quantized graphs.
#ifndef ITG_QUANTIZE_ENCODINGS_H
#define ITG_QUANTIZE_ENCODINGS_H

#include "graph/graph.h"

// A new encoding in the graph's arena with one scale (axis -1) or `count` scales along `axis`; arrays are copied,
// zero_points may be NULL. NULL without memory.
const itg_encoding *itg_encoding_create(itg_graph *graph, itg_dtype storage, int32_t axis, int64_t count,
                                        const double *scales, const int32_t *zero_points);

#endif
