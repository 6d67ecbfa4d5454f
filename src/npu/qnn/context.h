// A prepared QNN context (what the vendor calls a context binary): checked, loaded, run.
#ifndef ITG_NPU_QNN_CONTEXT_H
#define ITG_NPU_QNN_CONTEXT_H

#include "npu/qnn/library.h"

// An input or output of a context as the vendor's library knows it, by number, and as the graph does, by name.
typedef struct itg_qnn_port {
  uint32_t id;
  uint32_t data_type;
  size_t bytes;
  const char *name; // Of the tensor in the LEGAL graph; borrowed. NULL while it does not matter.
} itg_qnn_port;

// What the options inside a context binary say about the machine it was made for.
typedef struct itg_qnn_blob_target {
  uint32_t arch;
  uint64_t vtcm_bytes;
  char soc[32]; // The vendor's name.
} itg_qnn_blob_target;

// Reads the option text of a context binary. FORMAT when it has none: not one of the HTP's.
ITG_MUST_USE itg_status itg_qnn_blob_inspect(const void *blob, size_t size, itg_diagnostic *diagnostic,
                                             itg_qnn_blob_target *out);
// Refuses a binary made for another architecture or for more VTCM than the target has. The library itself accepts both, and the
// simulator then computes with the other machine's arithmetic.
ITG_MUST_USE itg_status itg_qnn_blob_check(const void *blob, size_t size, const itg_target *target,
                                           itg_diagnostic *diagnostic);

// Where the time of one run went. Microseconds; 0 where the library reports nothing.
typedef struct itg_qnn_run_profile {
  uint64_t host_rpc, accelerator_rpc, accelerator; // accelerator_rpc is reported by real hardware only.
  uint64_t accelerator_cycles;
  size_t op_count; // Operations that reported cycles (detailed profiles).
} itg_qnn_run_profile;

typedef struct itg_qnn_context itg_qnn_context; // One thread at a time.

// Loads a binary into an open library (borrowed: must outlive the context) and finds `graph_name` in it. Ports are copied.
// The blob may be freed afterwards.
ITG_MUST_USE itg_status itg_qnn_context_open(const itg_qnn_library *library, const void *blob, size_t size,
                                             const char *graph_name, const itg_qnn_port *inputs, uint32_t input_count,
                                             const itg_qnn_port *outputs, uint32_t output_count,
                                             itg_diagnostic *diagnostic, itg_qnn_context **out);
void itg_qnn_context_close(itg_qnn_context *context); // NULL is allowed.
// Registers shared memory (shared_memory.h), as large as the port, for port `index` (inputs, then outputs): runs then use it and
// ignore the pointer they are given. The memory must outlive the context. False when the library does not take it; runs then
// copy, as without this call.
bool itg_qnn_context_share(itg_qnn_context *context, uint32_t index, int file, uint32_t rank, const uint32_t *dims);
// Runs once. inputs[i], outputs[i]: codes, as many bytes as the port says. `profile` may be NULL. Errors: EXECUTION (with the
// library's code and words), DEVICE (it cannot profile), LIMIT.
ITG_MUST_USE itg_status itg_qnn_context_run(itg_qnn_context *context, const void *const *inputs, void *const *outputs,
                                            itg_qnn_run_profile *profile, itg_diagnostic *diagnostic);

#endif
