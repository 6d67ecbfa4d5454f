// See tensor.h. Field numbers from onnx.proto, message TensorProto.
#include "import/onnx/tensor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  DIMS = 1,
  DATA_TYPE = 2,
  SEGMENT = 3,
  FLOAT_DATA = 4,
  INT32_DATA = 5,
  STRING_DATA = 6,
  INT64_DATA = 7,
  NAME = 8
};
enum { RAW_DATA = 9, DOUBLE_DATA = 10, UINT64_DATA = 11, EXTERNAL_DATA = 13, DATA_LOCATION = 14 };
enum { UINT4 = 21, INT4 = 22 };

static const struct {
  const char *name;
  itg_dtype dtype;
} data_types[] = {
    {"undefined", ITG_DTYPE_NONE},
    {"float", ITG_DTYPE_F32},
    {"uint8", ITG_DTYPE_U8},
    {"int8", ITG_DTYPE_S8},
    {"uint16", ITG_DTYPE_U16},
    {"int16", ITG_DTYPE_S16},
    {"int32", ITG_DTYPE_S32},
    {"int64", ITG_DTYPE_S64},
    {"string", ITG_DTYPE_NONE},
    {"bool", ITG_DTYPE_BOOL},
    {"float16", ITG_DTYPE_F16},
    {"double", ITG_DTYPE_F64},
    {"uint32", ITG_DTYPE_U32},
    {"uint64", ITG_DTYPE_U64},
    {"complex64", ITG_DTYPE_NONE},
    {"complex128", ITG_DTYPE_NONE},
    {"bfloat16", ITG_DTYPE_BF16},
    {"float8e4m3fn", ITG_DTYPE_NONE},
    {"float8e4m3fnuz", ITG_DTYPE_NONE},
    {"float8e5m2", ITG_DTYPE_NONE},
    {"float8e5m2fnuz", ITG_DTYPE_NONE},
    {"uint4", ITG_DTYPE_U8},
    {"int4", ITG_DTYPE_S4},
    {"float4e2m1", ITG_DTYPE_NONE},
};

itg_dtype itg_onnx_dtype(uint64_t data_type) {
  return data_type < sizeof data_types / sizeof data_types[0] ? data_types[data_type].dtype : ITG_DTYPE_NONE;
}

const char *itg_onnx_dtype_name(uint64_t data_type) {
  return data_type < sizeof data_types / sizeof data_types[0] ? data_types[data_type].name : "unknown";
}

static bool copy_text(itg_span span, char *text, size_t size) {
  if (span.size >= size || (span.size && memchr(span.data, 0, span.size))) return false;
  if (span.size) memcpy(text, span.data, span.size);
  text[span.size] = 0;
  return true;
}

// The tensor's name for messages, cut where it is long.
static const char *name_of(const itg_onnx_tensor *tensor, char text[128]) {
  itg_span name = tensor->name;
  if (name.size > 127) name.size = 127;
  return copy_text(name, text, 128) ? text : "?";
}

static itg_status add_dim(itg_onnx_tensor *tensor, uint64_t value, itg_diagnostic *diagnostic) {
  if (tensor->shape.rank == ITG_MAX_RANK)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tensor", "a tensor has more than %d dimensions", ITG_MAX_RANK);
  if (value > INT64_MAX) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tensor", "a tensor has a negative dimension");
  tensor->shape.dims[tensor->shape.rank++] = (int64_t)value;
  return ITG_OK;
}

static itg_status read_dims(itg_onnx_tensor *tensor, const itg_wire *wire, const itg_wire_field *field,
                            itg_diagnostic *diagnostic) {
  if (field->type == ITG_WIRE_VARINT) return add_dim(tensor, field->value, diagnostic);
  ITG_TRY(itg_wire_expect(wire, field, ITG_WIRE_BYTES, "tensor's shape", diagnostic));
  for (itg_span packed = field->bytes; packed.size;) {
    uint64_t value;
    if (!itg_wire_take_varint(&packed, &value))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tensor", "the shape of a tensor is cut short");
    ITG_TRY(add_dim(tensor, value, diagnostic));
  }
  return ITG_OK;
}

static bool parse_number(itg_span span, uint64_t *value) {
  char text[32], *end;
  if (!copy_text(span, text, sizeof text) || text[0] < '0' || text[0] > '9') return false;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return errno == 0 && *end == 0;
}

static itg_status read_external_entry(itg_onnx_tensor *tensor, itg_span entry, const uint8_t *file,
                                      itg_diagnostic *diagnostic) {
  itg_wire wire = itg_wire_open(entry, file);
  itg_wire_field field;
  itg_span key = {0}, value = {0};
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    if (field.number > 2) continue;
    ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "external data entry", diagnostic));
    *(field.number == 1 ? &key : &value) = field.bytes;
  }
  bool valid = true;
  if (itg_span_equals(key, "location")) tensor->location = value;
  if (itg_span_equals(key, "offset")) valid = parse_number(value, &tensor->offset);
  if (itg_span_equals(key, "length")) valid = parse_number(value, &tensor->length);
  char text[128];
  if (!valid)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text), "offset or length of external data is no number");
  return ITG_OK;
}

static itg_status check_header(itg_onnx_tensor *tensor, uint64_t data_type, itg_diagnostic *diagnostic) {
  char text[128];
  tensor->dtype = itg_onnx_dtype(data_type);
  tensor->unsigned_nibbles = data_type == UINT4;
  if (tensor->dtype == ITG_DTYPE_NONE)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, name_of(tensor, text), "tensors of type %s are not supported",
             itg_onnx_dtype_name(data_type));
  if (!itg_shape_count(&tensor->shape, &tensor->count) ||
      !itg_shape_bytes(&tensor->shape, tensor->dtype, &tensor->bytes) || tensor->count > (size_t)1 << 40)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, name_of(tensor, text), "the tensor has more than 2^40 elements");
  const size_t stored = tensor->unsigned_nibbles ? tensor->count / 2 + tensor->count % 2 : tensor->bytes;
  if (tensor->has_raw && !tensor->is_external && tensor->raw.size != stored)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text), "the tensor needs %llu bytes, but holds %llu",
             (unsigned long long)stored, (unsigned long long)tensor->raw.size);
  return ITG_OK;
}

itg_status itg_onnx_tensor_parse(itg_span message, const uint8_t *file, itg_diagnostic *diagnostic,
                                 itg_onnx_tensor *out) {
  itg_onnx_tensor tensor = {.message = message};
  itg_wire wire = itg_wire_open(message, file);
  itg_wire_field field;
  uint64_t data_type = 0;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    switch (field.number) {
    case DIMS: ITG_TRY(read_dims(&tensor, &wire, &field, diagnostic)); break;
    case DATA_TYPE:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "tensor's type", diagnostic));
      data_type = field.value;
      break;
    case SEGMENT: ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, "tensor", "segmented tensors are not supported");
    case NAME:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "tensor's name", diagnostic));
      tensor.name = field.bytes;
      break;
    case RAW_DATA:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "raw data", diagnostic));
      tensor.raw = field.bytes;
      tensor.has_raw = true;
      break;
    case EXTERNAL_DATA:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_BYTES, "external data entry", diagnostic));
      ITG_TRY(read_external_entry(&tensor, field.bytes, file, diagnostic));
      break;
    case DATA_LOCATION:
      ITG_TRY(itg_wire_expect(&wire, &field, ITG_WIRE_VARINT, "data location", diagnostic));
      tensor.is_external = field.value == 1;
      break;
    default: break;
    }
  }
  const itg_status status = check_header(&tensor, data_type, diagnostic);
  *out = tensor;
  return status;
}

bool itg_onnx_tensor_is_plain(const itg_onnx_tensor *tensor) {
  return tensor->has_raw && !tensor->is_external && !tensor->unsigned_nibbles && tensor->dtype != ITG_DTYPE_BOOL;
}

static void expand_nibbles(const uint8_t *packed, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; i++) out[i] = packed[i / 2] >> (i % 2 * 4) & 15;
}

// The typed field that holds values of a type, and how wide an element is on the wire (0: varint).
static uint32_t typed_field(itg_dtype dtype, size_t *width) {
  *width = 0;
  switch (dtype) {
  case ITG_DTYPE_F32: return *width = 4, FLOAT_DATA;
  case ITG_DTYPE_F64: return *width = 8, DOUBLE_DATA;
  case ITG_DTYPE_S64: return INT64_DATA;
  case ITG_DTYPE_U32:
  case ITG_DTYPE_U64: return UINT64_DATA;
  default: return INT32_DATA; // Halves as bit patterns, bool, the small integers, packed nibbles.
  }
}

// Receives the elements of a typed field, one by one.
typedef struct sink {
  uint8_t *out;
  size_t written, capacity, size; // In stored elements of `size` bytes.
} sink;

static bool put(sink *target, uint64_t value) {
  if (target->written == target->capacity) return false;
  for (size_t i = 0; i < target->size; i++) // Little-endian, as everything else in the graph.
    target->out[target->written * target->size + i] = (uint8_t)(value >> (8 * i));
  target->written++;
  return true;
}

static bool put_packed(sink *target, itg_span packed, size_t width) {
  if (width && packed.size % width != 0) return false;
  while (packed.size) {
    uint64_t value = 0;
    if (width) {
      for (size_t i = 0; i < width; i++) value |= (uint64_t)packed.data[i] << (8 * i);
      packed.data += width;
      packed.size -= width;
    } else if (!itg_wire_take_varint(&packed, &value)) {
      return false;
    }
    if (!put(target, value)) return false;
  }
  return true;
}

static itg_status read_typed(const itg_onnx_tensor *tensor, itg_diagnostic *diagnostic, uint8_t *out, size_t capacity,
                             size_t size) {
  char text[128];
  size_t width;
  const uint32_t number = typed_field(tensor->dtype, &width);
  sink target = {out, 0, capacity, size};
  itg_wire wire = itg_wire_open(tensor->message, NULL);
  itg_wire_field field;
  for (bool more;;) {
    ITG_TRY(itg_wire_next(&wire, diagnostic, &field, &more));
    if (!more) break;
    if (field.number != number) continue;
    const bool fits =
        field.type == ITG_WIRE_BYTES ? put_packed(&target, field.bytes, width) : put(&target, field.value);
    if (!fits)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text), "the tensor's values do not fit its shape");
  }
  if (target.written != capacity)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text), "the tensor needs %llu values, but holds %llu",
             (unsigned long long)capacity, (unsigned long long)target.written);
  return ITG_OK;
}

itg_status itg_onnx_tensor_read(const itg_onnx_tensor *tensor, itg_diagnostic *diagnostic, void *out) {
  const bool nibbles = tensor->dtype == ITG_DTYPE_S4 || tensor->unsigned_nibbles;
  const size_t stored = nibbles ? tensor->count / 2 + tensor->count % 2 : tensor->count;
  const size_t size = nibbles ? 1 : itg_dtype_size(tensor->dtype);
  uint8_t *bytes = out;
  if (!tensor->has_raw && tensor->unsigned_nibbles) { // Packed into the second half, then expanded from there.
    uint8_t *packed = bytes + (tensor->count - stored);
    ITG_TRY(read_typed(tensor, diagnostic, packed, stored, size));
    for (size_t i = 0; i < tensor->count; i++) bytes[i] = packed[i / 2] >> (i % 2 * 4) & 15;
  } else if (!tensor->has_raw) {
    ITG_TRY(read_typed(tensor, diagnostic, bytes, stored, size));
  } else if (tensor->unsigned_nibbles) {
    expand_nibbles(tensor->raw.data, tensor->count, bytes);
  } else if (tensor->bytes) {
    memcpy(bytes, tensor->raw.data, tensor->bytes);
  }
  if (tensor->dtype == ITG_DTYPE_BOOL) {
    for (size_t i = 0; i < tensor->count; i++) bytes[i] = bytes[i] != 0;
  }
  return ITG_OK;
}

static bool stays_below(const char *path) {
  if (path[0] == '/' || path[0] == 0 || strchr(path, '\\')) return false;
  for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
    if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0)) return false;
  }
  return true;
}

itg_status itg_onnx_tensor_locate(const itg_onnx_tensor *tensor, const char *folder, itg_diagnostic *diagnostic,
                                  char **path) {
  char text[128], relative[PATH_MAX], joined[2 * PATH_MAX];
  if (!folder)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, name_of(tensor, text),
             "external data needs the model's folder; open the model as a file");
  if (!copy_text(tensor->location, relative, sizeof relative) || !stays_below(relative))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text),
             "the location of external data must be a relative path below the model's folder");
  const int length = snprintf(joined, sizeof joined, "%s/%s", folder, relative);
  if (length < 0 || (size_t)length >= sizeof joined)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, name_of(tensor, text), "the path of external data is too long");
  char *root = realpath(folder, NULL), *real = realpath(joined, NULL);
  const int error = errno;
  const size_t prefix = root ? strlen(root) : 0;
  const bool inside = root && real && strncmp(real, root, prefix) == 0 && (real[prefix] == '/' || prefix == 1);
  free(root);
  if (!real) {
    ITG_FAIL(diagnostic, ITG_ERROR_IO, joined, "cannot open external data: %s; keep it beside the model",
             strerror(error));
  }
  if (!inside) {
    free(real);
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text), "external data %s lies outside the model's folder",
             relative);
  }
  *path = real;
  return ITG_OK;
}

itg_status itg_onnx_tensor_cut(const itg_onnx_tensor *tensor, itg_span file, itg_diagnostic *diagnostic,
                               itg_span *out) {
  char text[128];
  const size_t stored = tensor->unsigned_nibbles ? tensor->count / 2 + tensor->count % 2 : tensor->bytes;
  if (tensor->length && tensor->length != stored)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text),
             "the tensor needs %llu bytes, its external data holds %llu", (unsigned long long)stored,
             (unsigned long long)tensor->length);
  if (stored == 0) { // Also of an empty file, which has no address.
    *out = (itg_span){tensor->message.data, 0};
    return ITG_OK;
  }
  if (!itg_span_cut(file, tensor->offset, stored, out))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, name_of(tensor, text),
             "external data ends after %llu bytes, but %llu at %llu are needed", (unsigned long long)file.size,
             (unsigned long long)stored, (unsigned long long)tensor->offset);
  return ITG_OK;
}
