// Convolution, transposed convolution, fully connected and MatMul: bounds, multipliers, fused activations
// (docs/ARITHMETIC.md 1-3).
#include <math.h>
#include <stdlib.h>

#include "lower/emit.h"
#include "tensor/multiplier.h"
#include "tensor/nibbles.h"

// The weights of one node.
typedef struct weight_rows {
  const int8_t *codes;
  int64_t outputs, rows, row_length; // rows: scales
  bool transposed;                   // [O/group, kh, kw, C]: a group reads its own C/group of each tap.
  int64_t group, taps, channels;
} weight_rows;

// Sum of |w| of output channel o.
static uint64_t weight_sum(const weight_rows *w, int64_t o) {
  uint64_t sum = 0;
  const int8_t *row = w->codes + o % w->rows * w->row_length;
  if (!w->transposed) {
    for (int64_t k = 0; k < w->row_length; k++) sum += (uint64_t)abs(row[k]);
    return sum;
  }
  const int64_t width = w->channels / w->group, begin = o / w->rows * width;
  for (int64_t t = 0; t < w->taps; t++) {
    for (int64_t c = 0; c < width; c++) sum += (uint64_t)abs(row[t * w->channels + begin + c]);
  }
  return sum;
}

// True when u8 codes times any two adjacent weights of a row always fit 16 bits, wherever a kernel starts its pairs.
static bool pair_sums_fit(const weight_rows *w) {
  for (int64_t r = 0; r < w->rows; r++) {
    const int8_t *row = w->codes + r * w->row_length;
    for (int64_t k = 0; k + 1 < w->row_length; k++) {
      const int high = (row[k] > 0 ? row[k] : 0) + (row[k + 1] > 0 ? row[k + 1] : 0);
      const int low = (row[k] < 0 ? row[k] : 0) + (row[k + 1] < 0 ? row[k + 1] : 0);
      if (high * 255 > INT16_MAX || low * 255 < INT16_MIN) return false;
    }
  }
  return true;
}

// s4 codes, times the scale of their block where there is one, as s8 (scratch memory).
static itg_status unpack_weights(itg_legalizer *l, const itg_node *node, size_t count, const int8_t **out) {
  const itg_tensor *weight = node->inputs[1], *blocks = itg_node_input(node, 4);
  int8_t *codes = itg_arena_allocate(&l->scratch, count);
  ITG_TRY_MEMORY(codes, l->diagnostic);
  itg_nibbles_unpack(weight->data, blocks ? blocks->data : NULL,
                     blocks ? weight->shape.dims[1] / blocks->shape.dims[1] : 1, 0, (int64_t)count, codes);
  *out = codes;
  return ITG_OK;
}

static itg_status read_weights(itg_legalizer *l, const itg_node *node, weight_rows *w) {
  const itg_tensor *weight = itg_node_input(node, 1);
  if (!itg_tensor_is_constant(weight) || !weight->encoding ||
      (weight->dtype != ITG_DTYPE_S8 && weight->dtype != ITG_DTYPE_S4))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "the weights must be s8 or s4 constants");
  size_t count;
  if (!itg_shape_count(&weight->shape, &count) || count == 0)
    ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, node->name, "the weights are empty or too large");
  w->codes = weight->data;
  if (weight->dtype == ITG_DTYPE_S4) ITG_TRY(unpack_weights(l, node, count, &w->codes));
  w->rows = weight->shape.dims[0];
  w->row_length = (int64_t)count / w->rows;
  w->transposed = node->op == ITG_OP_CONV_TRANSPOSE;
  w->group = node->op == ITG_OP_FULLY_CONNECTED ? 1 : node->attributes.conv.group;
  w->outputs = w->rows * (w->transposed ? w->group : 1);
  w->channels = weight->shape.dims[weight->shape.rank - 1];
  w->taps = w->row_length / w->channels;
  if (weight->encoding->count != w->rows && weight->encoding->count != 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the weights need one scale an output channel");
  return ITG_OK;
}

typedef struct conv_constants {
  int32_t *bias, *multiplier, *shift, *negative_multiplier, *negative_shift;
  bool has_negative;
} conv_constants;

static double weight_scale(const itg_tensor *weight, int64_t row) {
  return weight->encoding->scales[weight->encoding->count == 1 ? 0 : row];
}

// Slopes of the fused activation for negative sums, one an output channel; NULL when there is none.
static itg_status read_slopes(itg_legalizer *l, const itg_node *node, int64_t outputs, const double **slopes) {
  const itg_activation *activation = &node->attributes.conv.activation;
  *slopes = NULL;
  if (activation->kind != ITG_ACTIVATION_LEAKY && activation->kind != ITG_ACTIVATION_PRELU) return ITG_OK;
  double *values = itg_arena_array(&l->scratch, (size_t)outputs, sizeof values[0]);
  ITG_TRY_MEMORY(values, l->diagnostic);
  const double *given = &activation->slope;
  size_t count = 1;
  if (activation->kind == ITG_ACTIVATION_PRELU)
    ITG_TRY(itg_read_constant(l, node, itg_node_input(node, 3), &given, &count));
  if (count != 1 && (int64_t)count != outputs)
    ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, node->name, "PRelu needs one slope, or one an output channel");
  for (int64_t o = 0; o < outputs; o++) values[o] = given[count == 1 ? 0 : o];
  *slopes = values;
  return ITG_OK;
}

static itg_status fill_constants(itg_legalizer *l, const itg_node *node, const weight_rows *w, const itg_tensor *x,
                                 const itg_tensor *y, conv_constants *out) {
  const itg_tensor *weight = node->inputs[1], *bias = itg_node_input(node, 2);
  const double *slopes;
  ITG_TRY(read_slopes(l, node, w->outputs, &slopes));
  if (bias && (bias->dtype != ITG_DTYPE_S32 || bias->shape.rank != 1 || bias->shape.dims[0] != w->outputs))
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the bias must be s32, one an output channel");
  int32_t *memory = itg_arena_array(&l->scratch, (size_t)w->outputs * 5, sizeof memory[0]);
  ITG_TRY_MEMORY(memory, l->diagnostic);
  *out = (conv_constants){
      memory,        memory + w->outputs, memory + 2 * w->outputs, memory + 3 * w->outputs, memory + 4 * w->outputs,
      slopes != NULL};
  for (int64_t o = 0; o < w->outputs; o++) {
    const double factor = itg_scale_of(x) * weight_scale(weight, o % w->rows) / itg_scale_of(y);
    if (bias) out->bias[o] = ((const int32_t *)bias->data)[o];
    ITG_TRY(itg_emit_factor(l, node, factor, &out->multiplier[o], &out->shift[o]));
    if (slopes)
      ITG_TRY(itg_emit_factor(l, node, factor * slopes[o], &out->negative_multiplier[o], &out->negative_shift[o]));
  }
  return ITG_OK;
}

// Proves |acc| <= bound from the actual weights; wide when 31 bits are not enough.
static itg_status fill_bounds(itg_legalizer *l, const itg_node *node, const weight_rows *w, const itg_tensor *x,
                              const conv_constants *constants, itg_q_conv_attributes *attributes) {
  uint64_t bound = 0;
  int32_t smallest_shift = 62;
  for (int64_t o = 0; o < w->outputs; o++) {
    const uint64_t sum = weight_sum(w, o);
    const uint64_t largest = sum * (uint64_t)itg_largest_code(x) + (uint64_t)llabs((long long)constants->bias[o]);
    if (largest > bound) bound = largest;
    if (constants->shift[o] < smallest_shift) smallest_shift = constants->shift[o];
    if (constants->has_negative && constants->negative_shift[o] < smallest_shift)
      smallest_shift = constants->negative_shift[o];
  }
  attributes->bound = (int64_t)bound;
  attributes->pre_shift = itg_pre_shift_for_bound(bound);
  attributes->wide = attributes->pre_shift > 0;
  if (smallest_shift - attributes->pre_shift < 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "sums up to %g do not fit the output's scale; is the calibration data of the wrong range?", (double)bound);
  return ITG_OK;
}

static void fill_clamp(const itg_activation *activation, const itg_tensor *y, itg_q_conv_attributes *attributes) {
  attributes->low = itg_code_min(y->dtype);
  attributes->high = itg_code_max(y->dtype);
  if (activation->kind != ITG_ACTIVATION_CLIP) return;
  attributes->low = itg_clip_code(y, activation->low);
  attributes->high = itg_clip_code(y, activation->high);
}

itg_status itg_lower_convolution(itg_legalizer *l, const itg_node *node) {
  const itg_conv_attributes *conv = &node->attributes.conv;
  const bool flat = node->op == ITG_OP_FULLY_CONNECTED;
  if (!flat && (conv->layout != ITG_LAYOUT_CHANNELS_LAST || conv->window.rank != 2))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "%s with %d spatial dimensions has no integer form; only images (2) have", itg_op_name((int)node->op),
             (int)conv->window.rank);
  itg_tensor *x, *y;
  weight_rows w = {0};
  conv_constants constants;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(read_weights(l, node, &w));
  ITG_TRY(fill_constants(l, node, &w, x, y, &constants));
  itg_q_conv_attributes attributes = {.window = conv->window, .group = flat ? 1 : conv->group};
  ITG_TRY(fill_bounds(l, node, &w, x, &constants, &attributes));
  fill_clamp(&conv->activation, y, &attributes);
  attributes.pair_sums_fit = x->dtype == ITG_DTYPE_U8 && pair_sums_fit(&w);
  attributes.output_padding[0] = conv->output_padding[0];
  attributes.output_padding[1] = conv->output_padding[1];
  itg_tensor *inputs[] = {x,
                          itg_emit_tensor(l, node->inputs[1]),
                          itg_emit_s32(l, "bias", w.outputs, constants.bias),
                          itg_emit_s32(l, "multiplier", w.outputs, constants.multiplier),
                          itg_emit_s32(l, "shift", w.outputs, constants.shift),
                          NULL,
                          NULL,
                          NULL};
  int32_t count = 5;
  bool complete = true;
  if (constants.has_negative) {
    inputs[count++] = itg_emit_s32(l, "negative_multiplier", w.outputs, constants.negative_multiplier);
    inputs[count++] = itg_emit_s32(l, "negative_shift", w.outputs, constants.negative_shift);
  }
  for (int32_t i = 0; i < count; i++) complete = complete && inputs[i];
  if (flat && itg_node_input(node, 4)) {
    inputs[ITG_Q_CONV_BLOCK_SCALE] = itg_emit_tensor(l, node->inputs[4]);
    complete = complete && inputs[ITG_Q_CONV_BLOCK_SCALE];
    count = ITG_Q_CONV_BLOCK_SCALE + 1;
  }
  ITG_TRY_MEMORY(complete, l->diagnostic);
  const itg_op op = flat                                ? ITG_OP_Q_FULLY_CONNECTED
                    : node->op == ITG_OP_CONV_TRANSPOSE ? ITG_OP_Q_CONV_TRANSPOSE
                                                        : ITG_OP_Q_CONV;
  itg_node *result = itg_emit_node(l, op, node->name, inputs, count, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes.q_conv = attributes;
  return ITG_OK;
}

// A 16-bit second operand becomes 8-bit symmetric (16-bit operands on both sides are not part of the arithmetic).
static itg_status second_operand(itg_legalizer *l, itg_tensor *tensor, itg_tensor **out) {
  if (tensor->dtype == ITG_DTYPE_U8) {
    *out = tensor;
    return ITG_OK;
  }
  const double scale = (double)(float)((double)itg_largest_code(tensor) * itg_scale_of(tensor) / 127);
  const int32_t zero_point = 128;
  const itg_encoding *encoding = itg_encoding_create(l->graph, ITG_DTYPE_U8, -1, 1, &scale, &zero_point);
  ITG_TRY_MEMORY(encoding, l->diagnostic);
  return itg_emit_convert(l, tensor, encoding, out);
}

static itg_status transpose_last(itg_legalizer *l, const itg_node *node, itg_tensor *tensor, itg_tensor **out) {
  int32_t permutation[ITG_MAX_RANK];
  itg_shape shape = tensor->shape;
  const int32_t rank = shape.rank;
  for (int32_t i = 0; i < rank; i++) permutation[i] = i;
  permutation[rank - 1] = rank - 2;
  permutation[rank - 2] = rank - 1;
  shape.dims[rank - 1] = tensor->shape.dims[rank - 2];
  shape.dims[rank - 2] = tensor->shape.dims[rank - 1];
  *out = itg_emit_temporary(l, tensor->name, &shape, tensor->encoding);
  ITG_TRY_MEMORY(*out, l->diagnostic);
  return itg_emit_transpose(l, node->name, tensor, permutation, *out);
}

itg_status itg_lower_matmul(itg_legalizer *l, const itg_node *node) {
  const itg_gemm_attributes *gemm = &node->attributes.gemm;
  itg_tensor *a, *b, *y;
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(itg_emit_operand(l, node, 0, y->dtype == ITG_DTYPE_U16 ? 16 : 8, &a));
  ITG_TRY(itg_emit_operand(l, node, 1, 8, &b));
  if (a->shape.rank < 2 || b->shape.rank < 2)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "MatMul of vectors has no integer form");
  ITG_TRY(second_operand(l, b, &b));
  if (gemm->transpose_a) ITG_TRY(transpose_last(l, node, a, &a));
  itg_tensor *inputs[] = {a, b};
  itg_node *result = itg_emit_node(l, ITG_OP_Q_MATMUL, node->name, inputs, 2, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  const uint64_t k = (uint64_t)a->shape.dims[a->shape.rank - 1];
  const uint64_t bound = k * (uint64_t)itg_largest_code(a) * (uint64_t)itg_largest_code(b);
  const double factor = itg_scale_of(a) * itg_scale_of(b) / itg_scale_of(y);
  ITG_TRY(itg_emit_requantize(l, node, factor, bound, y, &result->attributes.requantize));
  result->attributes.requantize.transpose_b = gemm->transpose_b;
  return ITG_OK;
}
