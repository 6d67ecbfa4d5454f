// See ablate.h.
#include "compile/ablate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compile/trial.h"

typedef struct ablation {
  const itg_graph *canonical;
  const itg_recipe *recipe;
  const itg_ablate_options *options;
  itg_trial trial;
  itg_arena *arena;
  itg_diagnostic *diagnostic;
  itg_ablation *rows;
  size_t count, total;
} ablation;

static itg_status measure(ablation *a, itg_methods_off off, itg_weight_method weights, itg_diagnostic *diagnostic,
                          itg_ablation *row) {
  itg_recipe recipe = *a->recipe; // Borrows the rules.
  recipe.methods_off = off;
  recipe.weight_method = weights;
  itg_build_options build = a->options->build;
  build.progress = NULL; // One bar for all of it.
  build.show = NULL;
  itg_calibrated calibrated = {0};
  itg_trial_score score;
  ITG_TRY(itg_build_calibrate(a->canonical, &recipe, &build, diagnostic, &calibrated));
  const itg_status status = itg_trial_recipe(&a->trial, &calibrated, &recipe, diagnostic, &score);
  itg_calibrated_free(&calibrated);
  ITG_TRY(status);
  row->cosine_mean = score.cosine_mean;
  row->cosine_min = score.cosine_min;
  row->noise = score.noise;
  return ITG_OK;
}

static itg_status add_row(ablation *a, const char *name, const char *effect, itg_methods_off off,
                          itg_weight_method weights) {
  const itg_build_options *build = &a->options->build;
  if (build->progress && build->progress(build->progress_context, "ablating", (long long)a->count, (long long)a->total))
    ITG_FAIL(a->diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled while ablating");
  itg_ablation *row = &a->rows[a->count++];
  *row = (itg_ablation){.method = name, .effect = effect, .cosine_mean = NAN, .cosine_min = NAN, .noise = NAN};
  itg_diagnostic why = {0};
  const itg_status status = measure(a, off, weights, &why, row);
  if (status == ITG_OK) return ITG_OK;
  const bool is_verdict = status == ITG_ERROR_QUANTIZATION || status == ITG_ERROR_UNSUPPORTED;
  if (a->count == 1 || !is_verdict) {
    if (a->diagnostic) *a->diagnostic = why;
    return status;
  }
  row->failure = itg_arena_string(a->arena, why.message, strlen(why.message));
  ITG_TRY_MEMORY(row->failure, a->diagnostic);
  return ITG_OK;
}

// What the recipe's weight method buys over each of the others that walk less or further.
static const struct {
  itg_weight_method method;
  const char *name, *effect;
} other_weights[] = {
    {ITG_WEIGHT_NEAREST, "with nearest weights", "weights only rounded"},
    {ITG_WEIGHT_SEQUENTIAL, "with seqmse weights", "scales of least error in each layer's outputs"},
    {ITG_WEIGHT_FEEDBACK, "with gptq weights", "weights rounded with feedback, layer by layer"},
};
enum { OTHER_WEIGHTS = sizeof other_weights / sizeof other_weights[0] };

static itg_status run(ablation *a) {
  const itg_methods_off off = a->recipe->methods_off;
  const itg_weight_method weights = a->recipe->weight_method;
  a->total = 2;
  for (int i = 0; i < OTHER_WEIGHTS; i++) a->total += other_weights[i].method != weights;
  for (int i = 0; i < ITG_METHOD_COUNT; i++) a->total += itg_method_is_on(off, (itg_method)i);
  a->rows = itg_arena_array(a->arena, a->total, sizeof *a->rows);
  ITG_TRY_MEMORY(a->rows, a->diagnostic);
  ITG_TRY(add_row(a, "everything on", "the program as it is", off, weights));
  itg_methods_off all = off;
  for (int i = 0; i < ITG_METHOD_COUNT; i++) {
    if (!itg_method_is_on(off, (itg_method)i)) continue;
    const itg_method_info *info = itg_method_get_info((itg_method)i);
    const itg_methods_off bit = (itg_methods_off)1 << i;
    all |= bit;
    ITG_TRY(add_row(a, info->name, info->effect, off | bit, weights));
  }
  for (int i = 0; i < OTHER_WEIGHTS; i++) {
    if (other_weights[i].method != weights)
      ITG_TRY(add_row(a, other_weights[i].name, other_weights[i].effect, off, other_weights[i].method));
  }
  ITG_TRY(add_row(a, "all off", "none of the methods above, weights only rounded", all, ITG_WEIGHT_NEAREST));
  for (size_t i = 0; i < a->count; i++)
    a->rows[i].bought_db = a->rows[i].noise == a->rows[0].noise ? 0 : 10 * log10(a->rows[i].noise / a->rows[0].noise);
  const itg_build_options *build = &a->options->build;
  if (build->progress && build->progress(build->progress_context, "ablating", (long long)a->total, (long long)a->total))
    ITG_FAIL(a->diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled while ablating");
  return ITG_OK;
}

itg_status itg_ablate(const itg_graph *canonical, const itg_float_network *network, const itg_recipe *recipe,
                      const itg_ablate_options *options, itg_arena *arena, itg_diagnostic *diagnostic,
                      itg_ablation **rows, size_t *row_count) {
  ablation a = {.canonical = canonical,
                .recipe = recipe,
                .options = options,
                .trial = {.network = network, .build = options->build, .samples = options->judge},
                .arena = arena,
                .diagnostic = diagnostic};
  a.trial.build.show = NULL;
  const itg_target *target = options->build.target;
  if (target) a.trial.cpu = target->arch < 73 ? "htp-v68" : "htp-v73";
  const itg_status status = run(&a);
  itg_trial_free(&a.trial);
  if (status != ITG_OK) return status;
  *rows = a.rows;
  *row_count = a.count;
  return ITG_OK;
}
