// Graph-level walk and element-wise operations of the gate for integer graphs. See verify_integer.h. Operations with weights
// and windows are in verify_integer_weights.c.
#include "graph/verify_integer.h"

#include <stdlib.h>

#include "base/checked.h"
#include "graph/infer.h"
#include "graph/integer_ops.h"
#include "graph/verify_integer_rules.h"
#include "tensor/multiplier.h"

itg_status itg_check_requantize(const itg_node *node, int64_t multiplier, int64_t shift, int64_t pre_shift,
                                itg_diagnostic *diagnostic) {
  if (multiplier <= INT32_MIN || multiplier > INT32_MAX || pre_shift < 0 || pre_shift > 31 || shift - pre_shift < 1 ||
      shift - pre_shift > 62)
    ITG_FAIL(
        diagnostic, ITG_ERROR_QUANTIZATION, node->name,
        "multiplier %lld, shift %lld and pre-shift %lld: |multiplier| must be below 2^31 and the difference of the "
        "shifts in 1..62",
        (long long)multiplier, (long long)shift, (long long)pre_shift);
  return ITG_OK;
}

itg_status itg_check_requantize_vectors(const itg_node *node, int32_t first, int32_t pre_shift,
                                        itg_diagnostic *diagnostic) {
  const int32_t *multiplier = node->inputs[first]->data, *shift = node->inputs[first + 1]->data;
  for (int64_t i = 0; i < node->inputs[first]->shape.dims[0]; i++)
    ITG_TRY(itg_check_requantize(node, multiplier[i], shift[i], pre_shift, diagnostic));
  return ITG_OK;
}

itg_status itg_check_accumulator(const itg_node *node, uint64_t bound, bool wide, int32_t pre_shift,
                                 itg_diagnostic *diagnostic) {
  if (!wide) {
    if (bound >= (uint64_t)1 << 31)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
               "the accumulator can reach %llu, which needs a 64-bit (wide) step", (unsigned long long)bound);
    return ITG_OK;
  }
  if (bound >= (uint64_t)1 << 62 || itg_pre_shift_for_bound(bound) > pre_shift)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "pre-shift %d is too small for an accumulator of up to %llu", pre_shift, (unsigned long long)bound);
  return ITG_OK;
}

itg_status itg_check_codes(const itg_node *node, const itg_tensor *output, int32_t low, int32_t high,
                           itg_diagnostic *diagnostic) {
  if (low > high || low < itg_code_min(output->dtype) || high > itg_code_max(output->dtype))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "output codes %d..%d do not fit %s", low, high,
             itg_dtype_name(output->dtype));
  return ITG_OK;
}

int32_t itg_zero_point(const itg_tensor *tensor) {
  return tensor->encoding && tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0;
}

int64_t itg_code_deviation(const itg_tensor *tensor) {
  const int64_t zero = itg_zero_point(tensor);
  return itg_max_i64(zero - itg_code_min(tensor->dtype), itg_code_max(tensor->dtype) - zero);
}

// u8 and u16 need one scale a tensor and a zero point among the codes; ids and masks have no encoding.
static itg_status check_activation(const itg_tensor *tensor, itg_diagnostic *diagnostic) {
  size_t count = 0;
  if (!itg_shape_count(&tensor->shape, &count) || count < 1 || count > ITG_LIMIT_ACTIVATION_ELEMENTS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, tensor->name, "an activation must have 1 to %d elements",
             ITG_LIMIT_ACTIVATION_ELEMENTS);
  const itg_encoding *encoding = tensor->encoding;
  if (tensor->dtype == ITG_DTYPE_S32 || tensor->dtype == ITG_DTYPE_S64 || tensor->dtype == ITG_DTYPE_BOOL) {
    if (encoding)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "an activation of type %s has an encoding",
               itg_dtype_name(tensor->dtype));
    return ITG_OK;
  }
  if (tensor->dtype != ITG_DTYPE_U8 && tensor->dtype != ITG_DTYPE_U16)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, tensor->name, "activations of type %s are not part of integer graphs",
             itg_dtype_name(tensor->dtype));
  if (!encoding || encoding->storage != tensor->dtype || encoding->axis != -1 || encoding->count != 1 ||
      encoding->block != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name,
             "an activation of type %s needs one scale and zero point", itg_dtype_name(tensor->dtype));
  const int32_t zero = itg_zero_point(tensor);
  if (zero < 0 || zero > itg_code_max(tensor->dtype))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "zero point %d is not a code of %s", zero,
             itg_dtype_name(tensor->dtype));
  return ITG_OK;
}

// Runs shape inference on stand-ins of the outputs and compares: the graph itself is only read.
static itg_status compare_outputs(const itg_node *node, itg_tensor **inputs, itg_diagnostic *diagnostic) {
  enum { MAX_OUTPUTS = 2 };
  itg_tensor stand_ins[MAX_OUTPUTS], *outputs[MAX_OUTPUTS] = {NULL};
  if (node->output_count > MAX_OUTPUTS)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%d outputs", node->output_count);
  for (int32_t i = 0; i < node->output_count; i++) {
    stand_ins[i] = *node->outputs[i];
    outputs[i] = &stand_ins[i];
  }
  itg_node copy = *node;
  copy.inputs = inputs;
  copy.outputs = outputs;
  ITG_TRY(itg_infer_node(&copy, diagnostic));
  for (int32_t i = 0; i < node->output_count; i++) {
    const itg_tensor *declared = node->outputs[i], *inferred = &stand_ins[i];
    if (inferred->dtype != declared->dtype || !itg_shape_equal(&inferred->shape, &declared->shape)) {
      char want[96], have[96];
      ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, node->name, "output %s is %s %s but should be %s %s", declared->name,
               itg_dtype_name(declared->dtype), itg_shape_print(&declared->shape, have, sizeof have),
               itg_dtype_name(inferred->dtype), itg_shape_print(&inferred->shape, want, sizeof want));
    }
  }
  return ITG_OK;
}

// Before LEGAL a constant with an encoding stands for real numbers; here it is codes, which inference is told by leaving the
// encoding away.
static itg_status check_shapes(const itg_node *node, itg_diagnostic *diagnostic) {
  bool encoded = false;
  for (int32_t i = 0; i < node->input_count; i++)
    encoded = encoded || (node->inputs[i] && node->inputs[i]->data && node->inputs[i]->encoding);
  if (!encoded) return compare_outputs(node, node->inputs, diagnostic);
  const size_t count = (size_t)node->input_count;
  itg_tensor *codes = calloc(count, sizeof *codes), **inputs = calloc(count, sizeof *inputs);
  itg_status status = ITG_ERROR_MEMORY;
  if (codes && inputs) {
    for (size_t i = 0; i < count; i++) {
      if (!node->inputs[i]) continue;
      codes[i] = *node->inputs[i];
      if (codes[i].data) codes[i].encoding = NULL;
      inputs[i] = &codes[i];
    }
    status = compare_outputs(node, inputs, diagnostic);
  }
  free(codes);
  free(inputs);
  if (status == ITG_ERROR_MEMORY) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  return status;
}

static itg_status check_add(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_add_attributes *add = &node->attributes.q_add;
  const itg_tensor *out = node->outputs[0];
  const bool bytes =
      node->inputs[0]->dtype == ITG_DTYPE_U8 && node->inputs[1]->dtype == ITG_DTYPE_U8 && out->dtype == ITG_DTYPE_U8;
  const int64_t limit = (int64_t)1 << (bytes ? 21 : 30);
  if (llabs(add->a) >= limit || llabs(add->b) >= limit || add->shift < 1 || add->shift > (bytes ? 31 : 62))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "factors %d and %d with shift %d: below 2^%d with shift 1..%d are exact", add->a, add->b, add->shift,
             bytes ? 21 : 30, bytes ? 31 : 62);
  return itg_check_codes(node, out, add->low, add->high, diagnostic);
}

// M_c, B_c and s_c: |B_c| + 2^47 + 2^(s_c-1) < 2^63.
static itg_status check_affine_vectors(const itg_node *node, int32_t first, itg_diagnostic *diagnostic) {
  const int32_t *scale = node->inputs[first]->data, *shift = node->inputs[first + 2]->data;
  const int64_t *offset = node->inputs[first + 1]->data;
  for (int64_t i = 0; i < node->inputs[first]->shape.dims[0]; i++) {
    ITG_TRY(itg_check_requantize(node, scale[i], shift[i], 0, diagnostic));
    const uint64_t magnitude = offset[i] < 0 ? 0 - (uint64_t)offset[i] : (uint64_t)offset[i];
    if (magnitude + ((uint64_t)1 << 47) + ((uint64_t)1 << (shift[i] - 1)) >= (uint64_t)1 << 63)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "offset %lld of channel %lld leaves 64 bits",
               (long long)offset[i], (long long)i);
  }
  return ITG_OK;
}

static itg_status check_requantize_step(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  ITG_TRY(itg_check_requantize(node, rq->multiplier, rq->shift, 0, diagnostic));
  return itg_check_codes(node, node->outputs[0], rq->low, rq->high, diagnostic);
}

// Steps whose accumulator is bounded by types alone; `wide` steps and products use RQ64.
static itg_status check_bounded_step(const itg_node *node, uint64_t bound, bool wide, itg_diagnostic *diagnostic) {
  const itg_requantize_attributes *rq = &node->attributes.requantize;
  ITG_TRY(itg_check_requantize(node, rq->multiplier, rq->shift, wide ? rq->pre_shift : 0, diagnostic));
  ITG_TRY(itg_check_accumulator(node, bound, wide, rq->pre_shift, diagnostic));
  return itg_check_codes(node, node->outputs[0], rq->low, rq->high, diagnostic);
}

static itg_status check_matmul(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *a = node->inputs[0], *b = node->inputs[1];
  const uint64_t k = (uint64_t)a->shape.dims[a->shape.rank - 1];
  if (b->dtype == ITG_DTYPE_S8 && b->encoding && (b->encoding->count != 1 || itg_zero_point(b) != 0))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "an s8 operand must have one scale and zero point 0");
  if (b->dtype != ITG_DTYPE_S8) ITG_TRY(check_activation(b, diagnostic));
  int64_t largest = itg_code_deviation(b);
  if (b->data) { // The actual values of a constant may prove more than its type.
    size_t count;
    if (!itg_shape_count(&b->shape, &count)) return ITG_ERROR_SHAPE;
    const int32_t zero = itg_zero_point(b);
    largest = 0;
    for (size_t i = 0; i < count; i++) {
      const int32_t code = b->dtype == ITG_DTYPE_S8 ? ((const int8_t *)b->data)[i] : ((const uint8_t *)b->data)[i];
      largest = itg_max_i64(largest, llabs(code - zero));
    }
  }
  const uint64_t bound = k * (uint64_t)itg_code_deviation(a) * (uint64_t)largest; // Below 2^31 * 2^16 * 2^8.
  return check_bounded_step(node, bound, node->attributes.requantize.wide != 0, diagnostic);
}

static itg_status check_reduce_sum(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0];
  uint64_t count = 1;
  for (int i = 0; i < x->shape.rank; i++) {
    if (node->attributes.requantize.axes >> i & 1) count *= (uint64_t)x->shape.dims[i];
  }
  return check_bounded_step(node, count * (uint64_t)itg_code_deviation(x), node->attributes.requantize.wide != 0,
                            diagnostic);
}

static itg_status check_mul(const itg_node *node, itg_diagnostic *diagnostic) {
  const uint64_t bound = (uint64_t)itg_code_deviation(node->inputs[0]) * (uint64_t)itg_code_deviation(node->inputs[1]);
  return check_bounded_step(node, bound, true, diagnostic);
}

static itg_status check_div(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_div_attributes *div = &node->attributes.q_div;
  if (div->multiplier == INT32_MIN || div->shift < 0 || div->shift > 46 || abs(div->divisor_sign) != 1)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "multiplier %d, shift %d (0..46), divisor sign %d (1, -1)",
             div->multiplier, div->shift, div->divisor_sign);
  return itg_check_codes(node, node->outputs[0], div->low, div->high, diagnostic);
}

static itg_status check_table(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_table_attributes *table = &node->attributes.q_table;
  ITG_TRY(itg_check_codes(node, node->outputs[0], table->low, table->high, diagnostic));
  if (node->inputs[0]->dtype == ITG_DTYPE_U8) return ITG_OK; // Any entry is a code of the output.
  const int32_t *entries = node->inputs[1]->data;
  const int64_t limit = (int64_t)1 << (30 - table->node_bits);
  for (int64_t i = 0; i < node->inputs[1]->shape.dims[0]; i++) {
    if (llabs(entries[i]) > limit)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "table entry %lld is %d; the limit is 2^%d",
               (long long)i, entries[i], 30 - table->node_bits);
  }
  return ITG_OK;
}

itg_status itg_check_softmax_factor(const itg_node *node, int32_t k, int32_t shift, itg_diagnostic *diagnostic) {
  if (k < 0 || shift < 1 || shift > 62)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "factor %d must not be negative, shift %d must be in 1..62", k, shift);
  return ITG_OK;
}

static itg_status check_softmax(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_softmax_attributes *softmax = &node->attributes.q_softmax;
  const itg_tensor *out = node->outputs[0];
  ITG_TRY(itg_check_softmax_factor(node, softmax->k, softmax->k_shift, diagnostic));
  if (out->dtype == ITG_DTYPE_U16) {
    if (itg_zero_point(out) != 0)
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "16-bit probabilities have zero point 0");
    return ITG_OK;
  }
  ITG_TRY(itg_check_requantize(node, softmax->multiplier, softmax->shift, 0, diagnostic));
  return itg_check_codes(node, out, softmax->low, softmax->high, diagnostic);
}

static itg_status check_norm(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_q_norm_attributes *norm = &node->attributes.q_norm;
  const itg_shape *shape = &node->inputs[0]->shape;
  if (norm->kind != ITG_NORM_LAYER && norm->kind != ITG_NORM_RMS && norm->kind != ITG_NORM_L2)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "unknown kind of norm %d", norm->kind);
  if (shape->dims[shape->rank - 1] > ITG_LIMIT_NORM_CHANNELS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "norm over %lld channels; the limit is %d",
             (long long)shape->dims[shape->rank - 1], ITG_LIMIT_NORM_CHANNELS);
  if (norm->epsilon < 0 || norm->epsilon >= (int64_t)1 << 61 || norm->shift < 5 || norm->shift > 62)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "epsilon %lld (0..2^61-1), shift %d (5..62)",
             (long long)norm->epsilon, norm->shift);
  const int32_t *gamma = node->inputs[1]->data;
  for (int64_t i = 0; i < node->inputs[1]->shape.dims[0]; i++) {
    if (gamma[i] == INT32_MIN) ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "a gamma of -2^31");
  }
  return itg_check_codes(node, node->outputs[0], norm->low, norm->high, diagnostic);
}

// Codes that move keep their meaning: one encoding for all activations of the node.
static itg_status check_moves(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *out = node->outputs[0];
  const bool indexed = node->op == ITG_OP_GATHER;
  for (int32_t i = 0; i < (indexed ? 1 : node->input_count); i++) {
    const itg_tensor *input = node->inputs[i];
    if (!input) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "input %d is missing", i);
    ITG_TRY(check_activation(input, diagnostic)); // Also of constants, which take part like activations.
    if (input->dtype != out->dtype || (input->encoding == NULL) != (out->encoding == NULL) ||
        (input->encoding &&
         (input->encoding->scales[0] != out->encoding->scales[0] || itg_zero_point(input) != itg_zero_point(out))))
      ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "%s moves codes: %s and %s need the same encoding",
               itg_op_name(node->op), input->name, out->name);
  }
  return ITG_OK;
}

static itg_status check_pad(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_pad_attributes *pad = &node->attributes.pad;
  const itg_tensor *x = node->inputs[0];
  if (pad->mode < ITG_PAD_CONSTANT || pad->mode > ITG_PAD_WRAP)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "unknown padding mode %d", pad->mode);
  for (int i = 0; i < x->shape.rank; i++) {
    if (llabs(pad->begin[i]) > ITG_LIMIT_ACTIVATION_ELEMENTS || llabs(pad->end[i]) > ITG_LIMIT_ACTIVATION_ELEMENTS)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, node->name, "padding of %lld and %lld", (long long)pad->begin[i],
               (long long)pad->end[i]);
  }
  const bool integer = x->dtype == ITG_DTYPE_S32 || x->dtype == ITG_DTYPE_S64;
  if (!integer && (pad->code < 0 || pad->code > itg_code_max(x->dtype)))
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, node->name, "padding code %d is not a code of %s", pad->code,
             itg_dtype_name(x->dtype));
  return ITG_OK;
}

static itg_status check_gather(const itg_node *node, itg_diagnostic *diagnostic) {
  const itg_tensor *x = node->inputs[0], *indices = node->inputs[1];
  if (indices->dtype != ITG_DTYPE_S32 && indices->dtype != ITG_DTYPE_S64)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "indices must be s32 or s64, not %s",
             itg_dtype_name(indices->dtype));
  if (!indices->data) return ITG_OK; // Kernels check run-time indices.
  size_t count;
  if (!itg_shape_count(&indices->shape, &count)) return ITG_ERROR_SHAPE;
  const int64_t size = x->shape.dims[node->attributes.axis.axis];
  for (size_t i = 0; i < count; i++) {
    const int64_t index =
        indices->dtype == ITG_DTYPE_S64 ? ((const int64_t *)indices->data)[i] : ((const int32_t *)indices->data)[i];
    if (index < -size || index >= size)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "index %lld is outside %lld entries", (long long)index,
               (long long)size);
  }
  return ITG_OK;
}

static itg_status check_compare(const itg_node *node, itg_diagnostic *diagnostic) {
  if (node->outputs[0]->dtype != ITG_DTYPE_U8 && node->outputs[0]->dtype != ITG_DTYPE_U16)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s works on u8 or u16, not on %s", itg_op_name(node->op),
             itg_dtype_name(node->outputs[0]->dtype));
  return check_moves(node, diagnostic);
}

static itg_status check_node(const itg_node *node, itg_diagnostic *diagnostic) {
  switch (node->op) {
  case ITG_OP_Q_CONV:
  case ITG_OP_Q_CONV_TRANSPOSE:
  case ITG_OP_Q_FULLY_CONNECTED: return itg_check_q_conv(node, diagnostic);
  case ITG_OP_Q_MATMUL: return check_matmul(node, diagnostic);
  case ITG_OP_Q_ADD: return check_add(node, diagnostic);
  case ITG_OP_Q_ADD_AFFINE:
    ITG_TRY(check_add(node, diagnostic));
    ITG_TRY(check_affine_vectors(node, 2, diagnostic));
    return itg_check_codes(node, node->outputs[1], node->attributes.q_add.low2, node->attributes.q_add.high2,
                           diagnostic);
  case ITG_OP_Q_AFFINE:
    ITG_TRY(check_affine_vectors(node, 1, diagnostic));
    return itg_check_codes(node, node->outputs[0], node->attributes.requantize.low, node->attributes.requantize.high,
                           diagnostic);
  case ITG_OP_Q_CONVERT: return check_requantize_step(node, diagnostic);
  case ITG_OP_Q_PRELU:
    ITG_TRY(itg_check_requantize_vectors(node, 1, 0, diagnostic));
    return check_requantize_step(node, diagnostic);
  case ITG_OP_Q_MUL: return check_mul(node, diagnostic);
  case ITG_OP_Q_DIV: return check_div(node, diagnostic);
  case ITG_OP_Q_AVERAGE_POOL: return itg_check_q_average_pool(node, diagnostic);
  case ITG_OP_Q_REDUCE_SUM: return check_reduce_sum(node, diagnostic);
  case ITG_OP_Q_TABLE: return check_table(node, diagnostic);
  case ITG_OP_Q_SOFTMAX: return check_softmax(node, diagnostic);
  case ITG_OP_Q_NORM: return check_norm(node, diagnostic);
  case ITG_OP_Q_RESIZE:
    ITG_TRY(check_moves(&(itg_node){.op = node->op,
                                    .name = node->name,
                                    .inputs = node->inputs,
                                    .input_count = 1,
                                    .outputs = node->outputs,
                                    .output_count = 1},
                        diagnostic));
    return itg_check_q_resize(node, diagnostic);
  case ITG_OP_Q_ROPE: return itg_check_q_rope(node, diagnostic);
  case ITG_OP_Q_ATTENTION: return itg_check_q_attention(node, diagnostic);
  case ITG_OP_Q_EMBEDDING:
    ITG_TRY(itg_check_requantize_vectors(node, 2, 0, diagnostic));
    return itg_check_codes(node, node->outputs[0], node->attributes.requantize.low, node->attributes.requantize.high,
                           diagnostic);
  case ITG_OP_MAX_POOL: ITG_TRY(check_compare(node, diagnostic)); return itg_check_max_pool(node, diagnostic);
  case ITG_OP_MIN:
  case ITG_OP_MAX: return check_compare(node, diagnostic);
  case ITG_OP_GATHER: ITG_TRY(check_gather(node, diagnostic)); return check_moves(node, diagnostic);
  case ITG_OP_PAD: ITG_TRY(check_pad(node, diagnostic)); return check_moves(node, diagnostic);
  default: return check_moves(node, diagnostic); // in_dialect has let no other operation through.
  }
}

// Operands that take part like activations may be constants; they need encodings as well.
static itg_status check_operands(const itg_node *node, itg_diagnostic *diagnostic) {
  const bool two = node->op == ITG_OP_Q_ADD || node->op == ITG_OP_Q_MUL || node->op == ITG_OP_Q_DIV ||
                   node->op == ITG_OP_Q_ADD_AFFINE || node->op == ITG_OP_Q_SOFTMAX;
  const int32_t count = node->op == ITG_OP_Q_ATTENTION ? ITG_ATTENTION_V_CACHE + 1 : two ? 2 : 1;
  for (int32_t i = 0; i < count && i < node->input_count; i++) {
    if (node->inputs[i]) ITG_TRY(check_activation(node->inputs[i], diagnostic));
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    if (!node->outputs[i])
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "output %d of %s is missing", i, itg_op_name(node->op));
    ITG_TRY(check_activation(node->outputs[i], diagnostic));
  }
  return ITG_OK;
}

// Movement and comparison of codes are shared with float graphs; GATHER_ELEMENTS and GATHER_ND have no kernels.
static bool in_dialect(const itg_node *node) {
  const itg_op_info *info = itg_op_get_info(node->op);
  if (!info || node->op == ITG_OP_GATHER_ELEMENTS || node->op == ITG_OP_GATHER_ND) return false;
  return (info->flags & (ITG_OP_INTEGER | ITG_OP_MOVES)) || node->op == ITG_OP_MAX_POOL || node->op == ITG_OP_MIN ||
         node->op == ITG_OP_MAX;
}

itg_status itg_verify_integer(const itg_graph *graph, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, graph) {
    if (!in_dialect(node))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s is not an operation of integer graphs",
               itg_op_name(node->op));
  }
  for (int32_t i = 0; i < graph->input_count; i++) ITG_TRY(check_activation(graph->inputs[i], diagnostic));
  for (int32_t i = 0; i < graph->output_count; i++) ITG_TRY(check_activation(graph->outputs[i], diagnostic));
  ITG_FOR_EACH_NODE(node, graph) {
    const itg_op_info *info = itg_op_get_info(node->op);
    if (!info || node->output_count != info->outputs || node->input_count < 1)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, node->name, "%s has %d outputs", itg_op_name(node->op),
               node->output_count);
    ITG_TRY(check_operands(node, diagnostic));
    ITG_TRY(check_shapes(node, diagnostic));
    ITG_TRY(check_node(node, diagnostic));
  }
  return ITG_OK;
}
