// If with a condition that is known: the branch that is taken is imported in its place. Functions defined inside the model:
// the body is imported in place of every call. See converters.h and importer.h.
#include "import/onnx/converters.h"

enum { MAX_DEPTH = 16 };

static itg_status inline_branch(itg_onnx_importer *importer, const itg_onnx_graph *branch) {
  const size_t outputs = importer->node->outputs.count;
  if (branch->outputs.count != outputs)
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "the branch has %zu outputs, the node %zu", branch->outputs.count,
                  outputs);
  if (importer->depth == MAX_DEPTH) ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "more than %d nested branches", MAX_DEPTH);
  importer->depth++;
  itg_status status = itg_onnx_import_initializers(importer, branch);
  if (status == ITG_OK) status = itg_onnx_import_nodes(importer, branch);
  importer->depth--;
  ITG_TRY(status);
  for (size_t i = 0; i < outputs; i++) {
    itg_onnx_value_info info;
    ITG_TRY(itg_onnx_value_info_parse(branch->outputs.items[i], importer->file, importer->diagnostic, &info));
    itg_tensor *tensor =
        info.name.size ? itg_map_get(&importer->values, (const char *)info.name.data, info.name.size) : NULL;
    if (!tensor) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "nothing produces output %zu of the branch", i);
    ITG_TRY(itg_onnx_bind(importer, i, tensor));
  }
  return ITG_OK;
}

itg_status itg_onnx_convert_if(itg_onnx_importer *importer, int op) {
  (void)op;
  itg_tensor *condition;
  int64_t taken = 0;
  size_t count;
  ITG_TRY(itg_onnx_required(importer, 0, &condition));
  if (!itg_tensor_is_constant(condition))
    ITG_ONNX_REFUSE(importer, "%s", "the condition depends on the input; export the model without control flow");
  ITG_TRY(itg_onnx_constant_ints(importer, condition, "the condition", &taken, 1, &count));
  const itg_onnx_attribute *attribute =
      itg_onnx_attribute_find(importer, count && taken ? "then_branch" : "else_branch");
  if (!attribute) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the branch is missing");
  itg_onnx_graph branch;
  ITG_TRY(itg_onnx_graph_parse(attribute->bytes, importer->file, importer->diagnostic, &branch));
  const itg_status status = inline_branch(importer, &branch);
  itg_onnx_graph_free(&branch);
  return status;
}

// Binds the function's parameters in a scope of its own, `importer->values`, to what the call passes (from `outer`).
static itg_status bind_parameters(itg_onnx_importer *importer, const itg_onnx_function *function,
                                  itg_tensor *const *arguments) {
  for (size_t i = 0; i < function->inputs.count; i++) {
    const itg_span name = function->inputs.items[i];
    if (name.size == 0) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "a parameter of the function has no name");
    itg_tensor *tensor = arguments[i] ? arguments[i] : &importer->absent;
    ITG_TRY_MEMORY(itg_map_set(&importer->values, (const char *)name.data, name.size, tensor), importer->diagnostic);
  }
  return ITG_OK;
}

static itg_status import_body(itg_onnx_importer *importer, const itg_onnx_function *function, itg_tensor **tensors) {
  const itg_onnx_call call = {importer->call, importer->node, &function->defaults};
  const itg_map outer_values = importer->values;
  const int64_t outer_opset = importer->opset;
  const size_t outputs = importer->node->outputs.count;
  importer->values = (itg_map){0};
  importer->depth++;
  itg_status status = bind_parameters(importer, function, tensors);
  importer->call = &call;
  if (function->opset) importer->opset = function->opset;
  if (status == ITG_OK) status = itg_onnx_import_nodes(importer, &function->body);
  for (size_t i = 0; i < outputs && status == ITG_OK; i++) {
    const itg_span name = function->outputs.items[i];
    tensors[i] = name.size ? itg_map_get(&importer->values, (const char *)name.data, name.size) : NULL;
  }
  itg_map_free(&importer->values);
  importer->values = outer_values;
  importer->opset = outer_opset;
  importer->call = call.outer;
  importer->depth--;
  return status;
}

static itg_status call_function(itg_onnx_importer *importer, const itg_onnx_function *function) {
  const size_t inputs = importer->node->inputs.count, outputs = importer->node->outputs.count;
  if (inputs > function->inputs.count || outputs > function->outputs.count)
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "the call has %zu inputs and %zu outputs, the function %zu and %zu",
                  inputs, outputs, function->inputs.count, function->outputs.count);
  if (importer->depth == MAX_DEPTH)
    ITG_ONNX_FAIL(importer, ITG_ERROR_LIMIT, "more than %d nested functions", MAX_DEPTH);
  if (function->opset && (function->opset < 6 || function->opset > 23))
    ITG_ONNX_REFUSE(importer, "the function uses opset %lld", (long long)function->opset);
  itg_tensor **tensors = itg_arena_array(&importer->arena, function->inputs.count + outputs, sizeof tensors[0]);
  ITG_TRY_MEMORY(tensors, importer->diagnostic);
  for (size_t i = 0; i < inputs; i++) ITG_TRY(itg_onnx_input(importer, i, &tensors[i]));
  ITG_TRY(import_body(importer, function, tensors));
  for (size_t i = 0; i < outputs; i++) {
    if (!tensors[i] || tensors[i] == &importer->absent)
      ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "nothing produces output %zu of the function", i);
    ITG_TRY(itg_onnx_bind(importer, i, tensors[i]));
  }
  return ITG_OK;
}

itg_status itg_onnx_inline_function(itg_onnx_importer *importer, itg_span message) {
  itg_onnx_function function;
  ITG_TRY(itg_onnx_function_parse(message, importer->file, importer->diagnostic, &function));
  const itg_status status = call_function(importer, &function);
  itg_onnx_function_free(&function);
  return status;
}
