// Sums over dimensions for AVX512VNNI: the template of reduce.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/reduce.h"

REDUCE_KERNEL(avx512vnni);
