// What to run, with which kernel, in which memory: the plan of a LEGAL graph for one set of instruction sets.
#ifndef ITG_PLAN_PLAN_H
#define ITG_PLAN_PLAN_H

#include "base/arena.h"
#include "graph/graph.h"
#include "kernels/kernels.h"

enum { ITG_PLAN_MAX_STEPS = 1 << 16 }; // Placing buffers takes quadratic time.

// Where a tensor lies: in a session's workspace, in the packed block (constants that kernels read like activations), or in
// the session's states, which keep their contents from run to run.
typedef enum itg_memory { ITG_MEMORY_WORKSPACE = 0, ITG_MEMORY_PACKED, ITG_MEMORY_STATE } itg_memory;
typedef struct itg_place {
  size_t offset;
  itg_memory memory;
} itg_place;

typedef struct itg_step {
  const itg_node *node;
  itg_task task;
  const itg_kernel *kernel;
  size_t units; // Of the kernel; at least 1.
  int64_t multiply_accumulates;
  int64_t cost;         // Rough nanoseconds on one core; decides whether threads are worth their start.
  size_t packed_offset; // Of the kernel's packed weights.
  bool has_packed;
  const itg_place *inputs, *outputs; // Operands of the kernel's call.
  int32_t input_count, output_count;
} itg_step;

// Immutable; share freely. Borrows the graph.
typedef struct itg_plan {
  itg_arena arena;
  const itg_step *steps;
  size_t step_count;
  const itg_place *inputs, *outputs;         // Of the graph.
  size_t activation_bytes;                   // Of a workspace, without scratch; a multiple of 64.
  size_t scratch_bytes;                      // For each thread; a multiple of 64.
  size_t state_bytes;                        // A multiple of 64.
  size_t packed_bytes;                       // A multiple of 64.
  const struct itg_plan_constant *constants; // Copied into the packed block.
  size_t constant_count;
} itg_plan;

// The result depends on the graph and the mask alone. Errors: UNSUPPORTED (no kernel), LIMIT, MEMORY.
ITG_MUST_USE itg_status itg_plan_create(const itg_graph *graph, uint32_t isa_mask, itg_diagnostic *diagnostic,
                                        itg_plan **out);
void itg_plan_destroy(itg_plan *plan); // NULL is allowed.
// Writes packed_bytes bytes at `packed` (64-byte aligned), which any number of sessions may then read.
void itg_plan_pack(const itg_plan *plan, void *packed);

// Rough nanoseconds of a step on one core; its node, kernel and multiply_accumulates are set.
int64_t itg_plan_cost(const itg_step *step);

#endif
