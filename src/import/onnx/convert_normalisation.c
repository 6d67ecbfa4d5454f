// Normalisations and soft maxima. See converters.h.
#include <string.h>

#include "import/onnx/converters.h"

itg_status itg_onnx_convert_batch_norm(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[5], *y;
  int64_t training, spatial, inference;
  itg_attributes attributes = {.norm = {.axis = 1}};
  for (size_t i = 0; i < 5; i++) ITG_TRY(itg_onnx_required(importer, i, &inputs[i]));
  ITG_TRY(itg_onnx_get_float(importer, "epsilon", 1e-5, &attributes.norm.epsilon));
  ITG_TRY(itg_onnx_get_int(importer, "training_mode", 0, &training));
  ITG_TRY(itg_onnx_get_int(importer, "spatial", 1, &spatial));
  ITG_TRY(itg_onnx_get_int(importer, "is_test", 0, &inference));
  if (training || (importer->opset < 7 && !inference))
    ITG_ONNX_REFUSE(importer, "%s", "training mode is not supported; export the model for inference");
  if (!spatial) ITG_ONNX_REFUSE(importer, "%s", "spatial = 0 is not supported");
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 5, inputs, &y));
  return itg_onnx_finish(importer, y);
}

// Scale or bias, broadcast to the normalised dimensions.
static itg_status spread(itg_onnx_importer *importer, const char *part, const itg_shape *normalised,
                         itg_tensor **tensor) {
  if (!*tensor || itg_shape_equal(&(*tensor)->shape, normalised)) return ITG_OK;
  itg_shape shape = (*tensor)->shape; // Leading dimensions of 1 in front of the normalised ones say nothing.
  while (shape.rank > normalised->rank && shape.dims[0] == 1) {
    shape.rank--;
    memmove(shape.dims, shape.dims + 1, (size_t)shape.rank * sizeof shape.dims[0]);
  }
  ITG_TRY(itg_onnx_reshape(importer, part, *tensor, &shape, tensor));
  if (itg_shape_equal(&shape, normalised)) return ITG_OK;
  return itg_onnx_emit(importer, part, ITG_OP_EXPAND, NULL, normalised, 1, tensor, tensor);
}

static itg_status read_layer(itg_onnx_importer *importer, const itg_tensor *x, itg_tensor **scale, itg_tensor **bias,
                             itg_attributes *attributes) {
  int64_t axis;
  ITG_TRY(itg_onnx_get_int(importer, "axis", -1, &axis));
  ITG_TRY(itg_onnx_axis(importer, axis, x->shape.rank, &attributes->norm.axis));
  ITG_TRY(itg_onnx_get_float(importer, "epsilon", 1e-5, &attributes->norm.epsilon));
  const itg_shape normalised =
      itg_shape_of(x->shape.rank - attributes->norm.axis, x->shape.dims + attributes->norm.axis);
  ITG_TRY(spread(importer, "scale", &normalised, scale));
  return spread(importer, "bias", &normalised, bias);
}

// Mean and 1/standard deviation, the optional outputs of LayerNormalization; swept away when nobody reads them.
static itg_status emit_statistics(itg_onnx_importer *importer, const itg_attributes *attributes, itg_tensor *x) {
  const uint32_t all = (1u << x->shape.rank) - 1, leading = (1u << attributes->norm.axis) - 1;
  const itg_attributes reduce = {.reduce = {all & ~leading, 1}};
  itg_tensor *mean, *value, *epsilon;
  ITG_TRY(itg_onnx_emit_output(importer, 1, ITG_OP_REDUCE_MEAN, &reduce, NULL, x, &mean));
  ITG_TRY(itg_onnx_bind(importer, 1, mean));
  if (!itg_onnx_has_output(importer, 2)) return ITG_OK;
  ITG_TRY(itg_onnx_binary(importer, "centred", ITG_OP_SUB, x, mean, &value));
  ITG_TRY(itg_onnx_binary(importer, "square", ITG_OP_MUL, value, value, &value));
  ITG_TRY(itg_onnx_unary(importer, "variance", ITG_OP_REDUCE_MEAN, &reduce, value, &value));
  ITG_TRY(itg_onnx_filled(importer, "epsilon", x->dtype, attributes->norm.epsilon, NULL, &epsilon));
  ITG_TRY(itg_onnx_binary(importer, "variance", ITG_OP_ADD, value, epsilon, &value));
  ITG_TRY(itg_onnx_unary(importer, "deviation", ITG_OP_SQRT, NULL, value, &value));
  ITG_TRY(itg_onnx_emit_output(importer, 2, ITG_OP_RECIPROCAL, NULL, NULL, value, &value));
  return itg_onnx_bind(importer, 2, value);
}

itg_status itg_onnx_convert_layer_norm(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &inputs[1]));
  ITG_TRY(itg_onnx_input(importer, 2, &inputs[2]));
  ITG_TRY(read_layer(importer, inputs[0], &inputs[1], &inputs[2], &attributes));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, inputs[2] ? 3 : 2, inputs, &y));
  ITG_TRY(itg_onnx_bind(importer, 0, y));
  if (!itg_onnx_has_output(importer, 1) && !itg_onnx_has_output(importer, 2)) return ITG_OK;
  return emit_statistics(importer, &attributes, inputs[0]);
}

itg_status itg_onnx_convert_rms_norm(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[2], *none = NULL, *y;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &inputs[1]));
  ITG_TRY(read_layer(importer, inputs[0], &inputs[1], &none, &attributes));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_instance_norm(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  itg_attributes attributes = {.norm = {.axis = 1}};
  for (size_t i = 0; i < 3; i++) ITG_TRY(itg_onnx_required(importer, i, &inputs[i]));
  ITG_TRY(itg_onnx_get_float(importer, "epsilon", 1e-5, &attributes.norm.epsilon));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 3, inputs, &y));
  return itg_onnx_finish(importer, y);
}

// Opset 18 to 20: one scale and bias a group, repeated for each of its channels.
static itg_status group_to_channels(itg_onnx_importer *importer, const char *part, int64_t groups, int64_t channels,
                                    itg_tensor **tensor) {
  if ((*tensor)->shape.rank != 1 || (*tensor)->shape.dims[0] != groups)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "the %s must have one value a group", part);
  const itg_shape column = {2, {groups, 1}}, spread_out = {2, {groups, channels / groups}}, flat = {1, {channels}};
  ITG_TRY(itg_onnx_reshape(importer, part, *tensor, &column, tensor));
  ITG_TRY(itg_onnx_emit(importer, part, ITG_OP_EXPAND, NULL, &spread_out, 1, tensor, tensor));
  return itg_onnx_reshape(importer, part, *tensor, &flat, tensor);
}

itg_status itg_onnx_convert_group_norm(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  int64_t groups;
  itg_attributes attributes = {.norm = {.axis = 1}};
  for (size_t i = 0; i < 3; i++) ITG_TRY(itg_onnx_required(importer, i, &inputs[i]));
  ITG_TRY(itg_onnx_get_float(importer, "epsilon", 1e-5, &attributes.norm.epsilon));
  ITG_TRY(itg_onnx_get_int(importer, "num_groups", 0, &groups));
  const int64_t channels = inputs[0]->shape.rank > 1 ? inputs[0]->shape.dims[1] : 0;
  if (groups < 1 || groups > INT32_MAX || channels % groups != 0)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%lld channels do not divide into %lld groups", (long long)channels,
                  (long long)groups);
  attributes.norm.groups = (int32_t)groups;
  if (importer->opset < 21) {
    ITG_TRY(group_to_channels(importer, "scale", groups, channels, &inputs[1]));
    ITG_TRY(group_to_channels(importer, "bias", groups, channels, &inputs[2]));
  }
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, NULL, 3, inputs, &y));
  return itg_onnx_finish(importer, y);
}

// (x - mean)/(standard deviation + 1e-9), as the specification's function body has it.
itg_status itg_onnx_convert_mean_variance(itg_onnx_importer *importer, int op) {
  (void)op;
  int64_t axes[ITG_MAX_RANK] = {0, 2, 3};
  size_t count;
  itg_attributes reduce = {.reduce = {0, 1}};
  itg_tensor *x, *mean, *centred, *value, *epsilon, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_ints(importer, "axes", axes, ITG_MAX_RANK, &count));
  for (size_t i = 0; i < (count ? count : 3); i++) {
    int32_t axis;
    ITG_TRY(itg_onnx_axis(importer, axes[i], x->shape.rank, &axis));
    reduce.reduce.axes |= 1u << axis;
  }
  ITG_TRY(itg_onnx_unary(importer, "mean", ITG_OP_REDUCE_MEAN, &reduce, x, &mean));
  ITG_TRY(itg_onnx_binary(importer, "centred", ITG_OP_SUB, x, mean, &centred));
  ITG_TRY(itg_onnx_binary(importer, "square", ITG_OP_MUL, centred, centred, &value));
  ITG_TRY(itg_onnx_unary(importer, "variance", ITG_OP_REDUCE_MEAN, &reduce, value, &value));
  ITG_TRY(itg_onnx_unary(importer, "deviation", ITG_OP_SQRT, NULL, value, &value));
  ITG_TRY(itg_onnx_filled(importer, "epsilon", x->dtype, 1e-9, NULL, &epsilon));
  ITG_TRY(itg_onnx_binary(importer, "divisor", ITG_OP_ADD, value, epsilon, &value));
  ITG_TRY(itg_onnx_binary(importer, NULL, ITG_OP_DIV, centred, value, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_lp_norm(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  int64_t axis, p;
  itg_attributes attributes = {0};
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "axis", -1, &axis));
  ITG_TRY(itg_onnx_get_int(importer, "p", 2, &p));
  ITG_TRY(itg_onnx_axis(importer, axis, x->shape.rank, &attributes.norm.axis));
  if (p != 1 && p != 2) ITG_ONNX_REFUSE(importer, "p = %lld is not supported", (long long)p);
  attributes.norm.groups = (int32_t)p;
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_lrn(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  int64_t size;
  itg_attributes attributes = {.norm = {.axis = 1}};
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_float(importer, "alpha", 1e-4, &attributes.norm.alpha));
  ITG_TRY(itg_onnx_get_float(importer, "beta", 0.75, &attributes.norm.beta));
  ITG_TRY(itg_onnx_get_float(importer, "bias", 1, &attributes.norm.bias));
  ITG_TRY(itg_onnx_get_int(importer, "size", 0, &size));
  if (size < 1 || size > INT32_MAX)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "size %lld is out of range", (long long)size);
  attributes.norm.groups = (int32_t)size;
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

// Before opset 13 the dimensions from `axis` on were flattened into one.
itg_status itg_onnx_convert_softmax(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  int64_t given;
  int32_t axis;
  const bool flattens = importer->opset < 13;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "axis", flattens ? 1 : -1, &given));
  if (flattens && given == 1 && x->shape.rank == 1) given = 0;
  ITG_TRY(itg_onnx_axis(importer, given, x->shape.rank, &axis));
  int64_t behind = 1;
  for (int i = axis + 1; i < x->shape.rank; i++) behind *= x->shape.dims[i] == 1 ? 1 : 2;
  const itg_attributes attributes = {.axis = {axis, 0}};
  if (!flattens || behind == 1) {
    ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
    return itg_onnx_finish(importer, y);
  }
  itg_shape flat = itg_shape_of(axis + 1, x->shape.dims);
  ITG_TRY(itg_onnx_product(importer, &x->shape, axis, x->shape.rank, &flat.dims[axis]));
  const itg_shape shape = x->shape;
  ITG_TRY(itg_onnx_reshape(importer, "flat", x, &flat, &y));
  ITG_TRY(itg_onnx_unary(importer, "softmax", (itg_op)op, &attributes, y, &y));
  ITG_TRY(itg_onnx_reshape(importer, NULL, y, &shape, &y));
  return itg_onnx_finish(importer, y);
}
