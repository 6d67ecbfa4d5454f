// A QDQ model under construction. Private to this folder.
//
// Every quantized tensor T of the LEGAL graph becomes "T/codes" (integers, made by QuantizeLinear) and "T/real" (their real
// values, made by DequantizeLinear). An operation reads and writes real values; movements too, whose Quantize is then exact.
#ifndef ITG_EXPORT_QDQ_H
#define ITG_EXPORT_QDQ_H

#include "export/onnx_writer.h"
#include "graph/graph.h"
#include "graph/integer_ops.h"

typedef struct itg_qdq {
  itg_onnx_writer onnx;
  itg_arena arena; // Names.
  itg_map known;   // Name of a tensor -> name of its real values.
  itg_diagnostic *diagnostic;
  uint64_t next;
  bool failed; // Without memory for a name.
} itg_qdq;

// ---- names; "" only without memory, which ends the export ----

const char *itg_qdq_fresh(itg_qdq *q, const char *base, const char *suffix); // base/suffixN
// The name under which an operation reads a tensor: its real values, or the tensor itself where it has no encoding.
// Constants are written on first use.
const char *itg_qdq_real(itg_qdq *q, const itg_tensor *tensor);

// ---- values ----

double itg_qdq_scale(const itg_tensor *tensor);
int32_t itg_qdq_zero(const itg_tensor *tensor);
const char *itg_qdq_floats(itg_qdq *q, const char *base, int32_t rank, const int64_t *dims, const float *values);
const char *itg_qdq_float(itg_qdq *q, const char *base, double value); // A scalar.
const char *itg_qdq_integers(itg_qdq *q, const char *base, int64_t count, const int64_t *values);
// A dequantized constant: codes s8 or s32 with `count` scales along `axis` (1: one for all).
const char *itg_qdq_weights(itg_qdq *q, const char *base, itg_dtype dtype, const itg_shape *shape, const void *codes,
                            int64_t count, const double *scales, int32_t axis);

// ---- nodes ----

// One node with one fresh output, whose name is returned.
const char *itg_qdq_node(itg_qdq *q, const itg_node *node, const char *type, const char *const *inputs,
                         size_t input_count, itg_onnx_writer_attributes *attributes);
// Rounds real values to the codes of `like` and back: the pair that marks the end of an operation. As it is when `like` has
// no encoding.
const char *itg_qdq_round(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *like);
// The same, into the names of `tensor`. low, high: a clamp inside the range of its codes, done on the rounded values.
void itg_qdq_define(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *tensor, int32_t low,
                    int32_t high);
// The whole range of its codes.
void itg_qdq_define_all(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *tensor);
const char *itg_qdq_transpose(itg_qdq *q, const itg_node *node, const char *real, int32_t rank,
                              const int32_t *permutation, const itg_tensor *like);
// NHWC to NCHW and back, rounded to the codes of `like`.
const char *itg_qdq_channels_first(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *like);
const char *itg_qdq_channels_last(itg_qdq *q, const itg_node *node, const char *real, const itg_tensor *like);

ITG_MUST_USE itg_status itg_qdq_refuse(itg_qdq *q, const itg_node *node, const char *reason);

// One LEGAL node: matrix and element-wise operations (qdq_compute.c), functions and norms (qdq_function.c), movements
// (qdq_move.c). *handled is set false for nodes of the others.
ITG_MUST_USE itg_status itg_qdq_compute(itg_qdq *q, const itg_node *node, bool *handled);
ITG_MUST_USE itg_status itg_qdq_function(itg_qdq *q, const itg_node *node, bool *handled);
ITG_MUST_USE itg_status itg_qdq_move(itg_qdq *q, const itg_node *node, bool *handled);

#endif
