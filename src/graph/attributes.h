// Attributes of every operation: plain structs of fixed-width integers and doubles, which the file format stores as they
// are (little-endian). New fields go at the end; static asserts in container/format.h pin the sizes.
#ifndef ITG_GRAPH_ATTRIBUTES_H
#define ITG_GRAPH_ATTRIBUTES_H

#include <stdint.h>

#include "intaglio/intaglio.h"

enum { ITG_MAX_SPATIAL = 3 };

// Order of the dimensions of images. Canonical graphs use CHANNELS_LAST.
enum { ITG_LAYOUT_CHANNELS_FIRST = 0, ITG_LAYOUT_CHANNELS_LAST = 1 };

// A sliding window over the spatial dimensions. Padding is zero (real 0) for convolutions, ignored by pools.
typedef struct itg_window {
  int32_t rank; // 1..3 spatial dimensions.
  int32_t kernel[ITG_MAX_SPATIAL];
  int32_t stride[ITG_MAX_SPATIAL];    // >= 1
  int32_t dilation[ITG_MAX_SPATIAL];  // >= 1
  int32_t pad_begin[ITG_MAX_SPATIAL]; // >= 0
  int32_t pad_end[ITG_MAX_SPATIAL];   // >= 0
} itg_window;

// Activation fused into the producer ("merge activations"). PRELU and LEAKY multiply negative values by a slope.
enum { ITG_ACTIVATION_NONE = 0, ITG_ACTIVATION_CLIP = 1, ITG_ACTIVATION_LEAKY = 2, ITG_ACTIVATION_PRELU = 3 };
typedef struct itg_activation {
  int32_t kind;
  int32_t reserved;
  double low, high; // CLIP: bounds (ReLU is 0, +inf).
  double slope;     // LEAKY. PRELU has a slope tensor [C] as the last input of the node instead.
} itg_activation;

typedef struct itg_conv_attributes { // CONV, CONV_TRANSPOSE, FULLY_CONNECTED (window unused)
  itg_window window;
  int32_t group;
  int32_t layout;
  int32_t output_padding[ITG_MAX_SPATIAL]; // CONV_TRANSPOSE only.
  itg_activation activation;
} itg_conv_attributes;

typedef struct itg_pool_attributes { // MAX_POOL, AVERAGE_POOL, LP_POOL
  itg_window window;                 // pad_end already enlarged where ceil_mode adds a partial window.
  int32_t layout;
  int32_t count_include_pad;                 // AVERAGE_POOL: padding (as declared in the source) counts in the divisor.
  int32_t declared_pad_end[ITG_MAX_SPATIAL]; // What counts as padding for count_include_pad; <= pad_end.
  int32_t p;                                 // LP_POOL.
} itg_pool_attributes;

typedef struct itg_axis_attributes { // SOFTMAX, LOG_SOFTMAX, CONCAT, GATHER, ..: one axis, 0 <= axis < rank
  int32_t axis;
  int32_t
      flag; // CUM_SUM: 1 exclusive, 2 reverse (bits). ARG_MAX/MIN: 1 keep dims, 2 select last. TOP_K: 1 largest, 2 sorted.
            // SCATTER_*: 0 none, 1 add, 2 mul, 3 max, 4 min. GATHER_ND: batch dims. MOD: 1 fmod.
} itg_axis_attributes;

typedef struct itg_reduce_attributes { // REDUCE_*
  uint32_t axes;                       // Bit i: dimension i is reduced.
  int32_t keep_dims;
} itg_reduce_attributes;

typedef struct itg_permutation_attributes { // TRANSPOSE: output dim i is input dim permutation[i]
  int32_t permutation[ITG_MAX_RANK];
} itg_permutation_attributes;

typedef struct itg_slice_attributes { // SLICE: output[i] = input[start + i*step] in each dimension; fully resolved
  int64_t start[ITG_MAX_RANK];
  int64_t step[ITG_MAX_RANK]; // Not 0; negative walks backwards.
} itg_slice_attributes;

enum { ITG_PAD_CONSTANT = 0, ITG_PAD_REFLECT = 1, ITG_PAD_EDGE = 2, ITG_PAD_WRAP = 3 };
typedef struct itg_pad_attributes { // PAD; negative amounts crop
  int64_t begin[ITG_MAX_RANK], end[ITG_MAX_RANK];
  int32_t mode;
  int32_t code; // Integer graphs: the code to fill with.
  double value; // Float graphs.
} itg_pad_attributes;

typedef struct itg_scalar_attributes { // ELU, CELU, SELU, LEAKY_RELU, THRESHOLDED_RELU, HARD_SIGMOID, CLIP, GELU, ..
  double alpha;                        // CLIP: low. GELU: 1 for the tanh approximation. QUICK_GELU: the factor.
  double beta;                         // CLIP: high.
} itg_scalar_attributes;

typedef struct itg_cast_attributes { // CAST
  int32_t to;                        // itg_dtype
  int32_t saturate;
} itg_cast_attributes;

typedef struct itg_gemm_attributes { // GEMM: alpha*op(A)*op(B) + beta*C;  MATMUL: transposes of the last two dims only
  double alpha, beta;
  int32_t transpose_a, transpose_b;
} itg_gemm_attributes;

typedef struct itg_norm_attributes { // BATCH_NORM, LAYER_NORM, RMS_NORM, INSTANCE_NORM, GROUP_NORM, LP_NORM, LRN
  double epsilon;
  int32_t
      axis; // LAYER_NORM, RMS_NORM: first normalised dimension. LP_NORM, MEAN_VARIANCE: the axis. Others: channel axis.
  int32_t groups;           // GROUP_NORM: groups. LP_NORM: p. LRN: size.
  double alpha, beta, bias; // LRN.
} itg_norm_attributes;

typedef struct itg_attention_attributes { // ATTENTION
  double scale;                           // Of the scores; usually 1/sqrt(D).
} itg_attention_attributes;

// Operands of ATTENTION and Q_ATTENTION.
enum {
  ITG_ATTENTION_Q = 0,
  ITG_ATTENTION_K,
  ITG_ATTENTION_V,
  ITG_ATTENTION_K_CACHE,
  ITG_ATTENTION_V_CACHE,
  ITG_ATTENTION_POSITION,
  ITG_ATTENTION_K_PREFIX, // Q_ATTENTION only.
  ITG_ATTENTION_V_PREFIX,
};

enum { ITG_RESIZE_NEAREST = 0, ITG_RESIZE_LINEAR = 1, ITG_RESIZE_CUBIC = 2 };
enum { // How an output coordinate maps to the input (ONNX names).
  ITG_RESIZE_HALF_PIXEL = 0,
  ITG_RESIZE_ALIGN_CORNERS = 1,
  ITG_RESIZE_ASYMMETRIC = 2,
  ITG_RESIZE_PYTORCH_HALF_PIXEL = 3,
  ITG_RESIZE_TF_CROP = 4,
  ITG_RESIZE_TF_HALF_PIXEL = 5,
  ITG_RESIZE_HALF_PIXEL_SYMMETRIC = 6,
};
enum {
  ITG_NEAREST_ROUND_PREFER_FLOOR = 0,
  ITG_NEAREST_ROUND_PREFER_CEIL = 1,
  ITG_NEAREST_FLOOR = 2,
  ITG_NEAREST_CEIL = 3
};
typedef struct itg_resize_attributes { // RESIZE; output sizes are the output tensor's shape
  int32_t mode, coordinates, nearest_rounding, exclude_outside, antialias, reserved;
  double cubic_a, extrapolation;
  double scale[ITG_MAX_RANK];                            // Output/input scale of each dimension as given or derived.
  double roi_start[ITG_MAX_RANK], roi_end[ITG_MAX_RANK]; // TF_CROP.
} itg_resize_attributes;

typedef struct itg_block_attributes { // DEPTH_TO_SPACE, SPACE_TO_DEPTH
  int32_t block;
  int32_t layout;
  int32_t column_row_depth; // DEPTH_TO_SPACE: 1 for CRD mode (pixel shuffle).
  int32_t reserved;
} itg_block_attributes;

// ---- Integer operations (docs/ARITHMETIC.md). Zero points come from the tensors' encodings. ----

// Multiplier and shift of RQ, pre-shift h of RQ64, clamp of the output code.
typedef struct
    itg_requantize_attributes { // Q_CONVERT, Q_MUL, Q_MATMUL, Q_REDUCE, Q_PRELU (positive side), Q_SOFTMAX to u8
  int32_t multiplier, shift, pre_shift;
  int32_t low, high;   // Output codes, within the storage type.
  int32_t wide;        // 1: the accumulator needs 64 bits (the compiler could not prove |acc| < 2^31).
  int32_t transpose_b; // Q_MATMUL: B is [.., N, K].
  uint32_t axes;       // Q_REDUCE: bit i = dimension i is reduced (kept as size 1).
} itg_requantize_attributes;

typedef struct itg_q_conv_attributes { // Q_CONV, Q_CONV_TRANSPOSE, Q_FULLY_CONNECTED; NHWC, spatial rank 2
  itg_window window;
  int32_t group;
  int32_t low, high;
  int32_t wide; // 1: 64-bit accumulator with pre_shift.
  int32_t pre_shift;
  int32_t output_padding[2];
  int32_t
      pair_sums_fit; // 1: the compiler proved that no sum of two adjacent products leaves 16 bits (vpmaddubsw is exact).
  int64_t bound;     // Proven bound of |acc|.
} itg_q_conv_attributes;

typedef struct itg_q_add_attributes { // Q_ADD (B < 0 for Sub)
  int32_t a, b, shift;                // clamp(z + ((a*(qa-za) + b*(qb-zb) + 2^(shift-1)) >> shift))
  int32_t low, high;
  int32_t low2, high2; // Clamp of the second output (per-channel affine of the stored code), if there is one.
} itg_q_add_attributes;

typedef struct itg_q_div_attributes { // Q_DIV: floor((2*n*M + d*2^s) / (2*d*2^s))
  int32_t multiplier, shift, divisor_sign;
  int32_t low, high;
} itg_q_div_attributes;

typedef struct itg_q_pool_attributes { // Q_AVERAGE_POOL, MAX_POOL in integer graphs uses itg_pool_attributes
  itg_pool_attributes pool;
  int32_t low, high;
} itg_q_pool_attributes;

typedef struct itg_q_table_attributes { // Q_TABLE
  int32_t node_bits; // u16 input: one node every 2^node_bits codes; 0..5 (nodes are s32 Q4). u8 input: unused.
  int32_t low, high;
  int32_t function;   // itg_op of the real function, for reports and export.
  double alpha, beta; // Its attributes.
  double error;       // Largest error against exact arithmetic, in output codes.
} itg_q_table_attributes;

typedef struct itg_q_softmax_attributes { // Q_SOFTMAX over the last axis
  int32_t k, k_shift;        // w = (d*k + 2^(k_shift-1)) >> k_shift: Q16 of the log2 distance to the maximum.
  int32_t multiplier, shift; // Output u8: RQ64 of e*R (Q47, at most 2^47) with h = 17: RQ of the Q30 probability.
  int32_t low, high;
} itg_q_softmax_attributes;

enum { ITG_NORM_LAYER = 0, ITG_NORM_RMS = 1, ITG_NORM_L2 = 2 };
typedef struct itg_q_norm_attributes { // Q_NORM over the last axis
  int32_t kind;
  int32_t shift;   // s: gamma multipliers are Q(s) of the output scale.
  int64_t epsilon; // E.
  int32_t low, high;
} itg_q_norm_attributes;

typedef struct itg_q_attention_attributes {                           // Q_ATTENTION
  int32_t score_multiplier, score_shift, score_pre_shift, score_wide; // RQ or RQ64 of q.k to a u16 score
  int32_t score_zero;
  int32_t k, k_shift;                         // Softmax of the scores, as in Q_SOFTMAX.
  int32_t multiplier, shift, pre_shift, wide; // RQ or RQ64 of the weighted sum of values
  int32_t low, high, reserved;
  double score_scale; // Of the u16 score, for reports, export and targets.
} itg_q_attention_attributes;

typedef union itg_attributes {
  itg_conv_attributes conv;
  itg_pool_attributes pool;
  itg_axis_attributes axis;
  itg_reduce_attributes reduce;
  itg_permutation_attributes permutation;
  itg_slice_attributes slice;
  itg_pad_attributes pad;
  itg_scalar_attributes scalar;
  itg_cast_attributes cast;
  itg_gemm_attributes gemm;
  itg_norm_attributes norm;
  itg_attention_attributes attention;
  itg_resize_attributes resize;
  itg_block_attributes block;
  itg_requantize_attributes requantize;
  itg_q_conv_attributes q_conv;
  itg_q_add_attributes q_add;
  itg_q_div_attributes q_div;
  itg_q_pool_attributes q_pool;
  itg_q_table_attributes q_table;
  itg_q_softmax_attributes q_softmax;
  itg_q_norm_attributes q_norm;
  itg_q_attention_attributes q_attention;
} itg_attributes;

#endif
