// Matrix products of two activations for AVXVNNI: the template of matmul.h.
#define KERNEL_ISA ITG_ISA_AVXVNNI
#include "kernels/x86/vector_256.h"

#include "kernels/x86/matmul.h"

MATMUL_KERNEL(avxvnni);
