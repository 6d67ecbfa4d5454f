// QDQ export of what moves codes without computing: the rounding behind each is exact.
#include <math.h>
#include <string.h>

#include "export/qdq.h"

static const char *moved(itg_qdq *q, const itg_node *node, const char *type, const char *parameter,
                         itg_onnx_writer_attributes *attributes) {
  const char *inputs[2] = {itg_qdq_real(q, node->inputs[0]), parameter};
  return itg_qdq_node(q, node, type, inputs, parameter ? 2 : 1, attributes);
}

static itg_status concat(itg_qdq *q, const itg_node *node) {
  const char **inputs = itg_arena_array(&q->arena, (size_t)node->input_count, sizeof inputs[0]);
  ITG_TRY_MEMORY(inputs, q->diagnostic);
  for (int32_t i = 0; i < node->input_count; i++) inputs[i] = itg_qdq_real(q, node->inputs[i]);
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_integer(&attributes, "axis", node->attributes.axis.axis);
  itg_qdq_define_all(q, node, itg_qdq_node(q, node, "Concat", inputs, (size_t)node->input_count, &attributes),
                     node->outputs[0]);
  return ITG_OK;
}

static void slice(itg_qdq *q, const itg_node *node) {
  const itg_slice_attributes *a = &node->attributes.slice;
  const int32_t rank = node->inputs[0]->shape.rank;
  int64_t start[ITG_MAX_RANK], end[ITG_MAX_RANK], axes[ITG_MAX_RANK], step[ITG_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) {
    axes[i] = i;
    start[i] = a->start[i];
    step[i] = a->step[i];
    end[i] = start[i] + step[i] * node->outputs[0]->shape.dims[i];
    if (end[i] < 0) end[i] = INT64_MIN; // Backwards past the first element; a small negative would count from the end.
  }
  const char *inputs[5] = {itg_qdq_real(q, node->inputs[0]), itg_qdq_integers(q, node->name, rank, start),
                           itg_qdq_integers(q, node->name, rank, end), itg_qdq_integers(q, node->name, rank, axes),
                           itg_qdq_integers(q, node->name, rank, step)};
  itg_qdq_define_all(q, node, itg_qdq_node(q, node, "Slice", inputs, 5, NULL), node->outputs[0]);
}

static itg_status pad(itg_qdq *q, const itg_node *node) {
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
  const itg_pad_attributes *a = &node->attributes.pad;
  const itg_tensor *x = node->inputs[0];
  if (a->mode < 0 || a->mode > ITG_PAD_WRAP) return itg_qdq_refuse(q, node, "an unknown mode");
  int64_t amounts[2 * ITG_MAX_RANK];
  for (int32_t i = 0; i < x->shape.rank; i++) {
    amounts[i] = a->begin[i];
    amounts[x->shape.rank + i] = a->end[i];
  }
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_string(&attributes, "mode", modes[a->mode], strlen(modes[a->mode]));
  const double value = x->encoding ? itg_decode(a->code, itg_qdq_scale(x), itg_qdq_zero(x)) : a->code;
  const char *inputs[3] = {itg_qdq_real(q, x), itg_qdq_integers(q, node->name, 2 * x->shape.rank, amounts),
                           itg_qdq_float(q, node->name, value)};
  itg_qdq_define_all(q, node, itg_qdq_node(q, node, "Pad", inputs, a->mode == ITG_PAD_CONSTANT ? 3 : 2, &attributes),
                     node->outputs[0]);
  return ITG_OK;
}

static void block(itg_qdq *q, const itg_node *node) {
  const bool is_last = node->attributes.block.layout == ITG_LAYOUT_CHANNELS_LAST,
             to_space = node->op == ITG_OP_DEPTH_TO_SPACE;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_integer(&attributes, "blocksize", node->attributes.block.block);
  if (to_space)
    itg_onnx_writer_set_string(&attributes, "mode", node->attributes.block.column_row_depth ? "CRD" : "DCR", 3);
  const char *real = itg_qdq_real(q, x);
  if (is_last) real = itg_qdq_channels_first(q, node, real, x);
  real = itg_qdq_node(q, node, to_space ? "DepthToSpace" : "SpaceToDepth", &real, 1, &attributes);
  if (is_last) real = itg_qdq_channels_last(q, node, itg_qdq_round(q, node, real, y), y);
  itg_qdq_define_all(q, node, real, y);
}

static void gather(itg_qdq *q, const itg_node *node) {
  const bool is_nd = node->op == ITG_OP_GATHER_ND;
  itg_onnx_writer_attributes attributes = {0};
  if (is_nd)
    itg_onnx_writer_set_integer(&attributes, "batch_dims", node->attributes.axis.flag);
  else
    itg_onnx_writer_set_integer(&attributes, "axis", node->attributes.axis.axis);
  const char *real = moved(q, node,
                           is_nd                       ? "GatherND"
                           : node->op == ITG_OP_GATHER ? "Gather"
                                                       : "GatherElements",
                           itg_qdq_real(q, node->inputs[1]), &attributes);
  itg_qdq_define_all(q, node, real, node->outputs[0]);
}

// Rows of codes, each with a scale of its own.
static itg_status embedding(itg_qdq *q, const itg_node *node) {
  const itg_tensor *rows = node->inputs[1], *y = node->outputs[0];
  const int64_t count = rows->shape.dims[0];
  double *scales = itg_arena_array(&q->arena, (size_t)count, sizeof scales[0]);
  ITG_TRY_MEMORY(scales, q->diagnostic);
  for (int64_t i = 0; i < count; i++)
    scales[i] = ldexp(((const int32_t *)node->inputs[2]->data)[i], -((const int32_t *)node->inputs[3]->data)[i]) *
                itg_qdq_scale(y);
  const char *table = itg_qdq_weights(q, rows->name, rows->dtype, &rows->shape, rows->data, count, scales, 0);
  const char *real =
      itg_qdq_node(q, node, "Gather", (const char *[]){table, itg_qdq_real(q, node->inputs[0])}, 2, NULL);
  itg_qdq_define(q, node, real, y, node->attributes.requantize.low, node->attributes.requantize.high);
  return ITG_OK;
}

itg_status itg_qdq_move(itg_qdq *q, const itg_node *node, bool *handled) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  int64_t repeats[ITG_MAX_RANK];
  *handled = true;
  switch (node->op) {
  case ITG_OP_IDENTITY: itg_qdq_define_all(q, node, itg_qdq_real(q, x), y); return ITG_OK;
  case ITG_OP_RESHAPE:
    itg_qdq_define_all(
        q, node, moved(q, node, "Reshape", itg_qdq_integers(q, node->name, y->shape.rank, y->shape.dims), NULL), y);
    return ITG_OK;
  case ITG_OP_EXPAND:
    itg_qdq_define_all(
        q, node, moved(q, node, "Expand", itg_qdq_integers(q, node->name, y->shape.rank, y->shape.dims), NULL), y);
    return ITG_OK;
  case ITG_OP_TILE:
    for (int32_t i = 0; i < x->shape.rank; i++) repeats[i] = y->shape.dims[i] / x->shape.dims[i];
    itg_qdq_define_all(q, node, moved(q, node, "Tile", itg_qdq_integers(q, node->name, x->shape.rank, repeats), NULL),
                       y);
    return ITG_OK;
  case ITG_OP_TRANSPOSE:
    itg_qdq_define_all(
        q, node,
        itg_qdq_transpose(q, node, itg_qdq_real(q, x), x->shape.rank, node->attributes.permutation.permutation, y), y);
    return ITG_OK;
  case ITG_OP_CONCAT: return concat(q, node);
  case ITG_OP_SLICE: slice(q, node); return ITG_OK;
  case ITG_OP_PAD: return pad(q, node);
  case ITG_OP_DEPTH_TO_SPACE:
  case ITG_OP_SPACE_TO_DEPTH: block(q, node); return ITG_OK;
  case ITG_OP_GATHER:
  case ITG_OP_GATHER_ELEMENTS:
  case ITG_OP_GATHER_ND: gather(q, node); return ITG_OK;
  case ITG_OP_Q_EMBEDDING: return embedding(q, node);
  default: *handled = false; return ITG_OK;
  }
}
