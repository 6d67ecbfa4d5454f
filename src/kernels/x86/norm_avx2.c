// Norms for AVX2: the template of norm.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/norm.h"

NORM_KERNEL(avx2);
