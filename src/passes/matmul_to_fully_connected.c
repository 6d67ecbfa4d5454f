// MatMul and Gemm with a constant matrix on the right become FullyConnected: x [..,K], weight [O,K], bias [O]. A MatMul with the
// constant on the left does so between Transposes: W*x = (x^T * W^T)^T.
#include <stdlib.h>
#include <string.h>

#include "passes/list.h"
#include "passes/rewrite.h"

// The constant as [O,K]: transposed when it is stored as [K,O].
static itg_tensor *make_weight(itg_graph *graph, itg_tensor *b, bool is_output_first, double alpha) {
  itg_tensor *matrix = b;
  if (b->shape.rank > 2) {
    const itg_shape shape = itg_shape_of(2, &b->shape.dims[b->shape.rank - 2]);
    matrix = itg_constant_reshape(graph, b, &shape);
    if (!matrix) return NULL;
  }
  if (!is_output_first) {
    matrix = itg_constant_transpose(graph, matrix, (const int32_t[]){1, 0});
    if (!matrix) return NULL;
  }
  if (alpha == 1) return matrix;
  double *values = NULL;
  size_t count;
  if (itg_constant_read(matrix, NULL, &values) != ITG_OK || !values || !itg_shape_count(&matrix->shape, &count))
    return NULL;
  for (size_t i = 0; i < count; i++) values[i] *= alpha;
  itg_tensor *scaled = itg_constant_write(graph, b->name, matrix->dtype, &matrix->shape, values);
  free(values);
  return scaled;
}

// Gemm's C as a bias [O], times beta. *bias is NULL when C is absent; *fits is false when it is no constant row.
static itg_status make_bias(itg_graph *graph, const itg_node *node, itg_diagnostic *diagnostic, itg_tensor **bias,
                            bool *fits) {
  const itg_tensor *c = itg_node_input(node, 2);
  *bias = NULL;
  *fits = true;
  if (!c || node->op != ITG_OP_GEMM || node->attributes.gemm.beta == 0) return ITG_OK;
  double *values;
  ITG_TRY(itg_constant_read_channels(c, &node->outputs[0]->shape, 1, diagnostic, &values));
  if (!values) {
    *fits = false;
    return ITG_OK;
  }
  const itg_shape shape = itg_shape_of(1, &node->outputs[0]->shape.dims[1]);
  for (int64_t i = 0; i < shape.dims[0]; i++) values[i] *= node->attributes.gemm.beta;
  *bias = itg_constant_write(graph, c->name, c->dtype, &shape, values);
  free(values);
  ITG_TRY_MEMORY(*bias, diagnostic);
  return ITG_OK;
}

static bool applies(const itg_node *node) {
  const itg_tensor *a = node->inputs[0], *b = node->inputs[1];
  if (!itg_tensor_is_constant(b) || itg_tensor_is_constant(a) || !itg_dtype_is_rewritable(b->dtype)) return false;
  if (b->shape.rank < 2 || a->shape.rank < 1 || (b->shape.rank > 2 && b->shape.rank > a->shape.rank)) return false;
  for (int32_t i = 0; i + 2 < b->shape.rank; i++) {
    if (b->shape.dims[i] != 1) return false;
  }
  return a->shape.rank >= 2 || !node->attributes.gemm.transpose_a;
}

static itg_status convert(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  itg_tensor *a = node->inputs[0], *bias;
  const itg_gemm_attributes gemm = node->attributes.gemm;
  bool fits;
  ITG_TRY(make_bias(graph, node, diagnostic, &bias, &fits));
  if (!fits) return ITG_OK;
  itg_tensor *weight =
      make_weight(graph, node->inputs[1], gemm.transpose_b != 0, node->op == ITG_OP_GEMM ? gemm.alpha : 1);
  ITG_TRY_MEMORY(weight, diagnostic);
  if (gemm.transpose_a) {
    int32_t permutation[ITG_MAX_RANK];
    const int32_t rank = a->shape.rank;
    for (int32_t i = 0; i < rank; i++) permutation[i] = i;
    permutation[rank - 2] = rank - 1;
    permutation[rank - 1] = rank - 2;
    a = itg_insert_transpose(graph, node, a, permutation);
    ITG_TRY_MEMORY(a, diagnostic);
  }
  itg_node *made =
      itg_replace_node(graph, node, ITG_OP_FULLY_CONNECTED, (itg_tensor *[]){a, weight, bias}, bias ? 3 : 2);
  ITG_TRY_MEMORY(made, diagnostic);
  made->attributes.conv.group = 1;
  made->attributes.conv.layout = ITG_LAYOUT_CHANNELS_LAST;
  *changed = true;
  return ITG_OK;
}

static bool is_left_constant(const itg_node *node) {
  if (node->op != ITG_OP_MATMUL) return false;
  const itg_tensor *a = node->inputs[0], *b = node->inputs[1];
  return itg_tensor_is_constant(a) && !itg_tensor_is_constant(b) && a->shape.rank == 2 && b->shape.rank >= 2 &&
         itg_dtype_is_rewritable(a->dtype) && !node->attributes.gemm.transpose_a;
}

static itg_status convert_left(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  itg_tensor *x = node->inputs[1], *weight = node->inputs[0], *y = node->outputs[0];
  int32_t swap[ITG_MAX_RANK];
  const int32_t rank = x->shape.rank;
  for (int32_t i = 0; i < rank; i++) swap[i] = i;
  swap[rank - 2] = rank - 1;
  swap[rank - 1] = rank - 2;
  if (!node->attributes.gemm.transpose_b) x = itg_insert_transpose(graph, node, x, swap);
  const itg_shape shape = itg_shape_permute(&y->shape, swap);
  itg_tensor *inner = itg_graph_add_tensor(graph, y->name, y->dtype, &shape);
  ITG_TRY_MEMORY(x && inner, diagnostic);
  itg_node *made =
      itg_graph_insert_node(graph, node, ITG_OP_FULLY_CONNECTED, node->name, (itg_tensor *[]){x, weight}, 2, &inner, 1);
  ITG_TRY_MEMORY(made, diagnostic);
  made->attributes.conv.group = 1;
  made->attributes.conv.layout = ITG_LAYOUT_CHANNELS_LAST;
  itg_node *back = itg_replace_node(graph, node, ITG_OP_TRANSPOSE, &inner, 1);
  ITG_TRY_MEMORY(back, diagnostic);
  for (int32_t i = 0; i < rank; i++) back->attributes.permutation.permutation[i] = swap[i];
  *changed = true;
  return ITG_OK;
}

itg_status itg_pass_matmul_to_fully_connected(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if ((node->op == ITG_OP_MATMUL || node->op == ITG_OP_GEMM) && applies(node))
      ITG_TRY(convert(graph, node, changed, diagnostic));
    else if (is_left_constant(node))
      ITG_TRY(convert_left(graph, node, changed, diagnostic));
  }
  return ITG_OK;
}
