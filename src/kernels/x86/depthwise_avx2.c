// Depth-wise convolution for AVX2: the template of depthwise.h.
#define KERNEL_ISA ITG_ISA_AVX2
#include "kernels/x86/vector_256.h"

#include "kernels/x86/depthwise.h"

DEPTHWISE_KERNEL(itg_conv_depthwise__avx2);
