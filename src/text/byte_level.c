// Byte-level spelling (Radford et al. 2019, GPT-2): printable Latin-1 characters spell themselves, the other 68 bytes
// the characters from U+0100 on, in order.
#include "text/normalizer.h"

static bool printable(uint32_t byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

// Of the bytes that do not spell themselves, the number below `byte`.
static uint32_t index_of(uint32_t byte) {
  if (byte < 33) return byte;
  return byte < 161 ? byte - 127 + 33 : 67;
}

uint32_t itg_byte_level_character(uint8_t byte) { return printable(byte) ? byte : 256 + index_of(byte); }

int itg_byte_level_byte(uint32_t code) {
  if (code < 256) return printable(code) ? (int)code : -1;
  const uint32_t index = code - 256;
  if (index > 67) return -1;
  return (int)(index < 33 ? index : index < 67 ? index - 33 + 127 : 173);
}

itg_status itg_byte_level_append(itg_span bytes, itg_diagnostic *diagnostic, itg_text *out) {
  const bool inside = out->data && bytes.data >= out->data && bytes.data < out->data + out->size;
  const size_t offset = inside ? (size_t)(bytes.data - out->data) : 0;
  ITG_TRY(itg_text_reserve(out, bytes.size * 2, diagnostic));
  const uint8_t *from = inside ? out->data + offset : bytes.data;
  uint8_t *to = out->data + out->size;
  for (size_t i = 0; i < bytes.size; i++) {
    const uint32_t code = itg_byte_level_character(from[i]);
    if (code < 0x80) {
      *to++ = (uint8_t)code;
    } else {
      *to++ = (uint8_t)(0xC0 | code >> 6);
      *to++ = (uint8_t)(0x80 | (code & 0x3F));
    }
  }
  out->size = (size_t)(to - out->data);
  return ITG_OK;
}
