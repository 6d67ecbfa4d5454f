// See targets.h.
#include "compile/targets.h"

#include <stdlib.h>
#include <string.h>

#include "lower/qnn/prepare.h"
#include "npu/qnn/stored.h"

enum { OPTIMIZATION_LEVEL = 3 };

itg_status itg_targets_find(const itg_compile_options *options, itg_diagnostic *diagnostic, itg_compile_targets *out) {
  itg_compile_targets targets = {0};
  for (size_t i = 0; i < options->target_count; i++) {
    if (strcmp(options->targets[i], "cpu") == 0) continue;
    const itg_target *chip = NULL;
    ITG_TRY(itg_target_find(options->targets[i], diagnostic, &chip));
    for (size_t k = 0; k < targets.count; k++) {
      if (targets.chips[k] == chip) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, chip->name, "the target is given twice");
    }
    if (targets.count == ITG_MAX_TARGETS)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, chip->name, "more than %d targets in one file", ITG_MAX_TARGETS);
    targets.chips[targets.count++] = chip;
    if (!targets.strictest || chip->arch < targets.strictest->arch) targets.strictest = chip;
  }
  *out = targets;
  return ITG_OK;
}

itg_status itg_targets_prepare(itg_compile_targets *targets, const itg_graph *graph, const itg_compile_options *options,
                               itg_diagnostic *diagnostic) {
  const itg_qnn_prepare_options prepare = {.directory = options->qnn_directory,
                                           .optimization_level = OPTIMIZATION_LEVEL};
  for (size_t i = 0; i < targets->count; i++) {
    const itg_target *chip = targets->chips[i];
    if (options->progress &&
        options->progress(options->progress_context, "preparing for the NPU", (long long)i, (long long)targets->count))
      ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, chip->name, "cancelled while preparing for the NPU");
    itg_qnn_blob blob = {0};
    ITG_TRY(itg_qnn_prepare_isolated(graph, chip, &prepare, diagnostic, &blob));
    const itg_status status =
        itg_qnn_stored_encode(chip, blob.core, blob.build, OPTIMIZATION_LEVEL, blob.op_count, blob.inputs,
                              blob.input_count, blob.outputs, blob.output_count, (itg_span){blob.data, blob.size},
                              diagnostic, &targets->contexts[i], &targets->context_sizes[i]);
    itg_qnn_blob_free(&blob);
    ITG_TRY(status);
  }
  return ITG_OK;
}

void itg_targets_sections(const itg_compile_targets *targets, itg_metadata_section *sections) {
  for (size_t i = 0; i < targets->count; i++)
    sections[i] = (itg_metadata_section){targets->chips[i]->name, (const char *)targets->contexts[i],
                                         targets->context_sizes[i], true};
}

void itg_targets_free(itg_compile_targets *targets) {
  for (size_t i = 0; i < targets->count; i++) free(targets->contexts[i]);
  *targets = (itg_compile_targets){0};
}
