// Header, section table and checksums of a file. See sections.h; the layout is format.h.
#include <stdio.h>

#include "container/checksum.h"
#include "container/sections.h"
#include "container/text.h"

#define FAIL_AT(position, ...)                                            \
  do {                                                                    \
    char at[32];                                                          \
    snprintf(at, sizeof at, "byte %llu", (unsigned long long)(position)); \
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, at, __VA_ARGS__);              \
  } while (0)

static itg_status check_header(itg_span bytes, itg_diagnostic *diagnostic, const itg_file_header **out) {
  const itg_file_header *header = (const itg_file_header *)bytes.data;
  if (bytes.size < sizeof *header)
    FAIL_AT(bytes.size, "a .itg file has at least %zu bytes; this one has %zu", sizeof *header, bytes.size);
  if (memcmp(header->magic, ITG_FILE_MAGIC, sizeof header->magic) != 0)
    FAIL_AT(0, "not a .itg file (the first bytes are not its mark)");
  if (header->major != ITG_FILE_MAJOR)
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, "byte 8",
             "the file has format version %d.%d; this build reads %d.x: compile the model again or use another build",
             header->major, header->minor, ITG_FILE_MAJOR);
  if (XXH3_64bits(header, offsetof(itg_file_header, header_checksum)) != header->header_checksum)
    FAIL_AT(0, "the header is corrupted (checksum)");
  if (header->header_size != sizeof *header || header->entry_size != sizeof(itg_file_section) || header->reserved != 0)
    FAIL_AT(12, "the header contradicts its version");
  if (header->file_size != bytes.size)
    FAIL_AT(16, "the file has %zu bytes but says %llu: it is truncated or something was appended", bytes.size,
            (unsigned long long)header->file_size);
  *out = header;
  return ITG_OK;
}

// The order of format.h: types 1..9 once each, constants, metadata, then sections of later versions.
static itg_status check_order(const itg_sections *sections, itg_diagnostic *diagnostic) {
  uint32_t index = 0;
  for (uint32_t type = 1; type <= ITG_SECTION_TABLES; type++, index++) {
    if (index >= sections->table_count || sections->table[index].type != type || sections->table[index].ordinal != 0)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "section type %u is missing or out of order", type);
  }
  for (uint32_t type = ITG_SECTION_CONSTANTS; type <= ITG_SECTION_METADATA; type++) {
    for (uint32_t ordinal = 0; index < sections->table_count && sections->table[index].type == type;
         index++, ordinal++) {
      if (sections->table[index].ordinal != ordinal)
        ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "section %u has number %u instead of %u", index,
                 sections->table[index].ordinal, ordinal);
    }
  }
  for (; index < sections->table_count; index++) {
    if (!(sections->table[index].type & ITG_SECTION_OPTIONAL))
      ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, NULL,
               "section type %u is not known to this build: a newer one may read the file",
               sections->table[index].type);
  }
  return ITG_OK;
}

static itg_status check_zeros(itg_span bytes, uint64_t begin, uint64_t end, itg_diagnostic *diagnostic) {
  for (uint64_t i = begin; i < end; i++) {
    if (bytes.data[i]) FAIL_AT(i, "bytes between sections must be zero");
  }
  return ITG_OK;
}

// Sections follow each other at multiples of 64 with nothing but zeros between them, so no byte is left unchecked.
static itg_status check_bodies(const itg_sections *sections, uint64_t end_of_table, itg_diagnostic *diagnostic) {
  uint64_t end = end_of_table;
  for (uint32_t i = 0; i < sections->table_count; i++) {
    const itg_file_section *entry = &sections->table[i];
    itg_span body;
    if (!itg_span_cut(sections->bytes, entry->offset, entry->size, &body))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "section %u lies outside the file", i);
    if (entry->offset % ITG_FILE_ALIGNMENT || entry->offset < end || entry->offset - end >= ITG_FILE_ALIGNMENT)
      FAIL_AT(entry->offset, "section %u does not follow its predecessor at a multiple of %d", i, ITG_FILE_ALIGNMENT);
    if (entry->reserved != 0) ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "section %u has a reserved field set", i);
    ITG_TRY(check_zeros(sections->bytes, end, entry->offset, diagnostic));
    if (XXH3_64bits(body.data, body.size) != entry->checksum)
      FAIL_AT(entry->offset, "section %u (type %u, %zu bytes) is corrupted (checksum)", i,
              entry->type & ~ITG_SECTION_OPTIONAL, body.size);
    end = entry->offset + entry->size;
  }
  if (sections->bytes.size - end >= ITG_FILE_ALIGNMENT) FAIL_AT(end, "bytes after the last section");
  return check_zeros(sections->bytes, end, sections->bytes.size, diagnostic);
}

static itg_status check_strings(itg_span strings, uint64_t offset, itg_diagnostic *diagnostic) {
  if (strings.size > ITG_FILE_MAX_STRINGS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "more than %d bytes of strings", ITG_FILE_MAX_STRINGS);
  if (strings.size < 1 || strings.data[0] != 0 || strings.data[strings.size - 1] != 0)
    FAIL_AT(offset, "the strings must start with the empty one and end with a NUL");
  for (size_t i = 0; i < strings.size;) {
    const size_t length = strings.data[i] == 0 ? 1 : itg_text_character(strings.data + i, strings.size - i);
    if (length == 0) FAIL_AT(offset + i, "a name holds a control character or is not UTF-8");
    i += length;
  }
  return ITG_OK;
}

itg_status itg_sections_check(itg_span bytes, itg_diagnostic *diagnostic, itg_sections *out) {
  const itg_file_header *header = NULL;
  ITG_TRY(check_header(bytes, diagnostic, &header));
  if (header->section_count > ITG_FILE_MAX_SECTIONS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "%u sections; the limit is %d", header->section_count,
             ITG_FILE_MAX_SECTIONS);
  itg_sections sections = {.bytes = bytes, .table_count = header->section_count};
  itg_span table;
  if (header->table_offset != sizeof *header ||
      !itg_span_cut(bytes, header->table_offset, (uint64_t)header->section_count * sizeof(itg_file_section), &table))
    FAIL_AT(24, "the section table lies outside the file");
  if (XXH3_64bits(table.data, table.size) != header->table_checksum)
    FAIL_AT(header->table_offset, "the section table is corrupted (checksum)");
  sections.table = (const itg_file_section *)table.data;
  ITG_TRY(check_order(&sections, diagnostic));
  ITG_TRY(check_bodies(&sections, header->table_offset + table.size, diagnostic));
  for (uint32_t type = 1; type <= ITG_SECTION_TABLES; type++)
    sections.bodies[type] = itg_sections_body(&sections, type - 1);
  ITG_TRY(check_strings(sections.bodies[ITG_SECTION_STRINGS], sections.table[0].offset, diagnostic));
  sections.first_piece = ITG_SECTION_TABLES;
  while (sections.first_piece + sections.piece_count < sections.table_count &&
         sections.table[sections.first_piece + sections.piece_count].type == ITG_SECTION_CONSTANTS)
    sections.piece_count++;
  for (uint32_t i = 0; i < sections.table_count; i++) {
    const uint32_t name = sections.table[i].name, type = sections.table[i].type;
    const bool named = name != 0, must = type == ITG_SECTION_METADATA, may = (type & ITG_SECTION_OPTIONAL) != 0;
    if (!itg_sections_string(&sections, name) || (named != must && !may))
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "section %u: metadata needs a name, other sections have none", i);
  }
  *out = sections;
  return ITG_OK;
}

const char *itg_sections_string(const itg_sections *sections, uint32_t offset) {
  const itg_span strings = sections->bodies[ITG_SECTION_STRINGS];
  return offset < strings.size ? (const char *)strings.data + offset : NULL;
}

itg_span itg_sections_body(const itg_sections *sections, uint32_t index) {
  const itg_file_section *entry = &sections->table[index];
  return (itg_span){sections->bytes.data + entry->offset, (size_t)entry->size};
}
