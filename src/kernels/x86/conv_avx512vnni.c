// Convolution and fully connected layers for AVX512VNNI: the templates of gemm.h and upsample.h.
#define KERNEL_ISA ITG_ISA_AVX512VNNI
#include "kernels/x86/vector_512.h"

#include "kernels/x86/gemm.h"
#include "kernels/x86/upsample.h"

GEMM_KERNEL(itg_conv__avx512vnni, ITG_OP_Q_CONV);
GEMM_KERNEL(itg_fully_connected__avx512vnni, ITG_OP_Q_FULLY_CONNECTED);
GEMM_KERNEL(itg_conv_transpose__avx512vnni, ITG_OP_Q_CONV_TRANSPOSE);
UPSAMPLE_KERNEL(itg_conv_transpose_upsample__avx512vnni);
