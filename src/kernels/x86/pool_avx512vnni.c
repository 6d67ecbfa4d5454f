// Pools for AVX512VNNI: the template of pool.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/pool.h"

POOL_KERNELS(avx512vnni);
