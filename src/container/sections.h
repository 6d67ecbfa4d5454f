// The first half of reading: header, section table, checksums. See check.c.
#ifndef ITG_CONTAINER_SECTIONS_H
#define ITG_CONTAINER_SECTIONS_H

#include "base/span.h"
#include "base/status.h"
#include "container/format.h"

// Bodies of a file whose frame was checked. Borrowed from the file.
typedef struct itg_sections {
  itg_span bytes; // The file.
  const itg_file_section *table;
  uint32_t table_count;
  itg_span bodies[ITG_SECTION_TABLES + 1]; // By type; index 0 is unused.
  uint32_t first_piece, piece_count;       // Entries of the table: the constants.
} itg_sections;

// Checks everything that does not need the graph: magic, version, sizes, offsets, alignment, order, zeros between sections,
// checksums, and that STRINGS holds NUL-terminated UTF-8 without control characters.
// Errors: FORMAT, VERSION, LIMIT, UNSUPPORTED (a section that this build must know but does not).
ITG_MUST_USE itg_status itg_sections_check(itg_span bytes, itg_diagnostic *diagnostic, itg_sections *out);
// The string at `offset`, or NULL when it lies outside.
const char *itg_sections_string(const itg_sections *sections, uint32_t offset);
// The body of entry `index` of the table.
itg_span itg_sections_body(const itg_sections *sections, uint32_t index);

#endif
