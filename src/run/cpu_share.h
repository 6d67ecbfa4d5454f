// The CPU's share of a session whose main part runs on an accelerator: what comes before the accelerator's part (rows of
// embedding tables) and behind it. Computed by the CPU backend, bit for bit as a session on the CPU would.
#ifndef ITG_RUN_CPU_SHARE_H
#define ITG_RUN_CPU_SHARE_H

#include "run/model.h"

// An activation of the model's graph that enters or leaves the accelerator.
typedef struct itg_share_port {
  const char *name; // Of the tensor.
  size_t bytes;
  void *buffer; // Where the accelerator reads or writes its codes.
} itg_share_port;

typedef struct itg_cpu_share itg_cpu_share; // One thread at a time; borrows the model and the buffers.

// True when the ports are the model's own inputs and outputs, in order: then the CPU has nothing to do.
bool itg_cpu_share_is_empty(const itg_model *model, const itg_share_port *inputs, size_t input_count,
                            const itg_share_port *outputs, size_t output_count);
// Only thread_count and cpu of the options count. Errors: FORMAT (a port that is no activation of the graph, or of another
// size; outputs that do not follow from the ports), those of the CPU backend.
ITG_MUST_USE itg_status itg_cpu_share_create(const itg_model *model, const itg_session_options *options,
                                             const itg_share_port *inputs, size_t input_count,
                                             const itg_share_port *outputs, size_t output_count,
                                             itg_diagnostic *diagnostic, itg_cpu_share **out);
void itg_cpu_share_destroy(itg_cpu_share *share); // NULL is allowed.
// Codes of the model's inputs and outputs.
void *itg_cpu_share_input(itg_cpu_share *share, size_t index);
const void *itg_cpu_share_output(itg_cpu_share *share, size_t index);
// Fills the buffers of the accelerator's inputs; computes the model's outputs from those of its outputs.
ITG_MUST_USE itg_status itg_cpu_share_before(itg_cpu_share *share, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_cpu_share_behind(itg_cpu_share *share, itg_diagnostic *diagnostic);
// Steps before and behind; index below the sum.
size_t itg_cpu_share_step_count(const itg_cpu_share *share, size_t *before);
void itg_cpu_share_step(const itg_cpu_share *share, size_t index, itg_step_info *out);

#endif
