// What the steps of itg_quantize share: one entry for each float activation of the graph.
#ifndef ITG_QUANTIZE_PLAN_H
#define ITG_QUANTIZE_PLAN_H

#include "quantize/encodings.h"
#include "quantize/quantize.h"

typedef struct itg_activation_entry {
  itg_tensor *tensor;
  const itg_tensor_statistics *statistics; // NULL for an empty tensor. A converted copy has its source's.
  int32_t bits;                            // 8 or 16.
  int32_t range_method;                    // itg_range_method
  bool chosen;                             // A recipe rule set `bits`; no automatic rule changes it.
  bool symmetric;                          // Zero point in the middle: second operand of a MatMul.
  bool given;                              // Its encoding came with the model.
  bool wide_product;                       // Its producer multiplies 16-bit operands where the recipe has 8-bit ones.
  bool fixed;                              // Scale 2^-bits, zero point 0: the output of Softmax or Sigmoid.
  size_t parent;                           // Union-find: entries of one group share one encoding.
  // Of the whole group, kept at the entry that stands for it.
  double low, high; // Holds 0.
  bool is_input;    // A graph input is among its members.
} itg_activation_entry;

// One thread at a time. tensor->index is the entry's number for every tensor that has one, else -1.
typedef struct itg_quantize_plan {
  itg_graph *graph;
  const itg_statistics *statistics;
  const itg_recipe *recipe;
  const itg_target *target; // NULL: our own kernels, whose operands may differ in bits.
  itg_pool *pool;
  itg_activation_entry *entries; // malloc'ed; grows when Converts are inserted.
  size_t count, capacity;
} itg_quantize_plan;

// What the recipe says about one node. activation_bits is 0 where no rule set it.
typedef struct itg_node_choice {
  int32_t activation_bits;
  int32_t range_method, weight_method;
  int32_t weight_bits, weight_block; // weight_bits is 0 where no rule set it.
} itg_node_choice;
itg_node_choice itg_recipe_choice(const itg_recipe *recipe, const itg_node *node);

// Likewise the activation bits of a graph input; 0 where no rule set them.
int32_t itg_recipe_input_bits(const itg_recipe *recipe, const char *input);

// The entry of a float activation; NULL for constants, integers and absent inputs.
static inline itg_activation_entry *itg_plan_entry(const itg_quantize_plan *plan, const itg_tensor *tensor) {
  return tensor && tensor->index >= 0 ? &plan->entries[tensor->index] : NULL;
}
// Appends an entry for `tensor`. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_add(itg_quantize_plan *plan, itg_tensor *tensor,
                                     const itg_tensor_statistics *statistics, itg_diagnostic *diagnostic);
// Number of the entry that stands for the group of entry `index`.
size_t itg_plan_group(itg_quantize_plan *plan, size_t index);

// True when the node's output holds nothing but codes of its first input (or of all inputs: CONCAT, MIN, MAX), so that
// both may share an encoding.
bool itg_op_moves_codes(itg_op op);

// import_qdq.c: QuantizeLinear/DequantizeLinear pairs around activations become encodings. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_import_qdq(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// masks.c: scales attention masks of huge negative numbers down to what Softmax needs. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_masks(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// precision.c: bits of every entry, and Converts (IDENTITY nodes whose sides have different encodings) where a reader
// takes fewer bits than the tensor has. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_precision(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// head.c: 16 bits from the graph outputs back to the last operations with weights, and in these too where that is cheap.
// Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_head(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// split_values.c: products of Softmax and 16-bit values become two with 8-bit ones. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_split_values(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// precision_target.c: operands as wide as their result where the NPU asks for that. Does nothing without a target.
// bits: before the Converts of itg_plan_precision; widen: after them. Errors: MEMORY.
void itg_plan_target_bits(itg_quantize_plan *plan);
// snap: between ranges and moves. v68 keeps 11 bits of a factor: scales of MatMul results are enlarged (by 2^-10 at most) so that
// their factor has no more. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_target_snap(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_plan_target_widen(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// A new tensor behind `tensor` with its own entry, through an IDENTITY that becomes a Convert. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_convert(itg_quantize_plan *plan, itg_tensor *tensor, int32_t bits, bool symmetric,
                                         itg_diagnostic *diagnostic, itg_tensor **out);
// groups.c: which entries share an encoding.
void itg_plan_groups(itg_quantize_plan *plan);
// ranges.c: chooses the encoding of every group and sets tensor->encoding. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_ranges(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// moves.c: operands of nodes that move codes get the encoding of the node's output. Errors: MEMORY.
ITG_MUST_USE itg_status itg_plan_moves(itg_quantize_plan *plan, itg_diagnostic *diagnostic);
// weights.c: weights and biases of convolutions and fully connected layers become integers. Needs the activations'
// encodings. Errors: UNSUPPORTED (weights that are not constant), QUANTIZATION, MEMORY.
ITG_MUST_USE itg_status itg_plan_weights(itg_quantize_plan *plan, itg_diagnostic *diagnostic);

// mse.c: the range in [low, high] that minimises the squared error of `levels` codes, clipping weighted, over histograms that cover the
// ranges [low_i, high_i] of `count` statistics. Exact zeros (values of the bin that begins or ends at 0) cost nothing
// inside the range. *low <= 0 <= *high on return.
void itg_range_mse(const itg_tensor_statistics *const *statistics, size_t count, int32_t levels, double *low,
                   double *high);

#endif
