// Depth-wise convolution for AVXVNNI: the template of depthwise.h.
#define KERNEL_ISA ITG_ISA_AVXVNNI
#include "kernels/x86/vector_256.h"

#include "kernels/x86/depthwise.h"

DEPTHWISE_KERNEL(itg_conv_depthwise__avxvnni);
