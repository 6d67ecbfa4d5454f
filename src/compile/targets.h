// NPU targets of a compile: which chips, and the contexts prepared for them.
#ifndef ITG_COMPILE_TARGETS_H
#define ITG_COMPILE_TARGETS_H

#include "container/container.h"
#include "intaglio/compiler.h"
#include "lower/qnn/prepare.h"
#include "npu/target.h"

enum { ITG_MAX_TARGETS = 16 };

typedef struct itg_compile_targets {
  const itg_target *chips[ITG_MAX_TARGETS];
  size_t count;
  const itg_target *strictest;        // Its rules hold for all: the lowest architecture. NULL without targets.
  uint8_t *contexts[ITG_MAX_TARGETS]; // Section bodies, malloc'ed.
  size_t context_sizes[ITG_MAX_TARGETS];
  itg_placement placements[ITG_MAX_TARGETS]; // In `arena`.
  itg_arena arena;
} itg_compile_targets;

// Looks the names up ("cpu" stands for no chip). Errors: ARGUMENT.
ITG_MUST_USE itg_status itg_targets_find(const itg_compile_options *options, itg_diagnostic *diagnostic,
                                         itg_compile_targets *out);
// Prepares one context a chip, each in a child process. Errors: those of itg_qnn_prepare_isolated.
ITG_MUST_USE itg_status itg_targets_prepare(itg_compile_targets *targets, const itg_graph *graph,
                                            const itg_compile_options *options, itg_diagnostic *diagnostic);
// What runs where, for reports; texts are copied into the arena. Errors: MEMORY.
ITG_MUST_USE itg_status itg_placement_describe(const itg_graph *graph, const itg_target *chip, const itg_qnn_blob *blob,
                                               const itg_qnn_partition *part, itg_arena *arena,
                                               itg_diagnostic *diagnostic, itg_placement *out);
// The contexts as sections; `sections` has room for targets->count.
void itg_targets_sections(const itg_compile_targets *targets, itg_metadata_section *sections);
// Frees the section bodies alone.
void itg_targets_free_contexts(itg_compile_targets *targets);
void itg_targets_free(itg_compile_targets *targets);

#endif
