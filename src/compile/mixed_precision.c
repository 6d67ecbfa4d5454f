// See mixed_precision.h.
#include "compile/mixed_precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compile/choices.h"
#include "compile/choose_methods.h"
#include "compile/cost.h"
#include "compile/trial.h"
#include "plan/task.h"

enum { MIN_SAMPLES = 2, MAX_SAMPLES = 8, MAX_SWAPS = 4 };
static const double SENSITIVITY_PRODUCTS = 4e11; // Multiply-accumulates spent on measuring choices, roughly.
static const double DEFAULT_COST = 1.3;

typedef struct ranked_choice {
  double worth; // Loss avoided per cost.
  size_t item;
} ranked_choice;

typedef struct search {
  const itg_calibrated *calibrated; // That of the caller, or `second`.
  itg_calibrated second;            // For 16-bit operands.
  const itg_mixed_options *options;
  itg_diagnostic *diagnostic;
  itg_recipe *recipe;
  itg_arena arena;
  itg_trial trial;
  itg_built wide, narrow;
  itg_choices choices;
  ranked_choice *order; // The most worthwhile first.
  bool *picked;         // [choices]
  double narrow_cost;
} search;

itg_status itg_budget_parse(const char *text, itg_diagnostic *diagnostic, itg_budget *out) {
  itg_budget budget = {.cost = DEFAULT_COST, .cosine = NAN};
  char *end = NULL;
  if (text && strncmp(text, "cost=", 5) == 0) {
    budget.cost = strtod(text + 5, &end);
    if (end == text + 5 || *end || !(budget.cost >= 1 && budget.cost <= 100)) end = NULL;
  } else if (text && strncmp(text, "cosine=", 7) == 0) {
    budget.cost = 0;
    budget.cosine = strtod(text + 7, &end);
    if (end == text + 7 || *end || !(budget.cosine > 0 && budget.cosine < 1)) end = NULL;
  }
  if (text && !end)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, text,
             "a budget is cost=X (1 to 100 times the cost of a8w8) or cosine=X (between 0 and 1)");
  *out = budget;
  return ITG_OK;
}

static itg_status tell_progress(const search *s, size_t done, size_t total) {
  const itg_build_options *build = &s->options->build;
  if (build->progress &&
      build->progress(build->progress_context, "choosing precisions", (long long)done, (long long)total))
    ITG_FAIL(s->diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled while choosing precisions");
  return ITG_OK;
}

static itg_status apply_picks(search *s) {
  return itg_choices_to_rules(&s->choices, s->picked, s->diagnostic, s->recipe);
}

static void pick_first(search *s, size_t count) {
  for (size_t i = 0; i < s->choices.count; i++) s->picked[s->order[i].item] = i < count;
}

static itg_status cost_of_picks(search *s, double *cost) {
  itg_build_options build = s->options->build;
  build.progress = NULL;
  build.show = NULL;
  itg_built built = {0};
  ITG_TRY(apply_picks(s));
  ITG_TRY(itg_build_program(s->calibrated, s->recipe, &build, s->diagnostic, &built));
  *cost = itg_program_cost(built.legal, build.target);
  itg_built_free(&built);
  return ITG_OK;
}

static itg_status try_picks(search *s, itg_trial_score *score) {
  ITG_TRY(apply_picks(s));
  return itg_trial_recipe(&s->trial, s->calibrated, s->recipe, s->diagnostic, score);
}

// ---- what can be chosen, and what it is worth ----

static itg_status build_ends(search *s) {
  itg_build_options build = s->options->build;
  build.progress = NULL;
  build.show = NULL;
  itg_recipe recipe = *s->recipe; // Borrows its memory.
  recipe.rules = NULL;
  recipe.rule_count = 0;
  ITG_TRY(itg_build_program(s->calibrated, &recipe, &build, s->diagnostic, &s->wide));
  recipe.precision = "a8w8";
  return itg_build_program(s->calibrated, &recipe, &build, s->diagnostic, &s->narrow);
}

static size_t sensitivity_samples(const search *s) {
  int64_t products = 1;
  ITG_FOR_EACH_NODE(node, s->wide.legal) products += itg_plan_multiply_accumulates(node);
  const double fitting = SENSITIVITY_PRODUCTS / ((double)products * (double)(s->choices.count + 1));
  const size_t count = (size_t)fmin(fmax(fitting, MIN_SAMPLES), MAX_SAMPLES);
  return count < s->options->selection.count ? count : s->options->selection.count;
}

static itg_status measure_choices(search *s, size_t *samples) {
  const itg_build_options *build = &s->options->build;
  itg_twin twin;
  *samples = sensitivity_samples(s);
  itg_status status = itg_twin_open(s->wide.twin, build->pool, s->diagnostic, &twin);
  if (status == ITG_OK)
    status = itg_sensitivity_measure(&twin, &s->options->selection, *samples, build->pool, build->progress,
                                     build->progress_context, s->diagnostic, s->choices.items, s->choices.count);
  itg_twin_close(&twin);
  return status;
}

// Storage in 16 bits avoids what 8 bits lose beyond what the products' own 8 bits lose. An operand choice that is worth more
// than the storage it needs takes that along: both get the worth of the pair.
static void weigh(search *s) {
  const itg_choice *items = s->choices.items;
  ranked_choice *ranked = s->order; // By item until it is sorted.
  for (size_t i = 0; i < s->choices.count; i++) ranked[i] = (ranked_choice){items[i].loss / items[i].cost, i};
  for (size_t i = 0; i < s->choices.count; i++) {
    const size_t storage = s->choices.storage_of[i];
    if (storage == 0) continue;
    const itg_choice *own = &items[i], *needed = &items[storage - 1];
    const double gain = fmax(needed->loss - own->loss, 0);
    ranked[storage - 1].worth = gain / needed->cost;
    if (ranked[storage - 1].worth >= ranked[i].worth) continue;
    ranked[i].worth = ranked[storage - 1].worth = (gain + own->loss) / (needed->cost + own->cost);
  }
}

static int by_worth(const void *a, const void *b) {
  const ranked_choice *x = a, *y = b;
  if (x->worth != y->worth) return x->worth < y->worth ? 1 : -1;
  return (x->item > y->item) - (x->item < y->item); // Storage has the lower number.
}

static itg_status prepare(search *s, size_t *samples) {
  ITG_TRY(build_ends(s));
  s->narrow_cost = itg_program_cost(s->narrow.legal, s->options->build.target);
  ITG_TRY(itg_choices_find(&s->wide, &s->narrow, s->options->build.target, &s->arena, s->diagnostic, &s->choices));
  const size_t count = s->choices.count;
  s->order = itg_arena_array(&s->arena, count, sizeof *s->order);
  s->picked = itg_arena_array(&s->arena, count, sizeof *s->picked);
  ITG_TRY_MEMORY(s->order && s->picked, s->diagnostic);
  ITG_TRY(measure_choices(s, samples));
  weigh(s);
  qsort(s->order, count, sizeof s->order[0], by_worth);
  return ITG_OK;
}

// ---- within a cost ----

// The longest list of the most worthwhile choices that fits.
static itg_status fill_budget(search *s, double limit) {
  size_t low = 0, high = s->choices.count; // `low` fits.
  while (low < high) {
    const size_t middle = low + (high - low + 1) / 2;
    double cost;
    ITG_TRY(tell_progress(s, 0, MAX_SWAPS + 2));
    pick_first(s, middle);
    ITG_TRY(cost_of_picks(s, &cost));
    if (cost <= limit)
      low = middle;
    else
      high = middle - 1;
  }
  pick_first(s, low);
  return ITG_OK;
}

// Adds what still fits by the estimate, as long as the program agrees.
static itg_status fill_gaps(search *s, double limit, const bool *forbidden, double *cost) {
  ITG_TRY(cost_of_picks(s, cost));
  double left = limit - *cost;
  for (size_t i = 0; i < s->choices.count; i++) {
    const size_t item = s->order[i].item, storage = s->choices.storage_of[item];
    if (s->picked[item] || (forbidden && forbidden[item]) || s->choices.items[item].cost > left) continue;
    if (storage > 0 && !s->picked[storage - 1]) continue;
    s->picked[item] = true;
    double with;
    ITG_TRY(cost_of_picks(s, &with));
    if (with > limit) {
      s->picked[item] = false;
      left = fmin(left, s->choices.items[item].cost); // The estimate was too low: nothing larger is tried.
      continue;
    }
    *cost = with;
    left = limit - with;
  }
  return ITG_OK;
}

static void drop(search *s, size_t item) {
  s->picked[item] = false;
  for (size_t i = 0; i < s->choices.count; i++) {
    if (s->choices.storage_of[i] == item + 1) s->picked[i] = false;
  }
}

// One round: each of the least worthwhile picks gives its place to whatever else fits, if that measures better.
static itg_status swap(search *s, double limit) {
  const size_t count = s->choices.count;
  bool *best = itg_arena_array(&s->arena, count, sizeof *best);
  bool *forbidden = itg_arena_array(&s->arena, count, sizeof *forbidden);
  ITG_TRY_MEMORY(best && forbidden, s->diagnostic);
  itg_trial_score best_score;
  ITG_TRY(try_picks(s, &best_score));
  if (count) memcpy(best, s->picked, count * sizeof *best);
  size_t tried = 0;
  for (size_t i = count; i-- > 0 && tried < MAX_SWAPS;) {
    const size_t item = s->order[i].item;
    if (!best[item]) continue;
    ITG_TRY(tell_progress(s, 1 + tried++, MAX_SWAPS + 2));
    memcpy(s->picked, best, count * sizeof *best);
    memset(forbidden, 0, count * sizeof *forbidden);
    drop(s, item);
    forbidden[item] = true;
    double cost;
    itg_trial_score score;
    ITG_TRY(fill_gaps(s, limit, forbidden, &cost));
    ITG_TRY(try_picks(s, &score));
    if (!(score.noise < best_score.noise)) continue;
    best_score = score;
    memcpy(best, s->picked, count * sizeof *best);
  }
  if (count) memcpy(s->picked, best, count * sizeof *best);
  return ITG_OK;
}

// ---- what channels are made alike for ----

// Takes a recipe that differs from s->recipe in its preparation for what is picked now, when it makes no more noise at no more than
// `limit`. `calibrated` is the recipe's.
static itg_status try_preparation(search *s, const itg_recipe *recipe, const itg_calibrated *calibrated, double limit,
                                  itg_trial_score *best) {
  itg_trial_score score;
  ITG_TRY(itg_trial_recipe(&s->trial, calibrated, recipe, s->diagnostic, &score));
  if (!(score.noise <= best->noise && score.cost <= limit)) return ITG_OK;
  *best = score;
  s->calibrated = calibrated;
  s->recipe->equalize_for = recipe->equalize_for;
  s->recipe->weight_method = recipe->weight_method;
  return ITG_OK;
}

// `score` is that of what is picked, before and after.
static itg_status prepare_for_wide(search *s, double limit, itg_trial_score *score) {
  const itg_graph *canonical = itg_float_network_graph(s->trial.network);
  itg_build_options build = s->options->build;
  build.progress = NULL;
  build.show = NULL;
  itg_recipe recipe = *s->recipe; // Borrows its memory.
  recipe.equalize_for = 16;
  ITG_TRY(itg_build_calibrate(canonical, &recipe, &build, s->diagnostic, &s->second));
  ITG_TRY(try_preparation(s, &recipe, &s->second, limit, score));
  if (s->calibrated != &s->second) return ITG_OK;
  itg_recipe like = recipe;
  like.precision = "a16w8";
  itg_choose_weight_method(canonical, build.calibration.count, &like);
  if (like.weight_method == recipe.weight_method) return ITG_OK;
  recipe.weight_method = like.weight_method;
  return try_preparation(s, &recipe, &s->second, limit, score);
}

// ---- for a cosine ----

static itg_status reach_cosine(search *s, double cosine) {
  size_t low = 0, high = s->choices.count; // `high` is enough.
  itg_trial_score score;
  pick_first(s, high);
  ITG_TRY(try_picks(s, &score));
  if (score.cosine_mean < cosine) ITG_TRY(prepare_for_wide(s, INFINITY, &score));
  if (score.cosine_mean < cosine)
    ITG_FAIL(
        s->diagnostic, ITG_ERROR_QUANTIZATION, NULL,
        "no choice of precisions reaches a cosine of %g: everything in 16 bits gives %.6f on the selecting samples",
        cosine, score.cosine_mean);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    ITG_TRY(tell_progress(s, 0, 1));
    pick_first(s, middle);
    ITG_TRY(try_picks(s, &score));
    if (score.cosine_mean >= cosine)
      high = middle;
    else
      low = middle + 1;
  }
  pick_first(s, high);
  return ITG_OK;
}

// ---- the frame ----

static itg_status choose(search *s, itg_report_mixed *result) {
  const itg_budget *budget = &s->options->budget;
  size_t samples = 0;
  itg_trial_score score;
  ITG_TRY(prepare(s, &samples));
  if (isnan(budget->cosine)) {
    const double limit = budget->cost * s->narrow_cost;
    double cost;
    ITG_TRY(fill_budget(s, limit));
    ITG_TRY(fill_gaps(s, limit, NULL, &cost));
    ITG_TRY(swap(s, limit));
    ITG_TRY(try_picks(s, &score));
    ITG_TRY(prepare_for_wide(s, limit, &score));
  } else {
    ITG_TRY(reach_cosine(s, budget->cosine));
    ITG_TRY(try_picks(s, &score));
  }
  *result =
      (itg_report_mixed){.cost = score.cost / s->narrow_cost,
                         .stream_cost = itg_program_cost(s->wide.legal, s->options->build.target) / s->narrow_cost,
                         .cosine_mean = score.cosine_mean,
                         .noise = score.noise,
                         .choice_count = s->choices.count,
                         .sensitivity_samples = samples,
                         .selection_count = s->options->selection.count};
  for (size_t i = 0; i < s->choices.count; i++) {
    result->picked_count += s->picked[i];
    // What storage in 8 bits loses holds what the products' 8 bits lose.
    const size_t storage = s->choices.storage_of[i];
    if (!s->picked[i] && (storage == 0 || s->picked[storage - 1])) result->predicted_noise += s->choices.items[i].loss;
  }
  return tell_progress(s, 1, 1);
}

itg_status itg_mixed_precision(const itg_float_network *network, itg_calibrated *calibrated,
                               const itg_mixed_options *options, itg_diagnostic *diagnostic, itg_recipe *recipe,
                               itg_report_mixed *out) {
  search s = {.calibrated = calibrated,
              .options = options,
              .diagnostic = diagnostic,
              .recipe = recipe,
              .trial = {.network = network, .build = options->build, .samples = options->selection}};
  s.trial.build.show = NULL;
  itg_report_mixed result = {0};
  const itg_status status = choose(&s, &result);
  itg_trial_free(&s.trial);
  itg_built_free(&s.wide);
  itg_built_free(&s.narrow);
  itg_arena_free(&s.arena);
  if (status == ITG_OK && s.calibrated == &s.second) {
    itg_calibrated_free(calibrated);
    *calibrated = s.second;
  } else {
    itg_calibrated_free(&s.second);
  }
  if (status == ITG_OK) *out = result;
  return status;
}
