// Element-wise ONNX operations. See converters.h.
#include <math.h>

#include "import/onnx/converters.h"

itg_status itg_onnx_convert_unary(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, NULL, x, &y));
  return itg_onnx_finish(importer, y);
}

// Operations with one or two numbers as attributes, and their defaults.
itg_status itg_onnx_convert_scalar(itg_onnx_importer *importer, int op) {
  static const struct {
    itg_op op;
    const char *first, *second; // Attribute names; NULL: none.
    double alpha, beta;
  } lines[] = {
      {ITG_OP_LEAKY_RELU, "alpha", NULL, 0.01, 0},
      {ITG_OP_ELU, "alpha", NULL, 1, 0},
      {ITG_OP_CELU, "alpha", NULL, 1, 0},
      {ITG_OP_THRESHOLDED_RELU, "alpha", NULL, 1, 0},
      {ITG_OP_HARD_SIGMOID, "alpha", "beta", 0.2, 0.5},
      {ITG_OP_SHRINK, "lambd", "bias", 0.5, 0},
      {ITG_OP_QUICK_GELU, "alpha", NULL, 1.702, 0},
  };
  itg_attributes attributes = {0};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    if ((int)lines[i].op != op) continue;
    ITG_TRY(itg_onnx_get_float(importer, lines[i].first, lines[i].alpha, &attributes.scalar.alpha));
    if (lines[i].second) ITG_TRY(itg_onnx_get_float(importer, lines[i].second, lines[i].beta, &attributes.scalar.beta));
  }
  itg_tensor *x, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

// SELU has its two famous numbers; with others it is a scaled ELU.
itg_status itg_onnx_convert_selu(itg_onnx_importer *importer, int op) {
  const double alpha = 1.67326319217681884765625, gamma = 1.05070102214813232421875;
  itg_attributes attributes = {0};
  itg_tensor *x, *factor, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_float(importer, "alpha", alpha, &attributes.scalar.alpha));
  ITG_TRY(itg_onnx_get_float(importer, "gamma", gamma, &attributes.scalar.beta));
  if ((float)attributes.scalar.alpha == (float)alpha && (float)attributes.scalar.beta == (float)gamma) {
    ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
    return itg_onnx_finish(importer, y);
  }
  ITG_TRY(itg_onnx_filled(importer, "gamma", x->dtype, attributes.scalar.beta, NULL, &factor));
  attributes.scalar.beta = 0;
  ITG_TRY(itg_onnx_unary(importer, "elu", ITG_OP_ELU, &attributes, x, &y));
  ITG_TRY(itg_onnx_binary(importer, NULL, ITG_OP_MUL, y, factor, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_gelu(itg_onnx_importer *importer, int op) {
  itg_attributes attributes = {0};
  const itg_span approximate = itg_onnx_get_string(importer, "approximate");
  if (itg_span_equals(approximate, "tanh"))
    attributes.scalar.alpha = 1;
  else if (approximate.size && !itg_span_equals(approximate, "none"))
    ITG_ONNX_REFUSE(importer, "%s", "unknown approximation");
  itg_tensor *x, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

// Bounds that are not constant, or of integers, become Max and Min.
static itg_status clip_by_tensors(itg_onnx_importer *importer, itg_tensor *x, itg_tensor *low, itg_tensor *high) {
  if (low) ITG_TRY(itg_onnx_binary(importer, high ? "low" : NULL, ITG_OP_MAX, x, low, &x));
  if (high) ITG_TRY(itg_onnx_binary(importer, NULL, ITG_OP_MIN, x, high, &x));
  return itg_onnx_finish(importer, x);
}

itg_status itg_onnx_convert_clip(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *y, *low = NULL, *high = NULL;
  itg_attributes attributes = {.scalar = {-INFINITY, INFINITY}};
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  if (importer->opset < 11) {
    ITG_TRY(itg_onnx_get_float(importer, "min", -INFINITY, &attributes.scalar.alpha));
    ITG_TRY(itg_onnx_get_float(importer, "max", INFINITY, &attributes.scalar.beta));
  } else {
    ITG_TRY(itg_onnx_input(importer, 1, &low));
    ITG_TRY(itg_onnx_input(importer, 2, &high));
    const bool fixed = (!low || itg_tensor_is_constant(low)) && (!high || itg_tensor_is_constant(high));
    if (!fixed || (x->dtype != ITG_DTYPE_F32 && x->dtype != ITG_DTYPE_F64))
      return clip_by_tensors(importer, x, low, high);
    size_t count;
    if (low) ITG_TRY(itg_onnx_constant_doubles(importer, low, "min", &attributes.scalar.alpha, 1, &count));
    if (high) ITG_TRY(itg_onnx_constant_doubles(importer, high, "max", &attributes.scalar.beta, 1, &count));
  }
  ITG_TRY(itg_onnx_unary(importer, NULL, ITG_OP_CLIP, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_is_inf(itg_onnx_importer *importer, int op) {
  int64_t positive, negative;
  ITG_TRY(itg_onnx_get_int(importer, "detect_positive", 1, &positive));
  ITG_TRY(itg_onnx_get_int(importer, "detect_negative", 1, &negative));
  const itg_attributes attributes = {.axis = {0, (positive ? 1 : 0) | (negative ? 2 : 0)}};
  itg_tensor *x, *y;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_unary(importer, NULL, (itg_op)op, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_cast(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *like = NULL, *y;
  int64_t to = 0, saturate;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_get_int(importer, "saturate", 1, &saturate));
  itg_dtype dtype;
  if (itg_span_equals(importer->node->op_type, "CastLike")) {
    ITG_TRY(itg_onnx_required(importer, 1, &like));
    dtype = like->dtype;
  } else {
    ITG_TRY(itg_onnx_get_int(importer, "to", 0, &to));
    dtype = itg_onnx_dtype((uint64_t)to);
    if (dtype == ITG_DTYPE_NONE || to == 21)
      ITG_ONNX_REFUSE(importer, "type %s is not supported", itg_onnx_dtype_name((uint64_t)to));
  }
  if (dtype == x->dtype) return itg_onnx_finish(importer, x);
  const itg_attributes attributes = {.cast = {(int32_t)dtype, saturate != 0}};
  ITG_TRY(itg_onnx_unary(importer, NULL, ITG_OP_CAST, &attributes, x, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_identity(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  return itg_onnx_finish(importer, x);
}

itg_status itg_onnx_convert_dropout(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *x, *training, *mask;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(itg_onnx_input(importer, 2, &training));
  if (training) {
    int64_t on = 0;
    size_t count;
    ITG_TRY(itg_onnx_constant_ints(importer, training, "training_mode", &on, 1, &count));
    if (on) ITG_ONNX_REFUSE(importer, "%s", "training mode is not supported");
  }
  ITG_TRY(itg_onnx_bind(importer, 0, x));
  if (!itg_onnx_has_output(importer, 1)) return ITG_OK;
  ITG_TRY(itg_onnx_filled(importer, "mask", ITG_DTYPE_BOOL, 1, &x->shape, &mask));
  return itg_onnx_bind(importer, 1, mask);
}

// Opset 6: the second operand may start at dimension `axis` of the first, PRelu's slopes at the channels; later opsets
// align it at the end.
static itg_status align_second(itg_onnx_importer *importer, int op, const itg_tensor *a, itg_tensor **b) {
  int64_t broadcast, given = 1;
  int32_t axis;
  ITG_TRY(itg_onnx_get_int(importer, "broadcast", 0, &broadcast));
  const bool slopes = op == ITG_OP_PRELU && (*b)->shape.rank == 1 && (*b)->shape.dims[0] > 1 && a->shape.rank > 1;
  if (importer->opset > 6 || (!slopes && (!broadcast || !itg_onnx_attribute_find(importer, "axis")))) return ITG_OK;
  if (!slopes) ITG_TRY(itg_onnx_get_int(importer, "axis", 0, &given));
  ITG_TRY(itg_onnx_axis(importer, given, a->shape.rank, &axis));
  itg_shape shape = (*b)->shape;
  while (shape.rank < a->shape.rank - axis) shape.dims[shape.rank++] = 1;
  return itg_onnx_reshape(importer, "aligned", *b, &shape, b);
}

static itg_status convert_pair(itg_onnx_importer *importer, int op, const itg_attributes *attributes) {
  itg_tensor *inputs[2], *y;
  ITG_TRY(itg_onnx_required(importer, 0, &inputs[0]));
  ITG_TRY(itg_onnx_required(importer, 1, &inputs[1]));
  ITG_TRY(align_second(importer, op, inputs[0], &inputs[1]));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, attributes, NULL, 2, inputs, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_binary(itg_onnx_importer *importer, int op) { return convert_pair(importer, op, NULL); }

itg_status itg_onnx_convert_mod(itg_onnx_importer *importer, int op) {
  int64_t fmod_rule;
  ITG_TRY(itg_onnx_get_int(importer, "fmod", 0, &fmod_rule));
  const itg_attributes attributes = {.axis = {0, fmod_rule != 0}};
  return convert_pair(importer, op, &attributes);
}

itg_status itg_onnx_convert_bit_shift(itg_onnx_importer *importer, int op) {
  const itg_span direction = itg_onnx_get_string(importer, "direction");
  const bool left = itg_span_equals(direction, "LEFT");
  if (!left && !itg_span_equals(direction, "RIGHT"))
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the direction must be LEFT or RIGHT");
  const itg_attributes attributes = {.axis = {0, left}};
  return convert_pair(importer, op, &attributes);
}

static itg_status chain(itg_onnx_importer *importer, int op, bool last_is_final, itg_tensor **out) {
  const size_t count = importer->node->inputs.count;
  itg_tensor *sum, *next;
  ITG_TRY(itg_onnx_required(importer, 0, &sum));
  for (size_t i = 1; i < count; i++) {
    ITG_TRY(itg_onnx_required(importer, i, &next));
    ITG_TRY(itg_onnx_binary(importer, last_is_final && i + 1 == count ? NULL : "part", (itg_op)op, sum, next, &sum));
  }
  *out = sum;
  return ITG_OK;
}

itg_status itg_onnx_convert_variadic(itg_onnx_importer *importer, int op) {
  itg_tensor *y;
  ITG_TRY(chain(importer, op, true, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_mean(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *sum, *count, *y;
  ITG_TRY(chain(importer, ITG_OP_ADD, false, &sum));
  ITG_TRY(itg_onnx_filled(importer, "count", sum->dtype, (double)importer->node->inputs.count, NULL, &count));
  ITG_TRY(itg_onnx_binary(importer, NULL, ITG_OP_DIV, sum, count, &y));
  return itg_onnx_finish(importer, y);
}

itg_status itg_onnx_convert_where(itg_onnx_importer *importer, int op) {
  itg_tensor *inputs[3], *y;
  for (size_t i = 0; i < 3; i++) ITG_TRY(itg_onnx_required(importer, i, &inputs[i]));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, NULL, NULL, 3, inputs, &y));
  return itg_onnx_finish(importer, y);
}
