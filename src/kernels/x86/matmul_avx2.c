// Matrix products of two activations for AVX2: the template of matmul.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/matmul.h"

MATMUL_KERNEL(avx2);
