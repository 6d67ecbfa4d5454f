// QDQ export of convolutions, products, element-wise arithmetic, pools and sums.
//
// Integer nodes carry multipliers, not reals: where their factor is the one that the scales imply, the plain ONNX operation
// follows; where the compiler folded a constant in, a Mul by that gain stands behind it.
#include <math.h>
#include <string.h>

#include "export/qdq.h"

static double factor_of(int32_t multiplier, int32_t shift) { return ldexp(multiplier, -shift); }

// real * gain, unless the gain is 1 but for the rounding of multipliers.
static const char *with_gain(itg_qdq *q, const itg_node *node, const char *real, double gain) {
  if (fabs(gain - 1) < 1e-4) return real;
  return itg_qdq_node(q, node, "Mul", (const char *[]){real, itg_qdq_float(q, node->name, gain)}, 2, NULL);
}

static void set_window(itg_onnx_writer_attributes *attributes, const itg_window *w, const char *kernel) {
  const int64_t stride[2] = {w->stride[0], w->stride[1]}, dilation[2] = {w->dilation[0], w->dilation[1]};
  const int64_t pads[4] = {w->pad_begin[0], w->pad_begin[1], w->pad_end[0], w->pad_end[1]};
  const int64_t size[2] = {w->kernel[0], w->kernel[1]};
  itg_onnx_writer_set_integers(attributes, kernel, 2, size);
  itg_onnx_writer_set_integers(attributes, "strides", 2, stride);
  itg_onnx_writer_set_integers(attributes, "dilations", 2, dilation);
  itg_onnx_writer_set_integers(attributes, "pads", 4, pads);
}

// ---- convolutions and fully connected layers ----

static const char *bias_of(itg_qdq *q, const itg_node *node, int64_t outputs) {
  const itg_encoding *weights = node->inputs[1]->encoding;
  double *scales = itg_arena_array(&q->arena, (size_t)outputs, sizeof scales[0]);
  if (!scales) {
    q->failed = true;
    return "";
  }
  for (int64_t o = 0; o < outputs; o++)
    scales[o] = itg_qdq_scale(node->inputs[0]) * weights->scales[weights->count == 1 ? 0 : o];
  const itg_shape shape = itg_shape_of(1, &outputs);
  return itg_qdq_weights(q, node->inputs[2]->name, ITG_DTYPE_S32, &shape, node->inputs[2]->data, outputs, scales, 0);
}

// The second pair of multipliers, of negative sums, as slopes of a PRelu over [O, trailing ones].
static const char *fused_slope(itg_qdq *q, const itg_node *node, const char *real, int64_t outputs, int32_t trailing) {
  if (node->input_count <= ITG_Q_CONV_NEGATIVE_MULTIPLIER) return real;
  float *slopes = itg_arena_array(&q->arena, (size_t)outputs, sizeof slopes[0]);
  if (!slopes) {
    q->failed = true;
    return "";
  }
  const int32_t *m = node->inputs[3]->data, *s = node->inputs[4]->data, *m2 = node->inputs[5]->data,
                *s2 = node->inputs[6]->data;
  for (int64_t o = 0; o < outputs; o++) slopes[o] = m[o] ? (float)(factor_of(m2[o], s2[o]) / factor_of(m[o], s[o])) : 0;
  const int64_t dims[3] = {outputs, 1, 1};
  const char *slope = itg_qdq_floats(q, node->name, 1 + trailing, dims, slopes);
  return itg_qdq_node(q, node, "PRelu", (const char *[]){real, slope}, 2, NULL);
}

// Moves weight codes [A,H,W,B] to [A,B,H,W], or to [B,A,H,W] where `swaps`.
static const int8_t *move_weights(itg_qdq *q, const itg_tensor *weight, bool swaps) {
  const int64_t *d = weight->shape.dims, a = d[0], hw = d[1] * d[2], b = d[3];
  int8_t *moved = itg_arena_array(&q->arena, (size_t)(a * hw), (size_t)b);
  if (!moved) {
    q->failed = true;
    return NULL;
  }
  const int8_t *codes = weight->data;
  for (int64_t i = 0; i < a; i++)
    for (int64_t k = 0; k < hw; k++)
      for (int64_t j = 0; j < b; j++)
        moved[swaps ? (j * a + i) * hw + k : (i * b + j) * hw + k] = codes[(i * hw + k) * b + j];
  return moved;
}

static itg_status convolution(itg_qdq *q, const itg_node *node) {
  const itg_q_conv_attributes *a = &node->attributes.q_conv;
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1], *y = node->outputs[0];
  const bool is_transposed = node->op == ITG_OP_Q_CONV_TRANSPOSE;
  if (weight->dtype != ITG_DTYPE_S8) return itg_qdq_refuse(q, node, "its weights are not 8-bit");
  if (is_transposed && a->group > 1)
    return itg_qdq_refuse(q, node, "ONNX has no scales for the channels of grouped transposed convolutions");
  const int64_t *d = weight->shape.dims;
  const int8_t *moved = move_weights(q, weight, is_transposed);
  ITG_TRY_MEMORY(moved, q->diagnostic);
  const itg_shape shape = itg_shape_of(4, is_transposed ? (const int64_t[]){d[3], d[0], d[1], d[2]}
                                                        : (const int64_t[]){d[0], d[3], d[1], d[2]});
  const char *inputs[3] = {itg_qdq_channels_first(q, node, itg_qdq_real(q, x), x),
                           itg_qdq_weights(q, weight->name, ITG_DTYPE_S8, &shape, moved, weight->encoding->count,
                                           weight->encoding->scales, is_transposed ? 1 : 0),
                           bias_of(q, node, d[0])};
  itg_onnx_writer_attributes attributes = {0};
  set_window(&attributes, &a->window, "kernel_shape");
  itg_onnx_writer_set_integer(&attributes, "group", a->group);
  if (is_transposed)
    itg_onnx_writer_set_integers(&attributes, "output_padding", 2,
                                 (const int64_t[]){a->output_padding[0], a->output_padding[1]});
  const char *real = itg_qdq_node(q, node, is_transposed ? "ConvTranspose" : "Conv", inputs, 3, &attributes);
  real = itg_qdq_round(q, node, fused_slope(q, node, real, d[0], 2), y);
  itg_qdq_define(q, node, itg_qdq_transpose(q, node, real, 4, (const int32_t[]){0, 2, 3, 1}, y), y, a->low, a->high);
  return ITG_OK;
}

static itg_status fully_connected(itg_qdq *q, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *weight = node->inputs[1], *y = node->outputs[0];
  if (weight->dtype != ITG_DTYPE_S8) return itg_qdq_refuse(q, node, "its weights are not 8-bit");
  const int64_t outputs = weight->shape.dims[0], inner = weight->shape.dims[1];
  const char *real = itg_qdq_real(q, x);
  if (x->shape.rank != 2) { // Gemm, which has a bias, takes matrices.
    const char *flat = itg_qdq_integers(q, node->name, 2, (const int64_t[]){-1, inner});
    real = itg_qdq_round(q, node, itg_qdq_node(q, node, "Reshape", (const char *[]){real, flat}, 2, NULL), x);
  }
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_integer(&attributes, "transB", 1);
  const char *inputs[3] = {real,
                           itg_qdq_weights(q, weight->name, ITG_DTYPE_S8, &weight->shape, weight->data,
                                           weight->encoding->count, weight->encoding->scales, 0),
                           bias_of(q, node, outputs)};
  real = fused_slope(q, node, itg_qdq_node(q, node, "Gemm", inputs, 3, &attributes), outputs, 0);
  if (y->shape.rank != 2) {
    const char *shape = itg_qdq_integers(q, node->name, y->shape.rank, y->shape.dims);
    real = itg_qdq_round(q, node, real, y);
    real = itg_qdq_node(q, node, "Reshape", (const char *[]){real, shape}, 2, NULL);
  }
  itg_qdq_define(q, node, real, y, node->attributes.q_conv.low, node->attributes.q_conv.high);
  return ITG_OK;
}

static itg_status matmul(itg_qdq *q, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *b = node->inputs[1], *y = node->outputs[0];
  const char *right = itg_qdq_real(q, b);
  if (a->transpose_b) {
    int32_t permutation[ITG_MAX_RANK];
    for (int32_t i = 0; i < b->shape.rank; i++) permutation[i] = i;
    permutation[b->shape.rank - 1] = b->shape.rank - 2;
    permutation[b->shape.rank - 2] = b->shape.rank - 1;
    right = itg_qdq_transpose(q, node, right, b->shape.rank, permutation, b);
  }
  const char *real = itg_qdq_node(q, node, "MatMul", (const char *[]){itg_qdq_real(q, x), right}, 2, NULL);
  const double implied = itg_qdq_scale(x) * itg_qdq_scale(b) / itg_qdq_scale(y);
  itg_qdq_define(q, node, with_gain(q, node, real, factor_of(a->multiplier, a->shift) / implied), y, a->low, a->high);
  return ITG_OK;
}

// ---- element-wise ----

static void add(itg_qdq *q, const itg_node *node) {
  const itg_q_add_attributes *a = &node->attributes.q_add;
  const itg_tensor *y = node->outputs[0];
  const double unit = ldexp(itg_qdq_scale(y), -a->shift);
  const double left = a->a * unit / itg_qdq_scale(node->inputs[0]),
               right = a->b * unit / itg_qdq_scale(node->inputs[1]);
  const char *inputs[2] = {with_gain(q, node, itg_qdq_real(q, node->inputs[0]), left),
                           with_gain(q, node, itg_qdq_real(q, node->inputs[1]), fabs(right))};
  itg_qdq_define(q, node, itg_qdq_node(q, node, right < 0 ? "Sub" : "Add", inputs, 2, NULL), y, a->low, a->high);
}

// y = gain*x + offset per channel of the last axis. Images become a depth-wise convolution with one weight a channel, 127 of
// its own scale: what an NPU has a kernel for. inputs: 1 multiplier, 2 offset s64, 3 shift of `node`, from `first` on.
static itg_status affine(itg_qdq *q, const itg_node *node, int32_t first, const itg_tensor *x, const itg_tensor *y,
                         int32_t low, int32_t high) {
  const itg_tensor *multiplier = node->inputs[first];
  const int64_t channels = x->shape.dims[x->shape.rank - 1], entries = multiplier->shape.dims[0];
  float *gain = itg_arena_array(&q->arena, (size_t)channels, sizeof gain[0]);
  float *offset = itg_arena_array(&q->arena, (size_t)channels, sizeof offset[0]);
  double *weight_scales = itg_arena_array(&q->arena, (size_t)channels, sizeof(double));
  double *bias_scales = itg_arena_array(&q->arena, (size_t)channels, sizeof(double));
  int8_t *weights = itg_arena_allocate(&q->arena, (size_t)channels);
  int32_t *bias = itg_arena_array(&q->arena, (size_t)channels, sizeof bias[0]);
  ITG_TRY_MEMORY(gain && offset && weight_scales && bias_scales && weights && bias, q->diagnostic);
  for (int64_t c = 0; c < channels; c++) {
    const int64_t at = entries == 1 ? 0 : c;
    const int32_t shift = ((const int32_t *)node->inputs[first + 2]->data)[at];
    const double g = factor_of(((const int32_t *)multiplier->data)[at], shift) * itg_qdq_scale(y) / itg_qdq_scale(x);
    const double o = ldexp((double)((const int64_t *)node->inputs[first + 1]->data)[at], -shift) * itg_qdq_scale(y);
    gain[c] = (float)g;
    offset[c] = (float)o;
    weight_scales[c] = fmax(fabs(g) / 127, fmax(ldexp(fabs(o) / itg_qdq_scale(x), -30), 1e-30));
    bias_scales[c] = weight_scales[c] * itg_qdq_scale(x);
    weights[c] = (int8_t)floor(g / weight_scales[c] + 0.5);
    bias[c] = (int32_t)floor(o / bias_scales[c] + 0.5);
  }
  const char *real = itg_qdq_real(q, x);
  if (x->shape.rank == 4) {
    const itg_shape kernel = itg_shape_of(4, (const int64_t[]){channels, 1, 1, 1}), vector = itg_shape_of(1, &channels);
    const char *inputs[3] = {itg_qdq_channels_first(q, node, real, x),
                             itg_qdq_weights(q, node->name, ITG_DTYPE_S8, &kernel, weights, channels, weight_scales, 0),
                             itg_qdq_weights(q, node->name, ITG_DTYPE_S32, &vector, bias, channels, bias_scales, 0)};
    itg_onnx_writer_attributes attributes = {0};
    itg_onnx_writer_set_integer(&attributes, "group", channels);
    real = itg_qdq_round(q, node, itg_qdq_node(q, node, "Conv", inputs, 3, &attributes), y);
    real = itg_qdq_channels_last(q, node, real, y);
  } else {
    const char *scale = itg_qdq_floats(q, node->name, 1, &channels, gain);
    const char *shift = itg_qdq_floats(q, node->name, 1, &channels, offset);
    real = itg_qdq_node(q, node, "Mul", (const char *[]){real, scale}, 2, NULL);
    real = itg_qdq_node(q, node, "Add", (const char *[]){real, shift}, 2, NULL);
  }
  itg_qdq_define(q, node, real, y, low, high);
  return ITG_OK;
}

static void product(itg_qdq *q, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *b = node->inputs[1], *y = node->outputs[0];
  const char *real = itg_qdq_node(q, node, "Mul", (const char *[]){itg_qdq_real(q, x), itg_qdq_real(q, b)}, 2, NULL);
  const double implied = itg_qdq_scale(x) * itg_qdq_scale(b) / itg_qdq_scale(y);
  itg_qdq_define(q, node, with_gain(q, node, real, factor_of(a->multiplier, a->shift) / implied), y, a->low, a->high);
}

static void quotient(itg_qdq *q, const itg_node *node) {
  const itg_q_div_attributes *a = &node->attributes.q_div;
  const itg_tensor *x = node->inputs[0], *b = node->inputs[1], *y = node->outputs[0];
  const char *real = itg_qdq_node(q, node, "Div", (const char *[]){itg_qdq_real(q, x), itg_qdq_real(q, b)}, 2, NULL);
  const double implied = itg_qdq_scale(x) / itg_qdq_scale(b) / itg_qdq_scale(y);
  itg_qdq_define(q, node, with_gain(q, node, real, factor_of(a->multiplier, a->shift) / implied), y, a->low, a->high);
}

static void convert(itg_qdq *q, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const double gain = factor_of(a->multiplier, a->shift) * itg_qdq_scale(y) / itg_qdq_scale(x);
  itg_qdq_define(q, node, with_gain(q, node, itg_qdq_real(q, x), gain), y, a->low, a->high);
}

static itg_status prelu(itg_qdq *q, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const int64_t count = node->inputs[1]->shape.dims[0];
  float *slopes = itg_arena_array(&q->arena, (size_t)count, sizeof slopes[0]);
  ITG_TRY_MEMORY(slopes, q->diagnostic);
  const double positive = factor_of(a->multiplier, a->shift);
  for (int64_t c = 0; c < count; c++)
    slopes[c] =
        (float)(factor_of(((const int32_t *)node->inputs[1]->data)[c], ((const int32_t *)node->inputs[2]->data)[c]) /
                positive);
  const char *slope = itg_qdq_floats(q, node->name, 1, &count, slopes);
  const char *real = itg_qdq_node(q, node, "PRelu", (const char *[]){itg_qdq_real(q, x), slope}, 2, NULL);
  const double gain = positive * itg_qdq_scale(y) / itg_qdq_scale(x);
  itg_qdq_define(q, node, with_gain(q, node, real, gain), y, a->low, a->high);
  return ITG_OK;
}

// ---- pools and sums ----

static itg_status pool(itg_qdq *q, const itg_node *node) {
  const bool is_max = node->op == ITG_OP_MAX_POOL;
  const itg_pool_attributes *a = is_max ? &node->attributes.pool : &node->attributes.q_pool.pool;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const bool counts = !is_max && a->count_include_pad;
  if (counts && (a->declared_pad_end[0] != a->window.pad_end[0] || a->declared_pad_end[1] != a->window.pad_end[1]))
    return itg_qdq_refuse(q, node, "padding that counts and padding that does not, in one pool");
  itg_onnx_writer_attributes attributes = {0};
  set_window(&attributes, &a->window, "kernel_shape");
  if (counts) itg_onnx_writer_set_integer(&attributes, "count_include_pad", 1);
  const char *real = itg_qdq_channels_first(q, node, itg_qdq_real(q, x), x);
  real = itg_qdq_node(q, node, is_max ? "MaxPool" : "AveragePool", &real, 1, &attributes);
  real = itg_qdq_channels_last(q, node, itg_qdq_round(q, node, real, y), y);
  if (is_max)
    itg_qdq_define_all(q, node, real, y);
  else
    itg_qdq_define(q, node, real, y, node->attributes.q_pool.low, node->attributes.q_pool.high);
  return ITG_OK;
}

static void sum(itg_qdq *q, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  int64_t axes[ITG_MAX_RANK], count = 0;
  double elements = 1;
  for (int32_t i = 0; i < x->shape.rank; i++) {
    if (!(a->axes >> i & 1)) continue;
    axes[count++] = i;
    elements *= (double)x->shape.dims[i];
  }
  const double gain = factor_of(a->multiplier, a->shift) * itg_qdq_scale(y) / itg_qdq_scale(x);
  const bool is_mean = fabs(gain * elements - 1) < 1e-3;
  const char *inputs[2] = {itg_qdq_real(q, x), itg_qdq_integers(q, node->name, count, axes)};
  const char *real = itg_qdq_node(q, node, is_mean ? "ReduceMean" : "ReduceSum", inputs, 2, NULL);
  itg_qdq_define(q, node, is_mean ? real : with_gain(q, node, real, gain), y, a->low, a->high);
}

static void extreme(itg_qdq *q, const itg_node *node, const char *type) {
  const char *inputs[2] = {itg_qdq_real(q, node->inputs[0]), itg_qdq_real(q, node->inputs[1])};
  itg_qdq_define_all(q, node, itg_qdq_node(q, node, type, inputs, 2, NULL), node->outputs[0]);
}

itg_status itg_qdq_compute(itg_qdq *q, const itg_node *node, bool *handled) {
  *handled = true;
  switch (node->op) {
  case ITG_OP_Q_CONV:
  case ITG_OP_Q_CONV_TRANSPOSE: return convolution(q, node);
  case ITG_OP_Q_FULLY_CONNECTED: return fully_connected(q, node);
  case ITG_OP_Q_MATMUL: return matmul(q, node);
  case ITG_OP_Q_ADD: add(q, node); return ITG_OK;
  case ITG_OP_Q_ADD_AFFINE: {
    const itg_q_add_attributes *a = &node->attributes.q_add;
    add(q, node);
    return affine(q, node, 2, node->outputs[0], node->outputs[1], a->low2, a->high2);
  }
  case ITG_OP_Q_AFFINE:
    return affine(q, node, 1, node->inputs[0], node->outputs[0], node->attributes.requantize.low,
                  node->attributes.requantize.high);
  case ITG_OP_Q_MUL: product(q, node); return ITG_OK;
  case ITG_OP_Q_DIV: quotient(q, node); return ITG_OK;
  case ITG_OP_Q_CONVERT: convert(q, node); return ITG_OK;
  case ITG_OP_Q_PRELU: return prelu(q, node);
  case ITG_OP_MAX_POOL:
  case ITG_OP_Q_AVERAGE_POOL: return pool(q, node);
  case ITG_OP_Q_REDUCE_SUM: sum(q, node); return ITG_OK;
  case ITG_OP_MIN: extreme(q, node, "Min"); return ITG_OK;
  case ITG_OP_MAX: extreme(q, node, "Max"); return ITG_OK;
  default: *handled = false; return ITG_OK;
  }
}
