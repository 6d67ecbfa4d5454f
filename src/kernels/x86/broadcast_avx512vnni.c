// Binary operations with broadcasting for AVX512VNNI: the template of broadcast.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/broadcast.h"

BROADCAST_KERNELS(avx512vnni);
