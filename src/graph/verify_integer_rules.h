// Rules shared by the two files of the gate for integer graphs (verify_integer.c, verify_integer_weights.c).
#ifndef ITG_GRAPH_VERIFY_INTEGER_RULES_H
#define ITG_GRAPH_VERIFY_INTEGER_RULES_H

#include "graph/graph.h"

// |multiplier| < 2^31, pre_shift in 0..31, shift - pre_shift in 1..62.
ITG_MUST_USE itg_status itg_check_requantize(const itg_node *node, int64_t multiplier, int64_t shift, int64_t pre_shift,
                                             itg_diagnostic *diagnostic);
// The same for the constant vectors `first` (multipliers) and `first` + 1 (shifts), which have one length.
ITG_MUST_USE itg_status itg_check_requantize_vectors(const itg_node *node, int32_t first, int32_t pre_shift,
                                                     itg_diagnostic *diagnostic);
// |acc| <= bound: below 2^31, or for a wide step below 2^31 after the pre-shift (and below 2^62 before).
ITG_MUST_USE itg_status itg_check_accumulator(const itg_node *node, uint64_t bound, bool wide, int32_t pre_shift,
                                              itg_diagnostic *diagnostic);
// low <= high, both codes of the output's type.
ITG_MUST_USE itg_status itg_check_codes(const itg_node *node, const itg_tensor *output, int32_t low, int32_t high,
                                        itg_diagnostic *diagnostic);
// Factor and shift of a softmax distance: 0 <= k, shift in 1..62.
ITG_MUST_USE itg_status itg_check_softmax_factor(const itg_node *node, int32_t k, int32_t shift,
                                                 itg_diagnostic *diagnostic);
// Zero point of a tensor with one scale; 0 without an encoding.
int32_t itg_zero_point(const itg_tensor *tensor);
// Largest |code - zero point| of a tensor's type.
int64_t itg_code_deviation(const itg_tensor *tensor);

// Convolutions and fully connected layers: bounds recomputed from the weights.
ITG_MUST_USE itg_status itg_check_q_conv(const itg_node *node, itg_diagnostic *diagnostic);
// Every window holds at least one element; divisors have entries.
ITG_MUST_USE itg_status itg_check_q_average_pool(const itg_node *node, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_check_max_pool(const itg_node *node, itg_diagnostic *diagnostic);
// Row and column tables stay inside the image; weights are 0..2048.
ITG_MUST_USE itg_status itg_check_q_resize(const itg_node *node, itg_diagnostic *diagnostic);
// Tables of constants within +-2^30; the bound of the rotated codes.
ITG_MUST_USE itg_status itg_check_q_rope(const itg_node *node, itg_diagnostic *diagnostic);
// Both accumulators within their proven bounds; caches in the encodings of k and v.
ITG_MUST_USE itg_status itg_check_q_attention(const itg_node *node, itg_diagnostic *diagnostic);

#endif
