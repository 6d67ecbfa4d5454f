// Builders shared by the lowering of all operations. See emit.h.
#include "lower/emit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/multiplier.h"

itg_tensor *itg_emit_tensor(itg_legalizer *l, const itg_tensor *source) {
  const size_t length = strlen(source->name);
  itg_tensor *tensor = itg_map_get(&l->tensors, source->name, length);
  if (tensor) return tensor;
  if (source->data) {
    tensor = itg_graph_add_constant(l->graph, source->name, source->dtype, &source->shape, source->data);
  } else {
    tensor = itg_graph_add_tensor(l->graph, source->name, source->encoding ? source->encoding->storage : source->dtype,
                                  &source->shape);
  }
  if (!tensor) return NULL;
  if (source->encoding) {
    const itg_encoding *e = source->encoding;
    tensor->encoding = itg_encoding_create(l->graph, e->storage, e->axis, e->count, e->scales, e->zero_points);
    if (!tensor->encoding) return NULL;
  }
  return itg_map_set(&l->tensors, source->name, length, tensor) ? tensor : NULL;
}

static bool is_code(const itg_tensor *tensor) {
  return tensor && tensor->encoding && tensor->encoding->count == 1 &&
         (tensor->encoding->storage == ITG_DTYPE_U8 || tensor->encoding->storage == ITG_DTYPE_U16);
}

itg_status itg_emit_activation(itg_legalizer *l, const itg_node *node, int32_t index, itg_tensor **out) {
  const itg_tensor *source = itg_node_input(node, index);
  if (!is_code(source) || source->data)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "%s has no integer form with a constant or unquantized operand %d", itg_op_name((int)node->op),
             (int)index);
  *out = itg_emit_tensor(l, source);
  ITG_TRY_MEMORY(*out, l->diagnostic);
  return ITG_OK;
}

itg_status itg_emit_output(itg_legalizer *l, const itg_node *node, int32_t index, itg_tensor **out) {
  const itg_tensor *source = index < node->output_count ? node->outputs[index] : NULL;
  if (!is_code(source))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s has no integer form with an unquantized output",
             itg_op_name((int)node->op));
  *out = itg_emit_tensor(l, source);
  ITG_TRY_MEMORY(*out, l->diagnostic);
  return ITG_OK;
}

int64_t itg_largest_code(const itg_tensor *tensor) {
  const int64_t zero = itg_zero_of(tensor), below = zero - itg_code_min(tensor->dtype);
  const int64_t above = itg_code_max(tensor->dtype) - zero;
  return below > above ? below : above;
}

int32_t itg_clip_code(const itg_tensor *tensor, double value) {
  const double code = itg_zero_of(tensor) + floor(value / itg_scale_of(tensor) + 0.5);
  const int32_t low = itg_code_min(tensor->dtype), high = itg_code_max(tensor->dtype);
  return code < low ? low : code > high ? high : (int32_t)code;
}

itg_status itg_emit_factor(const itg_legalizer *l, const itg_node *node, double factor, int32_t *multiplier,
                           int32_t *shift) {
  if (!itg_multiplier_from_double(factor, multiplier, shift))
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "the output's scale is too small for the inputs' (factor %g); was the calibration data all zero?", factor);
  return ITG_OK;
}

itg_status itg_emit_requantize(const itg_legalizer *l, const itg_node *node, double factor, uint64_t bound,
                               const itg_tensor *output, itg_requantize_attributes *attributes) {
  // The multiplier acts on what the pre-shift leaves: a factor far below 2^-32 is no zero when the accumulator is wide.
  attributes->pre_shift = itg_pre_shift_for_bound(bound);
  attributes->wide = attributes->pre_shift > 0;
  ITG_TRY(itg_emit_factor(l, node, ldexp(factor, attributes->pre_shift), &attributes->multiplier, &attributes->shift));
  attributes->shift += attributes->pre_shift;
  if (attributes->shift - attributes->pre_shift < 1)
    ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name,
             "the accumulator (up to %g) does not fit the output's scale", (double)bound);
  attributes->low = itg_code_min(output->dtype);
  attributes->high = itg_code_max(output->dtype);
  return ITG_OK;
}

itg_tensor *itg_emit_s32(itg_legalizer *l, const char *name, int64_t count, const int32_t *values) {
  const itg_shape shape = itg_shape_of(1, &count);
  return itg_graph_add_constant(l->graph, name, ITG_DTYPE_S32, &shape, values);
}

itg_tensor *itg_emit_s64(itg_legalizer *l, const char *name, int64_t count, const int64_t *values) {
  const itg_shape shape = itg_shape_of(1, &count);
  return itg_graph_add_constant(l->graph, name, ITG_DTYPE_S64, &shape, values);
}

itg_tensor *itg_emit_temporary(itg_legalizer *l, const char *name, const itg_shape *shape,
                               const itg_encoding *encoding) {
  itg_tensor *tensor = itg_graph_add_tensor(l->graph, name, encoding->storage, shape);
  if (tensor) tensor->encoding = encoding;
  return tensor;
}

itg_node *itg_emit_node(itg_legalizer *l, itg_op op, const char *name, itg_tensor *const *inputs, int32_t input_count,
                        itg_tensor *output) {
  return itg_graph_insert_node(l->graph, NULL, op, name, inputs, input_count, &output, 1);
}

// The Converts of one tensor, newest first.
typedef struct conversion {
  struct conversion *next;
  itg_tensor *tensor;
} conversion;

itg_status itg_emit_convert(itg_legalizer *l, itg_tensor *tensor, const itg_encoding *encoding, itg_tensor **out) {
  if (itg_encoding_equal(tensor->encoding, encoding)) {
    *out = tensor;
    return ITG_OK;
  }
  const size_t length = strlen(tensor->name);
  conversion *first = itg_map_get(&l->converted, tensor->name, length);
  for (conversion *c = first; c; c = c->next) {
    if (!itg_encoding_equal(c->tensor->encoding, encoding)) continue;
    *out = c->tensor;
    return ITG_OK;
  }
  itg_tensor *converted = itg_emit_temporary(l, tensor->name, &tensor->shape, encoding);
  conversion *entry = itg_arena_allocate(&l->scratch, sizeof *entry);
  ITG_TRY_MEMORY(converted && entry, l->diagnostic);
  itg_node *node = itg_emit_node(l, ITG_OP_Q_CONVERT, converted->name, &tensor, 1, converted);
  ITG_TRY_MEMORY(node, l->diagnostic);
  ITG_TRY(itg_emit_requantize(l, node, itg_scale_of(tensor) / encoding->scales[0], (uint64_t)itg_largest_code(tensor),
                              converted, &node->attributes.requantize));
  *entry = (conversion){.next = first, .tensor = converted};
  ITG_TRY_MEMORY(itg_map_set(&l->converted, tensor->name, length, entry), l->diagnostic);
  *out = converted;
  return ITG_OK;
}

itg_status itg_emit_widened(itg_legalizer *l, itg_tensor *tensor, itg_tensor **out) {
  if (tensor->dtype == ITG_DTYPE_U16) {
    *out = tensor;
    return ITG_OK;
  }
  const double scale = (double)(float)(itg_scale_of(tensor) / 257);
  const int32_t zero_point = itg_zero_of(tensor) * 257;
  const itg_encoding *encoding = itg_encoding_create(l->graph, ITG_DTYPE_U16, -1, 1, &scale, &zero_point);
  ITG_TRY_MEMORY(encoding, l->diagnostic);
  return itg_emit_convert(l, tensor, encoding, out);
}

itg_status itg_read_constant(itg_legalizer *l, const itg_node *node, const itg_tensor *tensor, const double **values,
                             size_t *count) {
  if (!itg_tensor_is_constant(tensor) || tensor->dtype != ITG_DTYPE_F32)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s needs a constant f32 parameter",
             itg_op_name((int)node->op));
  if (!itg_shape_count(&tensor->shape, count))
    ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, node->name, "a constant is too large");
  double *copy = itg_arena_array(&l->scratch, *count, sizeof copy[0]);
  ITG_TRY_MEMORY(copy, l->diagnostic);
  for (size_t i = 0; i < *count; i++) {
    float value;
    memcpy(&value, (const char *)tensor->data + i * sizeof value, sizeof value); // Mapped data may be unaligned.
    if (!isfinite(value))
      ITG_FAIL(l->diagnostic, ITG_ERROR_QUANTIZATION, node->name, "the constant %s holds infinities or NaN",
               tensor->name);
    copy[i] = (double)value;
  }
  *values = copy;
  return ITG_OK;
}

itg_status itg_read_channel_constant(itg_legalizer *l, const itg_node *node, const itg_tensor *tensor,
                                     const itg_shape *shape, bool *is_channel, const double **values, int64_t *count) {
  size_t total;
  ITG_TRY(itg_read_constant(l, node, tensor, values, &total));
  bool uniform = total > 0;
  for (size_t i = 1; i < total; i++) uniform = uniform && (*values)[i] == (*values)[0];
  *is_channel = true;
  *count = 1;
  if (uniform) return ITG_OK;
  const int64_t channels = shape->rank ? shape->dims[shape->rank - 1] : 1;
  *count = channels;
  *is_channel = total > 0 && (int64_t)total == channels && tensor->shape.rank >= 1 &&
                tensor->shape.dims[tensor->shape.rank - 1] == channels;
  return ITG_OK;
}

itg_status itg_emit_encoded_constant(itg_legalizer *l, const itg_tensor *source, const itg_encoding *encoding,
                                     itg_tensor **out) {
  itg_tensor *tensor = itg_graph_add_constant(l->graph, source->name, encoding->storage, &source->shape, NULL);
  ITG_TRY_MEMORY(tensor, l->diagnostic);
  tensor->encoding = encoding;
  size_t count = 0;
  if (!itg_shape_count(&source->shape, &count)) ITG_FAIL(l->diagnostic, ITG_ERROR_SHAPE, source->name, "too large");
  const int32_t zero = itg_zero_of(tensor), low = itg_code_min(encoding->storage),
                high = itg_code_max(encoding->storage);
  for (size_t i = 0; i < count; i++) {
    float value;
    memcpy(&value, (const char *)source->data + i * sizeof value, sizeof value);
    const int32_t code = itg_encode(value, encoding->scales[0], zero, low, high);
    if (encoding->storage == ITG_DTYPE_U8)
      ((uint8_t *)itg_tensor_writable(tensor))[i] = (uint8_t)code;
    else
      ((uint16_t *)itg_tensor_writable(tensor))[i] = (uint16_t)code;
  }
  *out = tensor;
  return ITG_OK;
}

itg_status itg_emit_operand(itg_legalizer *l, const itg_node *node, int32_t index, int32_t bits, itg_tensor **out) {
  const itg_tensor *source = itg_node_input(node, index);
  if (!itg_tensor_is_constant(source) || source->dtype != ITG_DTYPE_F32)
    return itg_emit_activation(l, node, index, out);
  const double *values;
  size_t count;
  ITG_TRY(itg_read_constant(l, node, source, &values, &count));
  double low = 0, high = 0, scale;
  for (size_t i = 0; i < count; i++) {
    low = fmin(low, values[i]);
    high = fmax(high, values[i]);
  }
  int32_t zero_point;
  const itg_dtype storage = bits == 8 ? ITG_DTYPE_U8 : ITG_DTYPE_U16;
  itg_encoding_from_range(low, high, storage, &scale, &zero_point);
  const itg_encoding *encoding = itg_encoding_create(l->graph, storage, -1, 1, &scale, &zero_point);
  ITG_TRY_MEMORY(encoding, l->diagnostic);
  return itg_emit_encoded_constant(l, source, encoding, out);
}

itg_status itg_emit_reshape(itg_legalizer *l, const char *name, itg_tensor *tensor, itg_tensor *output) {
  ITG_TRY_MEMORY(itg_emit_node(l, ITG_OP_RESHAPE, name, &tensor, 1, output), l->diagnostic);
  return ITG_OK;
}

itg_status itg_emit_transpose(itg_legalizer *l, const char *name, itg_tensor *tensor, const int32_t *permutation,
                              itg_tensor *output) {
  itg_node *node = itg_emit_node(l, ITG_OP_TRANSPOSE, name, &tensor, 1, output);
  ITG_TRY_MEMORY(node, l->diagnostic);
  for (int32_t i = 0; i < tensor->shape.rank; i++) node->attributes.permutation.permutation[i] = permutation[i];
  return ITG_OK;
}
