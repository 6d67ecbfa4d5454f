// Runs samples through the float network and the integer program and measures how near the two are.
#ifndef ITG_COMPILE_JUDGE_H
#define ITG_COMPILE_JUDGE_H

#include "base/parallel.h"
#include "compile/float_network.h"
#include "compile/layers.h"
#include "report/report.h"

// Answers of the float network, kept from one judgement to the next on the same samples so that it runs once. Starts zeroed.
typedef struct itg_judge_reference {
  itg_arena arena;
  float **outputs; // [samples][outputs]; NULL before the first judgement.
} itg_judge_reference;

typedef struct itg_judge_options {
  itg_samples samples;
  const char *cpu; // As in itg_session_options, and the next three.
  const char *backend, *target, *qnn_directory;
  itg_pool *pool;                 // For samples side by side.
  itg_judge_reference *reference; // May be NULL.
  bool is_trial;                  // Only the accuracy counts: nothing is timed, layers are not listed.
  const char *stage;              // For the progress; NULL: "judging".
  itg_progress_function progress;
  void *progress_context;
} itg_judge_options;

// Results live in the judgement's arena; names of outputs borrow from the float network, step names from the arena.
typedef struct itg_judgement {
  itg_arena arena;
  itg_accuracy *outputs;
  size_t output_count;
  const char **names, **groups; // One a sample; groups NULL when no sample has one.
  double float_milliseconds;    // Best of a few runs of the interpreter, one thread.
  double integer_milliseconds;  // Likewise of a session, one thread.
  const char *cpu;
  size_t workspace_bytes;
  itg_report_layer *layers;
  size_t layer_count;
  itg_ablation *ablation; // NULL unless somebody put it there.
  size_t ablation_count;
  itg_layers_result layers_result; // Nothing measured unless itg_layers_measure was called.
  bool collapsed;
  char reason[256];
} itg_judgement;

// Inputs and outputs of both are matched by order. `legal` (may be NULL) is the graph inside the model and gives shapes
// and code widths to the layers. Errors: SHAPE (the two do not belong together), CANCELLED, those of the samples.
ITG_MUST_USE itg_status itg_judge(const itg_float_network *network, const itg_model *model, const itg_graph *legal,
                                  const itg_judge_options *options, itg_diagnostic *diagnostic, itg_judgement *out);
void itg_judgement_free(itg_judgement *judgement);

// Copies what a judgement knows into a report, which borrows from it.
void itg_judgement_describe(const itg_judgement *judgement, itg_report *report);

#endif
