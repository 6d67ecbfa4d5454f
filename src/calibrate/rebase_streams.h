// Re-basing of streams: gains that make the channels of activations equally loud.
#ifndef ITG_CALIBRATE_REBASE_STREAMS_H
#define ITG_CALIBRATE_REBASE_STREAMS_H

#include "graph/graph.h"

// What the first pass of calibration knows about a tensor: the largest magnitude of each channel (the last dimension),
// or NULL when the tensor was not observed. Valid until the next call.
typedef const float *(*itg_channel_magnitudes)(void *context, const itg_tensor *tensor);
// Tells that the channels of `tensor` are `gains` times what they were (one a channel, powers of two).
typedef void (*itg_channel_gains)(void *context, const itg_tensor *tensor, const double *gains);

// Multiplies the channels of every residual stream, and of every activation between two convolutions, by powers of two, taken into the constants of the nodes that write
// and read the stream: outputs of the graph are the same, bit for bit but for overflow. The graph is CANONICAL or ADAPTED.
// products: also streams that convolutions read, at the cost of their weights. *changed: any stream was. Tensors keep their identity; only constants are replaced. Uses tensor->index.
// Errors: MEMORY. A graph may be left half rewritten by an error.
ITG_MUST_USE itg_status itg_rebase_streams(itg_graph *graph, bool products, itg_channel_magnitudes magnitudes,
                                           itg_channel_gains rescaled, void *context, bool *changed,
                                           itg_diagnostic *diagnostic);

#endif
