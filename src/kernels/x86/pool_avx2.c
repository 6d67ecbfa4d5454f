// Pools for AVX2: the template of pool.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/pool.h"

POOL_KERNELS(avx2);
