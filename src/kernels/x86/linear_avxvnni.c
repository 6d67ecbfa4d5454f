// Fully connected layers of u16 rows for AVX-VNNI: the template of linear.h.
#define KERNEL_ISA ITG_ISA_AVXVNNI
#include "kernels/x86/vector_256.h"

#include "kernels/x86/linear.h"

LINEAR_KERNEL(avxvnni);
