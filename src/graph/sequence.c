// See sequence.h.
#include "graph/sequence.h"

#include <string.h>

#include "graph/infer.h"

// ---- another length ----

static bool has_rows(const itg_tensor *tensor, int64_t rows) {
  return tensor->shape.rank >= 3 && tensor->shape.dims[0] == 1 && tensor->shape.dims[1] == rows;
}

static void set_input(itg_tensor *tensor, int64_t old, int64_t rows, int64_t context) {
  if (itg_tensor_is_state(tensor))
    tensor->shape.dims[1] = context;
  else if (has_rows(tensor, old))
    tensor->shape.dims[1] = rows;
  else if (tensor->shape.rank == 2 && tensor->shape.dims[0] == old)
    tensor->shape.dims[0] = rows;
}

itg_status itg_graph_set_rows(itg_graph *graph, int64_t rows, int64_t context, itg_diagnostic *diagnostic) {
  const itg_tensor *first = graph->input_count ? graph->inputs[0] : NULL;
  if (!first || first->shape.rank < 3 || first->shape.dims[0] != 1 || rows < 1 || context < rows)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the graph has no rows that could become %lld of %lld",
             (long long)rows, (long long)context);
  const int64_t old = first->shape.dims[1];
  for (int32_t i = 0; i < graph->input_count; i++) set_input(graph->inputs[i], old, rows, context);
  ITG_FOR_EACH_NODE(node, graph) {
    if (node->op == ITG_OP_RESHAPE && has_rows(node->outputs[0], old)) node->outputs[0]->shape.dims[1] = rows;
    ITG_TRY(itg_infer_node(node, diagnostic));
  }
  return ITG_OK;
}

// ---- one behind the other ----

typedef struct joiner {
  itg_graph *graph;
  itg_map copies; // Address of a tensor of the part -> its copy.
  itg_diagnostic *diagnostic;
} joiner;

static itg_tensor *copy_of(const joiner *j, const itg_tensor *tensor) {
  return tensor ? itg_map_get(&j->copies, (const char *)&tensor, sizeof tensor) : NULL;
}

static itg_status copy_encoding(joiner *j, const itg_encoding *encoding, const itg_encoding **out) {
  itg_encoding *copy = itg_arena_copy(&j->graph->arena, encoding, sizeof *encoding);
  ITG_TRY_MEMORY(copy, j->diagnostic);
  copy->scales = itg_arena_copy(&j->graph->arena, encoding->scales, (size_t)encoding->count * sizeof(double));
  ITG_TRY_MEMORY(copy->scales, j->diagnostic);
  if (encoding->zero_points) {
    copy->zero_points =
        itg_arena_copy(&j->graph->arena, encoding->zero_points, (size_t)encoding->count * sizeof(int32_t));
    ITG_TRY_MEMORY(copy->zero_points, j->diagnostic);
  }
  *out = copy;
  return ITG_OK;
}

static itg_status join_input(joiner *j, const itg_tensor *tensor, itg_tensor *existing) {
  if (existing->dtype != tensor->dtype || !itg_shape_equal(&existing->shape, &tensor->shape))
    ITG_FAIL(j->diagnostic, ITG_ERROR_SHAPE, tensor->name, "%s changes its shape or type between two parts",
             tensor->name);
  if (!itg_encoding_equal(existing->encoding, tensor->encoding))
    ITG_FAIL(j->diagnostic, ITG_ERROR_QUANTIZATION, tensor->name, "%s has two encodings in two parts", tensor->name);
  return ITG_OK;
}

// `slot` is where the part keeps the tensor: its content is the key.
static itg_status copy_tensor(joiner *j, itg_tensor *const *slot) {
  const itg_tensor *tensor = *slot;
  itg_tensor *copy = tensor->is_input ? itg_graph_find(j->graph, tensor->name) : NULL;
  if (copy) {
    ITG_TRY(join_input(j, tensor, copy));
  } else {
    copy = tensor->data ? itg_graph_add_constant(j->graph, tensor->name, tensor->dtype, &tensor->shape, tensor->data)
                        : itg_graph_add_tensor(j->graph, tensor->name, tensor->dtype, &tensor->shape);
    ITG_TRY_MEMORY(copy, j->diagnostic);
    if (tensor->encoding) ITG_TRY(copy_encoding(j, tensor->encoding, &copy->encoding));
    if (tensor->is_input) ITG_TRY_MEMORY(itg_graph_add_input(j->graph, copy), j->diagnostic);
  }
  ITG_TRY_MEMORY(itg_map_set(&j->copies, (const char *)slot, sizeof *slot, copy), j->diagnostic);
  return ITG_OK;
}

static itg_status copy_node(joiner *j, const itg_node *node) {
  const size_t inputs = (size_t)node->input_count, outputs = (size_t)node->output_count;
  itg_tensor **links = itg_arena_array(&j->graph->arena, inputs + outputs, sizeof links[0]);
  ITG_TRY_MEMORY(links, j->diagnostic);
  for (size_t i = 0; i < inputs; i++) links[i] = copy_of(j, node->inputs[i]);
  for (size_t i = 0; i < outputs; i++) links[inputs + i] = copy_of(j, node->outputs[i]);
  itg_node *made = itg_graph_insert_node(j->graph, NULL, node->op, node->name, links, node->input_count, links + inputs,
                                         node->output_count);
  ITG_TRY_MEMORY(made, j->diagnostic);
  made->attributes = node->attributes;
  return ITG_OK;
}

static itg_status join(joiner *j, const itg_graph *part) {
  // Inputs first and in their order, whatever the order of the tensors.
  for (int32_t i = 0; i < part->input_count; i++) ITG_TRY(copy_tensor(j, &part->inputs[i]));
  for (size_t i = 0; i < part->tensor_count; i++) {
    if (part->tensors[i] && !part->tensors[i]->is_input) ITG_TRY(copy_tensor(j, &part->tensors[i]));
  }
  ITG_FOR_EACH_NODE(node, part) { ITG_TRY(copy_node(j, node)); }
  return ITG_OK;
}

itg_status itg_graph_append(itg_graph *graph, const itg_graph *part, itg_diagnostic *diagnostic, itg_tensor **outputs) {
  joiner j = {.graph = graph, .diagnostic = diagnostic};
  const itg_status status = join(&j, part);
  for (int32_t i = 0; status == ITG_OK && outputs && i < part->output_count; i++)
    outputs[i] = copy_of(&j, part->outputs[i]);
  itg_map_free(&j.copies);
  return status;
}
