// Binary operations with broadcasting for AVX2: the template of broadcast.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/broadcast.h"

BROADCAST_KERNELS(avx2);
