// An activation that alone reads a convolution, transposed convolution or FullyConnected is fused into it:
// ReLU and Clip as CLIP, LeakyReLU as LEAKY, PReLU with one slope a channel as PRELU (one slope in all: LEAKY).
#include <math.h>
#include <stdlib.h>

#include "passes/channel_affine.h"
#include "passes/list.h"
#include "passes/rewrite.h"

static itg_node *fusable_producer(const itg_tensor *x) {
  itg_node *producer = x->producer;
  if (!producer || x->user_count != 1 || x->is_output) return NULL;
  const bool right_kind =
      producer->op == ITG_OP_CONV || producer->op == ITG_OP_CONV_TRANSPOSE || producer->op == ITG_OP_FULLY_CONNECTED;
  return right_kind && producer->input_count <= 3 ? producer : NULL;
}

// Sets the bounds, within those that are there already. Clip computes min(max(x, low), high), so a second one applies to the
// bounds of the first.
static bool fuse_clip(itg_activation *activation, double low, double high) {
  if (isnan(low) || isnan(high) || low > high) return false;
  if (activation->kind == ITG_ACTIVATION_NONE) {
    *activation = (itg_activation){.kind = ITG_ACTIVATION_CLIP, .low = low, .high = high};
    return true;
  }
  if (activation->kind != ITG_ACTIVATION_CLIP) return false;
  activation->low = fmin(fmax(activation->low, low), high);
  activation->high = fmin(fmax(activation->high, low), high);
  return true;
}

static itg_status fuse_prelu(itg_graph *graph, itg_node *producer, const itg_node *node, bool *fused,
                             itg_diagnostic *diagnostic) {
  const itg_tensor *slope = node->inputs[1];
  const itg_shape *shape = &node->outputs[0]->shape;
  const int32_t axis = itg_output_channel_axis(producer);
  double uniform;
  if (itg_constant_is_uniform(slope, &uniform)) {
    producer->attributes.conv.activation = (itg_activation){.kind = ITG_ACTIVATION_LEAKY, .slope = uniform};
    *fused = true;
    return ITG_OK;
  }
  double *values;
  ITG_TRY(itg_constant_read_channels(slope, shape, axis, diagnostic, &values));
  if (!values) return ITG_OK;
  const itg_shape channels = itg_shape_of(1, &shape->dims[axis]);
  itg_tensor *made = itg_constant_write(graph, slope->name, slope->dtype, &channels, values);
  free(values);
  ITG_TRY_MEMORY(made, diagnostic);
  ITG_TRY_MEMORY(itg_node_resize_inputs(graph, producer, 4), diagnostic);
  ITG_TRY_MEMORY(itg_node_set_input(producer, 3, made), diagnostic);
  producer->attributes.conv.activation = (itg_activation){.kind = ITG_ACTIVATION_PRELU};
  *fused = true;
  return ITG_OK;
}

static itg_status try_fuse(itg_graph *graph, itg_node *producer, const itg_node *node, bool *fused,
                           itg_diagnostic *diagnostic) {
  itg_activation *activation = &producer->attributes.conv.activation;
  const itg_scalar_attributes *scalar = &node->attributes.scalar;
  const bool is_free = activation->kind == ITG_ACTIVATION_NONE;
  switch (node->op) {
  case ITG_OP_RELU: *fused = fuse_clip(activation, 0, INFINITY); return ITG_OK;
  case ITG_OP_CLIP: *fused = fuse_clip(activation, scalar->alpha, scalar->beta); return ITG_OK;
  case ITG_OP_LEAKY_RELU:
    if (!is_free) return ITG_OK;
    *activation = (itg_activation){.kind = ITG_ACTIVATION_LEAKY, .slope = scalar->alpha};
    *fused = true;
    return ITG_OK;
  case ITG_OP_PRELU: return is_free ? fuse_prelu(graph, producer, node, fused, diagnostic) : ITG_OK;
  default: return ITG_OK;
  }
}

itg_status itg_pass_fuse_activations(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE_SAFE(node, following, graph) {
    itg_node *producer = fusable_producer(node->inputs[0]);
    bool fused = false;
    if (!producer || !itg_dtype_is_rewritable(node->outputs[0]->dtype) ||
        !itg_shape_equal(&producer->outputs[0]->shape, &node->outputs[0]->shape))
      continue;
    ITG_TRY(try_fuse(graph, producer, node, &fused, diagnostic));
    if (!fused) continue;
    itg_take_over_output(graph, producer, node);
    *changed = true;
  }
  return ITG_OK;
}
