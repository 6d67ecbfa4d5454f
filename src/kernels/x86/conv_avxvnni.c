// Convolution and fully connected layers for AVXVNNI: the templates of gemm.h and upsample.h.
#define KERNEL_ISA ITG_ISA_AVXVNNI
#include "kernels/x86/vector_256.h"

#include "kernels/x86/gemm.h"
#include "kernels/x86/upsample.h"

GEMM_KERNEL(itg_conv__avxvnni, ITG_OP_Q_CONV);
GEMM_KERNEL(itg_fully_connected__avxvnni, ITG_OP_Q_FULLY_CONNECTED);
GEMM_KERNEL(itg_conv_transpose__avxvnni, ITG_OP_Q_CONV_TRANSPOSE);
UPSAMPLE_KERNEL(itg_conv_transpose_upsample__avxvnni);
