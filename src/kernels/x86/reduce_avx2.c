// Sums over dimensions for AVX2: the template of reduce.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/reduce.h"

REDUCE_KERNEL(avx2);
