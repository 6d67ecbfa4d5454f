// BatchNorm behind a convolution, transposed convolution or FullyConnected is folded into weights and bias:
// a = scale/sqrt(variance + epsilon), W'[o] = a[o]*W[o], b'[o] = a[o]*(b[o] - mean[o]) + bias[o].
//
// A BatchNorm in front of a convolution is left alone: with zero padding the fold is wrong at the borders, because the padding
// is applied to the normalised values. It becomes an Affine of its own (channels_last.c).
#include <math.h>
#include <stdlib.h>

#include "passes/batch_norm.h"
#include "passes/channel_affine.h"
#include "passes/list.h"
#include "passes/rewrite.h"

itg_status itg_batch_norm_affine(const itg_node *node, itg_diagnostic *diagnostic, double **gain, double **offset) {
  double *values[4] = {0};
  itg_status status = ITG_OK;
  bool known = true;
  for (int i = 0; i < 4 && status == ITG_OK; i++) {
    status = itg_constant_read(node->inputs[i + 1], diagnostic, &values[i]);
    known = known && values[i];
  }
  *gain = *offset = NULL;
  if (status == ITG_OK && known) {
    const int64_t channels = node->inputs[1]->shape.dims[0];
    for (int64_t i = 0; i < channels; i++) {
      values[0][i] /= sqrt(values[3][i] + node->attributes.norm.epsilon);
      values[1][i] -= values[2][i] * values[0][i];
    }
    *gain = values[0];
    *offset = values[1];
    values[0] = values[1] = NULL;
  }
  for (int i = 0; i < 4; i++) free(values[i]);
  return status;
}

itg_status itg_pass_fold_batch_norm(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  itg_forget_own_constants(graph);
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    if (node->op != ITG_OP_BATCH_NORM) continue;
    const itg_tensor *x = node->inputs[0];
    itg_node *producer = x->producer;
    if (!producer || itg_tensor_only_user(x) != node || !itg_accepts_channel_affine(producer) ||
        node->attributes.norm.axis != itg_output_channel_axis(producer))
      continue;
    double *gain, *offset;
    ITG_TRY(itg_batch_norm_affine(node, diagnostic, &gain, &offset));
    if (!gain) continue;
    const itg_status status = itg_fold_channel_affine(graph, producer, gain, offset, diagnostic);
    free(gain);
    free(offset);
    ITG_TRY(status);
    itg_take_over_output(graph, producer, node);
    *changed = true;
  }
  return ITG_OK;
}
