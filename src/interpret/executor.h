// Inside the interpreter: what executes one node. Every operation has one line in table.c.
#ifndef ITG_INTERPRET_EXECUTOR_H
#define ITG_INTERPRET_EXECUTOR_H

#include "base/arena.h"
#include "base/vectorised.h"
#include "graph/graph.h"

// One input or output of a call. Data of inputs must not be written.
typedef struct itg_operand {
  const itg_tensor *tensor; // NULL: absent.
  itg_dtype dtype;          // Of `data`. f16 and bf16 arrive as f32, s4 as s8, unless the operation moves elements.
  size_t count;             // Elements.
  void *data;               // Dense, aligned to its element. NULL while preparing, except for constants.
} itg_operand;

typedef struct itg_call {
  const itg_node *node;
  itg_operand *inputs, *outputs;
  int32_t input_count, output_count;
  const void *prepared; // What prepare left; shared by all states.
  void *scratch;        // As many bytes as prepare asked for, aligned to 64; contents undefined.
} itg_call;

// Where prepare leaves its results.
typedef struct itg_preparation {
  itg_arena *arena;     // Lives as long as the interpreter.
  const void *prepared; // In the arena or static.
  size_t scratch;       // Bytes.
} itg_preparation;

// Checks dtypes and attributes (UNSUPPORTED) and precomputes. The shapes fit each other: itg_infer_node passed.
typedef itg_status (*itg_prepare_function)(const itg_call *call, itg_preparation *preparation,
                                           itg_diagnostic *diagnostic);
// Computes all outputs that are present. Fails only for data that the node cannot take (an index out of range).
typedef itg_status (*itg_run_function)(const itg_call *call, itg_diagnostic *diagnostic);

enum {
  ITG_EXECUTES_ALIAS = 1,    // The output is the input's bytes: no run function needed when the buffer can be shared.
  ITG_EXECUTES_IN_PLACE = 2, // Output 0 may take over the buffer of an input of the same dtype and shape.
  ITG_EXECUTES_AS_IS = 4,    // Takes f16, bf16 and s4 itself.
};
typedef struct itg_executor {
  itg_prepare_function prepare;
  itg_run_function run;
  int flags;
} itg_executor;

// NULL: the interpreter has no such operation.
const itg_executor *itg_executor_find(itg_op op);

// ---- helpers ----

static inline const itg_operand *itg_call_input(const itg_call *call, int32_t index) {
  return index < call->input_count && call->inputs[index].tensor ? &call->inputs[index] : NULL;
}
static inline const itg_operand *itg_call_output(const itg_call *call, int32_t index) {
  return index < call->output_count && call->outputs[index].tensor ? &call->outputs[index] : NULL;
}
static inline const int64_t *itg_operand_dims(const itg_operand *operand) { return operand->tensor->shape.dims; }
static inline int itg_operand_rank(const itg_operand *operand) { return operand->tensor->shape.rank; }
// Product of dims[begin..end).
static inline size_t itg_dims_product(const int64_t *dims, int begin, int end) {
  size_t product = 1;
  for (int i = begin; i < end; i++) product *= (size_t)dims[i];
  return product;
}
// An element of an integer operand (indices); 0 for other dtypes.
int64_t itg_operand_integer(const itg_operand *operand, size_t index);
// Fails with UNSUPPORTED, naming node, operation and dtype.
itg_status itg_refuse_dtype(const itg_call *call, itg_dtype dtype, itg_diagnostic *diagnostic);
// For operations that take floats only: every present input and output must be f32.
itg_status itg_require_f32(const itg_call *call, itg_diagnostic *diagnostic);

// Converts `count` elements between any two dtypes but s4 outputs. Floats to integers truncate and saturate, NaN gives 0;
// integers wrap; anything but 0 is true. `to` and `from` may not overlap.
void itg_convert(itg_dtype from_dtype, const void *from, itg_dtype to_dtype, void *to, size_t count);

#define ITG_DECLARE_EXECUTOR(name)                                                                               \
  itg_status itg_prepare_##name(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic); \
  itg_status itg_run_##name(const itg_call *call, itg_diagnostic *diagnostic);
ITG_DECLARE_EXECUTOR(unary)
ITG_DECLARE_EXECUTOR(cast)
ITG_DECLARE_EXECUTOR(binary)
ITG_DECLARE_EXECUTOR(where)
ITG_DECLARE_EXECUTOR(copy)      // IDENTITY, RESHAPE
ITG_DECLARE_EXECUTOR(rearrange) // TRANSPOSE, SLICE, EXPAND, TILE, DEPTH_TO_SPACE, SPACE_TO_DEPTH
ITG_DECLARE_EXECUTOR(concat)
ITG_DECLARE_EXECUTOR(pad)
ITG_DECLARE_EXECUTOR(trilu)
ITG_DECLARE_EXECUTOR(reverse_sequence)
ITG_DECLARE_EXECUTOR(gather)
ITG_DECLARE_EXECUTOR(gather_elements)
ITG_DECLARE_EXECUTOR(gather_nd)
ITG_DECLARE_EXECUTOR(scatter_elements)
ITG_DECLARE_EXECUTOR(scatter_nd)
ITG_DECLARE_EXECUTOR(one_hot)
ITG_DECLARE_EXECUTOR(reduce)
ITG_DECLARE_EXECUTOR(arg) // ARG_MAX, ARG_MIN
ITG_DECLARE_EXECUTOR(top_k)
ITG_DECLARE_EXECUTOR(cum_sum)
ITG_DECLARE_EXECUTOR(conv)
ITG_DECLARE_EXECUTOR(conv_transpose)
ITG_DECLARE_EXECUTOR(fully_connected)
ITG_DECLARE_EXECUTOR(matmul)
ITG_DECLARE_EXECUTOR(gemm)
ITG_DECLARE_EXECUTOR(pool) // MAX_POOL, AVERAGE_POOL, LP_POOL
ITG_DECLARE_EXECUTOR(batch_norm)
ITG_DECLARE_EXECUTOR(row_norm)   // LAYER_NORM, RMS_NORM
ITG_DECLARE_EXECUTOR(group_norm) // INSTANCE_NORM, GROUP_NORM
ITG_DECLARE_EXECUTOR(softmax)    // SOFTMAX, LOG_SOFTMAX, HARDMAX
ITG_DECLARE_EXECUTOR(resize)
ITG_DECLARE_EXECUTOR(attention)
ITG_DECLARE_EXECUTOR(quantize_linear)
ITG_DECLARE_EXECUTOR(dequantize_linear)
ITG_DECLARE_EXECUTOR(dynamic_quantize)
ITG_DECLARE_EXECUTOR(conv_integer)
ITG_DECLARE_EXECUTOR(matmul_integer)
#undef ITG_DECLARE_EXECUTOR
// Operations that only need f32 and prepare nothing.
itg_status itg_prepare_norm(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic);
itg_status itg_run_rope(const itg_call *call, itg_diagnostic *diagnostic);
itg_status itg_run_affine(const itg_call *call, itg_diagnostic *diagnostic);
itg_status itg_run_add_affine(const itg_call *call, itg_diagnostic *diagnostic);
itg_status itg_run_lp_norm(const itg_call *call, itg_diagnostic *diagnostic);
itg_status itg_run_lrn(const itg_call *call, itg_diagnostic *diagnostic);

#endif
