// Reading and writing .itg files (layout: container/format.h, docs/FORMATS.md).
#ifndef ITG_CONTAINER_CONTAINER_H
#define ITG_CONTAINER_CONTAINER_H

#include "base/file.h"
#include "graph/graph.h"

typedef struct itg_metadata_section { // A named JSON text: "provenance", "accuracy", "preprocessing", "recipe".
  const char *name;
  const char *text;
  size_t size;
  bool is_context; // Bytes of a context prepared for an NPU (npu/qnn/stored.h) instead; `name` is the target's.
} itg_metadata_section;

// Writes a LEGAL graph. Deterministic: equal graphs and sections give equal bytes. The file appears whole or not at all.
// The graph is verified first. Names are stored as UTF-8; bytes that are not, and control characters, become "\xNN".
// Errors: those of itg_graph_verify, LIMIT, IO, MEMORY.
ITG_MUST_USE itg_status itg_container_write(const char *path, const itg_graph *graph,
                                            const itg_metadata_section *sections, size_t section_count,
                                            itg_diagnostic *diagnostic);

// Several graphs over one pool of constants, for models that are used together (the parts of a language model). Roles are
// different from each other; the first part, whatever its role, is what a reader gets that asks for none.
typedef struct itg_container_part {
  const char *role; // "decoder", "embedding", "vision"; "" for the only graph of a model.
  const itg_graph *graph;
} itg_container_part;
enum { ITG_CONTAINER_MAX_PARTS = 16 };
ITG_MUST_USE itg_status itg_container_write_parts(const char *path, const itg_container_part *parts, size_t part_count,
                                                  const itg_metadata_section *sections, size_t section_count,
                                                  itg_diagnostic *diagnostic);
// The same into a file under construction, which stays the caller's.
ITG_MUST_USE itg_status itg_container_write_parts_to(itg_output_file *file, const itg_container_part *parts,
                                                     size_t part_count, const itg_metadata_section *sections,
                                                     size_t section_count, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_container_encode_parts(const itg_container_part *parts, size_t part_count,
                                                   const itg_metadata_section *sections, size_t section_count,
                                                   itg_diagnostic *diagnostic, uint8_t **bytes, size_t *size);

// The same bytes in memory: *bytes is 64-byte aligned, to be freed with free().
ITG_MUST_USE itg_status itg_container_encode(const itg_graph *graph, const itg_metadata_section *sections,
                                             size_t section_count, itg_diagnostic *diagnostic, uint8_t **bytes,
                                             size_t *size);

// Bytes that the file would have. Errors: those of writing, but IO.
ITG_MUST_USE itg_status itg_container_measure(const itg_graph *graph, const itg_metadata_section *sections,
                                              size_t section_count, itg_diagnostic *diagnostic, size_t *size);

// Reads and verifies everything (sizes, offsets, checksums, the graph at stage LEGAL). Constants borrow from `bytes`, which
// must be 64-byte aligned and must outlive the graph. Section texts borrow too.
// Errors: FORMAT, VERSION, LIMIT, UNSUPPORTED (an unknown operation or section), MEMORY, those of itg_graph_verify.
typedef struct itg_container {
  itg_graph *graph;               // The first part's.
  itg_container_part *parts;      // With owned graphs; in the first graph's arena.
  size_t part_count;              // At least 1.
  itg_metadata_section *sections; // In the first graph's arena.
  size_t section_count;
} itg_container;
ITG_MUST_USE itg_status itg_container_read(itg_span bytes, itg_diagnostic *diagnostic, itg_container *out);
void itg_container_free(itg_container *container); // Destroys the graphs; an empty container is allowed.

#endif
