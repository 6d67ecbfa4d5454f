// Fully connected layers of u16 rows for AVX512VNNI: the template of linear.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/linear.h"

LINEAR_KERNEL(avx512vnni);
