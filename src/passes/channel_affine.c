// Folding a per-channel gain and offset into weights and bias. See channel_affine.h.
#include "passes/channel_affine.h"

#include <stdlib.h>
#include <string.h>

#include "passes/rewrite.h"

int32_t itg_output_channel_axis(const itg_node *node) {
  const bool first = node->op != ITG_OP_FULLY_CONNECTED && node->attributes.conv.layout == ITG_LAYOUT_CHANNELS_FIRST;
  return first ? 1 : node->outputs[0]->shape.rank - 1;
}

bool itg_accepts_channel_affine(const itg_node *node) {
  if (node->op != ITG_OP_CONV && node->op != ITG_OP_CONV_TRANSPOSE && node->op != ITG_OP_FULLY_CONNECTED) return false;
  const itg_tensor *weight = node->inputs[1], *bias = itg_node_input(node, 2);
  return itg_tensor_is_constant(weight) && itg_dtype_is_rewritable(weight->dtype) &&
         (!bias || (itg_tensor_is_constant(bias) && bias->dtype == weight->dtype)) &&
         node->attributes.conv.activation.kind == ITG_ACTIVATION_NONE;
}

// Output channel of a weight element is (index / inner) % channels, where a CHANNELS_FIRST transposed convolution,
// [C, O/group, k..], adds the group of its input channel.
typedef struct channel_map {
  size_t inner, channels, group_elements; // group_elements: elements of one group when the group must be added, else 0.
} channel_map;

static channel_map map_channels(const itg_node *node, size_t count) {
  const itg_shape *shape = &node->inputs[1]->shape;
  const bool transposed = node->op == ITG_OP_CONV_TRANSPOSE;
  const bool first = node->attributes.conv.layout == ITG_LAYOUT_CHANNELS_FIRST;
  const size_t groups = node->attributes.conv.group > 0 ? (size_t)node->attributes.conv.group : 1;
  if (transposed && first) {
    const size_t channels = (size_t)shape->dims[1];
    const size_t outer = (size_t)shape->dims[0] * channels;
    return (channel_map){outer ? count / outer : 0, channels, count / groups};
  }
  const size_t outer = (size_t)shape->dims[0];
  return (channel_map){outer ? count / outer : 0, outer, 0};
}

static itg_tensor *scale_weight(itg_graph *graph, const itg_node *node, const double *gain) {
  itg_tensor *weight = node->inputs[1];
  size_t count;
  if (!itg_shape_count(&weight->shape, &count)) return NULL;
  itg_tensor *scaled = itg_is_own_constant(weight)
                           ? weight
                           : itg_graph_add_constant(graph, weight->name, weight->dtype, &weight->shape, NULL);
  if (!scaled) return NULL;
  itg_mark_own_constant(scaled);
  const channel_map map = map_channels(node, count);
  for (size_t i = 0; i < count; i++) {
    size_t channel = i / map.inner % map.channels;
    if (map.group_elements) channel += i / map.group_elements * map.channels;
    if (weight->dtype == ITG_DTYPE_F64) {
      double value;
      memcpy(&value, (const char *)weight->data + i * sizeof value, sizeof value);
      ((double *)itg_tensor_writable(scaled))[i] = value * gain[channel];
    } else {
      float value;
      memcpy(&value, (const char *)weight->data + i * sizeof value, sizeof value);
      ((float *)itg_tensor_writable(scaled))[i] = (float)((double)value * gain[channel]);
    }
  }
  return scaled;
}

static itg_status change_bias(itg_graph *graph, itg_node *node, const double *gain, const double *offset,
                              itg_diagnostic *diagnostic) {
  const int64_t channels = node->outputs[0]->shape.dims[itg_output_channel_axis(node)];
  itg_tensor *bias = itg_node_input(node, 2);
  if (!bias && !offset) return ITG_OK;
  double *values = NULL;
  if (bias)
    ITG_TRY(itg_constant_read(bias, diagnostic, &values));
  else
    values = calloc((size_t)channels + 1, sizeof *values);
  ITG_TRY_MEMORY(values, diagnostic);
  for (int64_t i = 0; i < channels; i++) values[i] = values[i] * (gain ? gain[i] : 1.0) + (offset ? offset[i] : 0.0);
  const itg_shape shape = itg_shape_of(1, &channels);
  const itg_dtype dtype = node->inputs[1]->dtype;
  itg_tensor *made = itg_is_own_constant(bias) ? bias : itg_graph_add_constant(graph, "bias", dtype, &shape, NULL);
  if (made) itg_constant_fill(made, values);
  free(values);
  ITG_TRY_MEMORY(made, diagnostic);
  itg_mark_own_constant(made);
  if (node->input_count < 3) ITG_TRY_MEMORY(itg_node_resize_inputs(graph, node, 3), diagnostic);
  ITG_TRY_MEMORY(itg_node_set_input(node, 2, made), diagnostic);
  return ITG_OK;
}

itg_status itg_fold_channel_affine(itg_graph *graph, itg_node *node, const double *gain, const double *offset,
                                   itg_diagnostic *diagnostic) {
  if (gain) {
    itg_tensor *scaled = scale_weight(graph, node, gain);
    ITG_TRY_MEMORY(scaled, diagnostic);
    ITG_TRY_MEMORY(itg_node_set_input(node, 1, scaled), diagnostic);
  }
  return change_bias(graph, node, gain, offset, diagnostic);
}
