// See targets.h.
#include "compile/targets.h"

#include <stdlib.h>
#include <string.h>

#include "compile/source.h"
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

static const char *keep(itg_arena *arena, const char *text) { return itg_arena_string(arena, text, strlen(text)); }

itg_status itg_placement_describe(const itg_graph *graph, const itg_target *chip, const itg_qnn_blob *blob,
                                  const itg_qnn_partition *part, itg_arena *arena, itg_diagnostic *diagnostic,
                                  itg_placement *out) {
  const size_t on_cpu = part->node_count - part->npu_count;
  itg_cpu_node *nodes = itg_arena_array(arena, on_cpu, sizeof nodes[0]);
  ITG_TRY_MEMORY(nodes, diagnostic);
  size_t i = 0, k = 0;
  ITG_FOR_EACH_NODE(node, graph) {
    const size_t at = i++;
    if (part->places[at] == ITG_QNN_ON_NPU) continue;
    nodes[k] = (itg_cpu_node){.name = keep(arena, node->name),
                              .op = itg_op_name((int)node->op),
                              .reason = keep(arena, part->reasons[at]),
                              .is_behind = part->places[at] == ITG_QNN_BEHIND,
                              .is_follower = !part->refused[at]};
    ITG_TRY_MEMORY(nodes[k].name && nodes[k].reason, diagnostic);
    k++;
  }
  *out = (itg_placement){.target = chip->name,
                         .node_count = part->node_count,
                         .npu_node_count = part->npu_count,
                         .operation_count = blob->op_count,
                         .context_bytes = blob->size,
                         .prepare_peak_bytes = blob->peak_memory_bytes,
                         .cpu_nodes = nodes,
                         .build = keep(arena, blob->build)};
  ITG_TRY_MEMORY(out->build, diagnostic);
  return ITG_OK;
}

static itg_status store(itg_compile_targets *targets, size_t i, const itg_graph *graph, const itg_qnn_blob *blob,
                        itg_diagnostic *diagnostic) {
  itg_qnn_partition part = {0};
  ITG_TRY(itg_qnn_blob_partition(blob, graph, diagnostic, &part));
  itg_status status = itg_placement_describe(graph, targets->chips[i], blob, &part, &targets->arena, diagnostic,
                                             &targets->placements[i]);
  for (int32_t k = 0; k < part.input_count; k++) blob->inputs[k].name = part.inputs[k]->name;
  for (int32_t k = 0; k < part.output_count; k++) blob->outputs[k].name = part.outputs[k]->name;
  if (status == ITG_OK)
    status = itg_qnn_stored_encode(targets->chips[i], blob->core, blob->build, OPTIMIZATION_LEVEL, blob->op_count,
                                   blob->inputs, blob->input_count, blob->outputs, blob->output_count,
                                   (itg_span){blob->data, blob->size}, diagnostic, &targets->contexts[i],
                                   &targets->context_sizes[i]);
  itg_qnn_partition_free(&part);
  return status;
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
    const double start = itg_now();
    ITG_TRY(itg_qnn_prepare_isolated(graph, chip, &prepare, diagnostic, &blob));
    const double seconds = itg_now() - start;
    const itg_status status = store(targets, i, graph, &blob, diagnostic);
    targets->placements[i].prepare_seconds = seconds;
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

void itg_targets_free_contexts(itg_compile_targets *targets) {
  for (size_t i = 0; i < targets->count; i++) {
    free(targets->contexts[i]);
    targets->contexts[i] = NULL;
  }
}

void itg_targets_free(itg_compile_targets *targets) {
  itg_targets_free_contexts(targets);
  itg_arena_free(&targets->arena);
  *targets = (itg_compile_targets){0};
}
