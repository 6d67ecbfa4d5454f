// BatchNorm as gain and offset.
#ifndef ITG_PASSES_BATCH_NORM_H
#define ITG_PASSES_BATCH_NORM_H

#include "graph/graph.h"

// gain[c]*x[c] + offset[c] equals the BATCH_NORM node; malloc'ed, [C]. Both NULL when a parameter is not a constant.
ITG_MUST_USE itg_status itg_batch_norm_affine(const itg_node *node, itg_diagnostic *diagnostic, double **gain,
                                              double **offset);

#endif
