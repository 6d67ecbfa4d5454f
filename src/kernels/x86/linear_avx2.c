// Fully connected layers of u16 rows for AVX2: the template of linear.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/linear.h"

LINEAR_KERNEL(avx2);
