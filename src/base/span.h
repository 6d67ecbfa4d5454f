// A bounded view of bytes from an untrusted source.
#ifndef ITG_BASE_SPAN_H
#define ITG_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct itg_span {
  const uint8_t *data;
  size_t size;
} itg_span;

// Cuts [offset, offset + size) out of `span`; false when it does not lie inside.
static inline bool itg_span_cut(itg_span span, uint64_t offset, uint64_t size, itg_span *out) {
  if (offset > span.size || size > span.size - offset) return false;
  *out = (itg_span){span.data + offset, (size_t)size};
  return true;
}
static inline bool itg_span_equals(itg_span span, const char *text) {
  const size_t length = strlen(text);
  return span.size == length && (length == 0 || memcmp(span.data, text, length) == 0);
}

#endif
