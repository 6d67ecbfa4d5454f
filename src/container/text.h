// Which bytes of a name may stand in a file: UTF-8 without control characters.
#ifndef ITG_CONTAINER_TEXT_H
#define ITG_CONTAINER_TEXT_H

#include <stddef.h>
#include <stdint.h>

// Length in bytes (1..4) of the well-formed UTF-8 character (RFC 3629) at `text`, of which `available` bytes exist; 0 when
// it is malformed, a control character (below 0x20, 0x7f) or cut off.
static inline size_t itg_text_character(const uint8_t *text, size_t available) {
  const uint8_t lead = text[0];
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || length > available) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f) || // Overlong forms and surrogates.
      (lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] > 0x8f))
    return 0;
  return length;
}

#endif
