// What the files that lower one LEGAL node each share. See builder.h for tensors and parameters.
#ifndef ITG_LOWER_QNN_LOWER_H
#define ITG_LOWER_QNN_LOWER_H

#include <math.h>

#include "graph/integer_ops.h"
#include "lower/qnn/builder.h"

static inline double itg_qnn_scale(const itg_tensor *tensor) { return tensor->encoding->scales[0]; }
static inline int32_t itg_qnn_zero(const itg_tensor *tensor) {
  return tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0;
}
// The real factor that multiplier and shift stand for.
static inline double itg_qnn_factor(int32_t multiplier, int32_t shift) { return ldexp(multiplier, -shift); }

// UNSUPPORTED with the node, its operation, the target and the rule it breaks.
ITG_MUST_USE itg_status itg_qnn_refuse(const itg_qnn_builder *b, const itg_node *node, const char *rule);
// One operation whose inputs are the node's first `input_count` (at most 2) and whose output is its own.
ITG_MUST_USE itg_status itg_qnn_simple(itg_qnn_builder *b, const itg_node *node, const char *type, int32_t input_count,
                                       itg_qnn_parameters *parameters);
// stride, pad_amount and, when `kernel` is its parameter's name, the kernel's size.
ITG_MUST_USE itg_status itg_qnn_set_window(itg_qnn_builder *b, itg_qnn_parameters *p, const itg_window *window,
                                           const char *kernel);
// True when [low, high] cuts off codes that y has.
bool itg_qnn_clamps(const itg_tensor *y, int32_t low, int32_t high);
// A helper for y's values before they are clamped to [low, high] codes of y, and the operation that brings them there. In u16
// the helper's own range clamps: the vendor's compiler fuses ReluMinMax, Minimum and Maximum into 16-bit matrix operations
// and loses their bounds (QAIRT 2.51). In u8 the operation does.
ITG_MUST_USE itg_status itg_qnn_unclamped(itg_qnn_builder *b, const itg_tensor *y, itg_dtype storage, int32_t low,
                                          int32_t high, itg_qnn_tensor *out);
ITG_MUST_USE itg_status itg_qnn_add_clamp(itg_qnn_builder *b, const itg_node *node, const itg_tensor *y, int32_t low,
                                          int32_t high, itg_qnn_tensor *from, itg_qnn_tensor *output);
// A helper with y's shape and, in this storage (u8 or u16), the range of y's values.
ITG_MUST_USE itg_status itg_qnn_helper_in(itg_qnn_builder *b, const itg_tensor *y, itg_dtype storage,
                                          itg_qnn_tensor *out);
// A vector of real values as u8 or u16 codes over their own range.
ITG_MUST_USE itg_status itg_qnn_vector(itg_qnn_builder *b, itg_dtype dtype, uint32_t count, const double *values,
                                       itg_qnn_tensor *out);

// One function a kind of node.
typedef itg_status itg_qnn_lower_function(itg_qnn_builder *b, const itg_node *node);
itg_qnn_lower_function itg_qnn_convolution, itg_qnn_fully_connected, itg_qnn_matmul;                    // matrix.c
itg_qnn_lower_function itg_qnn_prelu, itg_qnn_convert, itg_qnn_affine, itg_qnn_table, itg_qnn_multiply; // elementwise.c
itg_qnn_lower_function itg_qnn_pool, itg_qnn_reduce, itg_qnn_softmax, itg_qnn_norm;                     // normalize.c
itg_qnn_lower_function itg_qnn_transpose, itg_qnn_concat, itg_qnn_slice, itg_qnn_pad, itg_qnn_expand, itg_qnn_gather,
    itg_qnn_block;                     // move.c
itg_qnn_lower_function itg_qnn_resize; // resize.c

#endif
