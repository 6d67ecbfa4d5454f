// A recipe: which precision, range method and weight method each tensor and node gets. JSON, human-editable
// (docs/FORMATS.md); rules are matched by op kind and name glob, later rules win.
#ifndef ITG_QUANTIZE_RECIPE_H
#define ITG_QUANTIZE_RECIPE_H

#include "adapt/methods.h"
#include "base/arena.h"
#include "base/span.h"
#include "base/status.h"
#include "calibrate/calibrate.h"
#include "graph/graph.h"
#include "npu/target.h"

typedef enum itg_range_method { ITG_RANGE_MIN_MAX = 0, ITG_RANGE_MSE = 1 } itg_range_method;
// SEQUENTIAL and FEEDBACK walk through the network layer by layer over the samples (quantize/weight_fit): scales by the error
// in each layer's outputs, and with FEEDBACK also rounding with feedback (GPTQ), each where it helps on held-out samples.
typedef enum itg_weight_method {
  ITG_WEIGHT_NEAREST = 0,
  ITG_WEIGHT_MSE,
  ITG_WEIGHT_SEQUENTIAL,
  ITG_WEIGHT_FEEDBACK
} itg_weight_method;

typedef struct itg_recipe_rule {
  const char *op;          // Op name ("Conv") or NULL for any.
  const char *name;        // Glob over node names or NULL for any.
  const char *input;       // Glob over names of graph inputs: the rule is for them and for no node. NULL: for nodes.
  int32_t activation_bits; // Of the node's outputs, or of the input: 8, 16 or 0 (keep).
  int32_t weight_bits;     // 4, 8 or 0 (keep).
  int32_t weight_block;    // 16, 32, 64, 0 (none) or -1 (keep).
  int32_t range_method;    // itg_range_method or -1 (keep).
  int32_t weight_method;   // itg_weight_method or -1 (keep).
} itg_recipe_rule;

typedef struct itg_recipe {
  itg_arena arena;
  const char *precision; // "a8w8", "a16w8", "a8w8+s16", "a16w4".
  itg_range_method range_method;
  itg_weight_method weight_method;
  itg_methods_off methods_off; // Which methods of adapt/methods.def are not used.
  int32_t weight_block; // Of 4-bit fully connected layers (LPBQ): 16, 32, 64 or 0 for one scale an output channel.
  int32_t equalize_for; // Bits of operands that channels are made alike for: 8, 16 or 0 (those of the precision).
  itg_recipe_rule *rules;
  size_t rule_count;
} itg_recipe;

// The built-in recipe of a precision. Errors: ARGUMENT (unknown name; the message lists the known ones).
ITG_MUST_USE itg_status itg_recipe_builtin(const char *precision, itg_diagnostic *diagnostic, itg_recipe *out);
// Bits of what convolutions and matrix products read where no rule says otherwise: 8 or 16.
int32_t itg_recipe_operand_bits(const itg_recipe *recipe);
// Bits of weights where no rule says otherwise: 4 or 8.
int32_t itg_recipe_weight_bits(const itg_recipe *recipe);
// What calibration does to the graph under this recipe.
itg_equalization itg_recipe_equalization(const itg_recipe *recipe, const itg_target *target);
// Parses a recipe file. Errors: FORMAT (with line and column), LIMIT.
ITG_MUST_USE itg_status itg_recipe_parse(itg_span json, itg_diagnostic *diagnostic, itg_recipe *out);
// malloc'ed JSON text, or NULL.
char *itg_recipe_to_json(const itg_recipe *recipe);
void itg_recipe_free(itg_recipe *recipe);

#endif
