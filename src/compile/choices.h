// Which choices of precision a network offers: units of nodes whose outputs must be equally wide, each stored and read in 8 or 16
// bits.
#ifndef ITG_COMPILE_CHOICES_H
#define ITG_COMPILE_CHOICES_H

#include "compile/build.h"
#include "compile/sensitivity.h"
#include "quantize/recipe.h"

typedef struct itg_choices {
  itg_choice *items;
  size_t count;
  size_t
      *storage_of; // [count] Of an operand choice: 1 + the storage choice of the same nodes, which it includes; else 0.
} itg_choices;

// `wide` and `narrow`: the a8w8+s16 and the a8w8 program of one calibrated graph. Uses node->index of wide->twin. Results lie in
// `arena` and point into wide->twin and narrow->twin. Losses are not filled in. Errors: MEMORY.
ITG_MUST_USE itg_status itg_choices_find(const itg_built *wide, const itg_built *narrow, const itg_target *target,
                                         itg_arena *arena, itg_diagnostic *diagnostic, itg_choices *out);

// The rules that make the choices with picked[i] wide and the others narrow, for a recipe of precision a8w8+s16; in
// recipe->arena. Errors: MEMORY.
ITG_MUST_USE itg_status itg_choices_to_rules(const itg_choices *choices, const bool *picked, itg_diagnostic *diagnostic,
                                             itg_recipe *recipe);

#endif
