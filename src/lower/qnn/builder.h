// A QNN graph under construction from a LEGAL integer graph: tensors and nodes of the vendor's interface.
#ifndef ITG_LOWER_QNN_BUILDER_H
#define ITG_LOWER_QNN_BUILDER_H

#include "graph/graph.h"
#include "lower/qnn/partition.h"
#include "npu/qnn/library.h"

// One thread at a time.
typedef struct itg_qnn_builder {
  const itg_qnn_library *library;
  const itg_target *target;
  const itg_graph *source;
  itg_qnn_handle graph;
  itg_diagnostic *diagnostic;
  itg_arena arena;                    // Tensors and names.
  itg_arena scratch;                  // Data that the vendor copies; freed after each node.
  itg_map tensors;                    // Name of a source tensor -> itg_qnn_tensor.
  const itg_qnn_partition *partition; // NULL while surveying.
  itg_map inputs, outputs;            // Names of the activations that cross the partition\'s border.
  uint64_t next_id;                   // For names of helper tensors.
  size_t op_count;
  bool is_survey; // The validator is asked, nothing is built.
} itg_qnn_builder;

// ---- tensors; NULL only without memory or after a refusal (then *status says so) ----

// The QNN tensor of an activation, made on first use: what enters the partition is APP_WRITE, what leaves it APP_READ, others
// are NATIVE. A constant becomes STATIC.
ITG_MUST_USE itg_status itg_qnn_activation(itg_qnn_builder *b, const itg_tensor *tensor, itg_qnn_tensor *out);
// A helper activation of another shape (NULL dims: the tensor's own) with the tensor's encoding.
ITG_MUST_USE itg_status itg_qnn_helper(itg_qnn_builder *b, const itg_tensor *like, uint32_t type, double scale,
                                       int32_t zero_point, uint32_t rank, const uint32_t *dims, itg_qnn_tensor *out);
// A constant; `data` is copied by the vendor's library. scales NULL: not quantized. count 1: per tensor, else along `axis`.
ITG_MUST_USE itg_status itg_qnn_constant(itg_qnn_builder *b, uint32_t type, uint32_t rank, const uint32_t *dims,
                                         const void *data, size_t bytes, int32_t axis, int64_t count,
                                         const double *scales, int32_t zero_point, itg_qnn_tensor *out);
// QNN's data type of a code; 0 for types it has not.
uint32_t itg_qnn_type_of(itg_dtype dtype);

// ---- parameters of the node that is added next ----

typedef struct itg_qnn_parameters {
  itg_qnn_parameter items[8];
  uint32_t count;
} itg_qnn_parameters;
void itg_qnn_set_u32(itg_qnn_parameters *p, const char *name, uint32_t value);
void itg_qnn_set_s32(itg_qnn_parameters *p, const char *name, int32_t value);
void itg_qnn_set_f32(itg_qnn_parameters *p, const char *name, float value);
void itg_qnn_set_bool(itg_qnn_parameters *p, const char *name, bool value);
// An array of u32 (or s32) values, [rows, columns] when columns > 0 else [rows].
ITG_MUST_USE itg_status itg_qnn_set_array(itg_qnn_builder *b, itg_qnn_parameters *p, const char *name, uint32_t type,
                                          uint32_t rows, uint32_t columns, const uint32_t *values);

// Asks the vendor's validator, then adds the node. UNSUPPORTED with the validator's words, the node and the target.
ITG_MUST_USE itg_status itg_qnn_add(itg_qnn_builder *b, const itg_node *node, const char *type,
                                    itg_qnn_parameters *parameters, itg_qnn_tensor *inputs, uint32_t input_count,
                                    itg_qnn_tensor *output);

// Lowers one LEGAL node (operations.c). UNSUPPORTED names node and rule.
ITG_MUST_USE itg_status itg_qnn_lower_node(itg_qnn_builder *b, const itg_node *node);

#endif
