// Opening source models for the public functions: option texts to import options, tensors to public infos.
#ifndef ITG_COMPILE_SOURCE_H
#define ITG_COMPILE_SOURCE_H

#include "graph/graph.h"
#include "import/import.h"
#include "intaglio/compiler.h"

// Imports an ONNX file by the public options (may be NULL). `problems` as in itg_import_onnx.
ITG_MUST_USE itg_status itg_source_import(const char *path, const itg_source_options *options,
                                          itg_import_problems *problems, itg_diagnostic *diagnostic, itg_graph **out);

// Infos of graph inputs or outputs in the graph's arena; names borrow from the tensors.
ITG_MUST_USE itg_status itg_source_infos(itg_graph *graph, itg_tensor *const *tensors, int32_t count,
                                         itg_diagnostic *diagnostic, itg_tensor_info **out);

// Last component of a path.
const char *itg_base_name(const char *path);

// Monotonic seconds.
double itg_now(void);

#endif
