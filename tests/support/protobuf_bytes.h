// The wire format of protobuf for tests that write ONNX files: messages are byte buffers, fields are appended in any order.
#ifndef ITG_TESTS_SUPPORT_PROTOBUF_BYTES_H
#define ITG_TESTS_SUPPORT_PROTOBUF_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct onnx_bytes {
  uint8_t *data;
  size_t size, capacity;
} onnx_bytes;

static inline void onnx_put(onnx_bytes *out, const void *data, size_t size) {
  if (out->size + size > out->capacity) {
    out->capacity = (out->size + size) * 2 + 64;
    out->data = realloc(out->data, out->capacity);
    if (!out->data) abort();
  }
  if (size) memcpy(out->data + out->size, data, size);
  out->size += size;
}
static inline void onnx_varint(onnx_bytes *out, uint64_t value) {
  do {
    const uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    onnx_put(out, &byte, 1);
    value >>= 7;
  } while (value);
}
static inline void onnx_int(onnx_bytes *out, uint32_t field, int64_t value) {
  onnx_varint(out, (uint64_t)field << 3);
  onnx_varint(out, (uint64_t)value);
}
static inline void onnx_fixed32(onnx_bytes *out, uint32_t field, const void *value) {
  onnx_varint(out, (uint64_t)field << 3 | 5);
  onnx_put(out, value, 4);
}
static inline void onnx_blob(onnx_bytes *out, uint32_t field, const void *data, size_t size) {
  onnx_varint(out, (uint64_t)field << 3 | 2);
  onnx_varint(out, size);
  onnx_put(out, data, size);
}
static inline void onnx_text(onnx_bytes *out, uint32_t field, const char *text) {
  onnx_blob(out, field, text, strlen(text));
}
// Appends a message and frees it.
static inline void onnx_message(onnx_bytes *out, uint32_t field, onnx_bytes message) {
  onnx_blob(out, field, message.data, message.size);
  free(message.data);
}

#endif
