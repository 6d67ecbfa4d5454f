// Operations that move or compare codes, changes of encoding, and embedding tables.
#include <math.h>
#include <stdlib.h>

#include "lower/emit.h"

static bool is_code(const itg_tensor *tensor) { return tensor && tensor->encoding && !tensor->data; }

// An operand of a moving node: activations and float constants in the output's encoding, integers as they are.
static itg_status moved_operand(itg_legalizer *l, const itg_node *node, int32_t index, const itg_encoding *encoding,
                                itg_tensor **out) {
  const itg_tensor *source = node->inputs[index];
  if (is_code(source) && encoding) {
    ITG_TRY(itg_emit_activation(l, node, index, out));
    return itg_emit_convert(l, *out, encoding, out);
  }
  if (encoding && itg_tensor_is_constant(source) && source->dtype == ITG_DTYPE_F32) {
    const double *values;
    size_t count;
    ITG_TRY(itg_read_constant(l, node, source, &values, &count)); // Refuses infinities and NaN.
    return itg_emit_encoded_constant(l, source, encoding, out);
  }
  if (source->dtype == ITG_DTYPE_F32 || itg_dtype_is_float(source->dtype))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "operand %d of %s is neither quantized nor an integer",
             (int)index, itg_op_name((int)node->op));
  *out = itg_emit_tensor(l, source);
  ITG_TRY_MEMORY(*out, l->diagnostic);
  return ITG_OK;
}

itg_status itg_lower_move(itg_legalizer *l, const itg_node *node) {
  const itg_tensor *target = node->outputs[0];
  if (!target->encoding && itg_dtype_is_float(target->dtype))
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name, "%s of unquantized values", itg_op_name((int)node->op));
  itg_tensor *y = itg_emit_tensor(l, target);
  itg_tensor **inputs = itg_arena_array(&l->scratch, (size_t)node->input_count, sizeof inputs[0]);
  ITG_TRY_MEMORY(y && inputs, l->diagnostic);
  for (int32_t i = 0; i < node->input_count; i++) {
    if (!node->inputs[i]) continue;
    // Indices of gathers stay integers.
    const bool data = itg_dtype_is_float(node->inputs[i]->dtype) || node->inputs[i]->encoding;
    ITG_TRY(moved_operand(l, node, i, data ? y->encoding : NULL, &inputs[i]));
  }
  itg_node *result = itg_emit_node(l, node->op, node->name, inputs, node->input_count, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes = node->attributes;
  if (node->op == ITG_OP_PAD && y->encoding)
    result->attributes.pad.code = itg_clip_code(y, node->attributes.pad.value);
  else if (node->op == ITG_OP_PAD)
    result->attributes.pad.code = (int32_t)node->attributes.pad.value;
  return ITG_OK;
}

// Identity stands for a change of encoding; one that changes nothing moves codes.
itg_status itg_lower_identity(itg_legalizer *l, const itg_node *node) {
  if (!is_code(node->inputs[0])) return itg_lower_move(l, node);
  itg_tensor *x, *y;
  ITG_TRY(itg_emit_activation(l, node, 0, &x));
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  if (itg_encoding_equal(x->encoding, y->encoding)) return itg_lower_move(l, node);
  itg_node *result = itg_emit_node(l, ITG_OP_Q_CONVERT, node->name, &x, 1, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  return itg_emit_requantize(l, node, itg_scale_of(x) / itg_scale_of(y), (uint64_t)itg_largest_code(x), y,
                             &result->attributes.requantize);
}

// Rows of a constant table: s8, each row with its own scale.
static itg_status lower_embedding(itg_legalizer *l, const itg_node *node) {
  const itg_tensor *table = node->inputs[0], *ids = node->inputs[1];
  if (table->shape.rank != 2 || node->attributes.axis.axis != 0)
    ITG_FAIL(l->diagnostic, ITG_ERROR_UNSUPPORTED, node->name,
             "Gather from a constant is only available for rows of a matrix");
  itg_tensor *y;
  const double *values;
  size_t count;
  ITG_TRY(itg_emit_output(l, node, 0, &y));
  ITG_TRY(itg_read_constant(l, node, table, &values, &count));
  const int64_t rows = table->shape.dims[0], width = table->shape.dims[1];
  itg_tensor *codes = itg_graph_add_constant(l->graph, table->name, ITG_DTYPE_S8, &table->shape, NULL);
  int32_t *multiplier = itg_arena_array(&l->scratch, (size_t)rows, sizeof multiplier[0]);
  int32_t *shift = itg_arena_array(&l->scratch, (size_t)rows, sizeof shift[0]);
  ITG_TRY_MEMORY(codes && multiplier && shift, l->diagnostic);
  for (int64_t r = 0; r < rows; r++) {
    const double *row = values + r * width;
    double largest = 0;
    for (int64_t k = 0; k < width; k++) largest = fmax(largest, fabs(row[k]));
    const double scale = largest > 0 ? (double)(float)(largest / 127) : 1;
    for (int64_t k = 0; k < width; k++) {
      const double code = floor(row[k] / scale + 0.5);
      ((int8_t *)itg_tensor_writable(codes))[r * width + k] = (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
    }
    ITG_TRY(itg_emit_factor(l, node, scale / itg_scale_of(y), &multiplier[r], &shift[r]));
  }
  itg_tensor *inputs[] = {itg_emit_tensor(l, ids), codes, itg_emit_s32(l, "multiplier", rows, multiplier),
                          itg_emit_s32(l, "shift", rows, shift)};
  for (int i = 0; i < 4; i++) ITG_TRY_MEMORY(inputs[i], l->diagnostic);
  itg_node *result = itg_emit_node(l, ITG_OP_Q_EMBEDDING, node->name, inputs, 4, y);
  ITG_TRY_MEMORY(result, l->diagnostic);
  result->attributes.requantize =
      (itg_requantize_attributes){.shift = 1, .low = itg_code_min(y->dtype), .high = itg_code_max(y->dtype)};
  return ITG_OK;
}

itg_status itg_lower_gather(itg_legalizer *l, const itg_node *node) {
  const bool from_table = itg_tensor_is_constant(node->inputs[0]) && node->inputs[0]->dtype == ITG_DTYPE_F32;
  return from_table ? lower_embedding(l, node) : itg_lower_move(l, node);
}
