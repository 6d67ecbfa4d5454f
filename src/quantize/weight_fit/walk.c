// Layer by layer over samples. See walk.h.
#include "quantize/weight_fit/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpret/interpret.h"

// What tensor->scratch points to.
typedef struct walk_value {
  size_t bytes;
  int32_t uses;            // Nodes that still read it.
  bool rounds;             // Float with an encoding: the two runs differ.
  void **exact, **rounded; // [samples]; malloc'ed while alive. The same pointers where the runs do not differ.
} walk_value;

struct itg_walk {
  const itg_graph *graph;
  itg_pool *pool;
  size_t count; // Samples.
  itg_arena arena;
  // Of the step under way.
  const itg_node *node;
  const float *weight, *bias;
  itg_status *status; // [2 * count]
  itg_diagnostic *diagnostics;
};

static walk_value *value_of(const itg_tensor *tensor) { return tensor->scratch; }

static bool is_value(const itg_tensor *tensor) {
  return tensor && !tensor->data && (tensor->producer || tensor->is_input);
}

static size_t bytes_of(const itg_tensor *tensor) {
  size_t bytes = 0;
  return itg_shape_bytes(&tensor->shape, tensor->dtype, &bytes) ? bytes : SIZE_MAX / 4;
}

static itg_status make_values(itg_walk *walk, itg_diagnostic *diagnostic) {
  for (size_t i = 0; i < walk->graph->tensor_count; i++) {
    itg_tensor *tensor = walk->graph->tensors[i];
    if (!tensor) continue;
    tensor->scratch = NULL;
    if (!is_value(tensor)) continue;
    walk_value *value = itg_arena_allocate(&walk->arena, sizeof *value);
    ITG_TRY_MEMORY(value, diagnostic);
    value->bytes = bytes_of(tensor);
    value->uses = tensor->user_count;
    value->rounds = tensor->dtype == ITG_DTYPE_F32 && tensor->encoding;
    tensor->scratch = value;
  }
  return ITG_OK;
}

// Tensors that a session keeps between runs have no values here.
static bool can_walk(const itg_graph *graph) {
  ITG_FOR_EACH_NODE(node, graph) {
    for (int32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] && !node->inputs[i]->data && !is_value(node->inputs[i])) return false;
    }
  }
  return true;
}

// Most bytes that one sample has alive at a time.
static size_t measure_peak(const itg_walk *walk) {
  size_t alive = 0, peak = 0;
  for (int32_t i = 0; i < walk->graph->input_count; i++) alive += 2 * value_of(walk->graph->inputs[i])->bytes;
  ITG_FOR_EACH_NODE(node, walk->graph) {
    for (int32_t i = 0; i < node->output_count; i++) {
      if (node->outputs[i]) alive += 2 * value_of(node->outputs[i])->bytes;
    }
    if (alive > peak) peak = alive;
    for (int32_t i = 0; i < node->input_count; i++) {
      walk_value *value = is_value(node->inputs[i]) ? value_of(node->inputs[i]) : NULL;
      if (value && --value->uses == 0) alive -= 2 * value->bytes;
    }
  }
  for (size_t i = 0; i < walk->graph->tensor_count; i++) {
    itg_tensor *tensor = walk->graph->tensors[i];
    if (tensor && tensor->scratch) value_of(tensor)->uses = tensor->user_count;
  }
  return peak;
}

static void forget(const itg_walk *walk, walk_value *value) {
  for (size_t s = 0; value->exact && s < walk->count; s++) {
    if (value->rounded[s] != value->exact[s]) free(value->rounded[s]);
    free(value->exact[s]);
    value->exact[s] = value->rounded[s] = NULL;
  }
}

static itg_status remember(itg_walk *walk, const itg_tensor *tensor, itg_diagnostic *diagnostic) {
  walk_value *value = value_of(tensor);
  value->exact = itg_arena_array(&walk->arena, walk->count, sizeof value->exact[0]);
  value->rounded = itg_arena_array(&walk->arena, walk->count, sizeof value->rounded[0]);
  if (!value->exact || !value->rounded) value->exact = value->rounded = NULL;
  ITG_TRY_MEMORY(value->exact, diagnostic);
  for (size_t s = 0; s < walk->count; s++) {
    value->exact[s] = malloc(value->bytes ? value->bytes : 1);
    value->rounded[s] = value->rounds ? malloc(value->bytes ? value->bytes : 1) : value->exact[s];
    ITG_TRY_MEMORY(value->exact[s] && value->rounded[s], diagnostic);
  }
  return ITG_OK;
}

// Rounds values to the codes of the tensor's encoding.
static void round_to_codes(const itg_tensor *tensor, float *values) {
  const itg_encoding *encoding = tensor->encoding;
  const double scale = encoding->scales[0], reciprocal = 1 / scale;
  const double zero = encoding->zero_points ? encoding->zero_points[0] : 0;
  const double low = itg_code_min(encoding->storage) - zero, high = itg_code_max(encoding->storage) - zero;
  size_t count = 0;
  itg_shape_count(&tensor->shape, &count); // The bytes of the value have shown that it fits.
  for (size_t i = 0; i < count; i++) {
    const double code = floor((double)values[i] * reciprocal + 0.5);
    values[i] = (float)((code > low ? code < high ? code : high : low) * scale);
  }
}

static itg_status read_samples(itg_walk *walk, const itg_sample_source *samples, itg_diagnostic *diagnostic) {
  const itg_graph *graph = walk->graph;
  void **inputs = itg_arena_array(&walk->arena, (size_t)graph->input_count, sizeof inputs[0]);
  ITG_TRY_MEMORY(inputs, diagnostic);
  for (int32_t i = 0; i < graph->input_count; i++) ITG_TRY(remember(walk, graph->inputs[i], diagnostic));
  for (size_t s = 0; s < walk->count; s++) {
    for (int32_t i = 0; i < graph->input_count; i++) inputs[i] = value_of(graph->inputs[i])->exact[s];
    ITG_TRY(samples->read(samples->context, s * samples->count / walk->count, inputs, diagnostic));
    for (int32_t i = 0; i < graph->input_count; i++) {
      const walk_value *value = value_of(graph->inputs[i]);
      if (!value->rounds) continue;
      memcpy(value->rounded[s], value->exact[s], value->bytes);
      round_to_codes(graph->inputs[i], value->rounded[s]);
    }
  }
  return ITG_OK;
}

itg_status itg_walk_create(const itg_graph *graph, const itg_sample_source *samples, size_t memory, size_t most,
                           itg_pool *pool, itg_diagnostic *diagnostic, itg_walk **out) {
  itg_walk *walk = calloc(1, sizeof *walk);
  ITG_TRY_MEMORY(walk, diagnostic);
  walk->graph = graph;
  walk->pool = pool;
  itg_status status = make_values(walk, diagnostic);
  if (status == ITG_OK && can_walk(graph)) {
    const size_t fitting = memory / (measure_peak(walk) + 1);
    walk->count = fitting < samples->count ? fitting : samples->count;
    if (walk->count > most) walk->count = most;
    if (walk->count < 2) walk->count = 0;
  }
  if (status == ITG_OK && walk->count > 0) {
    walk->status = itg_arena_array(&walk->arena, 2 * walk->count, sizeof walk->status[0]);
    walk->diagnostics = itg_arena_array(&walk->arena, 2 * walk->count, sizeof walk->diagnostics[0]);
    status = walk->status && walk->diagnostics
                 ? read_samples(walk, samples, diagnostic)
                 : itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  }
  if (status != ITG_OK || walk->count == 0) {
    itg_walk_destroy(walk);
    walk = NULL;
  }
  if (status == ITG_OK) *out = walk;
  return status;
}

void itg_walk_destroy(itg_walk *walk) {
  if (!walk) return;
  for (size_t i = 0; i < walk->graph->tensor_count; i++) {
    itg_tensor *tensor = walk->graph->tensors[i];
    if (tensor && tensor->scratch) forget(walk, value_of(tensor));
    if (tensor) tensor->scratch = NULL;
  }
  itg_arena_free(&walk->arena);
  free(walk);
}

size_t itg_walk_sample_count(const itg_walk *walk) { return walk->count; }
const float *const *itg_walk_exact(const itg_walk *walk, const itg_tensor *tensor) {
  (void)walk;
  return (const float *const *)(void *)value_of(tensor)->exact;
}
const float *const *itg_walk_rounded(const itg_walk *walk, const itg_tensor *tensor) {
  (void)walk;
  return (const float *const *)(void *)value_of(tensor)->rounded;
}

// One node on one sample: its operands become constants of a stand-in, which the interpreter executes alone.
static itg_status execute(const itg_walk *walk, size_t sample, bool rounded, itg_arena *arena,
                          itg_diagnostic *diagnostic) {
  const itg_node *node = walk->node;
  const size_t inputs = (size_t)node->input_count, outputs = (size_t)node->output_count;
  itg_tensor *tensors = itg_arena_array(arena, inputs, sizeof tensors[0]);
  itg_tensor **operands = itg_arena_array(arena, inputs, sizeof operands[0]);
  void **results = itg_arena_array(arena, outputs, sizeof results[0]);
  ITG_TRY_MEMORY(tensors && operands && results, diagnostic);
  for (size_t i = 0; i < inputs; i++) {
    if (!node->inputs[i]) continue;
    tensors[i] = *node->inputs[i];
    operands[i] = &tensors[i];
    if (is_value(node->inputs[i])) {
      const walk_value *value = value_of(node->inputs[i]);
      tensors[i].data = rounded ? value->rounded[sample] : value->exact[sample];
    }
    if (rounded && i == 1 && walk->weight) tensors[i].data = walk->weight;
    if (rounded && i == 2 && walk->bias) tensors[i].data = walk->bias;
  }
  for (size_t i = 0; i < outputs; i++) {
    if (!node->outputs[i]) continue;
    const walk_value *value = value_of(node->outputs[i]);
    results[i] = rounded ? value->rounded[sample] : value->exact[sample];
    if (!rounded || value->rounds) continue;
    results[i] = itg_arena_allocate(arena, value->bytes); // Indices: those of the exact run count.
    ITG_TRY_MEMORY(results[i], diagnostic);
  }
  itg_node stand_in = *node;
  stand_in.inputs = operands;
  ITG_TRY(itg_interpret_node(&stand_in, results, diagnostic));
  for (size_t i = 0; rounded && i < outputs; i++) {
    if (node->outputs[i] && value_of(node->outputs[i])->rounds) round_to_codes(node->outputs[i], results[i]);
  }
  return ITG_OK;
}

static void run_sample(void *context, size_t index) {
  itg_walk *walk = context;
  itg_arena arena = {0};
  walk->status[index] = execute(walk, index / 2, index % 2 != 0, &arena, &walk->diagnostics[index]);
  itg_arena_free(&arena);
}

itg_status itg_walk_step(itg_walk *walk, const itg_node *node, const float *weight, const float *bias,
                         itg_diagnostic *diagnostic) {
  walk->node = node;
  walk->weight = weight;
  walk->bias = bias;
  bool differs = false;
  for (int32_t i = 0; i < node->output_count; i++) {
    if (!node->outputs[i]) continue;
    ITG_TRY(remember(walk, node->outputs[i], diagnostic));
    differs = differs || value_of(node->outputs[i])->rounds;
  }
  // Where nothing rounds (indices, shapes), the second run of each sample would only repeat the first.
  for (size_t i = 0; i < 2 * walk->count; i++) walk->status[i] = ITG_OK;
  if (differs) {
    itg_parallel_for(walk->pool, 2 * walk->count, run_sample, walk);
  } else {
    for (size_t s = 0; s < walk->count; s++) run_sample(walk, 2 * s);
  }
  for (size_t i = 0; i < 2 * walk->count; i++) {
    if (walk->status[i] == ITG_OK) continue;
    if (diagnostic) *diagnostic = walk->diagnostics[i];
    return walk->status[i];
  }
  for (int32_t i = 0; i < node->input_count; i++) {
    walk_value *value = is_value(node->inputs[i]) ? value_of(node->inputs[i]) : NULL;
    if (value && --value->uses == 0) forget(walk, value);
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] && node->outputs[i]->user_count == 0) forget(walk, value_of(node->outputs[i]));
  }
  return ITG_OK;
}
