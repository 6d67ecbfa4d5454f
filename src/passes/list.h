// The rewrites, one a file; pipeline.c puts them in order. Each is an itg_pass_function (passes.h).
#ifndef ITG_PASSES_LIST_H
#define ITG_PASSES_LIST_H

#include "passes/passes.h"

// f16 and bf16 tensors become f32.
ITG_MUST_USE itg_status itg_pass_widen_floats(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Nodes whose inputs are all constants are computed, unless the result would be larger than 16 MiB and than its inputs.
ITG_MUST_USE itg_status itg_pass_fold_constants(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Identities, movement that moves nothing, casts to the same type, duplicate nodes, nodes nobody needs.
ITG_MUST_USE itg_status itg_pass_eliminate(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// LayerNorm and RMSNorm from their pieces.
ITG_MUST_USE itg_status itg_pass_recognise_norms(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// GELU, SiLU, QuickGELU, HardSigmoid, HardSwish from their pieces.
ITG_MUST_USE itg_status itg_pass_recognise_activations(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Pixel shuffle: Reshape, Transpose, Reshape becomes DepthToSpace.
ITG_MUST_USE itg_status itg_pass_recognise_pixel_shuffle(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// MatMul and Gemm with a constant right side become FullyConnected.
ITG_MUST_USE itg_status itg_pass_matmul_to_fully_connected(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// BatchNorm behind a convolution or FullyConnected goes into its weights and bias.
ITG_MUST_USE itg_status itg_pass_fold_batch_norm(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Addition, subtraction, multiplication and division by per-channel constants behind a convolution or FullyConnected.
ITG_MUST_USE itg_status itg_pass_fold_channel_constants(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Division by and subtraction of constants become multiplication and addition; factors move up into weights.
ITG_MUST_USE itg_status itg_pass_simplify_arithmetic(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// A product and a sum with per-channel or scalar constants become one BatchNorm, later Affine.
ITG_MUST_USE itg_status itg_pass_merge_scale_and_shift(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Pad nodes go into the window of the following convolution or pool.
ITG_MUST_USE itg_status itg_pass_merge_padding(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Windows, per-channel operations and softmax run with channels (or their axis) last; Transposes keep the meaning.
ITG_MUST_USE itg_status itg_pass_channels_last(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Moves Transposes towards the outputs until they meet their inverse.
ITG_MUST_USE itg_status itg_pass_sink_transposes(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// A Transpose in front of a flattening in front of FullyConnected goes into the order of the weights.
ITG_MUST_USE itg_status itg_pass_absorb_transposes(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// Reshapes of reshapes, transposes that are reshapes, reshapes in front of unary operations.
ITG_MUST_USE itg_status itg_pass_merge_reshapes(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);
// ReLU, Clip, LeakyReLU and per-channel PReLU go into the convolution or FullyConnected in front.
ITG_MUST_USE itg_status itg_pass_fuse_activations(itg_graph *graph, bool *changed, itg_diagnostic *diagnostic);

#endif
