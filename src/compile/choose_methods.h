// Which methods help this model: those of them that can also do harm are tried.
#ifndef ITG_COMPILE_CHOOSE_METHODS_H
#define ITG_COMPILE_CHOOSE_METHODS_H

#include "compile/build.h"
#include "compile/float_network.h"

// Switches methods off in recipe->methods_off that make the outputs worse. Of the calibration samples every second one
// calibrates the trials and the others judge them, so that the samples that judge the result stay unseen; with fewer than 8
// samples, and where operands have 16 bits, nothing is tried. Costs one build a method. `canonical` is the graph behind
// `network`. Errors: those of building and judging, CANCELLED.
ITG_MUST_USE itg_status itg_choose_methods(const itg_graph *canonical, const itg_float_network *network,
                                           const itg_build_options *build, itg_recipe *recipe,
                                           itg_diagnostic *diagnostic);

// For 16-bit operands, next to which the rounding of 8-bit weights is all that is lost: gptq, where there are 8 samples or more
// and the walk through the layers takes about a minute at most. Leaves other recipes alone.
void itg_choose_weight_method(const itg_graph *canonical, size_t sample_count, itg_recipe *recipe);

#endif
