// What is inside a source model: operations, inputs and outputs, parameters, and everything that is not supported.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "compile/source.h"

typedef struct op_count {
  itg_op op;
  size_t count;
  int64_t multiply_accumulates;
} op_count;

typedef struct inspection {
  const itg_graph *graph;
  op_count *ops; // Most frequent first.
  size_t op_kinds;
  size_t parameters, parameter_bytes; // Of constants that nodes read.
  int64_t multiply_accumulates;
} inspection;

static int64_t element_count(const itg_tensor *tensor) {
  size_t count;
  return tensor && itg_shape_count(&tensor->shape, &count) && count < (size_t)INT64_MAX ? (int64_t)count : 0;
}

// Products of a node that multiplies matrices, in the layouts of an imported graph; 0 for all others.
static int64_t node_products(const itg_node *node) {
  const itg_tensor *a = itg_node_input(node, 0), *b = itg_node_input(node, 1);
  const int64_t out = node->output_count > 0 ? element_count(node->outputs[0]) : 0;
  if (!a || !b || b->shape.rank < 1 || a->shape.rank < 1 || b->shape.dims[0] == 0) return 0;
  switch (node->op) {
  case ITG_OP_CONV: return out * (element_count(b) / b->shape.dims[0]);
  case ITG_OP_CONV_TRANSPOSE: return element_count(a) * (element_count(b) / b->shape.dims[0]);
  case ITG_OP_MATMUL: return out * a->shape.dims[a->shape.rank - 1];
  case ITG_OP_GEMM: return out * a->shape.dims[node->attributes.gemm.transpose_a ? 0 : a->shape.rank - 1];
  default: return 0;
  }
}

static int by_count(const void *a, const void *b) {
  const op_count *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return strcmp(itg_op_name((int)x->op), itg_op_name((int)y->op));
}

static itg_status inspect(const itg_graph *graph, itg_arena *arena, itg_diagnostic *diagnostic, inspection *out) {
  inspection result = {.graph = graph};
  result.ops = itg_arena_array(arena, (size_t)graph->node_count, sizeof *result.ops);
  ITG_TRY_MEMORY(result.ops, diagnostic);
  ITG_FOR_EACH_NODE(node, graph) {
    size_t i = 0;
    while (i < result.op_kinds && result.ops[i].op != node->op) i++;
    if (i == result.op_kinds) result.ops[result.op_kinds++] = (op_count){.op = node->op};
    const int64_t products = node_products(node);
    result.ops[i].count++;
    result.ops[i].multiply_accumulates += products;
    result.multiply_accumulates += products;
  }
  qsort(result.ops, result.op_kinds, sizeof *result.ops, by_count);
  for (size_t i = 0; i < graph->tensor_count; i++) {
    const itg_tensor *tensor = graph->tensors[i];
    size_t bytes;
    if (!tensor || !itg_tensor_is_constant(tensor) || tensor->user_count == 0) continue;
    result.parameters += (size_t)element_count(tensor);
    if (itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes)) result.parameter_bytes += bytes;
  }
  *out = result;
  return ITG_OK;
}

// ---- text ----

static void print_tensors(FILE *stream, const char *title, itg_tensor *const *tensors, int32_t count) {
  fprintf(stream, "%s\n", title);
  for (int32_t i = 0; i < count; i++) {
    char shape[160];
    fprintf(stream, "  %-32s %-5s %s\n", tensors[i]->name, itg_dtype_name(tensors[i]->dtype),
            itg_shape_print(&tensors[i]->shape, shape, sizeof shape));
  }
}

static void print_inspection(FILE *stream, const inspection *found) {
  print_tensors(stream, "inputs", found->graph->inputs, found->graph->input_count);
  print_tensors(stream, "outputs", found->graph->outputs, found->graph->output_count);
  fprintf(stream, "parameters  %.3f million, %.2f MiB\n", (double)found->parameters / 1e6,
          (double)found->parameter_bytes / (1 << 20));
  fprintf(stream, "products    %.2f million multiply-accumulates\n", (double)found->multiply_accumulates / 1e6);
  fprintf(stream, "operations  %" PRId64 "\n", found->graph->node_count);
  for (size_t i = 0; i < found->op_kinds; i++) {
    fprintf(stream, "  %-24s %6zu", itg_op_name((int)found->ops[i].op), found->ops[i].count);
    if (found->ops[i].multiply_accumulates)
      fprintf(stream, "  %10.2f M", (double)found->ops[i].multiply_accumulates / 1e6);
    fputc('\n', stream);
  }
}

static void print_problems(FILE *stream, const itg_import_problems *problems) {
  if (problems->count == 0) return;
  fprintf(stream, "not supported: %zu node%s\n", problems->count, problems->count == 1 ? "" : "s");
  for (size_t i = 0; i < problems->count; i++)
    fprintf(stream, "  %s (%s): %s\n", problems->items[i].node, problems->items[i].op, problems->items[i].reason);
}

// ---- JSON ----

static json_t *text(const char *value) {
  json_t *string = value ? json_string(value) : NULL; // NULL for what is not UTF-8.
  return string ? string : json_null();
}

static json_t *tensors_json(itg_tensor *const *tensors, int32_t count) {
  json_t *list = json_array();
  for (int32_t i = 0; i < count; i++) {
    json_t *object = json_object(), *shape = json_array();
    json_object_set_new(object, "name", text(tensors[i]->name));
    json_object_set_new(object, "dtype", text(itg_dtype_name(tensors[i]->dtype)));
    for (int32_t d = 0; d < tensors[i]->shape.rank; d++)
      json_array_append_new(shape, json_integer(tensors[i]->shape.dims[d]));
    json_object_set_new(object, "shape", shape);
    json_array_append_new(list, object);
  }
  return list;
}

static void add_inspection(json_t *root, const inspection *found) {
  json_object_set_new(root, "inputs", tensors_json(found->graph->inputs, found->graph->input_count));
  json_object_set_new(root, "outputs", tensors_json(found->graph->outputs, found->graph->output_count));
  json_object_set_new(root, "parameters", json_integer((json_int_t)found->parameters));
  json_object_set_new(root, "parameter_bytes", json_integer((json_int_t)found->parameter_bytes));
  json_object_set_new(root, "multiply_accumulates", json_integer(found->multiply_accumulates));
  json_t *ops = json_array();
  for (size_t i = 0; i < found->op_kinds; i++) {
    json_t *op = json_object();
    json_object_set_new(op, "op", text(itg_op_name((int)found->ops[i].op)));
    json_object_set_new(op, "count", json_integer((json_int_t)found->ops[i].count));
    json_object_set_new(op, "multiply_accumulates", json_integer(found->ops[i].multiply_accumulates));
    json_array_append_new(ops, op);
  }
  json_object_set_new(root, "operations", ops);
}

static json_t *problems_json(const itg_import_problems *problems) {
  json_t *list = json_array();
  for (size_t i = 0; i < problems->count; i++) {
    json_t *object = json_object();
    json_object_set_new(object, "node", text(problems->items[i].node));
    json_object_set_new(object, "op", text(problems->items[i].op));
    json_object_set_new(object, "reason", text(problems->items[i].reason));
    json_array_append_new(list, object);
  }
  return list;
}

static itg_status write_json(FILE *stream, const char *path, const inspection *found,
                             const itg_import_problems *problems, itg_diagnostic *diagnostic) {
  json_t *root = json_object();
  ITG_TRY_MEMORY(root, diagnostic);
  json_object_set_new(root, "model", text(itg_base_name(path)));
  if (found->graph) add_inspection(root, found);
  json_object_set_new(root, "unsupported", problems_json(problems));
  const int failed = json_dumpf(root, stream, JSON_INDENT(1));
  json_decref(root);
  if (failed) ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot write the inspection");
  fputc('\n', stream);
  return ITG_OK;
}

itg_status itg_inspect_source(const char *path, const itg_source_options *options, int json, FILE *stream,
                              itg_diagnostic *diagnostic) {
  itg_import_problems problems = {0};
  itg_graph *graph = NULL;
  itg_arena arena = {0};
  inspection found = {0};
  const itg_status imported = itg_source_import(path, options, &problems, diagnostic, &graph);
  itg_status status = imported;
  if (imported == ITG_OK) status = inspect(graph, &arena, diagnostic, &found);
  // A model that cannot be read at all has nothing to show; unsupported nodes are shown one by one.
  if (status == ITG_OK || problems.count > 0) {
    itg_status written = ITG_OK;
    if (json) {
      written = write_json(stream, path, &found, &problems, diagnostic);
    } else {
      fprintf(stream, "%s\n", itg_base_name(path));
      if (found.graph) print_inspection(stream, &found);
      print_problems(stream, &problems);
    }
    if (status == ITG_OK) status = written;
  }
  itg_graph_destroy(graph);
  itg_arena_free(&arena);
  itg_arena_free(&problems.arena);
  return status;
}
