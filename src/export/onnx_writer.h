// Writes an ONNX model (onnx.proto3, IR version 10): inputs, outputs, constants and nodes in the order they are added.
//
// Errors are sticky: without memory everything else does nothing and itg_onnx_writer_finish says so. One thread at a time.
#ifndef ITG_EXPORT_ONNX_WRITER_H
#define ITG_EXPORT_ONNX_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "intaglio/intaglio.h"

typedef struct itg_onnx_writer_bytes { // A protobuf message under construction; starts as zeroes.
  uint8_t *data;                       // malloc'ed
  size_t size, capacity;
  bool failed;
} itg_onnx_writer_bytes;

typedef struct itg_onnx_writer { // Starts as zeroes.
  itg_onnx_writer_bytes graph;
} itg_onnx_writer;

// TensorProto.DataType of an element type; 0 for those that ONNX lacks.
int itg_onnx_writer_type(itg_dtype dtype);

void itg_onnx_writer_input(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape);
void itg_onnx_writer_output(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape);
// The type of a value in between, where a node's own rules do not say it (EPContext).
void itg_onnx_writer_value(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape);
// Dense little-endian data of the shape.
void itg_onnx_writer_constant(itg_onnx_writer *model, const char *name, itg_dtype dtype, const itg_shape *shape,
                              const void *data, size_t bytes);

// Scale (a float) and zero point (of the codes' type, u8 s8 u16 s16) of QuantizeLinear and DequantizeLinear, as two scalars.
void itg_onnx_writer_encoding(itg_onnx_writer *model, const char *scale_name, const char *zero_name, itg_dtype dtype,
                              double scale, int32_t zero_point);

// Attributes of the node that is added next; a node empties them.
typedef struct itg_onnx_writer_attributes {
  itg_onnx_writer_bytes bytes;
} itg_onnx_writer_attributes;
void itg_onnx_writer_set_integer(itg_onnx_writer_attributes *attributes, const char *name, int64_t value);
void itg_onnx_writer_set_integers(itg_onnx_writer_attributes *attributes, const char *name, int count,
                                  const int64_t *values);
void itg_onnx_writer_set_float(itg_onnx_writer_attributes *attributes, const char *name, float value);
void itg_onnx_writer_set_string(itg_onnx_writer_attributes *attributes, const char *name, const void *text,
                                size_t size);

// domain NULL: ONNX's own. inputs[i] may be "" (absent). attributes may be NULL.
void itg_onnx_writer_node(itg_onnx_writer *model, const char *type, const char *domain, const char *name,
                          const char *const *inputs, size_t input_count, const char *const *outputs,
                          size_t output_count, itg_onnx_writer_attributes *attributes);

// Writes the file whole or not at all, and frees. `opset` of ONNX's own domain; com.microsoft is version 1.
// Errors: MEMORY, LIMIT (a protobuf message holds less than 2 GiB), IO.
ITG_MUST_USE itg_status itg_onnx_writer_finish(itg_onnx_writer *model, int opset, const char *path,
                                               itg_diagnostic *diagnostic);
void itg_onnx_writer_discard(itg_onnx_writer *model);

#endif
