// Depth-wise convolution for AVX512VNNI: the template of depthwise.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/depthwise.h"

DEPTHWISE_KERNEL(itg_conv_depthwise__avx512vnni);
