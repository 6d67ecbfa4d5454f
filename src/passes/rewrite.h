// Small tools that rewrites share: reading and making constants, inserting movement nodes.
//
// Pointers and false results mean "out of memory" unless stated otherwise.
#ifndef ITG_PASSES_REWRITE_H
#define ITG_PASSES_REWRITE_H

#include "graph/graph.h"

// ---- constants ----

// The elements of an f32 or f64 constant as doubles (malloc'ed, row-major; may be unaligned in memory).
// *out is NULL when the tensor is not such a constant (that is no error: the rewrite does not apply).
ITG_MUST_USE itg_status itg_constant_read(const itg_tensor *tensor, itg_diagnostic *diagnostic, double **out);
// True when every element of an f32 or f64 constant (at most 2^14 of them) is the same finite or infinite number.
bool itg_constant_is_uniform(const itg_tensor *tensor, double *value);
// The constant as one number for each index of `axis` of `shape`, when it broadcasts into `shape` without varying along any
// other dimension. *out (malloc'ed, shape->dims[axis] numbers) is NULL when it does not.
ITG_MUST_USE itg_status itg_constant_read_channels(const itg_tensor *tensor, const itg_shape *shape, int32_t axis,
                                                   itg_diagnostic *diagnostic, double **out);
// A new f32 or f64 constant.
itg_tensor *itg_constant_write(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape,
                               const double *values);
// Writes the elements of an f32 or f64 constant made by itg_graph_add_constant.
void itg_constant_fill(itg_tensor *tensor, const double *values);
// A new constant whose dimension i is dimension permutation[i] of `tensor`, of any whole-byte dtype.
itg_tensor *itg_constant_transpose(itg_graph *graph, const itg_tensor *tensor, const int32_t *permutation);
// The same elements under another shape (the data is shared).
itg_tensor *itg_constant_reshape(itg_graph *graph, const itg_tensor *tensor, const itg_shape *shape);

// A pass that may change the same constant many times marks those it made: they belong to it alone (no clone borrows them) and
// may be written again instead of copied, so that a chain of n rewrites does not need n copies. The mark is tensor->index.
void itg_forget_own_constants(itg_graph *graph); // At the start of the pass.
static inline void itg_mark_own_constant(itg_tensor *tensor) { tensor->index = 1; }
static inline bool itg_is_own_constant(const itg_tensor *tensor) {
  return tensor && tensor->data && tensor->index == 1 && tensor->user_count <= 1;
}

// ---- nodes ----

// Inserts a node before `before` (NULL: at the end) and returns its new output, shaped by permutation or `shape`.
itg_tensor *itg_insert_transpose(itg_graph *graph, itg_node *before, itg_tensor *x, const int32_t *permutation);
itg_tensor *itg_insert_reshape(itg_graph *graph, itg_node *before, itg_tensor *x, const itg_shape *shape);
// Puts a new node of kind `op` in the place of `node`, with its name and outputs. Attributes start zeroed.
itg_node *itg_replace_node(itg_graph *graph, itg_node *node, itg_op op, itg_tensor *const *inputs, int32_t input_count);

// ---- shapes ----

itg_shape itg_shape_permute(const itg_shape *shape, const int32_t *permutation);
// `shape` with dimensions of 1 put in front until it has `rank` dimensions (rank >= shape->rank).
itg_shape itg_shape_extend(const itg_shape *shape, int32_t rank);

// True for the element types in which rewrites may compute new constants.
static inline bool itg_dtype_is_rewritable(itg_dtype dtype) { return dtype == ITG_DTYPE_F32 || dtype == ITG_DTYPE_F64; }
// The node that produces a tensor when it is of kind `op` and `tensor` has no other reader and is no graph output.
itg_node *itg_sole_producer(const itg_tensor *tensor, itg_op op);
// Whether a node's only output can be replaced by `replacement`: a graph output must not become another graph output, a graph
// input or a constant (it would lose its name).
bool itg_can_bypass_node(const itg_node *node, const itg_tensor *replacement);
// Replaces all uses of a node's only output by `replacement` and removes the node. The node must be able to (above).
bool itg_bypass_node(itg_graph *graph, itg_node *node, itg_tensor *replacement);
// Removes the producer of a tensor that nobody needs any more, and so on upwards.
void itg_remove_dead(itg_graph *graph, itg_tensor *tensor);
// Removes `last` and lets `node` write its output (which keeps its name): merges the two nodes.
void itg_take_over_output(itg_graph *graph, itg_node *node, itg_node *last);

#endif
