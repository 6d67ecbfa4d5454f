// What a kernel is asked to do: one integer operation, fully described by plain numbers and pointers to constants.
//
// The planner builds a task from a LEGAL graph node (operands: graph/integer_ops.h); kernels of every instruction set read
// it. Freestanding: kernel files include only <stdint.h>-class headers, tensor/requantize.h, tensor/nibbles.h and this; no allocation, no
// globals, no OS. Everything in a task was verified; kernels do not check.
#ifndef ITG_KERNELS_TASK_H
#define ITG_KERNELS_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/nibbles.h"

enum { ITG_TASK_MAX_RANK = 8 };

// Element types that kernels see; values equal itg_dtype.
enum { ITG_TASK_S8 = 5, ITG_TASK_S32 = 7, ITG_TASK_S64 = 8, ITG_TASK_U8 = 9, ITG_TASK_U16 = 10, ITG_TASK_BOOL = 13 };

// Convolution, transposed convolution, depth-wise, fully connected (as 1x1 over [1,1,rows,K]). NHWC.
typedef struct itg_conv_task {
  int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  int32_t pad_top, pad_left; // Bottom and right follow from the sizes.
  int32_t group;             // in_c: depth-wise.
  int32_t in_type, out_type; // U8 or U16
  int32_t in_zero, out_zero, low, high;
  int32_t wide, pre_shift; // wide: 64-bit accumulator and RQ64.
  int32_t pair_sums_fit;
  int64_t bound; // Proven bound of |acc|.
  const int8_t
      *weight; // [out_c, kernel_h, kernel_w, in_c/group]; transposed: [out_c/group, kh, kw, in_c]. NULL: packed.
  const uint8_t *packed_weight; // s4 codes in the same order (tensor/nibbles.h); NULL where `weight` is set.
  const uint8_t
      *block_scale; // LPBQ: [out_c, in_c/block], 1..16, times the s4 codes; NULL for none. Fully connected only.
  int32_t block;
  const int32_t *bias, *multiplier, *shift;            // [out_c]
  const int32_t *negative_multiplier, *negative_shift; // [out_c] or NULL
  // The real scales, for kernels of a target's own arithmetic (kernels/htp); native kernels never read them.
  double in_scale, out_scale;
  const double *weight_scale; // [weight_scale_count]: 1 or out_c (transposed: out_c/group)
  int32_t weight_scale_count;
} itg_conv_task;

// The integer weight at a position of the dense array, whatever its storage.
static inline int32_t itg_conv_weight(const itg_conv_task *t, int64_t index) {
  if (t->weight) return t->weight[index];
  const int32_t code = itg_nibble(t->packed_weight, index);
  return t->block_scale ? code * t->block_scale[index / t->block] : code;
}

typedef struct itg_matmul_task { // out[b] = a[b] x b[b]; batch offsets are in elements, one an output matrix
  int32_t batch, m, n, k;
  int32_t transpose_b;
  int32_t a_type, b_type, out_type; // a U8/U16, b U8/S8
  int32_t a_zero, b_zero, out_zero, low, high, wide, pre_shift, multiplier, shift;
  const int64_t *a_offset, *b_offset; // [batch]
  double a_scale, b_scale, out_scale; // As in itg_conv_task.
} itg_matmul_task;

// Element-wise with broadcasting: shapes right-aligned to `rank` dimensions, strides in elements (0 where broadcast).
typedef struct itg_binary_task { // Q_ADD, Q_MUL, Q_DIV, MIN, MAX
  int32_t rank;
  int64_t dims[ITG_TASK_MAX_RANK], a_stride[ITG_TASK_MAX_RANK], b_stride[ITG_TASK_MAX_RANK];
  int32_t a_type, b_type, out_type, a_zero, b_zero, out_zero, low, high;
  int32_t a, b, shift;           // Q_ADD
  int32_t multiplier, pre_shift; // Q_MUL (with shift), Q_DIV (multiplier, shift)
  int32_t divisor_sign;          // Q_DIV
  int64_t same_count;            // > 0: no broadcasting, this many elements.
} itg_binary_task;

typedef struct itg_add_affine_task { // Q_ADD_AFFINE over [rows, channels]
  int64_t rows, channels;
  int32_t a_type, b_type, out_type, out2_type, a_zero, b_zero, out_zero, out2_zero, low, high, low2, high2, a, b, shift;
  const int32_t *scale;       // M_c [channels]
  const int64_t *offset;      // B_c
  const int32_t *scale_shift; // s_c
} itg_add_affine_task;

typedef struct itg_affine_task { // Q_AFFINE over [rows, channels]; `per_channel` 0: one entry for all
  int64_t rows, channels;
  int32_t in_type, out_type, in_zero, out_zero, low, high, per_channel;
  const int32_t *scale;
  const int64_t *offset;
  const int32_t *scale_shift;
} itg_affine_task;

typedef struct itg_convert_task { // Q_CONVERT, Q_PRELU
  int64_t rows, channels;         // channels 1 where nothing is per channel
  int32_t in_type, out_type, in_zero, out_zero, low, high, multiplier, shift;
  int32_t per_channel; // Q_PRELU: the negative side has one entry a channel, else one.
  const int32_t *negative_multiplier, *negative_shift;
} itg_convert_task;

typedef struct itg_pool_task { // MAX_POOL, Q_AVERAGE_POOL; NHWC
  int32_t batch, in_h, in_w, channels, out_h, out_w;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int32_t count_pad_bottom, count_pad_right; // Padding below/right that counts; only with count_include_pad.
  int32_t count_include_pad;
  int32_t type, out_type, in_zero, out_zero, low, high;
  int32_t divisor_count;             // 1 or kernel_h*kernel_w
  const int32_t *multiplier, *shift; // [divisor_count]
} itg_pool_task;

typedef struct itg_reduce_task { // Q_REDUCE_SUM: out[i] = RQ(sum of (x - z)); input strides in elements
  int32_t kept_rank, reduced_rank;
  int64_t kept_dims[ITG_TASK_MAX_RANK], kept_stride[ITG_TASK_MAX_RANK];
  int64_t reduced_dims[ITG_TASK_MAX_RANK], reduced_stride[ITG_TASK_MAX_RANK];
  int32_t in_type, out_type, in_zero, out_zero, low, high, multiplier, shift, pre_shift, wide;
} itg_reduce_task;

typedef struct itg_table_task { // Q_TABLE
  int64_t count;
  int32_t in_type, out_type, node_bits, low, high;
  const void *table;
} itg_table_task;

typedef struct itg_softmax_task { // Q_SOFTMAX over rows of `length` u16 codes
  int64_t rows, length;
  int32_t out_type, k, k_shift, multiplier, shift, out_zero, low, high;
  int32_t has_mask; // inputs[1]: bool, strides over the leading dims
  int32_t rank;
  int64_t dims[ITG_TASK_MAX_RANK], mask_stride[ITG_TASK_MAX_RANK]; // of [rows dims.., length]
} itg_softmax_task;

typedef struct itg_norm_task { // Q_NORM over rows of `channels` u16 codes
  int64_t rows, channels, epsilon;
  int32_t kind, in_zero, out_type, out_zero, low, high, shift;
  const int32_t *gamma;   // Mg [channels] ([1] for L2)
  const int32_t *beta_q4; // [channels] or NULL
} itg_norm_task;

typedef struct itg_resize_task { // Q_RESIZE; NHWC
  int32_t batch, in_h, in_w, channels, out_h, out_w, type;
  const int32_t *row_index, *row_weight, *column_index, *column_weight;
} itg_resize_task;

typedef struct itg_rope_task { // Q_ROPE over [rows, length, heads*dim]; inputs[1], inputs[2]: tables [length, dim/2]
  int64_t rows, length, heads, dim;
  int32_t in_type, out_type, in_zero, out_zero, low, high, multiplier, shift, pre_shift;
} itg_rope_task;

// Q_ATTENTION: q, k, v [block, heads or groups, dim], caches [groups, context, dim], position [1]. Writes the new rows of
// k and v into the caches, which are inputs[3] and inputs[4].
typedef struct itg_attention_task {
  int64_t block, heads, groups, dim, context;
  int32_t q_type, k_type, v_type, out_type, q_zero, k_zero, v_zero, out_zero, low, high;
  int32_t score_multiplier, score_shift, score_pre_shift, score_zero, score_wide; // pre_shift 0 where not wide
  int32_t k_factor, k_shift;
  int32_t multiplier, shift, pre_shift, wide;
} itg_attention_task;

typedef struct itg_embedding_task { // Q_EMBEDDING: out [count, dim]
  int64_t count, dim, vocabulary;
  int32_t id_type, out_type, out_zero, low, high;
  const int8_t *rows;
  const int32_t *multiplier, *shift;
} itg_embedding_task;

// Moves elements of 1, 2, 4 or 8 bytes. Strided copy: out is dense over dims, input strides in elements may be 0 or negative.
// Covers TRANSPOSE, SLICE, EXPAND, RESHAPE, DEPTH_TO_SPACE, SPACE_TO_DEPTH, TILE (with split dimensions).
typedef struct itg_copy_task {
  int32_t rank, element_size;
  int64_t dims[2 * ITG_TASK_MAX_RANK], stride[2 * ITG_TASK_MAX_RANK], offset;
} itg_copy_task;

typedef struct itg_concat_task { // inputs[i]: [outer, inner[i]] -> out [outer, total]; sizes in bytes
  int64_t outer, total;
  int32_t input_count;
  const int64_t *inner; // [input_count]
} itg_concat_task;

typedef struct itg_pad_task {
  int32_t rank, element_size, mode, code;
  int64_t in_dims[ITG_TASK_MAX_RANK], out_dims[ITG_TASK_MAX_RANK], begin[ITG_TASK_MAX_RANK];
} itg_pad_task;

typedef struct itg_gather_task { // GATHER along one axis: in [outer, axis, inner] -> out [outer, count, inner]
  int64_t outer, axis, inner, count;
  int32_t element_size,
      index_type; // Indices: out of range reads nothing and gives code 0 (run-time indices are untrusted).
} itg_gather_task;

typedef struct itg_task {
  int32_t op; // itg_op
  union {
    itg_conv_task conv;
    itg_matmul_task matmul;
    itg_binary_task binary;
    itg_add_affine_task add_affine;
    itg_affine_task affine;
    itg_convert_task convert;
    itg_pool_task pool;
    itg_reduce_task reduce;
    itg_table_task table;
    itg_softmax_task softmax;
    itg_norm_task norm;
    itg_resize_task resize;
    itg_rope_task rope;
    itg_attention_task attention;
    itg_embedding_task embedding;
    itg_copy_task copy;
    itg_concat_task concat;
    itg_pad_task pad;
    itg_gather_task gather;
  };
} itg_task;

// Memory of one call. All pointers are 64-byte aligned except borrowed graph inputs; `scratch` belongs to the calling
// thread. Activation buffers may be read up to ITG_KERNEL_SLACK bytes past their end (the planner allocates them so);
// constants may not: pack copies them.
enum { ITG_KERNEL_SLACK = 64 };
typedef struct itg_kernel_call {
  const void *const *inputs; // Activations in operand order (constants are in the task).
  void *const *outputs;
  const void *packed; // What `pack` wrote, or NULL.
  void *scratch;
} itg_kernel_call;

typedef enum itg_isa { // Order of preference within an architecture; later is better.
  ITG_ISA_REFERENCE = 0,
  ITG_ISA_AVX2,
  ITG_ISA_AVXVNNI,
  ITG_ISA_AVX512VNNI,
  ITG_ISA_NEON,
  ITG_ISA_NEON_DOTPROD,
  ITG_ISA_HVX,
  ITG_ISA_HTP_V68, // Not instruction sets but arithmetic profiles (docs/ARITHMETIC.md 6): the NPU's own rounding.
  ITG_ISA_HTP_V73,
  ITG_ISA_COUNT,
} itg_isa;

// One line of kernels.inc. All functions are pure functions of the task (scratch sizes can be computed on any host).
typedef struct itg_kernel {
  const char *name; // itg_<op>_<in>_<weight>_<out>__<isa>
  int32_t op;
  itg_isa isa;
  bool (*supports)(const itg_task *task);      // NULL: every valid task of the op.
  size_t (*packed_size)(const itg_task *task); // NULL: nothing to pack.
  void (*pack)(const itg_task *task, void *packed);
  size_t (*scratch_size)(const itg_task *task); // Per thread; NULL: none.
  size_t (*units)(const itg_task *task);        // Independent parts of the output; NULL: 1.
  void (*run)(const itg_task *task, const itg_kernel_call *call, size_t begin, size_t end); // Units [begin, end).
} itg_kernel;

#endif
