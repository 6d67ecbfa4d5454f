// If with a condition that is known: the branch that is taken is imported in its place. See converters.h.
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
