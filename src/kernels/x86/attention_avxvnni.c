// Attention over a cache for AVX-VNNI: the template of attention.h.
#define KERNEL_ISA ITG_ISA_AVXVNNI
#include "kernels/x86/vector_256.h"

#include "kernels/x86/attention.h"

ATTENTION_KERNEL(avxvnni);
