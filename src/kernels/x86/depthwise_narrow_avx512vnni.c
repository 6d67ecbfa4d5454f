// Depth-wise convolution of few channels for AVX512VNNI: the template of depthwise.h on 256-bit vectors, half of whose lanes
// stay empty less often.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#define DEPTHWISE_MOST_CHANNELS 32
#include "kernels/x86/vector_256.h"

#include "kernels/x86/depthwise.h"

DEPTHWISE_KERNEL(itg_conv_depthwise_narrow__avx512vnni);
