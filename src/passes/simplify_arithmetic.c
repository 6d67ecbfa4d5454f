// Division by a constant becomes multiplication, subtraction of a constant becomes addition: fewer kinds of nodes, and integer
// kernels multiply cheaper than they divide. A multiplication by one number moves up into the weights it scales anyway:
// MatMul(a, b)*s = MatMul(a*s, b), through movement, up to a convolution or FullyConnected (the 1/sqrt(d) of attention).
#include <math.h>
#include <stdlib.h>

#include "passes/channel_affine.h"
#include "passes/list.h"
#include "passes/rewrite.h"

static itg_status replace_constant(itg_graph *graph, itg_node *node, itg_op op, bool *changed,
                                   itg_diagnostic *diagnostic) {
  const itg_tensor *constant = node->inputs[1];
  size_t count;
  double *values;
  if (!itg_shape_count(&constant->shape, &count)) return ITG_OK;
  ITG_TRY(itg_constant_read(constant, diagnostic, &values));
  if (!values) return ITG_OK;
  bool finite = true;
  for (size_t i = 0; i < count; i++) {
    values[i] = op == ITG_OP_MUL ? 1 / values[i] : -values[i];
    finite = finite && fabs(values[i]) < 3e38;
  }
  itg_tensor *made =
      finite ? itg_constant_write(graph, constant->name, constant->dtype, &constant->shape, values) : NULL;
  free(values);
  if (!finite) return ITG_OK;
  ITG_TRY_MEMORY(made && itg_node_set_input(node, 1, made), diagnostic);
  node->op = op;
  *changed = true;
  return ITG_OK;
}

// The convolution or FullyConnected whose output reaches `tensor` through movement and products that nobody else reads.
static itg_node *find_scaled_weights(const itg_tensor *tensor) {
  enum { FUEL = 16 };
  for (int fuel = 0; fuel < FUEL; fuel++) {
    itg_node *node = tensor->producer;
    if (!node || tensor->user_count != 1 || tensor->is_output) return NULL;
    if (itg_accepts_channel_affine(node)) return node;
    if (node->op != ITG_OP_RESHAPE && node->op != ITG_OP_TRANSPOSE && node->op != ITG_OP_MATMUL) return NULL;
    tensor = node->inputs[0];
  }
  return NULL;
}

static itg_status move_factor_up(itg_graph *graph, itg_node *node, bool *changed, itg_diagnostic *diagnostic) {
  double factor;
  int32_t x = 0;
  if (!itg_constant_is_uniform(node->inputs[1], &factor)) {
    x = 1;
    if (!itg_constant_is_uniform(node->inputs[0], &factor)) return ITG_OK;
  }
  itg_tensor *scaled = node->inputs[x];
  itg_node *weights = find_scaled_weights(scaled);
  if (!weights || !isfinite(factor) || !itg_shape_equal(&scaled->shape, &node->outputs[0]->shape) ||
      !itg_can_bypass_node(node, scaled))
    return ITG_OK;
  const int64_t channels = weights->outputs[0]->shape.dims[itg_output_channel_axis(weights)];
  double *gain = calloc((size_t)channels + 1, sizeof *gain);
  ITG_TRY_MEMORY(gain, diagnostic);
  for (int64_t i = 0; i < channels; i++) gain[i] = factor;
  const itg_status status = itg_fold_channel_affine(graph, weights, gain, NULL, diagnostic);
  free(gain);
  ITG_TRY(status);
  ITG_TRY_MEMORY(itg_bypass_node(graph, node, scaled), diagnostic);
  *changed = true;
  return ITG_OK;
}

itg_status itg_pass_simplify_arithmetic(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  itg_forget_own_constants(graph);
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    const itg_op op = node->op;
    if (op != ITG_OP_DIV && op != ITG_OP_SUB && op != ITG_OP_MUL) continue;
    if (op != ITG_OP_MUL && itg_tensor_is_constant(node->inputs[1]) && !itg_tensor_is_constant(node->inputs[0]))
      ITG_TRY(replace_constant(graph, node, op == ITG_OP_DIV ? ITG_OP_MUL : ITG_OP_ADD, changed, diagnostic));
    if (node->op == ITG_OP_MUL) ITG_TRY(move_factor_up(graph, node, changed, diagnostic));
  }
  return ITG_OK;
}
