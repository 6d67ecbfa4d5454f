// The state of one import, and what the converters of operations use to build the graph.
//
// A converter reads the current ONNX node (importer->node), emits graph nodes and binds the node's outputs. Emitting folds:
// a node whose inputs are all constants is evaluated at once, so that shape arithmetic never reaches the graph.
#ifndef ITG_IMPORT_ONNX_IMPORTER_H
#define ITG_IMPORT_ONNX_IMPORTER_H

#include "graph/graph.h"
#include "import/import.h"
#include "import/onnx/model.h"

// A call of a function that is being inlined: where its body's attribute references lead.
typedef struct itg_onnx_call {
  const struct itg_onnx_call *outer; // The call around this one, or NULL.
  const itg_onnx_node *node;         // The calling node.
  const itg_onnx_node *defaults;
} itg_onnx_call;

typedef struct itg_onnx_importer {
  itg_graph *graph;
  const itg_import_options *options;
  itg_import_problems *problems; // NULL: stop at the first.
  itg_diagnostic *diagnostic;    // Never NULL.
  const uint8_t *file;
  const char *folder; // NULL: no external data.
  int64_t opset;
  itg_map values;       // ONNX value name -> itg_tensor
  itg_map descriptions; // ONNX value name -> itg_span of its ValueInfoProto; filled only when problems are listed
  itg_map external;     // Real path of an external file -> its number in `mappings` plus 1
  itg_map functions;    // "domain:name" of model-local functions -> itg_span of the FunctionProto
  itg_arena arena;      // Of the import itself.
  itg_tensor absent;    // What a function's parameter is bound to that the call leaves out.
  itg_tensor unusable;  // What outputs are bound to that are not supported; fails when somebody reads it.
  size_t folded_bytes;
  int depth;                 // Of inlined sub-graphs and functions.
  size_t node_total;         // ONNX nodes converted so far.
  const itg_onnx_call *call; // Of the function being inlined, or NULL.
  const itg_onnx_node *node;
  char *node_name; // Of the current node: its name, or that of its first output.
  size_t node_name_capacity;
  char op_name[64];
} itg_onnx_importer;

// A converter; `op` is the itg_op of the table's line.
typedef itg_status itg_onnx_converter(itg_onnx_importer *importer, int op);
// The converter of an operation, or NULL; then *reason (when not NULL) says why a known one is refused.
itg_onnx_converter *itg_onnx_find_converter(itg_span domain, itg_span op_type, int *op, const char **reason);
// Imports the nodes of a graph whose inputs and initializers are bound (sub-graphs of If come back here).
ITG_MUST_USE itg_status itg_onnx_import_nodes(itg_onnx_importer *importer, const itg_onnx_graph *graph);
// Imports the body of a function in place of the current node.
ITG_MUST_USE itg_status itg_onnx_inline_function(itg_onnx_importer *importer, itg_span function);
ITG_MUST_USE itg_status itg_onnx_import_initializers(itg_onnx_importer *importer, const itg_onnx_graph *graph);
// Makes a constant of a TensorProto, borrowed from the file where possible. `name` may be NULL.
ITG_MUST_USE itg_status itg_onnx_make_constant(itg_onnx_importer *importer, const itg_onnx_tensor *tensor,
                                               const char *name, itg_tensor **out);

// Fails for the current node: subject is its name, the message starts with its operation.
#define ITG_ONNX_FAIL(importer, status, format, ...) \
  ITG_FAIL((importer)->diagnostic, status, (importer)->node_name, "%s: " format, (importer)->op_name, __VA_ARGS__)
#define ITG_ONNX_REFUSE(importer, ...) ITG_ONNX_FAIL(importer, ITG_ERROR_UNSUPPORTED, __VA_ARGS__)

// ---- inputs ----
bool itg_onnx_has_input(const itg_onnx_importer *importer, size_t index); // There and not the empty name.
// The tensor of an input; *out is NULL for an absent optional one. Errors: FORMAT (nobody produces it), UNSUPPORTED.
ITG_MUST_USE itg_status itg_onnx_input(const itg_onnx_importer *importer, size_t index, itg_tensor **out);
// The same, but it must be there.
ITG_MUST_USE itg_status itg_onnx_required(const itg_onnx_importer *importer, size_t index, itg_tensor **out);
// Values of a constant integer tensor; `what` names it in messages. Errors: UNSUPPORTED when it is not constant, LIMIT
// when it has more than `capacity` elements.
ITG_MUST_USE itg_status itg_onnx_constant_ints(const itg_onnx_importer *importer, const itg_tensor *tensor,
                                               const char *what, int64_t *values, size_t capacity, size_t *count);
ITG_MUST_USE itg_status itg_onnx_constant_doubles(const itg_onnx_importer *importer, const itg_tensor *tensor,
                                                  const char *what, double *values, size_t capacity, size_t *count);

// ---- attributes ----
const itg_onnx_attribute *itg_onnx_attribute_find(const itg_onnx_importer *importer, const char *name); // or NULL
ITG_MUST_USE itg_status itg_onnx_get_int(const itg_onnx_importer *importer, const char *name, int64_t otherwise,
                                         int64_t *value);
ITG_MUST_USE itg_status itg_onnx_get_float(const itg_onnx_importer *importer, const char *name, double otherwise,
                                           double *value);
// A string attribute; absent: the empty span.
itg_span itg_onnx_get_string(const itg_onnx_importer *importer, const char *name);
// A list; *count is 0 when it is absent. Errors: LIMIT for more than `capacity`.
ITG_MUST_USE itg_status itg_onnx_get_ints(const itg_onnx_importer *importer, const char *name, int64_t *values,
                                          size_t capacity, size_t *count);
// Integers from the attribute `name` or, when it is absent, the constant input `index`; *present tells whether either
// was there.
ITG_MUST_USE itg_status itg_onnx_get_ints_or_input(const itg_onnx_importer *importer, const char *name, size_t index,
                                                   int64_t *values, size_t capacity, size_t *count, bool *present);
// Normalises an axis that may count from the end. Errors: SHAPE.
ITG_MUST_USE itg_status itg_onnx_axis(const itg_onnx_importer *importer, int64_t axis, int32_t rank, int32_t *out);

// Product of the dimensions [begin, end). Errors: LIMIT.
ITG_MUST_USE itg_status itg_onnx_product(const itg_onnx_importer *importer, const itg_shape *shape, int begin, int end,
                                         int64_t *out);

// ---- building ----
// Emits a node with one output. `part` NULL: the tensor has the name of the ONNX node's first output; otherwise the name
// is "<first output>.<part>". `attributes` may be NULL. `shape` is needed where the builder decides (RESHAPE, ..).
ITG_MUST_USE itg_status itg_onnx_emit(itg_onnx_importer *importer, const char *part, itg_op op,
                                      const itg_attributes *attributes, const itg_shape *shape, int32_t input_count,
                                      itg_tensor *const *inputs, itg_tensor **out);
// The same for output `index` of the ONNX node, one input; not bound yet.
ITG_MUST_USE itg_status itg_onnx_emit_output(itg_onnx_importer *importer, size_t index, itg_op op,
                                             const itg_attributes *attributes, const itg_shape *shape, itg_tensor *x,
                                             itg_tensor **out);
// Emits a node with as many outputs as the ONNX node names, at most `count`, and binds them.
ITG_MUST_USE itg_status itg_onnx_emit_all(itg_onnx_importer *importer, itg_op op, const itg_attributes *attributes,
                                          const itg_shape *shape, int32_t input_count, itg_tensor *const *inputs,
                                          int32_t count);
ITG_MUST_USE itg_status itg_onnx_unary(itg_onnx_importer *importer, const char *part, itg_op op,
                                       const itg_attributes *attributes, itg_tensor *x, itg_tensor **out);
ITG_MUST_USE itg_status itg_onnx_binary(itg_onnx_importer *importer, const char *part, itg_op op, itg_tensor *a,
                                        itg_tensor *b, itg_tensor **out);
// Nothing is emitted when the shape (permutation, type) is already right.
ITG_MUST_USE itg_status itg_onnx_reshape(itg_onnx_importer *importer, const char *part, itg_tensor *x,
                                         const itg_shape *shape, itg_tensor **out);
ITG_MUST_USE itg_status itg_onnx_transpose(itg_onnx_importer *importer, const char *part, itg_tensor *x,
                                           const int32_t *permutation, itg_tensor **out);
ITG_MUST_USE itg_status itg_onnx_cast(itg_onnx_importer *importer, const char *part, itg_tensor *x, itg_dtype to,
                                      itg_tensor **out);
// A constant of one value in the given type, broadcast to `shape` (NULL: scalar).
ITG_MUST_USE itg_status itg_onnx_filled(itg_onnx_importer *importer, const char *part, itg_dtype dtype, double value,
                                        const itg_shape *shape, itg_tensor **out);
// A constant of the graph with zeroed memory of its own (itg_tensor_writable).
ITG_MUST_USE itg_status itg_onnx_zeroed(itg_onnx_importer *importer, const char *part, itg_dtype dtype,
                                        const itg_shape *shape, itg_tensor **out);
ITG_MUST_USE itg_status itg_onnx_ints(itg_onnx_importer *importer, const char *part, const int64_t *values,
                                      size_t count, itg_tensor **out);

// ---- outputs ----
bool itg_onnx_has_output(const itg_onnx_importer *importer, size_t index);
// Binds an output of the current node to a tensor. Errors: FORMAT when the name is taken.
ITG_MUST_USE itg_status itg_onnx_bind(itg_onnx_importer *importer, size_t index, itg_tensor *tensor);
// Binds the first output, and marks the others as not supported.
ITG_MUST_USE itg_status itg_onnx_finish(itg_onnx_importer *importer, itg_tensor *tensor);
// Binds outputs index.. to a marker that fails when they are read.
ITG_MUST_USE itg_status itg_onnx_bind_unusable(itg_onnx_importer *importer, size_t index);

#endif
