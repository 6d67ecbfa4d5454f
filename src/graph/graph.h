// The one data type of the compiler: a graph of nodes over tensors, in topological order.
//
// A graph owns everything it points to except mapped constants (itg_graph_keep_mapping). One thread at a time while it
// is edited; readers never change it and may share it.
#ifndef ITG_GRAPH_GRAPH_H
#define ITG_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "base/status.h"
#include "graph/attributes.h"
#include "graph/op.h"
#include "tensor/dtype.h"
#include "tensor/encoding.h"

enum {
  ITG_OP_UNARY = 1,
  ITG_OP_BINARY = 2,
  ITG_OP_TERNARY = 4,
  ITG_OP_REDUCES = 8,
  ITG_OP_MOVES = 16,
  ITG_OP_INTEGER = 32,
};

typedef struct itg_op_info {
  itg_op op;
  const char *name;
  int min_inputs, max_inputs; // max -1: any number
  int outputs;
  size_t attribute_size; // Bytes of the attribute struct; 0 for none.
  int flags;
} itg_op_info;

// NULL for a number that is no operation.
const itg_op_info *itg_op_get_info(int op);
const char *itg_op_name(int op); // "?" for an unknown number

typedef enum itg_stage {
  ITG_STAGE_IMPORTED = 0, // Source layout; every op of the float section is allowed.
  ITG_STAGE_CANONICAL,    // Static shapes, NHWC windows, few op kinds.
  ITG_STAGE_ADAPTED,      // Holds nothing the target cannot express; exact in real arithmetic.
  ITG_STAGE_CALIBRATED,   // Statistics known.
  ITG_STAGE_QUANTIZED,    // Every activation of a computing node has an encoding; constants are integers.
  ITG_STAGE_LEGAL,        // Integer dialect only.
} itg_stage;

typedef struct itg_node itg_node;

typedef struct itg_tensor {
  const char *name;             // Unique within the graph, never empty.
  itg_dtype dtype;              // In memory. Quantized activations keep F32 until LEGAL, with `encoding` set.
  itg_shape shape;              // Static.
  const void *data;             // Constants: dense row-major, may be unaligned while mapped (itg_graph_align_constant).
  const itg_encoding *encoding; // NULL: none.
  itg_node *producer;           // NULL for inputs and constants.
  itg_node **users;             // One entry a use (a node that reads it twice appears twice).
  int32_t user_count, user_capacity;
  bool is_input, is_output;
  void *scratch; // Free for the pass that runs; meaningless between passes.
  int64_t index; // Likewise.
} itg_tensor;

struct itg_node {
  itg_op op;
  const char *name;     // Of the source node; may repeat after rewrites ("conv1" split in two).
  itg_tensor **inputs;  // Optional inputs that are absent are NULL.
  itg_tensor **outputs; // Optional outputs that are absent are NULL.
  int32_t input_count, output_count;
  itg_attributes attributes; // The member named in ops.def.
  itg_node *next, *previous; // Topological order.
  void *scratch;
  int64_t index;
};

typedef struct itg_graph {
  itg_arena arena;
  itg_stage stage;
  const char *name;
  itg_node *first, *last;
  int64_t node_count;
  itg_tensor **tensors; // All, in order of creation; removed ones are NULL.
  size_t tensor_count, tensor_capacity;
  itg_tensor **inputs, **outputs; // In the source's order.
  int32_t input_count, output_count;
  itg_map by_name;
  itg_mapped_file *mappings; // Closed with the graph.
  int32_t mapping_count;
  uint64_t next_id;            // For fresh names.
  const char *source_metadata; // JSON object of the source file's free texts, or NULL.
} itg_graph;

ITG_MUST_USE itg_status itg_graph_create(itg_diagnostic *diagnostic, itg_graph **out);
void itg_graph_destroy(itg_graph *graph); // NULL is allowed.
// A deep copy that shares mapped constants (they are borrowed: the source must outlive the copy).
ITG_MUST_USE itg_status itg_graph_clone(const itg_graph *graph, itg_diagnostic *diagnostic, itg_graph **out);
// Hands a mapping over; it is closed by itg_graph_destroy.
ITG_MUST_USE itg_status itg_graph_keep_mapping(itg_graph *graph, itg_mapped_file file, itg_diagnostic *diagnostic);
// Gives the pages of its mappings back to the system; they are read again when they are needed.
void itg_graph_release_pages(const itg_graph *graph);

// ---- building and editing; all keep users and producers right. Pointers are NULL only without memory. ----

// A tensor with a copy of `name`. When the name is NULL, empty or taken, a fresh one is made from it.
itg_tensor *itg_graph_add_tensor(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape);
// A constant whose data is copied into the arena (data NULL: zeroed; write through itg_tensor_writable).
itg_tensor *itg_graph_add_constant(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape,
                                   const void *data);
// A constant that borrows `data` (mapped file or another graph's).
itg_tensor *itg_graph_add_borrowed(itg_graph *graph, const char *name, itg_dtype dtype, const itg_shape *shape,
                                   const void *data);
// The arena memory of a constant made by itg_graph_add_constant.
static inline void *itg_tensor_writable(itg_tensor *tensor) { return (void *)tensor->data; }
// Copies a constant into the arena when its data is not aligned to its element size; afterwards data is aligned.
ITG_MUST_USE itg_status itg_graph_align_constant(itg_graph *graph, itg_tensor *tensor, itg_diagnostic *diagnostic);
itg_tensor *itg_graph_find(const itg_graph *graph, const char *name); // NULL when there is none.

// Appends (before == NULL) or inserts a node. `inputs` entries may be NULL (absent). Outputs must have no producer yet.
// Attributes start zeroed.
itg_node *itg_graph_insert_node(itg_graph *graph, itg_node *before, itg_op op, const char *name,
                                itg_tensor *const *inputs, int32_t input_count, itg_tensor *const *outputs,
                                int32_t output_count);
// Unlinks a node; its outputs keep existing without a producer.
void itg_graph_remove_node(itg_graph *graph, itg_node *node);
// Changes one input (tensor may be NULL). False without memory.
bool itg_node_set_input(itg_node *node, int32_t index, itg_tensor *tensor);
// Changes one output: the old tensor loses its producer, the new one must have none.
void itg_node_set_output(itg_node *node, int32_t index, itg_tensor *tensor);
// Grows or shrinks the input list; new entries are NULL.
bool itg_node_resize_inputs(itg_graph *graph, itg_node *node, int32_t count);
// All readers of `old` read `replacement` instead; if `old` is a graph output, `replacement` takes its place there
// (the name stays the output's: names are swapped). False without memory.
bool itg_graph_replace_uses(itg_graph *graph, itg_tensor *old, itg_tensor *replacement);
bool itg_graph_add_input(itg_graph *graph, itg_tensor *tensor);
bool itg_graph_add_output(itg_graph *graph, itg_tensor *tensor);
// Removes nodes whose outputs nobody needs and tensors nobody touches.
void itg_graph_sweep(itg_graph *graph);
// Sorts the nodes topologically (stable); ITG_ERROR_FORMAT when there is a cycle.
ITG_MUST_USE itg_status itg_graph_sort(itg_graph *graph, itg_diagnostic *diagnostic);

static inline bool itg_tensor_is_constant(const itg_tensor *tensor) { return tensor && tensor->data != NULL; }
// True for a graph input that an attention node reads as a cache: whoever runs the graph keeps it from run to run, and the
// node writes it.
bool itg_tensor_is_state(const itg_tensor *tensor);
// The single reader of a tensor that is not a graph output, or NULL.
static inline itg_node *itg_tensor_only_user(const itg_tensor *tensor) {
  return tensor->user_count == 1 && !tensor->is_output ? tensor->users[0] : NULL;
}
static inline itg_tensor *itg_node_input(const itg_node *node, int32_t index) {
  return index < node->input_count ? node->inputs[index] : NULL;
}
#define ITG_FOR_EACH_NODE(node, graph) for (itg_node *node = (graph)->first; node; node = node->next)
// Safe when the loop body removes `node`.
#define ITG_FOR_EACH_NODE_SAFE(node, following, graph)                               \
  for (itg_node *node = (graph)->first, *following = node ? node->next : NULL; node; \
       node = following, following = node ? node->next : NULL)

#endif
