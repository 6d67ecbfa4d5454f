// Source models to graphs (stage IMPORTED).
#ifndef ITG_IMPORT_IMPORT_H
#define ITG_IMPORT_IMPORT_H

#include "graph/graph.h"

typedef struct itg_import_shape {
  const char *input; // Graph input by name; "": every input of this rank that has an unknown dimension.
  itg_shape shape;   // All dimensions known.
} itg_import_shape;

typedef struct itg_import_constant { // Fixes a graph input to a constant (shape inputs of exported models).
  const char *input;
  itg_dtype dtype;
  itg_shape shape;
  const void *data;
} itg_import_constant;

typedef struct itg_import_options {
  const itg_import_shape *shapes;
  size_t shape_count;
  const itg_import_constant *constants;
  size_t constant_count;
  bool batch_is_one; // An unknown first dimension of an input becomes 1 (default of the command line).
} itg_import_options;

// What one node lacks, for `inspect`.
typedef struct itg_import_problem {
  const char *node, *op, *reason; // Arena strings of the list.
} itg_import_problem;
typedef struct itg_import_problems {
  itg_arena arena;
  itg_import_problem *items; // In the arena.
  size_t count, capacity;
} itg_import_problems;

// Reads an ONNX model (opset 6..23). Initializers stay mapped; constant sub-graphs are folded; unknown dimensions are fixed
// by `options` (NULL: none). When `problems` is not NULL, every node that is not supported is listed there (the call still
// fails when there is one); free its arena afterwards.
// Errors: IO, FORMAT (subject "byte N" or a node), LIMIT, UNSUPPORTED (names node, op, reason), SHAPE (names the input whose
// dimensions must be given), MEMORY.
ITG_MUST_USE itg_status itg_import_onnx(const char *path, const itg_import_options *options,
                                        itg_import_problems *problems, itg_diagnostic *diagnostic, itg_graph **out);
// The same from memory (borrowed: must outlive the graph). `folder` resolves external data; NULL refuses it.
ITG_MUST_USE itg_status itg_import_onnx_memory(itg_span bytes, const char *folder, const itg_import_options *options,
                                               itg_import_problems *problems, itg_diagnostic *diagnostic,
                                               itg_graph **out);

#endif
