// See choose_methods.h. Equalizing what convolutions read raises channels that were quiet in calibration and may be loud
// elsewhere, migrating scales makes weights harder to round, ranges of least squared error clip: on most networks each of
// them is worth decibels, on some it costs them (liveness network, a8w8+s16: 25.4 dB without channel equalization, 21.7
// with it). Local errors do not tell which; the outputs do.
#include "compile/choose_methods.h"

#include <string.h>

#include "compile/trial.h"
#include "plan/task.h"
#include "quantize/weight_fit/work.h"

enum { FEWEST_SAMPLES = 8, MOST_SAMPLES = 64 };
static const double clearly = 0.95; // A method goes when the outputs' noise falls below this part of what it was.
static const itg_method candidates[] = {ITG_METHOD_CHANNEL_EQUALIZATION, ITG_METHOD_SCALE_MIGRATION,
                                        ITG_METHOD_MSE_RANGES};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

typedef struct half { // Every second sample of at most MOST_SAMPLES.
  const itg_samples *samples;
  size_t first;
} half;

static itg_status read_half(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  const half *h = context;
  return h->samples->read(h->samples->context, h->first + 2 * index, inputs, diagnostic);
}

typedef struct search {
  const itg_graph *canonical;
  const itg_build_options *build; // Of the final program.
  const itg_recipe *recipe;
  itg_trial trial;
} search;

static itg_status noise_without(search *s, itg_methods_off off, itg_diagnostic *diagnostic, double *noise) {
  itg_recipe recipe = *s->recipe; // Borrows the rules.
  recipe.methods_off = off;
  recipe.weight_method = ITG_WEIGHT_NEAREST; // Fitting weights takes long, and none of the candidates depends on it.
  itg_calibrated calibrated = {0};
  itg_trial_score score;
  ITG_TRY(itg_build_calibrate(s->canonical, &recipe, &s->trial.build, diagnostic, &calibrated));
  const itg_status status = itg_trial_recipe(&s->trial, &calibrated, &recipe, diagnostic, &score);
  itg_calibrated_free(&calibrated);
  if (status == ITG_OK) *noise = score.noise;
  return status;
}

static itg_status show_progress(const search *s, int done, itg_diagnostic *diagnostic) {
  const itg_build_options *build = s->build;
  if (build->progress && build->progress(build->progress_context, "choosing methods", done, CANDIDATES + 1) != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled while choosing methods");
  return ITG_OK;
}

static itg_status run(search *s, itg_diagnostic *diagnostic, itg_methods_off *off) {
  double least;
  ITG_TRY(show_progress(s, 0, diagnostic));
  ITG_TRY(noise_without(s, *off, diagnostic, &least));
  for (int i = 0; i < CANDIDATES; i++) {
    ITG_TRY(show_progress(s, i + 1, diagnostic));
    if (!itg_method_is_on(*off, candidates[i])) continue;
    const itg_methods_off trial = *off | (itg_methods_off)1 << candidates[i];
    double noise;
    ITG_TRY(noise_without(s, trial, diagnostic, &noise));
    if (!(noise < clearly * least)) continue;
    least = noise;
    *off = trial;
  }
  return show_progress(s, CANDIDATES + 1, diagnostic);
}

itg_status itg_choose_methods(const itg_graph *canonical, const itg_float_network *network,
                              const itg_build_options *build, itg_recipe *recipe, itg_diagnostic *diagnostic) {
  const size_t count = build->calibration.count < MOST_SAMPLES ? build->calibration.count : MOST_SAMPLES;
  if (count < FEWEST_SAMPLES || itg_recipe_operand_bits(recipe) != 8) return ITG_OK;
  half even = {&build->calibration, 0}, odd = {&build->calibration, 1};
  search s = {.canonical = canonical,
              .build = build,
              .recipe = recipe,
              .trial = {.network = network,
                        .build = {.target = build->target,
                                  .pool = build->pool,
                                  .calibration = {.context = &even, .count = (count + 1) / 2, .read = read_half}},
                        .samples = {.context = &odd, .count = count / 2, .read = read_half}}};
  itg_methods_off off = recipe->methods_off;
  const itg_status status = run(&s, diagnostic, &off);
  itg_trial_free(&s.trial);
  if (status == ITG_OK) recipe->methods_off = off;
  return status;
}

// One core does about 10^10 of these multiply-accumulates a second (MiniLM: 2.4 * 10^11, 24 seconds of one core).
static const double affordable_work = 1.5e12;

// Whether the last weights before a tensor are a convolution's over several positions. `budget`: nodes that may be looked at.
static bool answers_by_position(const itg_tensor *tensor, int *budget) {
  const itg_node *node = tensor ? tensor->producer : NULL;
  if (!node || --*budget < 0) return false;
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE: {
    const itg_shape *shape = &node->outputs[0]->shape; // Channels last.
    return itg_plan_product(shape, 1, shape->rank - 1) > 1;
  }
  case ITG_OP_FULLY_CONNECTED:
  case ITG_OP_MATMUL:
  case ITG_OP_ATTENTION: return false;
  default:
    for (int32_t i = 0; i < node->input_count; i++) {
      if (answers_by_position(node->inputs[i], budget)) return true;
    }
    return false;
  }
}

static bool is_dense(const itg_graph *graph) {
  int budget = 1024;
  for (int32_t i = 0; i < graph->output_count; i++) {
    if (answers_by_position(graph->outputs[i], &budget)) return true;
  }
  return false;
}

void itg_choose_weight_method(const itg_graph *canonical, size_t sample_count, itg_recipe *recipe) {
  const bool is_plain = strcmp(recipe->precision, "a8w8") != 0 && recipe->weight_method == ITG_WEIGHT_NEAREST;
  if (is_plain && sample_count >= FEWEST_SAMPLES && !is_dense(canonical) &&
      itg_weight_fit_work(canonical, sample_count) <= affordable_work)
    recipe->weight_method = ITG_WEIGHT_FEEDBACK;
}
