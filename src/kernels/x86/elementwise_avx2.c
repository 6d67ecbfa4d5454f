// Element-wise operations for AVX2: the template of elementwise.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/elementwise.h"

ELEMENTWISE_KERNELS(avx2);
