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
static const itg_executor binary = EXECUTOR(binary, ITG_EXECUTES_IN_PLACE);

const itg_executor *itg_executor_find(itg_op op) {
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    if (others[i].op == op) return &others[i].executor;
  }
  const itg_op_info *info = itg_op_get_info((int)op);
  if (!info || info->flags & ITG_OP_INTEGER) return NULL;
  if (info->flags & ITG_OP_UNARY) return &unary;
  if (info->flags & ITG_OP_BINARY) return &binary;
  return NULL;
}
