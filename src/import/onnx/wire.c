// See wire.h.
#include "import/onnx/wire.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_VARINT_BYTES = 10 };

ITG_PRINTF(3, 4)
static itg_status fail_at(const itg_wire *wire, itg_diagnostic *diagnostic, const char *format, ...) {
  char subject[48] = "", text[200];
  if (wire->file) snprintf(subject, sizeof subject, "byte %llu", (unsigned long long)(wire->at - wire->file));
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, subject, "%s; is this an ONNX file, and is it complete?", text);
}

bool itg_wire_take_varint(itg_span *bytes, uint64_t *value) {
  uint64_t result = 0;
  for (size_t i = 0; i < bytes->size && i < MAX_VARINT_BYTES; i++) {
    const uint8_t byte = bytes->data[i];
    if (i == MAX_VARINT_BYTES - 1 && byte > 1) return false; // More than 64 bits.
    result |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (!(byte & 0x80)) {
      bytes->data += i + 1;
      bytes->size -= i + 1;
      *value = result;
      return true;
    }
  }
  return false;
}

static itg_status take_varint(itg_wire *wire, const char *what, itg_diagnostic *diagnostic, uint64_t *value) {
  itg_span rest = {wire->at, (size_t)(wire->end - wire->at)};
  if (!itg_wire_take_varint(&rest, value)) return fail_at(wire, diagnostic, "a %s is cut short or too long", what);
  wire->at = rest.data;
  return ITG_OK;
}

static itg_status take_fixed(itg_wire *wire, size_t size, itg_diagnostic *diagnostic, uint64_t *value) {
  if ((size_t)(wire->end - wire->at) < size) return fail_at(wire, diagnostic, "a value is cut short");
  *value = 0;
  for (size_t i = 0; i < size; i++) *value |= (uint64_t)wire->at[i] << (8 * i);
  wire->at += size;
  return ITG_OK;
}

itg_status itg_wire_next(itg_wire *wire, itg_diagnostic *diagnostic, itg_wire_field *field, bool *more) {
  *more = wire->at < wire->end;
  if (!*more) return ITG_OK;
  uint64_t key, length;
  ITG_TRY(take_varint(wire, "field key", diagnostic, &key));
  *field = (itg_wire_field){.number = (uint32_t)(key >> 3), .type = (itg_wire_type)(key & 7)};
  if (key >> 3 == 0 || key >> 32) return fail_at(wire, diagnostic, "a field has an impossible number");
  switch (field->type) {
  case ITG_WIRE_VARINT: return take_varint(wire, "number", diagnostic, &field->value);
  case ITG_WIRE_FIXED64: return take_fixed(wire, 8, diagnostic, &field->value);
  case ITG_WIRE_FIXED32: return take_fixed(wire, 4, diagnostic, &field->value);
  case ITG_WIRE_BYTES: break;
  default: return fail_at(wire, diagnostic, "field %u has an unknown wire type", (unsigned)field->number);
  }
  ITG_TRY(take_varint(wire, "length", diagnostic, &length));
  if (length > (uint64_t)(wire->end - wire->at))
    return fail_at(wire, diagnostic, "field %u claims %llu bytes where %llu are left", (unsigned)field->number,
                   (unsigned long long)length, (unsigned long long)(wire->end - wire->at));
  field->bytes = (itg_span){wire->at, (size_t)length};
  wire->at += length;
  return ITG_OK;
}

itg_status itg_wire_expect(const itg_wire *wire, const itg_wire_field *field, itg_wire_type type, const char *what,
                           itg_diagnostic *diagnostic) {
  if (field->type != type) return fail_at(wire, diagnostic, "the %s has the wrong wire type", what);
  return ITG_OK;
}
