// The converters of ONNX operations, by family. Each follows the operator specification (onnx.ai/onnx/operators) of opset 6
// to 23 and is listed in table.c.
#ifndef ITG_IMPORT_ONNX_CONVERTERS_H
#define ITG_IMPORT_ONNX_CONVERTERS_H

#include "import/onnx/importer.h"

// convert_elementwise.c
itg_onnx_converter itg_onnx_convert_unary, itg_onnx_convert_scalar, itg_onnx_convert_selu, itg_onnx_convert_gelu,
    itg_onnx_convert_clip, itg_onnx_convert_is_inf, itg_onnx_convert_cast, itg_onnx_convert_identity,
    itg_onnx_convert_dropout, itg_onnx_convert_binary, itg_onnx_convert_mod, itg_onnx_convert_bit_shift,
    itg_onnx_convert_variadic, itg_onnx_convert_mean, itg_onnx_convert_where;
// convert_reduce.c
itg_onnx_converter itg_onnx_convert_reduce, itg_onnx_convert_arg, itg_onnx_convert_cum_sum, itg_onnx_convert_top_k;
// convert_window.c
itg_onnx_converter itg_onnx_convert_conv, itg_onnx_convert_conv_transpose, itg_onnx_convert_conv_integer,
    itg_onnx_convert_pool, itg_onnx_convert_global_pool;
// Geometry of a convolution from the current node's attributes, its input and its weight (channels first).
ITG_MUST_USE itg_status itg_onnx_read_conv(const itg_onnx_importer *importer, const itg_tensor *x,
                                           const itg_tensor *weight, itg_conv_attributes *out);
// convert_matrix.c
itg_onnx_converter itg_onnx_convert_matmul, itg_onnx_convert_gemm;
// A product of tensors of any rank; further inputs (zero points) may follow the two factors.
ITG_MUST_USE itg_status itg_onnx_matmul(itg_onnx_importer *importer, const char *part, itg_op op, int32_t count,
                                        itg_tensor *const *inputs, itg_tensor **out);
// convert_einsum.c
itg_onnx_converter itg_onnx_convert_einsum;
// convert_normalisation.c
itg_onnx_converter itg_onnx_convert_batch_norm, itg_onnx_convert_layer_norm, itg_onnx_convert_rms_norm,
    itg_onnx_convert_instance_norm, itg_onnx_convert_group_norm, itg_onnx_convert_mean_variance,
    itg_onnx_convert_lp_norm, itg_onnx_convert_lrn, itg_onnx_convert_softmax;
// convert_shape.c
itg_onnx_converter itg_onnx_convert_shape, itg_onnx_convert_size, itg_onnx_convert_constant,
    itg_onnx_convert_constant_of_shape, itg_onnx_convert_range, itg_onnx_convert_eye_like, itg_onnx_convert_non_zero,
    itg_onnx_convert_reshape, itg_onnx_convert_flatten, itg_onnx_convert_squeeze, itg_onnx_convert_unsqueeze,
    itg_onnx_convert_expand, itg_onnx_convert_tile;
// convert_movement.c
itg_onnx_converter itg_onnx_convert_transpose, itg_onnx_convert_concat, itg_onnx_convert_split, itg_onnx_convert_slice,
    itg_onnx_convert_pad, itg_onnx_convert_depth_to_space, itg_onnx_convert_space_to_depth, itg_onnx_convert_trilu,
    itg_onnx_convert_reverse_sequence;
// convert_gather.c
itg_onnx_converter itg_onnx_convert_gather, itg_onnx_convert_gather_nd, itg_onnx_convert_scatter,
    itg_onnx_convert_scatter_nd, itg_onnx_convert_compress, itg_onnx_convert_one_hot;
// convert_resize.c
itg_onnx_converter itg_onnx_convert_resize;
// convert_quantization.c
itg_onnx_converter itg_onnx_convert_quantize, itg_onnx_convert_dynamic_quantize, itg_onnx_convert_q_linear_conv,
    itg_onnx_convert_q_linear_matmul;
// convert_loss.c
itg_onnx_converter itg_onnx_convert_log_likelihood, itg_onnx_convert_cross_entropy;
// convert_control.c
itg_onnx_converter itg_onnx_convert_if;

#endif
