// From a canonical float graph to LEGAL ones: adapt and calibrate once, quantize as often as recipes are tried.
#ifndef ITG_COMPILE_BUILD_H
#define ITG_COMPILE_BUILD_H

#include "base/parallel.h"
#include "calibrate/calibrate.h"
#include "graph/graph.h"
#include "intaglio/compiler.h"
#include "npu/target.h"
#include "quantize/recipe.h"

// Makes half-precision inputs and outputs of a canonical graph float32. Errors: MEMORY.
ITG_MUST_USE itg_status itg_build_widen_ends(itg_graph *canonical, itg_diagnostic *diagnostic);

typedef struct itg_build_options {
  const itg_target *target; // Whose rules are followed; NULL: our own kernels.
  itg_pool *pool;
  itg_samples calibration; // At least one.
  // Shows the graph after adapt, quantize and legalize; may be NULL.
  void (*show)(void *context, const char *stage, const itg_graph *graph);
  void *show_context;
  itg_progress_function progress; // May be NULL.
  void *progress_context;
} itg_build_options;

// A graph with its statistics, stage CALIBRATED, which is only read from then on. Borrows constants of the canonical graph, and
// reads the calibration samples again where weights are fitted: they must still be there when programs are built.
typedef struct itg_calibrated {
  itg_graph *graph;
  itg_statistics *statistics;
  uint64_t hash;   // Of all calibration samples (itg_calibration_feed).
  itg_arena arena; // Of the feed, which the statistics keep.
} itg_calibrated;
// `canonical` is left as it is and must outlive the result. Of the recipe only what concerns calibration matters: the bits of
// operands and the methods that change float graphs. Errors: those of itg_adapt_run and itg_calibrate.
ITG_MUST_USE itg_status itg_build_calibrate(const itg_graph *canonical, const itg_recipe *recipe,
                                            const itg_build_options *options, itg_diagnostic *diagnostic,
                                            itg_calibrated *out);
void itg_calibrated_free(itg_calibrated *calibrated);

// One program. `twin` is that of itg_quantize_with_twin; it and `quantized` borrow from the calibrated graph.
typedef struct itg_built {
  itg_graph *quantized, *twin, *legal;
  itg_statistics *statistics;
} itg_built;
// Errors: those of itg_quantize and itg_legalize.
ITG_MUST_USE itg_status itg_build_program(const itg_calibrated *calibrated, const itg_recipe *recipe,
                                          const itg_build_options *options, itg_diagnostic *diagnostic, itg_built *out);
void itg_built_free(itg_built *built);

#endif
