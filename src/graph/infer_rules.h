// What the files of shape inference share. One function a family of operations; see infer.h for the contract.
#ifndef ITG_GRAPH_INFER_RULES_H
#define ITG_GRAPH_INFER_RULES_H

#include "graph/infer.h"

// Sets of element types, one bit each.
enum {
  ITG_TYPES_FLOAT = 1 << ITG_DTYPE_F32 | 1 << ITG_DTYPE_F16 | 1 << ITG_DTYPE_BF16 | 1 << ITG_DTYPE_F64,
  ITG_TYPES_SIGNED = 1 << ITG_DTYPE_S8 | 1 << ITG_DTYPE_S16 | 1 << ITG_DTYPE_S32 | 1 << ITG_DTYPE_S64,
  ITG_TYPES_UNSIGNED = 1 << ITG_DTYPE_U8 | 1 << ITG_DTYPE_U16 | 1 << ITG_DTYPE_U32 | 1 << ITG_DTYPE_U64,
  ITG_TYPES_INTEGER = ITG_TYPES_SIGNED | ITG_TYPES_UNSIGNED,
  ITG_TYPES_NUMBER = ITG_TYPES_FLOAT | ITG_TYPES_INTEGER,
  ITG_TYPES_BOOL = 1 << ITG_DTYPE_BOOL,
  ITG_TYPES_ANY = ITG_TYPES_NUMBER | ITG_TYPES_BOOL,
  ITG_TYPES_INDEX = 1 << ITG_DTYPE_S32 | 1 << ITG_DTYPE_S64,
};

// Fails with the node's name as subject and the operation's name in front of the message.
#define ITG_INFER_FAIL(status, format, ...) \
  ITG_FAIL(diagnostic, status, node->name, "%s: " format, itg_op_name((int)node->op), __VA_ARGS__)
#define ITG_INFER_SHAPE(format, ...) ITG_INFER_FAIL(ITG_ERROR_SHAPE, format, __VA_ARGS__)

// The type of the values a tensor stands for: constants that were quantized (with an encoding) stand for f32.
itg_dtype itg_infer_dtype(const itg_tensor *tensor);
// Checks that input `index` is there and has one of `types`.
ITG_MUST_USE itg_status itg_infer_expect(const itg_node *node, int index, int types, itg_diagnostic *diagnostic);
// Checks that input `index` has the same type as input 0.
ITG_MUST_USE itg_status itg_infer_same_type(const itg_node *node, int index, itg_diagnostic *diagnostic);
// Sets an output (absent ones are skipped); LIMIT for more than 2^40 elements.
ITG_MUST_USE itg_status itg_infer_set(const itg_node *node, int index, itg_dtype dtype, const itg_shape *shape,
                                      itg_diagnostic *diagnostic);
// Checks that input `index` is a vector of `count` elements.
ITG_MUST_USE itg_status itg_infer_vector(const itg_node *node, int index, int64_t count, itg_diagnostic *diagnostic);
// Checks 0 <= axis < rank of input 0.
ITG_MUST_USE itg_status itg_infer_axis(const itg_node *node, int32_t axis, itg_diagnostic *diagnostic);

// Shapes of attention, float or integer (ops.def): q, k, v, and caches and position where they are present. Gives the sizes.
typedef struct itg_attention_shape {
  int64_t block, heads, groups, dim, context; // T, H, G, D, C (T without caches)
} itg_attention_shape;
ITG_MUST_USE itg_status itg_infer_attention_shape(const itg_node *node, itg_diagnostic *diagnostic,
                                                  itg_attention_shape *out);
// x [..,S,H*D] against tables [S,D/2].
ITG_MUST_USE itg_status itg_infer_rope_shape(const itg_node *node, itg_diagnostic *diagnostic);

typedef itg_status itg_infer_rule(const itg_node *node, itg_diagnostic *diagnostic);
itg_infer_rule itg_infer_elementwise;   // unary, binary, Where
itg_infer_rule itg_infer_reduction;     // Reduce*, ArgMax, ArgMin, CumSum, TopK
itg_infer_rule itg_infer_window;        // Conv, ConvTranspose, pools, ConvInteger
itg_infer_rule itg_infer_matrix;        // FullyConnected, MatMul, Gemm, MatMulInteger
itg_infer_rule itg_infer_normalisation; // norms, affine, softmax, Q/DQ
itg_infer_rule itg_infer_attention;     // RotaryEmbedding, Attention
itg_infer_rule itg_infer_movement;      // Reshape .. ReverseSequence

#endif
