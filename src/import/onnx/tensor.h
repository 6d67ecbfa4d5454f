// TensorProto (onnx.proto): header, and the values from raw data, typed fields or external files.
#ifndef ITG_IMPORT_ONNX_TENSOR_H
#define ITG_IMPORT_ONNX_TENSOR_H

#include "import/onnx/wire.h"
#include "tensor/dtype.h"

// What a TensorProto says, without its values. Spans point into the message.
typedef struct itg_onnx_tensor {
  itg_span message, name;
  itg_dtype dtype;
  bool unsigned_nibbles; // UINT4: expanded to u8.
  itg_shape shape;
  size_t count, bytes; // Elements; bytes of the dense values.
  itg_span raw;        // raw_data, when has_raw.
  bool has_raw, is_external;
  itg_span location;       // External data: relative path,
  uint64_t offset, length; // and place within the file; length 0 when not given.
} itg_onnx_tensor;

// The itg_dtype of a TensorProto.DataType; ITG_DTYPE_NONE when there is none (strings, complex, 8-bit floats).
itg_dtype itg_onnx_dtype(uint64_t data_type);
const char *itg_onnx_dtype_name(uint64_t data_type);

// Reads the header. Errors: FORMAT, UNSUPPORTED (element type, rank), LIMIT. The name is set even when the element type is
// not supported; `out` must start as zeroes.
ITG_MUST_USE itg_status itg_onnx_tensor_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                              itg_onnx_tensor *out);
// Whether the values can be used in place (raw data in our own representation). Then `raw` holds exactly `bytes` bytes.
bool itg_onnx_tensor_is_plain(const itg_onnx_tensor *tensor);
// Writes the dense values of an inline tensor (not external) to `out` (tensor->bytes). Errors: FORMAT.
ITG_MUST_USE itg_status itg_onnx_tensor_read(const itg_onnx_tensor *tensor, itg_diagnostic *diagnostic, void *out);
// Resolves external data below `folder`: absolute paths, "..", and links that lead outside are refused.
// On success `path` holds the file's real path (free with free()). Errors: IO, FORMAT, UNSUPPORTED, MEMORY.
ITG_MUST_USE itg_status itg_onnx_tensor_locate(const itg_onnx_tensor *tensor, const char *folder,
                                               itg_diagnostic *diagnostic, char **path);
// Bytes of an external tensor within its mapped file. Errors: FORMAT.
ITG_MUST_USE itg_status itg_onnx_tensor_cut(const itg_onnx_tensor *tensor, itg_span file, itg_diagnostic *diagnostic,
                                            itg_span *out);

#endif
