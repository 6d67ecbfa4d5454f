// Softmax and norms over the last dimension (docs/ARITHMETIC.md 4).
#include <math.h>

#include "lower/emit.h"

// Runs `x` through a transposition that brings `axis` last.
static itg_status bring_last(itg_legalizer *l, const itg_node *node, itg_tensor *x, int32_t axis, int32_t *permutation,
                             itg_tensor **out) {
  const int32_t rank = x->shape.rank;
  itg_shape shape = x->shape;
  for (int32_t i = 0; i < rank; i++) {
    permutation[i] = i < axis ? i : i + 1 < rank ? i + 1 : axis;
    shape.dims[i] = x->shape.dims[permutation[i]];
  }
  *out = itg_emit_temporary(l, node->name, &shape, x->encoding);
  ITG_TRY_MEMORY(*out, l->diagnostic);
  return itg_emit_transpose(l, node->name, x, permutation, *out);
}

static itg_status bring_back(itg_legalizer *l, const itg_node *node, itg_tensor *x, const int32_t *permutation,
                             itg_tensor *y) {
  int32_t inverse[ITG_MAX_RANK] = {0};
  for (int32_t i = 0; i < x->shape.rank; i++) inverse[permutation[i]] = i;
  return itg_emit_transpose(l, node->name, x, inverse, y);
}

double itg_softmax_factor(double scale) { return fmin(scale, 16384) * M_LOG2E * 65536; }

static itg_status emit_softmax(itg_legalizer *l, const itg_node *node, itg_tensor *x, itg_tensor *y) {
  itg_q_softmax_attributes attributes = {.low = itg_code_min(y->dtype), .high = itg_code_max(y->dtype), .shift = 1};
  ITG_TRY(itg_emit_factor(l, node, itg_softmax_factor(itg_scale_of(x)), &attributes.k, &attributes.k_shift));
  itg_tensor *result = y;
  if (y->dtype == ITG_DTYPE_U8) {
    // The kernels cut e*R, which is Q47 of the probability, to Q30.
    ITG_TRY(itg_emit_factor(l, node, 0x1p-30 / itg_scale_of(y), &attributes.multiplier, &attributes.shift));
  } else {
    const double scale = 0x1p-16;
    const int32_t zero_point = 0;
    const itg_encoding *fixed = itg_encoding_create(l->graph, ITG_DTYPE_U16, -1, 1, &scale, &zero_point);
    ITG_TRY_MEMORY(fixed, l->diagnostic);
    if (!itg_encoding_equal(fixed, y->encoding)) result = itg_emit_temporary(l, node->name, &y->shape, fixed);
    ITG_TRY_MEMORY(result, l->diagnostic);
  }
  itg_node *softmax = itg_emit_node(l, ITG_OP_Q_SOFTMAX, node->name, &x, 1, result);
  ITG_TRY_MEMORY(softmax, l->diagnostic);
  softmax->attributes.q_softmax = attributes;
  if (result == y) return ITG_OK;
  itg_node *convert = itg_emit_node(l, ITG_OP_Q_CONVERT, node->name, &result, 1, y);
  ITG_TRY_MEMORY(convert, l->diagnostic);
  return itg_emit_requantize(l, node, itg_scale_of(result) / itg_scale_of(y), (uint64_t)itg_largest_code(result), y,
                             &convert->attributes.requantize);
}

itg_status itg_lower_softmax(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(itg_emit_widened(l, x, &x));
  const int32_t axis = node->attributes.axis.axis;
  if (axis == x->shape.rank - 1) return emit_softmax(l, node, x, y);
  int32_t permutation[ITG_MAX_RANK];
  ITG_TRY(bring_last(l, node, x, axis, permutation, &x));
  itg_tensor *result = itg_emit_temporary(l, node->name, &x->shape, y->encoding);
  ITG_TRY_MEMORY(result, l->diagnostic);
  ITG_TRY(emit_softmax(l, node, x, result));
  return bring_back(l, node, result, permutation, y);
}

// Gamma multipliers in Q(s) of output codes per unit of n (Q20, L2: Q26), and beta in Q4.
static itg_status norm_constants(itg_legalizer *l, const itg_node *node, int64_t channels, const double *gamma,
                                 const double *beta, itg_tensor *y, int32_t fraction, itg_q_norm_attributes *attributes,
                                 itg_tensor **multipliers, itg_tensor **betas) {
  double largest = 0;
  for (int64_t c = 0; c < channels; c++) largest = fmax(largest, fabs(gamma[c]));
  int32_t shift = 62;
  while (shift > 5 && ldexp(largest / itg_scale_of(y), shift - fraction) >= 0x1p31 - 1) shift--;
  if (ldexp(largest / itg_scale_of(y), shift - fraction) >= 0x1p31 - 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "gamma %g is too large for the output's scale %g",
             largest, itg_scale_of(y));
  int32_t *codes = itg_arena_array(&l->scratch, (size_t)channels, sizeof codes[0]);
  ITG_TRY_MEMORY(codes, l->diagnostic);
  for (int64_t c = 0; c < channels; c++)
    codes[c] = (int32_t)llround(ldexp(gamma[c] / itg_scale_of(y), shift - fraction));
  attributes->shift = shift;
  *multipliers = itg_emit_s32(l, "gamma", channels, codes);
  ITG_TRY_MEMORY(*multipliers, l->diagnostic);
  *betas = NULL;
  if (!beta) return ITG_OK;
  for (int64_t c = 0; c < channels; c++) {
    const double code = floor(beta[c] / itg_scale_of(y) * 16 + 0.5);
    if (fabs(code) > 0x1p30)
      ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "beta %g is too large for the output's scale %g",
               beta[c], itg_scale_of(y));
    codes[c] = (int32_t)code;
  }
  *betas = itg_emit_s32(l, "beta", channels, codes);
  ITG_TRY_MEMORY(*betas, l->diagnostic);
  return ITG_OK;
}

// v68 takes gains as u8 codes over their own range: the program computes with what these codes stand for.
static itg_status round_gains(itg_legalizer *l, size_t count, const double **gamma) {
  if (!l->target || l->target->has_16x16) return ITG_OK;
  double *rounded = itg_arena_array(&l->scratch, count, sizeof rounded[0]), low = 0, high = 0, scale;
  int32_t zero;
  ITG_TRY_MEMORY(rounded, l->diagnostic);
  for (size_t c = 0; c < count; c++) {
    low = fmin(low, (*gamma)[c]);
    high = fmax(high, (*gamma)[c]);
  }
  itg_encoding_from_range(low, high, ITG_DTYPE_U8, &scale, &zero);
  for (size_t c = 0; c < count; c++) rounded[c] = scale * (itg_encode((float)(*gamma)[c], scale, zero, 0, 255) - zero);
  *gamma = rounded;
  return ITG_OK;
}

// Merges dimensions from `axis` on into one.
static itg_status merge_last(itg_legalizer *l, const itg_node *node, itg_tensor *x, int32_t axis, itg_tensor **out) {
  itg_shape shape = x->shape;
  shape.rank = axis + 1;
  for (int32_t i = axis + 1; i < x->shape.rank; i++) shape.dims[axis] *= x->shape.dims[i];
  *out = itg_emit_temporary(l, node->name, &shape, x->encoding);
  ITG_TRY_MEMORY(*out, l->diagnostic);
  return itg_emit_reshape(l, node->name, x, *out);
}

static itg_status emit_norm(itg_legalizer *l, const itg_node *node, int32_t kind, itg_tensor *x, itg_tensor *y) {
  const int64_t channels = x->shape.dims[x->shape.rank - 1];
  if (channels > 8192 && kind != ITG_NORM_L2)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s over %lld values; at most 8192 are available",
             itg_op_name((int)node->op), (long long)channels);
  static const double one = 1;
  const double *gamma = &one, *beta = NULL;
  size_t count = 1, beta_count;
  if (kind != ITG_NORM_L2) ITG_TRY(itg_read_constant(l, node, node->inputs[1], &gamma, &count));
  if (kind != ITG_NORM_L2) ITG_TRY(round_gains(l, count, &gamma));
  if (itg_node_input(node, 2)) {
    ITG_TRY(itg_read_constant(l, node, node->inputs[2], &beta, &beta_count));
    if (beta_count != count) ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, node->name, "gamma and beta differ in size");
  }
  if (kind != ITG_NORM_L2 && (int64_t)count != channels)
    ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, node->name, "gamma needs one value a normalised element");
  const double scale = itg_scale_of(x), elements = kind == ITG_NORM_L2 ? 1 : (double)channels;
  const double epsilon = floor(elements * elements * node->attributes.norm.epsilon / (scale * scale) + 0.5);
  if (!(epsilon >= 0 && epsilon < 0x1p61))
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "epsilon is too large for the input's scale %g", scale);
  itg_q_norm_attributes attributes = {
      .kind = kind, .epsilon = (int64_t)epsilon, .low = itg_code_min(y->dtype), .high = itg_code_max(y->dtype)};
  itg_tensor *inputs[3] = {x};
  ITG_TRY(norm_constants(l, node, (int64_t)count, gamma, beta, y, kind == ITG_NORM_L2 ? 26 : 20, &attributes,
                         &inputs[1], &inputs[2]));
  itg_node *result = itg_emit_node(l, ITG_OP_Q_NORM, node->name, inputs, inputs[2] ? 3 : 2, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes.q_norm = attributes;
  return ITG_OK;
}

itg_status itg_lower_norm(itg_legalizer *l, const itg_node *node) {
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(itg_emit_widened(l, x, &x));
  const int32_t axis = node->attributes.norm.axis, last = x->shape.rank - 1;
  const int32_t kind = node->op == ITG_OP_LAYER_NORM ? ITG_NORM_LAYER
                       : node->op == ITG_OP_RMS_NORM ? ITG_NORM_RMS
                                                     : ITG_NORM_L2;
  if (kind == ITG_NORM_L2 && node->attributes.norm.groups != 2)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "only the L2 norm is available, not p = %d",
             (int)node->attributes.norm.groups);
  if (axis == last) return emit_norm(l, node, kind, x, y);
  if (kind == ITG_NORM_L2) {
    int32_t permutation[ITG_MAX_RANK];
    ITG_TRY(bring_last(l, node, x, axis, permutation, &x));
    itg_tensor *result = itg_emit_temporary(l, node->name, &x->shape, y->encoding);
    ITG_TRY_MEMORY(result, l->diagnostic);
    ITG_TRY(emit_norm(l, node, kind, x, result));
    return bring_back(l, node, result, permutation, y);
  }
  ITG_TRY(merge_last(l, node, x, axis, &x));
  itg_tensor *result = itg_emit_temporary(l, node->name, &x->shape, y->encoding);
  ITG_TRY_MEMORY(result, l->diagnostic);
  ITG_TRY(emit_norm(l, node, kind, x, result));
  return itg_emit_reshape(l, node->name, result, y);
}
