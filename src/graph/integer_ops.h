// Operands of the integer dialect: the contract between lower/legalize (writer), container/check (verifier),
// kernels/reference (meaning) and plan (kernel choice). Formulas are in docs/ARITHMETIC.md.
//
// Activations are u8 or u16 tensors with a per-tensor encoding (zero point z from it; the scale is for reports and
// export only). Every other operand is a constant. [O] vectors are s32 unless stated. Images are [N,H,W,C].
//
//   Q_CONV, Q_CONV_TRANSPOSE, Q_FULLY_CONNECTED
//       0 x   1 weight s8/s4   2 bias s32 [O]   3 multiplier [O]   4 shift [O]   (5 multiplier-, 6 shift- [O]: negative acc)
//       (7 block scale u8 [O,K/B], FULLY_CONNECTED with s4 weights only: w = code * scale of its block of B, 1..16)
//       weight: CONV [O,KH,KW,C/group], CONV_TRANSPOSE [O/group,KH,KW,C], FULLY_CONNECTED [O,K] with x [..,K].
//       acc = bias[o] + sum w*(x - z_x);  padding contributes nothing (x = z_x).
//       With 5 and 6: acc >= 0 ? RQ(acc; 3, 4) : RQ(acc; 5, 6). attributes.q_conv.wide: RQ64 with pre_shift (shift[o] is
//       the s before subtracting pre_shift; s - pre_shift in [1, 62]). Output u8 or u16, clamped to [low, high].
//       Depth-wise: group == C, weight [O,KH,KW,1].
//   Q_MATMUL     0 a [..,M,K] u8/u16   1 b [..,K,N] (or [..,N,K] with transpose_b) u8/s8; leading dims broadcast.
//       RQ or RQ64 (wide) of sum (a - z_a)*(b - z_b). b may be s8 with z_b = 0.
//   Q_ADD        0 a   1 b, broadcasting.   clamp(z + ((A*(a-za) + B*(b-zb) + 2^(shift-1)) >> shift))
//   Q_ADD_AFFINE 0 a   1 b (same shape)   2 M_c [C]   3 B_c s64 [C]   4 s_c [C];  outputs: 0 sum, 1 affine of 0's code:
//       clamp(z2 + (((q - z)*M_c + B_c + 2^(s_c-1)) >> s_c), low2, high2)
//   Q_AFFINE     0 x [..,C]   1 M_c [C] or [1]   2 B_c s64   3 s_c   the same formula; low, high of requantize
//   Q_CONVERT    0 x   RQ(x - z)   (also ReLU and Clip: low, high)
//   Q_MUL        0 a   1 b, broadcasting.   RQ64((a-za)*(b-zb))
//   Q_DIV        0 a   1 b, broadcasting.   n = divisor_sign*(a-za), d = max(1, |b-zb|)
//   Q_PRELU      0 x [..,C]   1 multiplier- [C] or [1]   2 shift-;   x-z >= 0 ? RQ(attributes) : RQ(1, 2)
//   Q_AVERAGE_POOL 0 x   1 multiplier [D]   2 shift [D]   entry divisor-1; D = 1 when every window has the same divisor
//   Q_REDUCE_SUM 0 x   RQ/RQ64 (wide) of the sum of (x - z) over `axes`, which stay as dimensions of 1
//   Q_TABLE      0 x   1 table: x u8: u8 or u16 [256] (output dtype);  x u16: s32 Q4 [(65536 >> node_bits) + 1]
//   Q_SOFTMAX    0 x u16 (last axis)   (1 mask bool, broadcastable: false keys are left out);  output u16 (scale 2^-16, z 0) or u8
//   Q_NORM       0 x u16 [..,C]   1 gamma multipliers Mg [C]   (2 beta Q4 [C]);  L2 kind: 1 is [1]
//   Q_RESIZE     0 x [N,H,W,C]   1 row index s32 [OH,2]   2 row weight s32 [OH] (of the second row, 0..2048)
//                3 column index s32 [OW,2]   4 column weight s32 [OW].   nearest: weights all 0
//                v = sum over 2x2 of (2048-w|w)*(2048-w|w)*x;  out = (v + 2^21) >> 22;  same encoding in and out
//   Q_ROPE       0 x [..,S,H*D]   1 cos s32 Q30 [S,D/2]   2 sin s32 Q30 [S,D/2];  pairs (i, i + D/2) of each head. The tables
//                are constants or graph inputs (values beyond +-2^30 count as +-2^30).
//   Q_ATTENTION  0 q [1,T,H*D] u8/u16   1 k [1,T,G*D] u8/u16   2 v [1,T,G*D] u8/u16   3 k cache [G,C,D]   4 v cache [G,C,D]
//                5 position s32 [1], 0 .. C - T. The caches are states (itg_tensor_is_state) in the encodings of k and v.
//                (6 k prefix [G,P,D]   7 v prefix [G,P,D]: constants in the caches' codes; what rows 0 .. P - 1 of the caches hold
//                from the beginning, so that the first run is at position P; the same P in all attentions of a graph)
//   Q_EMBEDDING  0 ids s32/s64   1 rows s8 [V,D]   2 multiplier [V]   3 shift [V];  RQ(row code; row's M)
//   MAX_POOL, RESHAPE, TRANSPOSE, CONCAT, SLICE, GATHER*, PAD (code), EXPAND, TILE, DEPTH_TO_SPACE, SPACE_TO_DEPTH, MIN,
//   MAX, IDENTITY move or compare codes: all activations of such a node have the same encoding.
#ifndef ITG_GRAPH_INTEGER_OPS_H
#define ITG_GRAPH_INTEGER_OPS_H

#include <stdint.h>

enum {
  ITG_Q_CONV_X = 0,
  ITG_Q_CONV_WEIGHT,
  ITG_Q_CONV_BIAS,
  ITG_Q_CONV_MULTIPLIER,
  ITG_Q_CONV_SHIFT,
  ITG_Q_CONV_NEGATIVE_MULTIPLIER,
  ITG_Q_CONV_NEGATIVE_SHIFT,
  ITG_Q_CONV_BLOCK_SCALE,
};

// Bound of an attention's weighted sum of values: u16 probabilities of a row sum to at most 2^16 plus half a code a key.
static inline uint64_t itg_attention_value_bound(int64_t context, int64_t deviation) {
  return ((uint64_t)65536 + (uint64_t)context / 2 + 1) * (uint64_t)deviation;
}

#endif
