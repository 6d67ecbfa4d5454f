// Emitting graph nodes, folding those whose inputs are constants. See importer.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/infer.h"
#include "import/onnx/importer.h"
#include "interpret/interpret.h"

// A result above this size is folded only when it is no larger than what it is made from (and transposed weights stay
// nodes: a later pass usually absorbs them). All folded results of a model together are bounded too: a few bytes of a
// hostile file could otherwise ask for terabytes.
enum { LARGE_RESULT = 16 << 20, FOLD_BUDGET = 1 << 30 };
enum { MAX_NAME = 1024 };

static size_t bytes_of(itg_tensor *const *tensors, int32_t count) {
  size_t total = 0, bytes;
  for (int32_t i = 0; i < count; i++) {
    if (tensors[i] && itg_shape_bytes(&tensors[i]->shape, tensors[i]->dtype, &bytes)) total += bytes;
  }
  return total;
}

static itg_status fold(itg_onnx_importer *importer, const itg_node *node, bool *done) {
  enum { MOST_OUTPUTS = 4 };
  *done = false;
  if (node->op == ITG_OP_RESHAPE || node->op == ITG_OP_IDENTITY) { // The same bytes.
    node->outputs[0]->data = node->inputs[0]->data;
    *done = true;
    return ITG_OK;
  }
  const size_t in = bytes_of(node->inputs, node->input_count), out = bytes_of(node->outputs, node->output_count);
  if (out > LARGE_RESULT && (out > in || node->op == ITG_OP_TRANSPOSE)) return ITG_OK;
  if (node->output_count > MOST_OUTPUTS || out > FOLD_BUDGET - importer->folded_bytes) return ITG_OK;
  void *values[MOST_OUTPUTS] = {0};
  for (int32_t i = 0; i < node->output_count; i++) {
    size_t bytes;
    if (!node->outputs[i]) continue;
    if (!itg_shape_bytes(&node->outputs[i]->shape, node->outputs[i]->dtype, &bytes)) return ITG_OK;
    values[i] = itg_arena_allocate(&importer->graph->arena, bytes);
    ITG_TRY_MEMORY(values[i], importer->diagnostic);
  }
  importer->folded_bytes += out;
  const itg_status status = itg_interpret_node(node, values, importer->diagnostic);
  if (status == ITG_ERROR_UNSUPPORTED) return ITG_OK; // The node stays.
  ITG_TRY(status);
  for (int32_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i]) node->outputs[i]->data = values[i];
  }
  *done = true;
  return ITG_OK;
}

static itg_status finish(itg_onnx_importer *importer, itg_op op, const itg_attributes *attributes, int32_t input_count,
                         itg_tensor *const *inputs, int32_t output_count, itg_tensor **outputs) {
  itg_node node = {.op = op,
                   .name = importer->node_name,
                   .inputs = (itg_tensor **)inputs,
                   .outputs = outputs,
                   .input_count = input_count,
                   .output_count = output_count};
  if (attributes) node.attributes = *attributes;
  ITG_TRY(itg_infer_node(&node, importer->diagnostic));
  bool constant = input_count > 0, folded = false;
  for (int32_t i = 0; i < input_count; i++) constant &= !inputs[i] || itg_tensor_is_constant(inputs[i]);
  if (constant) ITG_TRY(fold(importer, &node, &folded));
  if (folded) return ITG_OK;
  itg_node *made =
      itg_graph_insert_node(importer->graph, NULL, op, importer->node_name, inputs, input_count, outputs, output_count);
  ITG_TRY_MEMORY(made, importer->diagnostic);
  made->attributes = node.attributes;
  return ITG_OK;
}

// "<output>" or "<output>.<part>", cut where it is absurdly long; the graph makes it unique.
static void name_output(const itg_onnx_importer *importer, size_t index, const char *part, char text[MAX_NAME]) {
  itg_span name = {0};
  if (itg_onnx_has_output(importer, index))
    name = importer->node->outputs.items[index];
  else
    name = importer->node->op_type;
  const int shown = name.size < MAX_NAME / 2 ? (int)name.size : MAX_NAME / 2;
  snprintf(text, MAX_NAME, part ? "%.*s.%.200s" : "%.*s", shown, (const char *)name.data, part);
}

static itg_status emit_named(itg_onnx_importer *importer, size_t index, const char *part, itg_op op,
                             const itg_attributes *attributes, const itg_shape *shape, int32_t input_count,
                             itg_tensor *const *inputs, itg_tensor **out) {
  char name[MAX_NAME];
  name_output(importer, index, part, name);
  const itg_shape scalar = {0};
  itg_tensor *output = itg_graph_add_tensor(importer->graph, name, inputs[0] ? inputs[0]->dtype : ITG_DTYPE_F32,
                                            shape ? shape : &scalar);
  ITG_TRY_MEMORY(output, importer->diagnostic);
  ITG_TRY(finish(importer, op, attributes, input_count, inputs, 1, &output));
  *out = output;
  return ITG_OK;
}

itg_status itg_onnx_emit(itg_onnx_importer *importer, const char *part, itg_op op, const itg_attributes *attributes,
                         const itg_shape *shape, int32_t input_count, itg_tensor *const *inputs, itg_tensor **out) {
  return emit_named(importer, 0, part, op, attributes, shape, input_count, inputs, out);
}

itg_status itg_onnx_emit_output(itg_onnx_importer *importer, size_t index, itg_op op, const itg_attributes *attributes,
                                const itg_shape *shape, itg_tensor *x, itg_tensor **out) {
  return emit_named(importer, index, NULL, op, attributes, shape, 1, &x, out);
}

itg_status itg_onnx_emit_all(itg_onnx_importer *importer, itg_op op, const itg_attributes *attributes,
                             const itg_shape *shape, int32_t input_count, itg_tensor *const *inputs, int32_t count) {
  enum { MOST_OUTPUTS = 4 };
  itg_tensor *outputs[MOST_OUTPUTS] = {0};
  const itg_shape scalar = {0};
  char name[MAX_NAME];
  for (int32_t i = 0; i < count; i++) {
    if (i > 0 && !itg_onnx_has_output(importer, (size_t)i)) continue;
    name_output(importer, (size_t)i, NULL, name);
    outputs[i] = itg_graph_add_tensor(importer->graph, name, inputs[0]->dtype, shape ? shape : &scalar);
    ITG_TRY_MEMORY(outputs[i], importer->diagnostic);
  }
  ITG_TRY(finish(importer, op, attributes, input_count, inputs, count, outputs));
  for (int32_t i = 0; i < count; i++) {
    if (itg_onnx_has_output(importer, (size_t)i)) ITG_TRY(itg_onnx_bind(importer, (size_t)i, outputs[i]));
  }
  return ITG_OK;
}

itg_status itg_onnx_unary(itg_onnx_importer *importer, const char *part, itg_op op, const itg_attributes *attributes,
                          itg_tensor *x, itg_tensor **out) {
  return itg_onnx_emit(importer, part, op, attributes, NULL, 1, &x, out);
}

itg_status itg_onnx_binary(itg_onnx_importer *importer, const char *part, itg_op op, itg_tensor *a, itg_tensor *b,
                           itg_tensor **out) {
  itg_tensor *inputs[] = {a, b};
  return itg_onnx_emit(importer, part, op, NULL, NULL, 2, inputs, out);
}

itg_status itg_onnx_reshape(itg_onnx_importer *importer, const char *part, itg_tensor *x, const itg_shape *shape,
                            itg_tensor **out) {
  if (itg_shape_equal(&x->shape, shape)) {
    *out = x;
    return ITG_OK;
  }
  return itg_onnx_emit(importer, part, ITG_OP_RESHAPE, NULL, shape, 1, &x, out);
}

itg_status itg_onnx_transpose(itg_onnx_importer *importer, const char *part, itg_tensor *x, const int32_t *permutation,
                              itg_tensor **out) {
  itg_attributes attributes = {0};
  bool same = true;
  for (int32_t i = 0; i < x->shape.rank; i++) {
    attributes.permutation.permutation[i] = permutation[i];
    same &= permutation[i] == i;
  }
  if (same) {
    *out = x;
    return ITG_OK;
  }
  return itg_onnx_unary(importer, part, ITG_OP_TRANSPOSE, &attributes, x, out);
}

itg_status itg_onnx_cast(itg_onnx_importer *importer, const char *part, itg_tensor *x, itg_dtype to, itg_tensor **out) {
  if (x->dtype == to) {
    *out = x;
    return ITG_OK;
  }
  const itg_attributes attributes = {.cast = {(int32_t)to, 1}};
  return itg_onnx_unary(importer, part, ITG_OP_CAST, &attributes, x, out);
}

itg_status itg_onnx_filled(itg_onnx_importer *importer, const char *part, itg_dtype dtype, double value,
                           const itg_shape *shape, itg_tensor **out) {
  char name[MAX_NAME];
  const itg_shape scalar = {0};
  const float single = (float)value;
  const bool fits = value >= -0x1p63 && value < 0x1p63;
  const int64_t integer = fits ? (int64_t)value : 0;
  if (!fits && !itg_dtype_is_float(dtype))
    ITG_ONNX_REFUSE(importer, "the number %g is no %s", value, itg_dtype_name(dtype));
  const bool half = dtype == ITG_DTYPE_F16 || dtype == ITG_DTYPE_BF16;
  name_output(importer, 0, part, name);
  const void *data = dtype == ITG_DTYPE_F64      ? (const void *)&value
                     : itg_dtype_is_float(dtype) ? (const void *)&single
                                                 : (const void *)&integer; // Little-endian: the low bytes come first.
  itg_tensor *tensor = itg_graph_add_constant(importer->graph, name, half ? ITG_DTYPE_F32 : dtype, &scalar, data);
  ITG_TRY_MEMORY(tensor, importer->diagnostic);
  if (half) ITG_TRY(itg_onnx_cast(importer, part, tensor, dtype, &tensor));
  if (shape && shape->rank > 0) ITG_TRY(itg_onnx_emit(importer, part, ITG_OP_EXPAND, NULL, shape, 1, &tensor, &tensor));
  *out = tensor;
  return ITG_OK;
}

itg_status itg_onnx_zeroed(itg_onnx_importer *importer, const char *part, itg_dtype dtype, const itg_shape *shape,
                           itg_tensor **out) {
  char name[MAX_NAME];
  name_output(importer, 0, part, name);
  *out = itg_graph_add_constant(importer->graph, name, dtype, shape, NULL);
  ITG_TRY_MEMORY(*out, importer->diagnostic);
  return ITG_OK;
}

itg_status itg_onnx_ints(itg_onnx_importer *importer, const char *part, const int64_t *values, size_t count,
                         itg_tensor **out) {
  const itg_shape shape = {1, {(int64_t)count}};
  ITG_TRY(itg_onnx_zeroed(importer, part, ITG_DTYPE_S64, &shape, out));
  if (count) memcpy(itg_tensor_writable(*out), values, count * sizeof values[0]);
  return ITG_OK;
}

itg_status itg_onnx_bind(itg_onnx_importer *importer, size_t index, itg_tensor *tensor) {
  if (!itg_onnx_has_output(importer, index)) return ITG_OK;
  const itg_span name = importer->node->outputs.items[index];
  if (itg_map_get(&importer->values, (const char *)name.data, name.size))
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "the name of output '%.*s' is already taken",
                  name.size < 100 ? (int)name.size : 100, (const char *)name.data);
  ITG_TRY_MEMORY(itg_map_set(&importer->values, (const char *)name.data, name.size, tensor), importer->diagnostic);
  return ITG_OK;
}

itg_status itg_onnx_bind_unusable(itg_onnx_importer *importer, size_t index) {
  for (size_t i = index; i < importer->node->outputs.count; i++)
    ITG_TRY(itg_onnx_bind(importer, i, &importer->unusable));
  return ITG_OK;
}

itg_status itg_onnx_finish(itg_onnx_importer *importer, itg_tensor *tensor) {
  ITG_TRY(itg_onnx_bind(importer, 0, tensor));
  return itg_onnx_bind_unusable(importer, 1);
}
