// The list of rewrites, in order. See passes.h.
#include "graph/verify.h"
#include "passes/list.h"

static const itg_pass passes[] = {
    {"widen-floats", itg_pass_widen_floats},
    {"fold-constants", itg_pass_fold_constants},
    {"eliminate", itg_pass_eliminate},
    {"recognise-norms", itg_pass_recognise_norms},
    {"recognise-activations", itg_pass_recognise_activations},
    {"recognise-pixel-shuffle", itg_pass_recognise_pixel_shuffle},
    {"matmul-to-fully-connected", itg_pass_matmul_to_fully_connected},
    // Twice: each opens the way for the other.
    {"fold-batch-norm", itg_pass_fold_batch_norm},
    {"fold-channel-constants", itg_pass_fold_channel_constants},
    {"fold-batch-norm", itg_pass_fold_batch_norm},
    {"fold-channel-constants", itg_pass_fold_channel_constants},
    {"simplify-arithmetic", itg_pass_simplify_arithmetic},
    {"merge-scale-and-shift", itg_pass_merge_scale_and_shift},
    {"merge-padding", itg_pass_merge_padding},
    {"channels-last", itg_pass_channels_last},
    // Twice: merging reshapes opens the way for transposes, and the other way round.
    {"sink-transposes", itg_pass_sink_transposes},
    {"absorb-transposes", itg_pass_absorb_transposes},
    {"merge-reshapes", itg_pass_merge_reshapes},
    {"sink-transposes", itg_pass_sink_transposes},
    {"merge-reshapes", itg_pass_merge_reshapes},
    {"fuse-activations", itg_pass_fuse_activations},
    {"fold-constants", itg_pass_fold_constants},
    {"eliminate", itg_pass_eliminate},
};

const itg_pass *itg_pass_list(size_t *count) {
  *count = sizeof passes / sizeof passes[0];
  return passes;
}

itg_status itg_passes_run(itg_graph *graph, itg_pass_observer observer, void *context, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_graph_verify(graph, ITG_STAGE_IMPORTED, diagnostic));
  for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
    bool changed = false;
    ITG_TRY(passes[i].run(graph, &changed, diagnostic));
    if (!changed) continue;
    ITG_TRY(itg_graph_verify(graph, ITG_STAGE_IMPORTED, diagnostic));
    if (observer) observer(context, passes[i].name, graph);
  }
  ITG_TRY(itg_graph_verify(graph, ITG_STAGE_CANONICAL, diagnostic));
  graph->stage = ITG_STAGE_CANONICAL;
  return ITG_OK;
}
