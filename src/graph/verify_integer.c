// The rules of the integer dialect. See verify_integer.h; the operands are described in integer_ops.h.
#include "graph/verify_integer.h"

itg_status itg_verify_integer(const itg_graph *graph, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, graph) {
    const itg_op_info *info = itg_op_get_info(node->op);
    if (!info || !((info->flags & (ITG_OP_INTEGER | ITG_OP_MOVES)) || node->op == ITG_OP_MAX_POOL ||
                   node->op == ITG_OP_MIN || node->op == ITG_OP_MAX))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s is not an operation of the integer dialect",
               itg_op_name(node->op));
  }
  return ITG_OK;
}
