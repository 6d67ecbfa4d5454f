// What a session needs from whatever computes it: the CPU (cpu.c), or an accelerator's library.
//
// session.c checks arguments and converts between floats and codes; a backend moves codes in and out and runs. Every
// function may be called from one thread at a time for one state; different states are independent.
#ifndef ITG_RUN_BACKEND_H
#define ITG_RUN_BACKEND_H

#include "run/model.h"
#include "run/observe.h"

typedef struct itg_backend {
  const char *name; // "cpu"
  // The capability query: OK when the backend can run every node of the graph with these options, else UNSUPPORTED with
  // the first node that it cannot run and why.
  itg_status (*query)(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic);
  itg_status (*workspace_size)(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                               size_t *out);
  // `options` is complete (all fields of this build); its workspace, when not NULL, is aligned and large enough.
  itg_status (*create)(const itg_model *model, const itg_session_options *options, itg_diagnostic *diagnostic,
                       void **state);
  void (*destroy)(void *state);
  // Dense row-major codes of a graph input (to be written before run) or output (to be read after it), 64-byte aligned.
  void *(*input)(void *state, size_t index);
  const void *(*output)(void *state, size_t index);
  itg_status (*run)(void *state, itg_diagnostic *diagnostic);
  // As run, and shows every step. NULL: the backend does not run step by step.
  void (*run_observed)(void *state, itg_step_observer observer, void *context);
  // For graphs with states (plan/block.h): the block of the following runs, at the position where it starts. The caller
  // checked rows and position. NULL: the backend has no such graphs, which its query refuses.
  itg_status (*set_block)(void *state, size_t rows, itg_block_outputs outputs, size_t position,
                          itg_diagnostic *diagnostic);
  size_t (*step_count)(const void *state);
  void (*step)(const void *state, size_t index, itg_step_info *out); // index < step_count
  const char *(*processor)(const void *state);                       // What runs it: "avx512vnni", ..
  // Runs once with the library's own events and says where that was. NULL: there is nothing to prove.
  itg_status (*proof)(void *state, itg_diagnostic *diagnostic, itg_proof *out);
} itg_backend;

extern const itg_backend itg_backend_cpu;
extern const itg_backend itg_backend_qnn; // qnn.c

#endif
