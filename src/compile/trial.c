// See trial.h.
#include "compile/trial.h"

#include <math.h>
#include <stdlib.h>

#include "compile/cost.h"
#include "container/container.h"

static itg_status judge(itg_trial *trial, const itg_graph *legal, uint8_t **bytes, itg_model **model,
                        itg_judgement *judgement, itg_diagnostic *diagnostic) {
  size_t size;
  ITG_TRY(itg_container_encode(legal, NULL, 0, diagnostic, bytes, &size));
  ITG_TRY(itg_model_open_memory(*bytes, size, diagnostic, model));
  const itg_judge_options options = {.samples = trial->samples,
                                     .cpu = trial->cpu,
                                     .pool = trial->build.pool,
                                     .reference = &trial->reference,
                                     .is_trial = true};
  return itg_judge(trial->network, *model, NULL, &options, diagnostic, judgement);
}

itg_status itg_trial_recipe(itg_trial *trial, const itg_calibrated *calibrated, const itg_recipe *recipe,
                            itg_diagnostic *diagnostic, itg_trial_score *out) {
  itg_build_options build = trial->build;
  build.progress = NULL;
  itg_built built = {0};
  itg_judgement judgement = {0};
  uint8_t *bytes = NULL;
  itg_model *model = NULL;
  ITG_TRY(itg_build_program(calibrated, recipe, &build, diagnostic, &built));
  const itg_status status = judge(trial, built.legal, &bytes, &model, &judgement, diagnostic);
  if (status == ITG_OK) {
    itg_trial_score score = {.cosine_mean = 1, .cosine_min = 1, .cost = itg_program_cost(built.legal, build.target)};
    for (size_t i = 0; i < judgement.output_count; i++) {
      const itg_output_accuracy *summary = &judgement.outputs[i].summary;
      score.cosine_mean = fmin(score.cosine_mean, summary->cosine_mean);
      score.cosine_min = fmin(score.cosine_min, summary->cosine_min);
      score.noise += summary->noise / (double)judgement.output_count;
    }
    *out = score;
  }
  itg_judgement_free(&judgement);
  itg_model_close(model);
  free(bytes);
  itg_built_free(&built);
  return status;
}

void itg_trial_free(itg_trial *trial) {
  itg_arena_free(&trial->reference.arena);
  trial->reference = (itg_judge_reference){0};
}
