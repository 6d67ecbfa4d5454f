// Choosing a kernel. The table is kernels.inc, one line a kernel; later lines win over earlier ones.
#ifndef ITG_KERNELS_KERNELS_H
#define ITG_KERNELS_KERNELS_H

#include "kernels/task.h"

// The best kernel for a task whose isa is in `isa_mask` (bit i: itg_isa i; the reference bit is always implied).
// Never NULL for an op of the integer dialect: the reference supports everything.
const itg_kernel *itg_kernel_find(const itg_task *task, uint32_t isa_mask);
// All kernels, for tests and benchmarks.
const itg_kernel *const *itg_kernel_list(size_t *count);
// "reference", "avx2", "avxvnni", "avx512vnni", "neon", "neondot", "hvx", "htp-v68", "htp-v73".
const char *itg_isa_name(itg_isa isa);
// The instruction sets that this machine has, as a mask (cpuid/getauxval), cut at `highest` by name when it is not NULL
// (false: unknown name). "avx2" also removes all that imply more. "htp-v68" and "htp-v73" choose the NPU's arithmetic
// instead: the reference with the profile's own matrix operations.
bool itg_isa_detect(const char *highest, uint32_t *mask);

#endif
