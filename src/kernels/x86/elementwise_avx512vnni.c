// Element-wise operations for AVX512VNNI: the template of elementwise.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/elementwise.h"

ELEMENTWISE_KERNELS(avx512vnni);
