// The rewrites for each kind of target, in order. See adapt.h.
#include "adapt/adapt.h"

#include "adapt/list.h"
#include "graph/verify.h"
#include "passes/list.h"

itg_status itg_adapt_run(itg_graph *graph, const itg_target *target, itg_diagnostic *diagnostic) {
  bool changed = false;
  ITG_TRY(itg_adapt_absorb_quantization(graph, &changed, diagnostic));
  if (changed) ITG_TRY(itg_pass_fuse_activations(graph, &changed, diagnostic));
  ITG_TRY(itg_adapt_decompose_norms(graph, diagnostic));
  if (target) {
    ITG_TRY(itg_adapt_split_slopes(graph, diagnostic));
    ITG_TRY(itg_adapt_split_gates(graph, diagnostic));
  } else {
    ITG_TRY(itg_adapt_add_affine(graph, diagnostic));
  }
  ITG_TRY(itg_graph_verify(graph, ITG_STAGE_ADAPTED, diagnostic));
  graph->stage = ITG_STAGE_ADAPTED;
  return ITG_OK;
}
