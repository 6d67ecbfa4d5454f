// One encoding for every group of activations.
#include <math.h>
#include <stdlib.h>

#include "quantize/plan.h"
#include "quantize/unary_function.h"

// Samples that were not seen reach further than those that were, and what is clipped is lost. 16-bit codes are fine enough to
// be spread over half as much again. Chosen on samples that do not judge in the benches (a16w8, SQNR in dB with 1, 1.25, 1.5, 2,
// 3): face embedder 33.5, 37.1, 37.2, 37.0, 37.0; MiniLM 30.5, 30.6, 30.5, 30.4, 30.4; boxes of the face detector 63.2, 66.6,
// 67.1, 66.8, 66.8; landmarks, whose samples differ most, 52.7, 56.9, 60.4, 66.6, 67.1.
static const double headroom16 = 1.5;

typedef struct group {
  size_t root;
  size_t first, count; // Members in `members`.
  double low, high;
} group;

typedef struct range_work {
  itg_quantize_plan *plan;
  group *groups;
  size_t group_count;
  size_t *members;                          // Entries, sorted by group.
  const itg_tensor_statistics **statistics; // The same order; entries without statistics left out at the end.
} range_work;

static itg_status make_groups(range_work *work, itg_arena *arena, itg_diagnostic *diagnostic) {
  itg_quantize_plan *plan = work->plan;
  size_t *position = itg_arena_array(arena, plan->count, sizeof position[0]);
  work->groups = itg_arena_array(arena, plan->count, sizeof work->groups[0]);
  work->members = itg_arena_array(arena, plan->count, sizeof work->members[0]);
  work->statistics = itg_arena_array(arena, plan->count, sizeof work->statistics[0]);
  ITG_TRY_MEMORY(position && work->groups && work->members && work->statistics, diagnostic);
  for (size_t i = 0; i < plan->count; i++) position[itg_plan_group(plan, i)]++;
  size_t next = 0;
  for (size_t i = 0; i < plan->count; i++) {
    if (plan->entries[i].parent != i) continue;
    work->groups[work->group_count++] =
        (group){.root = i, .first = next, .low = plan->entries[i].low, .high = plan->entries[i].high};
    next += position[i];
    position[i] = work->group_count - 1; // From here on: number of the group.
  }
  for (size_t i = 0; i < plan->count; i++) {
    group *g = &work->groups[position[itg_plan_group(plan, i)]];
    work->members[g->first + g->count++] = i;
  }
  return ITG_OK;
}

// Where the only reader is a function that hardly moves at the ends of its input (sigmoid, tanh, the negative side of
// SiLU), codes there are wasted: the range ends where the function is a quarter output code from its value at the edge.
static void narrow_for_reader(const itg_quantize_plan *plan, const itg_activation_entry *entry, group *g) {
  const itg_node *user = itg_tensor_only_user(entry->tensor);
  if (!user || entry->tensor->is_input || entry->symmetric || entry->fixed) return;
  if (!itg_unary_is_smooth(user->op)) return;
  const itg_activation_entry *output = itg_plan_entry(plan, user->outputs[0]);
  if (!output) return;
  const double top = output->bits == 8 ? 255 : 65535;
  const double step = output->fixed ? 1 / (top + 1) : fmax(output->high - output->low, 1e-4) / top;
  const itg_scalar_attributes *scalar = &user->attributes.scalar;
  enum { STEPS = 512 };
  const double low = g->low, high = g->high;
  const double at_low = itg_unary_evaluate(user->op, low, scalar->alpha, scalar->beta);
  const double at_high = itg_unary_evaluate(user->op, high, scalar->alpha, scalar->beta);
  for (int i = 1; i <= STEPS; i++) {
    const double x = low + (0 - low) * i / STEPS;
    if (!(fabs(itg_unary_evaluate(user->op, x, scalar->alpha, scalar->beta) - at_low) <= step / 4)) break;
    g->low = x;
  }
  for (int i = 1; i <= STEPS; i++) {
    const double x = high + (0 - high) * i / STEPS;
    if (!(fabs(itg_unary_evaluate(user->op, x, scalar->alpha, scalar->beta) - at_high) <= step / 4)) break;
    g->high = x;
  }
}

// Values that the producer cannot leave: what an activation clips needs no codes beyond, and needs no clamp where its range ends
// there too.
static void producer_bounds(const itg_tensor *tensor, double *low, double *high) {
  const itg_node *node = tensor->producer;
  *low = -INFINITY;
  *high = INFINITY;
  if (!node) return;
  switch (node->op) {
  case ITG_OP_CONV:
  case ITG_OP_CONV_TRANSPOSE:
  case ITG_OP_FULLY_CONNECTED:
    if (node->attributes.conv.activation.kind != ITG_ACTIVATION_CLIP) return;
    *low = node->attributes.conv.activation.low;
    *high = node->attributes.conv.activation.high;
    return;
  case ITG_OP_CLIP:
    *low = node->attributes.scalar.alpha;
    *high = node->attributes.scalar.beta;
    return;
  case ITG_OP_RELU: *low = 0; return;
  case ITG_OP_HARD_SIGMOID:
    *low = 0;
    *high = 1;
    return;
  case ITG_OP_RESHAPE:
  case ITG_OP_TRANSPOSE:
  case ITG_OP_SLICE:
  case ITG_OP_MAX_POOL: // Codes of another member of the group.
    *low = INFINITY;
    *high = -INFINITY;
    return;
  default: return;
  }
}

static void apply_bounds(const range_work *work, group *g) {
  double low = INFINITY, high = -INFINITY;
  for (size_t m = 0; m < g->count; m++) {
    double least, most;
    producer_bounds(work->plan->entries[work->members[g->first + m]].tensor, &least, &most);
    low = fmin(low, least);
    high = fmax(high, most);
  }
  if (low <= high) {
    g->low = fmax(g->low, fmin(low, 0));
    g->high = fmin(g->high, fmax(high, 0));
  }
}

static void choose_range(void *context, size_t index) {
  range_work *work = context;
  group *g = &work->groups[index];
  const itg_activation_entry *root = &work->plan->entries[g->root];
  if (root->fixed) return;
  const itg_methods_off off = work->plan->recipe->methods_off;
  bool mse = root->bits == 8 && !root->is_input && itg_method_is_on(off, ITG_METHOD_MSE_RANGES);
  size_t count = 0;
  for (size_t m = 0; m < g->count; m++) {
    const itg_activation_entry *entry = &work->plan->entries[work->members[g->first + m]];
    mse = mse && entry->range_method == ITG_RANGE_MSE;
    if (entry->statistics) work->statistics[g->first + count++] = entry->statistics;
  }
  if (g->count == 1 && itg_method_is_on(off, ITG_METHOD_NARROW_RANGES)) narrow_for_reader(work->plan, root, g);
  if (root->bits == 16 && !root->is_input && itg_method_is_on(off, ITG_METHOD_HEADROOM)) {
    g->low *= headroom16;
    g->high *= headroom16;
    apply_bounds(work, g);
  }
  if (!mse || count == 0) return;
  const double low = g->low, high = g->high;
  itg_range_mse(work->statistics + g->first, count, 256, &g->low, &g->high);
  g->low = fmax(g->low, low);
  g->high = fmin(g->high, high);
}

static const itg_encoding *encode_group(itg_graph *graph, const itg_activation_entry *root, const group *g) {
  const itg_dtype storage = root->bits == 8 ? ITG_DTYPE_U8 : ITG_DTYPE_U16;
  double scale;
  int32_t zero_point;
  if (root->fixed) {
    scale = root->bits == 8 ? 0x1p-8 : 0x1p-16;
    zero_point = 0;
  } else if (root->symmetric) {
    const double largest = fmax(fmax(-g->low, g->high), 0.5e-4);
    zero_point = root->bits == 8 ? 128 : 32768;
    scale = (double)(float)(largest / (zero_point - 1));
  } else {
    itg_encoding_from_range(g->low, g->high, storage, &scale, &zero_point);
  }
  return itg_encoding_create(graph, storage, -1, 1, &scale, &zero_point);
}

static itg_status set_encodings(range_work *work, itg_diagnostic *diagnostic) {
  itg_quantize_plan *plan = work->plan;
  for (size_t i = 0; i < work->group_count; i++) {
    const group *g = &work->groups[i];
    const itg_encoding *encoding = NULL; // One that came with the model wins.
    for (size_t m = 0; m < g->count && !encoding; m++)
      encoding = plan->entries[work->members[g->first + m]].tensor->encoding;
    for (size_t m = 0; m < g->count; m++) plan->entries[work->members[g->first + m]].given = encoding != NULL;
    if (!encoding) encoding = encode_group(plan->graph, &plan->entries[g->root], g);
    ITG_TRY_MEMORY(encoding, diagnostic);
    for (size_t m = 0; m < g->count; m++) {
      itg_tensor *tensor = plan->entries[work->members[g->first + m]].tensor;
      if (!tensor->encoding) tensor->encoding = encoding;
    }
  }
  return ITG_OK;
}

itg_status itg_plan_ranges(itg_quantize_plan *plan, itg_diagnostic *diagnostic) {
  itg_arena arena = {0};
  range_work work = {.plan = plan};
  itg_status status = make_groups(&work, &arena, diagnostic);
  if (status == ITG_OK) {
    itg_parallel_for(plan->pool, work.group_count, choose_range, &work);
    status = set_encodings(&work, diagnostic);
  }
  itg_arena_free(&arena);
  return status;
}
