// Resize for AVX512VNNI: the template of resize.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/resize.h"

RESIZE_KERNEL(avx512vnni);
