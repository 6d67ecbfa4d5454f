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

// gptq, where the network gives one answer and not one a position, there are 8 samples or more, and the walk through the layers
// takes about a minute at most. Next to 16-bit operands the rounding of 8-bit weights is all that is lost; next to a8w8+s16's it
// is a part (face embedder 24.7 -> 25.2 dB, MiniLM's lowest cosine .9894 -> .9909, NudeNet 39.7 -> 42.9 dB, PP-OCRv4 recognition
// 94 -> 97 % of lines). Detectors are only rounded: what counts is rare among their positions, and a fit to samples with a few
// large objects loses small ones (face detector at a16w8, calibrated on portraits: 144 of 150 faces in crowds; rounded 150).
// a8w8, for which speed counts, and recipes that fit their weights are left alone.
void itg_choose_weight_method(const itg_graph *canonical, size_t sample_count, itg_recipe *recipe);

#endif
