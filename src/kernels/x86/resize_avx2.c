// Resize for AVX2: the template of resize.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/resize.h"

RESIZE_KERNEL(avx2);
