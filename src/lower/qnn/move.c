// Operations that move codes on the NPU.
#include "lower/qnn/lower.h"

itg_status itg_qnn_transpose(itg_qnn_builder *b, const itg_node *node) {
  uint32_t permutation[ITG_MAX_RANK];
  const uint32_t rank = (uint32_t)node->inputs[0]->shape.rank;
  for (uint32_t i = 0; i < rank; i++) permutation[i] = (uint32_t)node->attributes.permutation.permutation[i];
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "perm", ITG_QNN_TYPE_U32_INTEGER, rank, 0, permutation));
  return itg_qnn_simple(b, node, "Transpose", 1, &p);
}

itg_status itg_qnn_concat(itg_qnn_builder *b, const itg_node *node) {
  itg_qnn_tensor *inputs = itg_arena_array(&b->scratch, (size_t)node->input_count, sizeof inputs[0]);
  itg_qnn_tensor output;
  ITG_TRY_MEMORY(inputs, b->diagnostic);
  for (int32_t i = 0; i < node->input_count; i++) ITG_TRY(itg_qnn_activation(b, node->inputs[i], &inputs[i]));
  ITG_TRY(itg_qnn_activation(b, node->outputs[0], &output));
  itg_qnn_parameters p = {0};
  itg_qnn_set_u32(&p, "axis", (uint32_t)node->attributes.axis.axis);
  return itg_qnn_add(b, node, "Concat", &p, inputs, (uint32_t)node->input_count, &output);
}

itg_status itg_qnn_slice(itg_qnn_builder *b, const itg_node *node) {
  uint32_t ranges[3 * ITG_MAX_RANK];
  const uint32_t rank = (uint32_t)node->inputs[0]->shape.rank;
  for (uint32_t i = 0; i < rank; i++) {
    const int64_t start = node->attributes.slice.start[i], step = node->attributes.slice.step[i];
    if (step < 1) return itg_qnn_refuse(b, node, "negative steps are not lowered");
    ranges[3 * i] = (uint32_t)start;
    ranges[3 * i + 1] = (uint32_t)(start + (node->outputs[0]->shape.dims[i] - 1) * step + 1);
    ranges[3 * i + 2] = (uint32_t)step;
  }
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "ranges", ITG_QNN_TYPE_S32_INTEGER, rank, 3, ranges));
  return itg_qnn_simple(b, node, "StridedSlice", 1, &p);
}

itg_status itg_qnn_pad(itg_qnn_builder *b, const itg_node *node) {
  const itg_pad_attributes *a = &node->attributes.pad;
  const uint32_t rank = (uint32_t)node->inputs[0]->shape.rank;
  uint32_t amounts[2 * ITG_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) {
    if (a->begin[i] < 0 || a->end[i] < 0) return itg_qnn_refuse(b, node, "a Pad that crops");
    amounts[2 * i] = (uint32_t)a->begin[i];
    amounts[2 * i + 1] = (uint32_t)a->end[i];
  }
  if (a->mode == ITG_PAD_WRAP) return itg_qnn_refuse(b, node, "a Pad that wraps around");
  itg_qnn_parameters p = {0};
  itg_qnn_set_u32(&p, "scheme", a->mode == ITG_PAD_CONSTANT ? 0 : a->mode == ITG_PAD_REFLECT ? 2 : 3);
  ITG_TRY(itg_qnn_set_array(b, &p, "pad_amount", ITG_QNN_TYPE_U32_INTEGER, rank, 2, amounts));
  if (a->mode == ITG_PAD_CONSTANT) itg_qnn_set_s32(&p, "pad_constant_value", a->code);
  return itg_qnn_simple(b, node, "Pad", 1, &p);
}

// Expand and Tile repeat; an input of lower rank gets leading dimensions of 1.
itg_status itg_qnn_expand(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const int32_t rank = y->shape.rank, missing = rank - x->shape.rank;
  uint32_t dims[ITG_MAX_RANK], multiples[ITG_MAX_RANK];
  if (missing < 0 || rank < 1) return itg_qnn_refuse(b, node, "the input has more dimensions than the output");
  for (int32_t i = 0; i < rank; i++) {
    const int64_t size = i < missing ? 1 : x->shape.dims[i - missing];
    dims[i] = (uint32_t)size;
    multiples[i] = (uint32_t)(size ? y->shape.dims[i] / size : 0);
  }
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "multiples", ITG_QNN_TYPE_U32_INTEGER, (uint32_t)rank, 0, multiples));
  if (!missing) return itg_qnn_simple(b, node, "Tile", 1, &p);
  itg_qnn_tensor input, output, reshaped;
  ITG_TRY(itg_qnn_activation(b, x, &input));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  ITG_TRY(itg_qnn_helper(b, x, input.v1.data_type, itg_qnn_scale(x), itg_qnn_zero(x), (uint32_t)rank, dims, &reshaped));
  ITG_TRY(itg_qnn_add(b, node, "Reshape", NULL, &input, 1, &reshaped));
  return itg_qnn_add(b, node, "Tile", &p, &reshaped, 1, &output);
}

// Constant indices only: what is looked up by an input's numbers is gathered on the host.
itg_status itg_qnn_gather(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *indices = node->inputs[1];
  size_t count;
  if (!indices->data) return itg_qnn_refuse(b, node, "indices that are not constant are looked up on the host");
  if (!itg_shape_count(&indices->shape, &count)) return itg_qnn_refuse(b, node, "too many indices");
  const int64_t size = x->shape.dims[node->attributes.axis.axis];
  int32_t *values = itg_arena_array(&b->scratch, count, sizeof values[0]);
  ITG_TRY_MEMORY(values, b->diagnostic);
  for (size_t i = 0; i < count; i++) {
    const int64_t index =
        indices->dtype == ITG_DTYPE_S64 ? ((const int64_t *)indices->data)[i] : ((const int32_t *)indices->data)[i];
    values[i] = (int32_t)(index < 0 ? index + size : index);
  }
  const uint32_t scalar = 1;
  uint32_t dims[ITG_MAX_RANK];
  for (int32_t i = 0; i < indices->shape.rank; i++) dims[i] = (uint32_t)indices->shape.dims[i];
  itg_qnn_tensor inputs[2], output;
  ITG_TRY(itg_qnn_activation(b, x, &inputs[0]));
  ITG_TRY(itg_qnn_constant(b, ITG_QNN_TYPE_S32_INTEGER, indices->shape.rank ? (uint32_t)indices->shape.rank : 1,
                           indices->shape.rank ? dims : &scalar, values, count * sizeof values[0], 0, 0, NULL, 0,
                           &inputs[1]));
  ITG_TRY(itg_qnn_activation(b, node->outputs[0], &output));
  itg_qnn_parameters p = {0};
  itg_qnn_set_s32(&p, "axis", node->attributes.axis.axis);
  if (indices->shape.rank) return itg_qnn_add(b, node, "Gather", &p, inputs, 2, &output);
  // A single index keeps its dimension, as a 1, for the vendor.
  itg_qnn_tensor kept;
  const int32_t rank = x->shape.rank;
  for (int32_t i = 0; i < rank; i++) dims[i] = i == node->attributes.axis.axis ? 1 : (uint32_t)x->shape.dims[i];
  ITG_TRY(itg_qnn_helper(b, x, output.v1.data_type, itg_qnn_scale(x), itg_qnn_zero(x), (uint32_t)rank, dims, &kept));
  ITG_TRY(itg_qnn_add(b, node, "Gather", &p, inputs, 2, &kept));
  return itg_qnn_add(b, node, "Reshape", NULL, &kept, 1, &output);
}

itg_status itg_qnn_block(itg_qnn_builder *b, const itg_node *node) {
  const itg_block_attributes *a = &node->attributes.block;
  if (a->layout != ITG_LAYOUT_CHANNELS_LAST) return itg_qnn_refuse(b, node, "images must have their channels last");
  const uint32_t size[2] = {(uint32_t)a->block, (uint32_t)a->block};
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "block_size", ITG_QNN_TYPE_U32_INTEGER, 2, 0, size));
  itg_qnn_set_u32(&p, "mode", node->op == ITG_OP_DEPTH_TO_SPACE && a->column_row_depth ? 1 : 0);
  return itg_qnn_simple(b, node, node->op == ITG_OP_DEPTH_TO_SPACE ? "DepthToSpace" : "SpaceToDepth", 1, &p);
}
