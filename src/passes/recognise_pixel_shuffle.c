// Pixel shuffle written out: Reshape to six dimensions, Transpose, Reshape to four (channels first).
//   [N, C,r,r, H,W] -> (0,1,4,2,5,3) -> [N,C,H*r,W*r]: DepthToSpace, column-row-depth
//   [N, r,r,C, H,W] -> (0,3,4,1,5,2) -> [N,C,H*r,W*r]: DepthToSpace, depth-column-row
//   [N,C,H,r,W,r]   -> (0,3,5,1,2,4) -> [N,r*r*C,H,W]: SpaceToDepth
// Shi et al., "Real-Time Single Image and Video Super-Resolution ..." (2016); ONNX DepthToSpace, SpaceToDepth.
#include <string.h>

#include "passes/list.h"
#include "passes/rewrite.h"

static bool has_permutation(const itg_node *node, const int32_t *permutation) {
  return memcmp(node->attributes.permutation.permutation, permutation, 6 * sizeof permutation[0]) == 0;
}

static bool match(const itg_node *reshape, itg_op *op, itg_block_attributes *block, const itg_node **first) {
  static const int32_t column_row[6] = {0, 1, 4, 2, 5, 3}, depth_column[6] = {0, 3, 4, 1, 5, 2},
                       to_depth[6] = {0, 3, 5, 1, 2, 4};
  const itg_node *transpose = itg_sole_producer(reshape->inputs[0], ITG_OP_TRANSPOSE);
  *first = transpose ? itg_sole_producer(transpose->inputs[0], ITG_OP_RESHAPE) : NULL;
  if (!*first) return false;
  const itg_shape *x = &(*first)->inputs[0]->shape, *six = &transpose->inputs[0]->shape,
                  *y = &reshape->outputs[0]->shape;
  if (x->rank != 4 || six->rank != 6 || y->rank != 4 || six->dims[0] != x->dims[0] || y->dims[0] != x->dims[0])
    return false;
  const int64_t *d = six->dims;
  int64_t r;
  *block = (itg_block_attributes){.layout = ITG_LAYOUT_CHANNELS_FIRST};
  if (has_permutation(transpose, to_depth)) {
    r = d[3];
    *op = ITG_OP_SPACE_TO_DEPTH;
    if (d[5] != r || d[1] != x->dims[1] || d[2] * r != x->dims[2] || y->dims[2] != d[2] || y->dims[3] != d[4] ||
        d[4] * r != x->dims[3])
      return false;
  } else {
    const bool is_column_row = has_permutation(transpose, column_row);
    if (!is_column_row && !has_permutation(transpose, depth_column)) return false;
    r = d[2];
    *op = ITG_OP_DEPTH_TO_SPACE;
    block->column_row_depth = is_column_row;
    if (d[is_column_row ? 3 : 1] != r || d[4] != x->dims[2] || d[5] != x->dims[3] || y->dims[2] != d[4] * r ||
        y->dims[3] != d[5] * r)
      return false;
  }
  if (r < 2 || r > 1 << 15) return false;
  block->block = (int32_t)r;
  return true;
}

itg_status itg_pass_recognise_pixel_shuffle(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    itg_op op;
    itg_block_attributes block;
    const itg_node *first;
    if (node->op != ITG_OP_RESHAPE || !match(node, &op, &block, &first)) continue;
    itg_tensor *x = first->inputs[0], *old = node->inputs[0];
    itg_node *made = itg_replace_node(graph, node, op, &x, 1);
    ITG_TRY_MEMORY(made, diagnostic);
    made->attributes.block = block;
    itg_remove_dead(graph, old);
    *changed = true;
  }
  return ITG_OK;
}
