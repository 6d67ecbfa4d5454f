// Which functions execute each operation.
#include "interpret/executor.h"

#define EXECUTOR(name, flags) \
  { itg_prepare_##name, itg_run_##name, flags }
static const struct {
  itg_op op;
  itg_executor executor;
} others[] = {
    {ITG_OP_CAST, EXECUTOR(cast, ITG_EXECUTES_AS_IS)},
    {ITG_OP_IDENTITY, EXECUTOR(copy, ITG_EXECUTES_AS_IS | ITG_EXECUTES_ALIAS)},
    {ITG_OP_RESHAPE, EXECUTOR(copy, ITG_EXECUTES_AS_IS | ITG_EXECUTES_ALIAS)},
    {ITG_OP_ARG_MAX, EXECUTOR(arg, 0)},
    {ITG_OP_ARG_MIN, EXECUTOR(arg, 0)},
    {ITG_OP_CUM_SUM, EXECUTOR(cum_sum, 0)},
    {ITG_OP_TOP_K, EXECUTOR(top_k, 0)},
    {ITG_OP_CONV, EXECUTOR(conv, 0)},
    {ITG_OP_CONV_TRANSPOSE, EXECUTOR(conv_transpose, 0)},
    {ITG_OP_FULLY_CONNECTED, EXECUTOR(fully_connected, 0)},
    {ITG_OP_MATMUL, EXECUTOR(matmul, 0)},
    {ITG_OP_GEMM, EXECUTOR(gemm, 0)},
    {ITG_OP_MAX_POOL, EXECUTOR(pool, 0)},
    {ITG_OP_AVERAGE_POOL, EXECUTOR(pool, 0)},
    {ITG_OP_LP_POOL, EXECUTOR(pool, 0)},
    {ITG_OP_BATCH_NORM, EXECUTOR(batch_norm, ITG_EXECUTES_IN_PLACE)},
    {ITG_OP_AFFINE, {itg_prepare_norm, itg_run_affine, ITG_EXECUTES_IN_PLACE}},
    {ITG_OP_ADD_AFFINE, {itg_prepare_norm, itg_run_add_affine, 0}},
    {ITG_OP_LAYER_NORM, EXECUTOR(row_norm, 0)},
    {ITG_OP_RMS_NORM, EXECUTOR(row_norm, 0)},
    {ITG_OP_INSTANCE_NORM, EXECUTOR(group_norm, 0)},
    {ITG_OP_GROUP_NORM, EXECUTOR(group_norm, 0)},
    {ITG_OP_LP_NORM, {itg_prepare_norm, itg_run_lp_norm, 0}},
    {ITG_OP_LRN, {itg_prepare_norm, itg_run_lrn, 0}},
    {ITG_OP_SOFTMAX, EXECUTOR(softmax, 0)},
    {ITG_OP_LOG_SOFTMAX, EXECUTOR(softmax, 0)},
    {ITG_OP_HARDMAX, EXECUTOR(softmax, 0)},
    {ITG_OP_ROPE, {itg_prepare_norm, itg_run_rope, 0}},
    {ITG_OP_ATTENTION, EXECUTOR(attention, 0)},
    {ITG_OP_RESIZE, EXECUTOR(resize, 0)},
    {ITG_OP_QUANTIZE_LINEAR, EXECUTOR(quantize_linear, 0)},
    {ITG_OP_DEQUANTIZE_LINEAR, EXECUTOR(dequantize_linear, 0)},
    {ITG_OP_DYNAMIC_QUANTIZE, EXECUTOR(dynamic_quantize, 0)},
    {ITG_OP_CONV_INTEGER, EXECUTOR(conv_integer, 0)},
    {ITG_OP_MATMUL_INTEGER, EXECUTOR(matmul_integer, 0)},
    {ITG_OP_WHERE, EXECUTOR(where, 0)},
    {ITG_OP_TRANSPOSE, EXECUTOR(rearrange, ITG_EXECUTES_AS_IS)},
    {ITG_OP_SLICE, EXECUTOR(rearrange, ITG_EXECUTES_AS_IS)},
    {ITG_OP_EXPAND, EXECUTOR(rearrange, ITG_EXECUTES_AS_IS)},
    {ITG_OP_TILE, EXECUTOR(rearrange, ITG_EXECUTES_AS_IS)},
    {ITG_OP_DEPTH_TO_SPACE, EXECUTOR(rearrange, ITG_EXECUTES_AS_IS)},
    {ITG_OP_SPACE_TO_DEPTH, EXECUTOR(rearrange, ITG_EXECUTES_AS_IS)},
    {ITG_OP_CONCAT, EXECUTOR(concat, ITG_EXECUTES_AS_IS)},
    {ITG_OP_PAD, EXECUTOR(pad, ITG_EXECUTES_AS_IS)},
    {ITG_OP_TRILU, EXECUTOR(trilu, ITG_EXECUTES_AS_IS)},
    {ITG_OP_REVERSE_SEQUENCE, EXECUTOR(reverse_sequence, ITG_EXECUTES_AS_IS)},
    {ITG_OP_GATHER, EXECUTOR(gather, ITG_EXECUTES_AS_IS)},
    {ITG_OP_GATHER_ELEMENTS, EXECUTOR(gather_elements, ITG_EXECUTES_AS_IS)},
    {ITG_OP_GATHER_ND, EXECUTOR(gather_nd, ITG_EXECUTES_AS_IS)},
    {ITG_OP_SCATTER_ELEMENTS, EXECUTOR(scatter_elements, 0)},
    {ITG_OP_SCATTER_ND, EXECUTOR(scatter_nd, 0)},
    {ITG_OP_ONE_HOT, EXECUTOR(one_hot, 0)},
};
static const itg_executor unary = EXECUTOR(unary, ITG_EXECUTES_IN_PLACE);
static const itg_executor reduce = EXECUTOR(reduce, 0);
static const itg_executor binary = EXECUTOR(binary, ITG_EXECUTES_IN_PLACE);

const itg_executor *itg_executor_find(itg_op op) {
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    if (others[i].op == op) return &others[i].executor;
  }
  const itg_op_info *info = itg_op_get_info((int)op);
  if (!info || info->flags & ITG_OP_INTEGER) return NULL;
  if (info->flags & ITG_OP_UNARY) return &unary;
  if (info->flags & ITG_OP_BINARY) return &binary;
  if (info->flags & ITG_OP_REDUCES) return &reduce;
  return NULL;
}
