// Attention over a cache for AVX2: the template of attention.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/attention.h"

ATTENTION_KERNEL(avx2);
