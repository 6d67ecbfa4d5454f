// A bounded reader of the protocol-buffer wire format (protobuf.dev/programming-guides/encoding): keys, varints of at most
// ten bytes, fixed-width values and length-delimited fields. It touches only what it is asked for, so that a mapped file
// of any size costs no memory. Groups (obsolete) are refused.
#ifndef ITG_IMPORT_ONNX_WIRE_H
#define ITG_IMPORT_ONNX_WIRE_H

#include "base/span.h"
#include "base/status.h"

typedef enum itg_wire_type {
  ITG_WIRE_VARINT = 0,
  ITG_WIRE_FIXED64 = 1,
  ITG_WIRE_BYTES = 2,
  ITG_WIRE_FIXED32 = 5,
} itg_wire_type;

typedef struct itg_wire_field {
  uint32_t number;
  itg_wire_type type;
  uint64_t value; // VARINT, FIXED64, FIXED32
  itg_span bytes; // BYTES: inside the message.
} itg_wire_field;

// A cursor over one message. Plain data.
typedef struct itg_wire {
  const uint8_t *at, *end;
  const uint8_t *file; // Start of the whole file, for "byte N" in messages; NULL: not known.
} itg_wire;

static inline itg_wire itg_wire_open(itg_span message, const uint8_t *file) {
  return (itg_wire){message.data, message.size ? message.data + message.size : message.data, file};
}

// Reads the next field; *more is false at the end of the message. Errors: FORMAT with subject "byte N".
ITG_MUST_USE itg_status itg_wire_next(itg_wire *wire, itg_diagnostic *diagnostic, itg_wire_field *field, bool *more);
// Fails unless the field has the type; `what` names it.
ITG_MUST_USE itg_status itg_wire_expect(const itg_wire *wire, const itg_wire_field *field, itg_wire_type type,
                                        const char *what, itg_diagnostic *diagnostic);
// Takes one varint off the front of `bytes` (an element of a packed field); false when it is cut short or too long.
bool itg_wire_take_varint(itg_span *bytes, uint64_t *value);

#endif
