// A context binary is code and data of the vendor's library, which trusts it: damaged ones crash it, and one whose tensors are
// larger than our buffers writes behind them. So a binary is first loaded in a child process, where the vendor's own reader says
// what its inputs and outputs are.
#ifndef ITG_NPU_QNN_TRIAL_H
#define ITG_NPU_QNN_TRIAL_H

#include "npu/qnn/stored.h"

// Loads the stored binary as itg_qnn_context_open will, in a child process with limits on time and memory, runs it once on zeros (a
// simulated run of more than ten seconds is taken as good), and compares name, numbers, types and sizes of its one graph's inputs and outputs with the ports (where the System library is installed beside the
// HTP library; core API 2.33 is passed over, its System interface has another layout). Binaries that passed are remembered by
// their hash for the life of the process; thread-safe. Errors: VERSION (the library is older than the binary), DEVICE (crashed,
// refused; with the library's words), EXECUTION (the run failed), FORMAT (other inputs or outputs), TIMEOUT, MEMORY.
ITG_MUST_USE itg_status itg_qnn_stored_try(const itg_qnn_stored *stored, const char *directory,
                                           const itg_target *target, const char *graph_name,
                                           itg_diagnostic *diagnostic);

#endif
