// Opening source models for the public functions: option texts to import options, tensors to public infos.
#ifndef ITG_COMPILE_SOURCE_H
#define ITG_COMPILE_SOURCE_H

#include "graph/graph.h"
#include "import/import.h"
#include "intaglio/compiler.h"

// Parses "input=1x3x640x640" (dimensions >= 1, rank 0..ITG_MAX_RANK; "input=scalar" for rank 0). The name borrows from a
// copy in `arena`. Errors: ARGUMENT.
ITG_MUST_USE itg_status itg_parse_shape(const char *text, itg_arena *arena, itg_diagnostic *diagnostic,
                                        itg_import_shape *out);

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
