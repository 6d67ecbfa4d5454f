// Constants of the graph from TensorProto messages and external files. See importer.h.
#include <stdlib.h>
#include <string.h>

#include "import/onnx/importer.h"

enum { SMALL_CONSTANT = 64 * 1024 }; // Copied when it is not aligned; larger ones stay mapped as they are.

// The bytes of an external file, mapped once and handed to the graph.
static itg_status map_external(itg_onnx_importer *importer, const itg_onnx_tensor *tensor, itg_span *out) {
  char *path = NULL;
  ITG_TRY(itg_onnx_tensor_locate(tensor, importer->folder, importer->diagnostic, &path));
  const size_t length = strlen(path);
  const uintptr_t number = (uintptr_t)itg_map_get(&importer->external, path, length);
  char *key = itg_arena_string(&importer->arena, path, length);
  free(path);
  ITG_TRY_MEMORY(key, importer->diagnostic);
  if (!number) {
    itg_mapped_file file;
    ITG_TRY(itg_mapped_file_open(key, importer->diagnostic, &file));
    const itg_status status = itg_graph_keep_mapping(importer->graph, file, importer->diagnostic);
    if (status != ITG_OK) {
      itg_mapped_file_close(&file);
      return status;
    }
    const uintptr_t count = (uintptr_t)importer->graph->mapping_count;
    ITG_TRY_MEMORY(itg_map_set(&importer->external, key, length, (void *)count), importer->diagnostic);
    *out = file.bytes;
    return ITG_OK;
  }
  *out = importer->graph->mappings[number - 1].bytes;
  return ITG_OK;
}

itg_status itg_onnx_make_constant(itg_onnx_importer *importer, const itg_onnx_tensor *source, const char *name,
                                  itg_tensor **out) {
  itg_onnx_tensor tensor = *source;
  if (tensor.is_external) {
    itg_span file;
    ITG_TRY(map_external(importer, &tensor, &file));
    ITG_TRY(itg_onnx_tensor_cut(&tensor, file, importer->diagnostic, &tensor.raw));
    tensor.has_raw = true;
    tensor.is_external = false;
  }
  const size_t size = itg_dtype_size(tensor.dtype);
  const bool aligned = size < 2 || (uintptr_t)tensor.raw.data % size == 0;
  if (itg_onnx_tensor_is_plain(&tensor) && tensor.bytes > 0 && (aligned || tensor.bytes > SMALL_CONSTANT)) {
    *out = itg_graph_add_borrowed(importer->graph, name, tensor.dtype, &tensor.shape, tensor.raw.data);
    ITG_TRY_MEMORY(*out, importer->diagnostic);
    return ITG_OK;
  }
  // Room is made only for values that the file can really hold: every stored value takes at least half a byte there.
  if (!tensor.has_raw && tensor.count / 2 > tensor.message.size)
    ITG_FAIL(importer->diagnostic, ITG_ERROR_FORMAT, name ? name : "tensor",
             "the tensor claims %llu values in %llu bytes", (unsigned long long)tensor.count,
             (unsigned long long)tensor.message.size);
  itg_tensor *made = itg_graph_add_constant(importer->graph, name, tensor.dtype, &tensor.shape, NULL);
  ITG_TRY_MEMORY(made, importer->diagnostic);
  ITG_TRY(itg_onnx_tensor_read(&tensor, importer->diagnostic, itg_tensor_writable(made)));
  *out = made;
  return ITG_OK;
}

itg_status itg_onnx_import_initializers(itg_onnx_importer *importer, const itg_onnx_graph *graph) {
  for (size_t i = 0; i < graph->initializers.count; i++) {
    itg_onnx_tensor tensor = {0};
    const itg_status status =
        itg_onnx_tensor_parse(graph->initializers.items[i], importer->file, importer->diagnostic, &tensor);
    const bool unusable = status == ITG_ERROR_UNSUPPORTED && tensor.name.size > 0; // Fails when a node reads it.
    if (!unusable) ITG_TRY(status);
    char text[256];
    const size_t shown = tensor.name.size < sizeof text ? tensor.name.size : sizeof text - 1;
    if (shown) memcpy(text, tensor.name.data, shown);
    text[shown] = 0;
    if (tensor.name.size == 0) ITG_FAIL(importer->diagnostic, ITG_ERROR_FORMAT, "graph", "an initializer has no name");
    if (itg_map_get(&importer->values, (const char *)tensor.name.data, tensor.name.size))
      ITG_FAIL(importer->diagnostic, ITG_ERROR_FORMAT, text, "two values have this name");
    char *name = itg_arena_string(&importer->arena, (const char *)tensor.name.data, tensor.name.size);
    ITG_TRY_MEMORY(name, importer->diagnostic);
    itg_tensor *constant = &importer->unusable;
    if (!unusable) ITG_TRY(itg_onnx_make_constant(importer, &tensor, name, &constant));
    ITG_TRY_MEMORY(itg_map_set(&importer->values, (const char *)tensor.name.data, tensor.name.size, constant),
                   importer->diagnostic);
  }
  return ITG_OK;
}
