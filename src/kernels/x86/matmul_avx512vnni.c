// Matrix products of two activations for AVX512VNNI: the template of matmul.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/matmul.h"

MATMUL_KERNEL(avx512vnni);
