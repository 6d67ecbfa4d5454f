// Pools, sums, Softmax and norms on the NPU.
#include "lower/qnn/lower.h"

itg_status itg_qnn_pool(itg_qnn_builder *b, const itg_node *node) {
  const bool is_max = node->op == ITG_OP_MAX_POOL;
  const itg_pool_attributes *a = is_max ? &node->attributes.pool : &node->attributes.q_pool.pool;
  if (a->window.dilation[0] != 1 || a->window.dilation[1] != 1)
    return itg_qnn_refuse(b, node, "dilated pools are not available");
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_window(b, &p, &a->window, "filter_size"));
  itg_qnn_set_u32(&p, "rounding_mode", 0);
  if (!is_max) itg_qnn_set_bool(&p, "count_pad_for_edges", a->count_include_pad != 0);
  return itg_qnn_simple(b, node, is_max ? "PoolMax2d" : "PoolAvg2d", 1, &p);
}

itg_status itg_qnn_reduce(itg_qnn_builder *b, const itg_node *node) {
  const itg_requantize_attributes *a = &node->attributes.requantize;
  const itg_tensor *x = node->inputs[0];
  uint32_t axes[ITG_MAX_RANK], count = 0;
  double elements = 1;
  for (int32_t i = 0; i < x->shape.rank; i++) {
    if (!(a->axes >> i & 1)) continue;
    axes[count++] = (uint32_t)i;
    elements *= (double)x->shape.dims[i];
  }
  // Sum and mean differ in the factor only: whichever the multiplier stands for.
  const double factor = itg_qnn_factor(a->multiplier, a->shift) * itg_qnn_scale(node->outputs[0]) / itg_qnn_scale(x);
  itg_qnn_parameters p = {0};
  ITG_TRY(itg_qnn_set_array(b, &p, "axes", ITG_QNN_TYPE_U32_INTEGER, count, 0, axes));
  itg_qnn_set_bool(&p, "keep_dims", true);
  if (fabs(factor - 1) < 1e-3) return itg_qnn_simple(b, node, "ReduceSum", 1, &p);
  if (fabs(factor * elements - 1) < 1e-3) return itg_qnn_simple(b, node, "ReduceMean", 1, &p);
  return itg_qnn_refuse(b, node, "neither a sum nor a mean");
}

// Adds an operation that answers in u16 of its own fixed or wide range, and brings its answer into y.
static itg_status add_wide(itg_qnn_builder *b, const itg_node *node, const char *type, itg_qnn_parameters *p,
                           itg_qnn_tensor *inputs, uint32_t count, itg_qnn_tensor *wide, const itg_tensor *y) {
  itg_qnn_tensor output;
  ITG_TRY(itg_qnn_activation(b, y, &output));
  ITG_TRY(itg_qnn_add(b, node, type, p, inputs, count, wide));
  return itg_qnn_add(b, node, "Convert", NULL, wide, 1, &output);
}

itg_status itg_qnn_softmax(itg_qnn_builder *b, const itg_node *node) {
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  if (node->input_count > 1 && node->inputs[1]) return itg_qnn_refuse(b, node, "a mask must be part of the scores");
  itg_qnn_parameters p = {0};
  itg_qnn_set_u32(&p, "axis", (uint32_t)x->shape.rank - 1);
  itg_qnn_set_f32(&p, "beta", 1);
  if (y->dtype == x->dtype) return itg_qnn_simple(b, node, "Softmax", 1, &p);
  itg_qnn_tensor input, wide;
  ITG_TRY(itg_qnn_activation(b, x, &input));
  ITG_TRY(itg_qnn_helper(b, y, ITG_QNN_TYPE_U16, 0x1p-16, 0, input.v1.rank, input.v1.dims, &wide));
  return add_wide(b, node, "Softmax", &p, &input, 1, &wide, y);
}

// Gains as the NPU takes them: u8 everywhere, u16 with the zero point in the middle where both operands may have 16 bits.
static itg_status add_gamma(itg_qnn_builder *b, const itg_node *node, double unit, double *largest,
                            itg_qnn_tensor *out) {
  const int32_t *multipliers = node->inputs[1]->data;
  const uint32_t count = (uint32_t)node->inputs[1]->shape.dims[0];
  double *gains = itg_arena_array(&b->scratch, count, sizeof gains[0]);
  uint16_t *codes = itg_arena_array(&b->scratch, count, sizeof codes[0]);
  ITG_TRY_MEMORY(gains && codes, b->diagnostic);
  *largest = 0;
  for (uint32_t c = 0; c < count; c++) {
    gains[c] = multipliers[c] * unit;
    *largest = fmax(*largest, fabs(gains[c]));
  }
  if (!b->target || !b->target->has_16x16) return itg_qnn_vector(b, ITG_DTYPE_U8, count, gains, out);
  const double scale = fmax(*largest, 1e-6) / 32767;
  for (uint32_t c = 0; c < count; c++) codes[c] = (uint16_t)(32768 + (int32_t)floor(gains[c] / scale + 0.5));
  return itg_qnn_constant(b, ITG_QNN_TYPE_U16, 1, &count, codes, count * sizeof codes[0], 0, 1, &scale, 32768, out);
}

static itg_status add_beta(itg_qnn_builder *b, const itg_node *node, double gamma_scale, itg_qnn_tensor *out) {
  const itg_tensor *beta = node->inputs[2], *y = node->outputs[0];
  const uint32_t count = (uint32_t)beta->shape.dims[0];
  const double scale = itg_qnn_scale(node->inputs[0]) * gamma_scale;
  int32_t *codes = itg_arena_array(&b->scratch, count, sizeof codes[0]);
  ITG_TRY_MEMORY(codes, b->diagnostic);
  for (uint32_t c = 0; c < count; c++) {
    const double code = floor(((const int32_t *)beta->data)[c] / 16.0 * itg_qnn_scale(y) / scale + 0.5);
    codes[c] = (int32_t)fmax(fmin(code, 0x1p30), -0x1p30);
  }
  return itg_qnn_constant(b, ITG_QNN_TYPE_S32, 1, &count, codes, count * sizeof codes[0], 0, 1, &scale, 0, out);
}

itg_status itg_qnn_norm(itg_qnn_builder *b, const itg_node *node) {
  const itg_q_norm_attributes *a = &node->attributes.q_norm;
  const itg_tensor *x = node->inputs[0], *y = node->outputs[0];
  const double scale = itg_qnn_scale(x), channels = (double)x->shape.dims[x->shape.rank - 1];
  const uint32_t last = (uint32_t)x->shape.rank - 1;
  itg_qnn_tensor inputs[3], wide, output;
  ITG_TRY(itg_qnn_activation(b, x, &inputs[0]));
  ITG_TRY(itg_qnn_activation(b, y, &output));
  if (a->kind == ITG_NORM_L2) // The NPU's kernel wraps around at the ends of a narrower range.
    ITG_TRY(itg_qnn_helper(b, y, ITG_QNN_TYPE_U16, 0x1p-15, 32768, output.v1.rank, output.v1.dims, &wide));
  else
    ITG_TRY(itg_qnn_helper_in(b, y, ITG_DTYPE_U16, &wide));
  itg_qnn_parameters p = {0};
  uint32_t count = 1;
  const char *type = "L2Norm";
  if (a->kind == ITG_NORM_L2) {
    const double gain = ((const int32_t *)node->inputs[1]->data)[0] * ldexp(itg_qnn_scale(y), 26 - a->shift);
    if (fabs(gain - 1) > 1e-3) return itg_qnn_refuse(b, node, "an L2 norm has no gain");
    itg_qnn_set_u32(&p, "axis", last);
    itg_qnn_set_f32(&p, "epsilon", (float)((double)a->epsilon * scale * scale));
  } else {
    double largest;
    ITG_TRY(add_gamma(b, node, ldexp(itg_qnn_scale(y), 20 - a->shift), &largest, &inputs[count]));
    count++;
    if (itg_node_input(node, 2)) {
      ITG_TRY(add_beta(b, node, (double)inputs[1].v1.quantization.scale_offset.scale, &inputs[count]));
      count++;
    }
    type = a->kind == ITG_NORM_LAYER ? "LayerNorm" : "RmsNorm";
    ITG_TRY(itg_qnn_set_array(b, &p, "axes", ITG_QNN_TYPE_U32_INTEGER, 1, 0, &last));
    itg_qnn_set_f32(&p, "epsilon", (float)((double)a->epsilon * scale * scale / (channels * channels)));
  }
  if (y->dtype == ITG_DTYPE_U16 && a->kind != ITG_NORM_L2)
    return itg_qnn_add(b, node, type, &p, inputs, count, &output);
  return add_wide(b, node, type, &p, inputs, count, &wide, y);
}
