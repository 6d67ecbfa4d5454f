// Convolution and fully connected layers for AVX512VNNI: the template of gemm.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/gemm.h"

GEMM_KERNEL(itg_conv__avx512vnni, ITG_OP_Q_CONV);
GEMM_KERNEL(itg_fully_connected__avx512vnni, ITG_OP_Q_FULLY_CONNECTED);
GEMM_KERNEL(itg_conv_transpose__avx512vnni, ITG_OP_Q_CONV_TRANSPOSE);
