// Nodes of graphs whose weights come from a model. See builder.h.
#include "import/language/builder.h"

#include <stdarg.h>
#include <stdio.h>

#include "graph/infer.h"

static itg_tensor *fail(itg_builder *b, itg_status status) {
  if (b->status == ITG_OK) b->status = status;
  return NULL;
}

static itg_tensor *no_memory(itg_builder *b) {
  return fail(b, itg_fail(b->diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory"));
}

const char *itg_builder_name(itg_builder *b, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(b->name, sizeof b->name, format, arguments);
  va_end(arguments);
  return b->name;
}

itg_tensor *itg_builder_input(itg_builder *b, const char *name, itg_dtype dtype, itg_shape shape) {
  if (b->status != ITG_OK) return NULL;
  itg_tensor *tensor = itg_graph_add_tensor(b->graph, name, dtype, &shape);
  return tensor && itg_graph_add_input(b->graph, tensor) ? tensor : no_memory(b);
}

itg_tensor *itg_builder_node(itg_builder *b, itg_op op, const itg_attributes *attributes, const char *name,
                             itg_tensor *const *inputs, int32_t input_count, const itg_shape *shape) {
  const itg_shape unknown = {0};
  if (b->status != ITG_OK) return NULL;
  itg_tensor *output = itg_graph_add_tensor(b->graph, name, ITG_DTYPE_F32, shape ? shape : &unknown);
  itg_node *node =
      output ? itg_graph_insert_node(b->graph, NULL, op, output->name, inputs, input_count, &output, 1) : NULL;
  if (!node) return no_memory(b);
  if (attributes) node->attributes = *attributes;
  const itg_status status = itg_infer_node(node, b->diagnostic);
  return status == ITG_OK ? output : fail(b, status);
}

itg_tensor *itg_builder_reshape(itg_builder *b, itg_tensor *x, const char *name, itg_shape shape) {
  return itg_builder_node(b, ITG_OP_RESHAPE, NULL, name, &x, 1, &shape);
}

itg_tensor *itg_builder_transpose(itg_builder *b, itg_tensor *x, const char *name, const int32_t *permutation) {
  itg_attributes attributes = {0};
  for (int32_t i = 0; x && i < x->shape.rank; i++) attributes.permutation.permutation[i] = permutation[i];
  return itg_builder_node(b, ITG_OP_TRANSPOSE, &attributes, name, &x, 1, NULL);
}

// The stored row that becomes row `r`: pairs (2i, 2i + 1) of a head become (i, i + size/2).
static int64_t source_row(int64_t r, int32_t pair_size) {
  if (!pair_size) return r;
  const int64_t half = pair_size / 2, at = r % pair_size;
  return r - at + (at < half ? 2 * at : 2 * (at - half) + 1);
}

static void scale(float *values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i++) values[i] *= factor;
}

itg_tensor *itg_builder_weight(itg_builder *b, itg_weight_role role, int32_t layer, bool bias,
                               const itg_weight_change *change) {
  static const itg_weight_change none = {0};
  if (b->status != ITG_OK) return NULL;
  const itg_weight *weight = itg_language_weight(b->model, role, layer, bias);
  if (!weight)
    return fail(b, itg_fail(b->diagnostic, ITG_ERROR_INTERNAL, NULL, __FILE__, __LINE__, "a weight is missing"));
  if (!change) change = &none;
  const itg_weight *scales =
      change->rows_scaled ? itg_language_weight(b->model, change->rows_scaled, layer, false) : NULL;
  itg_tensor *constant = itg_graph_add_constant(b->graph, weight->name, ITG_DTYPE_F32, &weight->shape, NULL);
  if (!constant) return no_memory(b);
  float *values = itg_tensor_writable(constant);
  // A vector is one stored row, but one value a row of the matrix that it goes with.
  const bool vector = weight->shape.rank < 2;
  const int64_t stored = itg_weight_rows(weight), rows = vector ? weight->shape.dims[0] : stored;
  const int64_t columns = vector ? 1 : weight->shape.dims[weight->shape.rank - 1];
  if (vector && !change->pair_size) {
    itg_weight_read(weight, 0, 1, values);
  } else if (vector) {
    float *in_order = itg_arena_array(&b->graph->arena, (size_t)rows, sizeof in_order[0]);
    if (!in_order) return no_memory(b);
    itg_weight_read(weight, 0, 1, in_order);
    for (int64_t r = 0; r < rows; r++) values[r] = in_order[source_row(r, change->pair_size)];
  } else {
    for (int64_t r = 0; r < rows; r++)
      itg_weight_read(weight, source_row(r, change->pair_size), 1, values + r * columns);
  }
  if (change->factor != 0) scale(values, rows * columns, (float)change->factor);
  if (scales) {
    float *factors = itg_arena_array(&b->graph->arena, (size_t)rows, sizeof factors[0]);
    if (!factors) return no_memory(b);
    itg_weight_read(scales, 0, 1, factors);
    for (int64_t r = 0; r < rows; r++) scale(values + r * columns, columns, factors[r]);
  }
  return constant;
}

itg_tensor *itg_builder_linear(itg_builder *b, itg_tensor *x, itg_weight_role role, int32_t layer,
                               const itg_weight_change *change, const char *name) {
  itg_tensor *inputs[3] = {x, itg_builder_weight(b, role, layer, false, change), NULL};
  const bool bias = b->status == ITG_OK && itg_language_weight(b->model, role, layer, true) != NULL;
  if (bias) inputs[2] = itg_builder_weight(b, role, layer, true, change);
  return itg_builder_node(b, ITG_OP_FULLY_CONNECTED, NULL, name, inputs, bias ? 3 : 2, NULL);
}

itg_tensor *itg_builder_norm(itg_builder *b, itg_op op, itg_tensor *x, itg_weight_role role, int32_t layer,
                             double epsilon, const char *name) {
  itg_tensor *inputs[3] = {x, itg_builder_weight(b, role, layer, false, NULL), NULL};
  const bool centred = op == ITG_OP_LAYER_NORM;
  if (centred) inputs[2] = itg_builder_weight(b, role, layer, true, NULL);
  const itg_attributes attributes = {.norm = {.epsilon = epsilon, .axis = x ? x->shape.rank - 1 : 0}};
  return itg_builder_node(b, op, &attributes, name, inputs, centred ? 3 : 2, NULL);
}
