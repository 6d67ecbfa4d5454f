// Norms for AVX512VNNI: the template of norm.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/norm.h"

NORM_KERNEL(avx512vnni);
