// How much each choice of precision matters at the outputs of a network: tensors are rounded, one choice after another, in the
// float twin of its program.
#ifndef ITG_COMPILE_SENSITIVITY_H
#define ITG_COMPILE_SENSITIVITY_H

#include "compile/twin.h"

// A choice that can be made: `wide` costs more and loses less. Memory of the caller's arena.
typedef struct itg_choice {
  itg_node **nodes; // Of the twin, whose outputs a recipe rule would give other bits.
  size_t node_count;
  bool
      is_operand; // Wide: what products read has 16 bits. Else: what is stored has 16 bits, and products read 8 of them.
  itg_tensor **tensors; // Rounded to `encodings` when the choice is narrow.
  const itg_encoding **encodings;
  size_t tensor_count;
  const itg_tensor *input; // A graph input instead of nodes; it is also the one tensor. NULL: none.
  double cost;             // Of wide over narrow, in units of itg_program_cost.
  double loss; // Of narrow, at the outputs: squared error over squared signal, the mean of outputs and samples.
} itg_choice;

// Fills the losses. A tensor may belong to several choices.
// Deterministic for any thread count. Errors: those of the samples, CANCELLED, MEMORY.
ITG_MUST_USE itg_status itg_sensitivity_measure(itg_twin *twin, const itg_samples *samples, size_t sample_count,
                                                itg_pool *pool, itg_progress_function progress, void *progress_context,
                                                itg_diagnostic *diagnostic, itg_choice *choices, size_t count);

#endif
