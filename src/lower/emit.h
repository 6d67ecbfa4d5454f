// What the lowering of every operation shares: the new graph under construction and small builders for it.
#ifndef ITG_LOWER_EMIT_H
#define ITG_LOWER_EMIT_H

#include "graph/graph.h"
#include "graph/integer_ops.h"
#include "npu/target.h"
#include "quantize/encodings.h"

// One thread at a time.
typedef struct itg_legalizer {
  const itg_graph *source;  // QUANTIZED; only read.
  itg_graph *graph;         // LEGAL, under construction.
  const itg_target *target; // NULL: our own kernels.
  itg_diagnostic *diagnostic;
  itg_arena scratch; // Freed at the end.
  itg_map tensors;   // Name of a source tensor -> tensor of the new graph.
  itg_map converted; // Name of a new tensor -> list of its Converts (emit.c).
  itg_map done;      // Name of a source node's first output that was emitted with an earlier node.
} itg_legalizer;

// ---- operands ----

// The new tensor that stands for an activation or integer tensor of the source; constants of integer type are copied.
// NULL only without memory.
itg_tensor *itg_emit_tensor(itg_legalizer *l, const itg_tensor *source);
// Input `index` of `node` as a quantized activation. Errors: UNSUPPORTED when it is constant, integer or absent.
ITG_MUST_USE itg_status itg_emit_activation(itg_legalizer *l, const itg_node *node, int32_t index, itg_tensor **out);
// Output `index` of `node`; its encoding must be set. Errors: as above.
ITG_MUST_USE itg_status itg_emit_output(itg_legalizer *l, const itg_node *node, int32_t index, itg_tensor **out);
// The same codes' real values in another encoding: `tensor` itself when nothing changes, else a (shared) Convert.
ITG_MUST_USE itg_status itg_emit_convert(itg_legalizer *l, itg_tensor *tensor, const itg_encoding *encoding,
                                         itg_tensor **out);
// The tensor as u16, exactly (code*257) when it was u8.
ITG_MUST_USE itg_status itg_emit_widened(itg_legalizer *l, itg_tensor *tensor, itg_tensor **out);
// Input `index` as codes with any encoding: an activation, or a float constant quantized to its own range (`bits` 8 or 16).
ITG_MUST_USE itg_status itg_emit_operand(itg_legalizer *l, const itg_node *node, int32_t index, int32_t bits,
                                         itg_tensor **out);
// A float constant in a given encoding.
ITG_MUST_USE itg_status itg_emit_encoded_constant(itg_legalizer *l, const itg_tensor *source,
                                                  const itg_encoding *encoding, itg_tensor **out);
// Values of a float constant as doubles (scratch memory). Errors: UNSUPPORTED (not constant, not f32).
ITG_MUST_USE itg_status itg_read_constant(itg_legalizer *l, const itg_node *node, const itg_tensor *tensor,
                                          const double **values, size_t *count);
// True when the constant is one value for all, or one for each entry of the last dimension, of tensors shaped `shape`;
// *count is then 1 or that dimension and *values has as many entries.
ITG_MUST_USE itg_status itg_read_channel_constant(itg_legalizer *l, const itg_node *node, const itg_tensor *tensor,
                                                  const itg_shape *shape, bool *is_channel, const double **values,
                                                  int64_t *count);

// ---- nodes and constants ----

itg_tensor *itg_emit_s32(itg_legalizer *l, const char *name, int64_t count, const int32_t *values); // [count]
itg_tensor *itg_emit_s64(itg_legalizer *l, const char *name, int64_t count, const int64_t *values);
// A fresh activation of `shape`, named after `name`.
itg_tensor *itg_emit_temporary(itg_legalizer *l, const char *name, const itg_shape *shape,
                               const itg_encoding *encoding);
// A node with one output. NULL without memory.
itg_node *itg_emit_node(itg_legalizer *l, itg_op op, const char *name, itg_tensor *const *inputs, int32_t input_count,
                        itg_tensor *output);
ITG_MUST_USE itg_status itg_emit_reshape(itg_legalizer *l, const char *name, itg_tensor *tensor, itg_tensor *output);
// Transposes into `output` (whose shape is the transposed one).
ITG_MUST_USE itg_status itg_emit_transpose(itg_legalizer *l, const char *name, itg_tensor *tensor,
                                           const int32_t *permutation, itg_tensor *output);

// ---- numbers ----

static inline double itg_scale_of(const itg_tensor *tensor) { return tensor->encoding->scales[0]; }
static inline int32_t itg_zero_of(const itg_tensor *tensor) {
  return tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0;
}
// Largest |code - zero point|.
int64_t itg_largest_code(const itg_tensor *tensor);
// Lowest and highest output code of values clipped to [low, high] (infinities allowed).
int32_t itg_clip_code(const itg_tensor *tensor, double value);
// Multiplier and shift of a real factor. Errors: QUANTIZATION when it is too large for the arithmetic.
ITG_MUST_USE itg_status itg_emit_factor(const itg_legalizer *l, const itg_node *node, double factor,
                                        int32_t *multiplier, int32_t *shift);
// Fills multiplier, shift, pre_shift, wide and the full code range for RQ of an accumulator with |acc| <= bound.
ITG_MUST_USE itg_status itg_emit_requantize(const itg_legalizer *l, const itg_node *node, double factor, uint64_t bound,
                                            const itg_tensor *output, itg_requantize_attributes *attributes);

// ---- lowering of one node each; files lower_*.c ----

typedef itg_status itg_lower_function(itg_legalizer *l, const itg_node *node);
itg_lower_function itg_lower_convolution, itg_lower_matmul;                           // lower_matrix.c
itg_lower_function itg_lower_add, itg_lower_add_affine, itg_lower_mul, itg_lower_div; // lower_binary.c
itg_lower_function itg_lower_affine, itg_lower_clip, itg_lower_slope, itg_lower_hard; // lower_affine.c
itg_lower_function itg_lower_table, itg_lower_pow;                                    // lower_table.c
itg_lower_function itg_lower_average_pool, itg_lower_reduce, itg_lower_reduce_max;    // lower_reduce.c
itg_lower_function itg_lower_softmax, itg_lower_norm;                                 // lower_norm.c
itg_lower_function itg_lower_move, itg_lower_gather, itg_lower_identity;              // lower_move.c
itg_lower_function itg_lower_rope, itg_lower_attention;                               // lower_attention.c
itg_lower_function itg_lower_resize;                                                  // lower_resize.c

// y = x*gain + offset with one entry for all (count 1) or one a channel (count = last dimension); low and high clamp the
// output code.
ITG_MUST_USE itg_status itg_emit_affine(itg_legalizer *l, const itg_node *node, itg_tensor *x, itg_tensor *y,
                                        int64_t count, const double *gains, const double *offsets, int32_t low,
                                        int32_t high);
// The affine's integers (M_c, B_c, s_c) for a code of scale s_x into codes of scale s_y (docs/ARITHMETIC.md 3).
ITG_MUST_USE itg_status itg_affine_integers(const itg_legalizer *l, const itg_node *node, double gain, double offset,
                                            double scale_x, double scale_y, int32_t *multiplier, int64_t *addend,
                                            int32_t *shift);
// Q_MUL of two activations into y, with an extra real factor.
ITG_MUST_USE itg_status itg_emit_mul(itg_legalizer *l, const itg_node *node, itg_tensor *a, itg_tensor *b,
                                     itg_tensor *y, double factor);

// Q16 log2 units of one code of a softmax's input. A scale so coarse that one code is more than 2^14 nats makes every other key
// 0 anyway.
double itg_softmax_factor(double scale);

// A table of the function into y; alpha and beta as in itg_unary_evaluate.
ITG_MUST_USE itg_status itg_emit_table(itg_legalizer *l, const itg_node *node, itg_op function, double alpha,
                                       double beta, itg_tensor *x, itg_tensor *y);

#endif
