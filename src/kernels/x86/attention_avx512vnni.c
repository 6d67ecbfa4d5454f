// Attention over a cache for AVX512VNNI: the template of attention.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/attention.h"

ATTENTION_KERNEL(avx512vnni);
