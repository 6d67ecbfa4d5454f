// What each method that protects accuracy buys on a model: the program is built again with each of them switched off.
#ifndef ITG_COMPILE_ABLATE_H
#define ITG_COMPILE_ABLATE_H

#include "compile/build.h"
#include "compile/judge.h"

typedef struct itg_ablate_options {
  itg_build_options build;
  itg_samples judge; // At least one; not those that calibrate.
} itg_ablate_options;

// Rows (in `arena`): everything the recipe has on, then each of its methods off by itself, then other weight methods in the place
// of the recipe's (rules keep theirs), then all of them off with weights only rounded. A program that
// cannot be built without a method is no error: its row says why. With an NPU as target, programs are judged by its arithmetic.
// `canonical` is the graph behind `network`, with float32 inputs and outputs.
// Errors: those of building with everything on, of the samples, CANCELLED, MEMORY.
ITG_MUST_USE itg_status itg_ablate(const itg_graph *canonical, const itg_float_network *network,
                                   const itg_recipe *recipe, const itg_ablate_options *options, itg_arena *arena,
                                   itg_diagnostic *diagnostic, itg_ablation **rows, size_t *row_count);

#endif
