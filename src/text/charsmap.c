// The precompiled character map of SentencePiece models. The trie's format is that of darts-clone: each unit has a label
// (low byte and bit 31), a flag that a value follows (bit 8), and an offset to its children (bits 10 up, bit 9 shifts it).
#include "text/charsmap.h"

#include <stdlib.h>

struct itg_charsmap {
  uint8_t *bytes; // The trie, little-endian units, then the replacements.
  size_t unit_count;
  itg_span replacements; // Valid UTF-8.
};

static int digit(uint8_t c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static uint32_t number(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static uint32_t unit(const itg_charsmap *map, size_t index) { return number(map->bytes + 4 + index * 4); }
static size_t offset_of(uint32_t value) { return (size_t)(value >> 10) << ((value & (1u << 9)) >> 6); }

itg_status itg_charsmap_read(itg_span base64, itg_diagnostic *diagnostic, itg_charsmap **out) {
  while (base64.size && base64.data[base64.size - 1] == '=') base64.size--;
  itg_charsmap *map = calloc(1, sizeof *map);
  ITG_TRY_MEMORY(map, diagnostic);
  *out = map;
  if (base64.size == 0) return ITG_OK;
  map->bytes = malloc(base64.size);
  ITG_TRY_MEMORY(map->bytes, diagnostic);
  size_t size = 0;
  uint32_t bits = 0;
  int have = 0;
  for (size_t i = 0; i < base64.size; i++) {
    const int value = digit(base64.data[i]);
    if (value < 0)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "precompiled_charsmap is not base64 at byte %zu", i);
    bits = bits << 6 | (uint32_t)value;
    have += 6;
    if (have >= 8) {
      have -= 8;
      map->bytes[size++] = (uint8_t)(bits >> have);
    }
  }
  const uint32_t trie = size < 4 ? UINT32_MAX : number(map->bytes);
  if (size < 4 || trie % 4 || trie < 4 || trie > size - 4)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json",
             "precompiled_charsmap: the trie does not fit its %zu bytes", size);
  map->unit_count = trie / 4;
  map->replacements = (itg_span){map->bytes + 4 + trie, size - 4 - trie};
  for (size_t i = 0; i < map->replacements.size;) {
    const int part = itg_utf8_part(map->replacements.data + i, map->replacements.size - i);
    if (part <= 0)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, "tokenizer.json", "precompiled_charsmap: a replacement is not UTF-8");
    i += (size_t)part;
  }
  return ITG_OK;
}

void itg_charsmap_free(itg_charsmap *map) {
  if (!map) return;
  free(map->bytes);
  free(map);
}

// The replacement of the shortest entry that `key` starts with (the reference takes the first as well).
static bool find(const itg_charsmap *map, itg_span key, itg_span *out) {
  if (map->unit_count == 0) return false;
  size_t node = offset_of(unit(map, 0));
  for (size_t i = 0; i < key.size && key.data[i]; i++) {
    node ^= key.data[i];
    if (node >= map->unit_count) return false;
    const uint32_t value = unit(map, node);
    if ((value & (1u << 31 | 0xFF)) != key.data[i]) return false;
    node ^= offset_of(value);
    if (value >> 8 & 1) {
      if (node >= map->unit_count) return false;
      const size_t index = unit(map, node) & 0x7FFFFFFF;
      if (index >= map->replacements.size) return false;
      const uint8_t *start = map->replacements.data + index;
      if ((*start & 0xC0) == 0x80) return false; // Not at a character: a damaged map.
      const size_t most = map->replacements.size - index;
      const uint8_t *end = memchr(start, 0, most);
      *out = (itg_span){start, end ? (size_t)(end - start) : most};
      return true;
    }
  }
  return false;
}

itg_status itg_charsmap_apply(const itg_charsmap *map, itg_span text, itg_diagnostic *diagnostic, itg_text *out) {
  itg_span replacement;
  for (size_t at = 0; at < text.size;) {
    const size_t end = itg_grapheme_end(text, at);
    const itg_span cluster = {text.data + at, end - at};
    if (cluster.size < 6 && find(map, cluster, &replacement)) {
      ITG_TRY(itg_text_append(out, replacement, diagnostic));
    } else {
      for (size_t i = at; i < end;) {
        const itg_span character = {text.data + i, itg_utf8_length(text.data[i])};
        ITG_TRY(itg_text_append(out, find(map, character, &replacement) ? replacement : character, diagnostic));
        i += character.size;
      }
    }
    at = end;
  }
  return ITG_OK;
}
