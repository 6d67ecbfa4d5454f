// An opened model: the verified graph, and per set of instruction sets a plan with packed weights that sessions share.
#ifndef ITG_RUN_MODEL_H
#define ITG_RUN_MODEL_H

#include "container/container.h"
#include "intaglio/intaglio.h"
#include "plan/plan.h"

typedef struct itg_program itg_program;

struct itg_model {
  itg_mapped_file file;    // Empty when the model lives in the caller's memory.
  void *copy;              // Aligned copy of unaligned memory, or NULL.
  itg_container container; // Of a part: its graph alone.
  itg_model *parts;        // The other graphs of the file; they share the file and its metadata.
  size_t part_count;
  const char *role;
  itg_tensor_info *inputs, *outputs; // Without states and the position, which sessions keep.
  size_t input_count;
  const int32_t *graph_inputs;       // inputs[i] is the graph's input graph_inputs[i].
  int64_t block_rows;                // T of a graph with states (plan/block.h); 0 for others.
  int64_t capacity;                  // C
  int64_t prefix;                    // P: positions that are in the caches from the beginning.
  struct itg_program_list *programs; // Changes under its mutex while the model itself stays as it is.
};

// A plan and its packed weights. Immutable while it is held; share freely.
struct itg_program {
  uint32_t isa_mask;
  itg_plan *plan;     // Made once and kept until the model is closed.
  const void *packed; // 64-byte aligned; there while `users` > 0.
  void *allocation;   // What `packed` lies in.
  int users;
  itg_program *next;
};

// A model without a file around a LEGAL graph, which it takes over (also when it fails). Errors: MEMORY.
ITG_MUST_USE itg_status itg_model_of_graph(itg_graph *graph, itg_diagnostic *diagnostic, itg_model **out);
ITG_MUST_USE itg_status itg_program_list_create(itg_diagnostic *diagnostic, struct itg_program_list **out);
void itg_program_list_destroy(struct itg_program_list *list); // NULL is allowed.
// The plan for a mask, without packing anything. Lives as long as the model.
ITG_MUST_USE itg_status itg_program_plan(const itg_model *model, uint32_t isa_mask, itg_diagnostic *diagnostic,
                                         const itg_plan **out);
// The same with packed weights, which the first user packs and the last one frees. Thread-safe.
ITG_MUST_USE itg_status itg_program_acquire(const itg_model *model, uint32_t isa_mask, itg_diagnostic *diagnostic,
                                            const itg_program **out);
void itg_program_release(const itg_model *model, const itg_program *program);

#endif
