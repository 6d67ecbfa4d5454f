// Calibration: two passes of the float interpreter over the samples.
//
// Samples run side by side, one a thread; each writes its own statistics, which are combined in the order of the samples.
// So the sums are the same for any number of threads. Counts of histograms are integers and need no order.
#include "calibrate/calibrate.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/migrate_scales.h"
#include "calibrate/observe.h"
#include "calibrate/rebase_streams.h"

struct itg_statistics {
  itg_arena arena;
  itg_sample_source samples;
  const itg_tensor **tensors; // Sorted by address.
  itg_tensor_statistics *entries;
  size_t count;
  int64_t channel_total;
};

static int compare_tensors(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t) * (const itg_tensor *const *)a, y = (uintptr_t) * (const itg_tensor *const *)b;
  return (x > y) - (x < y);
}

static itg_tensor_statistics *find(const itg_statistics *statistics, const itg_tensor *tensor) {
  size_t low = 0, high = statistics->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (statistics->tensors[middle] == tensor) return &statistics->entries[middle];
    if ((uintptr_t)statistics->tensors[middle] < (uintptr_t)tensor)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

const itg_tensor_statistics *itg_statistics_of(const itg_statistics *statistics, const itg_tensor *tensor) {
  return find(statistics, tensor);
}

typedef struct clone_entry {
  const itg_tensor *tensor;
  itg_tensor_statistics statistics;
} clone_entry;

static int compare_entries(const void *a, const void *b) {
  return compare_tensors(&((const clone_entry *)a)->tensor, &((const clone_entry *)b)->tensor);
}

static itg_status fill_clone(const itg_statistics *statistics, const itg_graph *clone, itg_diagnostic *diagnostic,
                             itg_statistics *result) {
  itg_arena *arena = &result->arena;
  clone_entry *entries = itg_arena_array(arena, statistics->count, sizeof entries[0]);
  result->tensors = itg_arena_array(arena, statistics->count, sizeof result->tensors[0]);
  result->entries = itg_arena_array(arena, statistics->count, sizeof result->entries[0]);
  ITG_TRY_MEMORY(entries && result->tensors && result->entries, diagnostic);
  for (size_t i = 0; i < statistics->count; i++) {
    const itg_tensor *tensor = itg_graph_find(clone, statistics->tensors[i]->name);
    if (tensor) entries[result->count++] = (clone_entry){tensor, statistics->entries[i]};
  }
  qsort(entries, result->count, sizeof entries[0], compare_entries);
  for (size_t i = 0; i < result->count; i++) {
    result->tensors[i] = entries[i].tensor;
    result->entries[i] = entries[i].statistics;
  }
  result->channel_total = statistics->channel_total;
  return ITG_OK;
}

itg_status itg_statistics_of_clone(const itg_statistics *statistics, const itg_graph *clone, itg_diagnostic *diagnostic,
                                   itg_statistics **out) {
  itg_statistics *result = calloc(1, sizeof *result);
  ITG_TRY_MEMORY(result, diagnostic);
  const itg_status status = fill_clone(statistics, clone, diagnostic, result);
  if (status != ITG_OK) {
    itg_statistics_destroy(result);
    return status;
  }
  result->samples = statistics->samples;
  *out = result;
  return ITG_OK;
}

void itg_statistics_destroy(itg_statistics *statistics) {
  if (!statistics) return;
  itg_arena_free(&statistics->arena);
  free(statistics);
}

const itg_sample_source *itg_statistics_samples(const itg_statistics *statistics) { return &statistics->samples; }

static bool is_observed(const itg_tensor *tensor) {
  size_t count;
  return tensor && tensor->dtype == ITG_DTYPE_F32 && !tensor->data && (tensor->producer || tensor->is_input) &&
         !itg_tensor_is_state(tensor) && itg_shape_count(&tensor->shape, &count) && count > 0;
}

static itg_status make_entries(const itg_graph *graph, itg_diagnostic *diagnostic, itg_statistics *statistics) {
  itg_arena *arena = &statistics->arena;
  for (size_t i = 0; i < graph->tensor_count; i++) statistics->count += is_observed(graph->tensors[i]);
  statistics->tensors = itg_arena_array(arena, statistics->count, sizeof statistics->tensors[0]);
  statistics->entries = itg_arena_array(arena, statistics->count, sizeof statistics->entries[0]);
  ITG_TRY_MEMORY(statistics->tensors && statistics->entries, diagnostic);
  size_t n = 0;
  for (size_t i = 0; i < graph->tensor_count; i++) {
    if (is_observed(graph->tensors[i])) statistics->tensors[n++] = graph->tensors[i];
  }
  qsort(statistics->tensors, n, sizeof statistics->tensors[0], compare_tensors);
  for (size_t i = 0; i < n; i++) {
    const itg_tensor *tensor = statistics->tensors[i];
    itg_tensor_statistics *entry = &statistics->entries[i];
    const int64_t channels = tensor->shape.rank ? tensor->shape.dims[tensor->shape.rank - 1] : 1;
    entry->low = DBL_MAX;
    entry->high = -DBL_MAX;
    entry->channels = channels;
    entry->histogram = itg_arena_array(arena, ITG_HISTOGRAM_BINS, sizeof entry->histogram[0]);
    entry->channel_low = itg_arena_array(arena, (size_t)channels, sizeof(float));
    entry->channel_high = itg_arena_array(arena, (size_t)channels, sizeof(float));
    entry->channel_sum = itg_arena_array(arena, (size_t)channels, sizeof(double));
    entry->channel_squares = itg_arena_array(arena, (size_t)channels, sizeof(double));
    ITG_TRY_MEMORY(entry->histogram && entry->channel_low && entry->channel_high && entry->channel_sum &&
                       entry->channel_squares,
                   diagnostic);
    for (int64_t c = 0; c < channels; c++) {
      entry->channel_low[c] = FLT_MAX;
      entry->channel_high[c] = -FLT_MAX;
    }
    statistics->channel_total += channels;
  }
  return ITG_OK;
}

// One running sample: an interpreter state, the sample's inputs, and what its observer has measured.
typedef struct slot {
  itg_interpreter_state *state;
  void **inputs;
  const itg_statistics *statistics;
  const itg_sample_source *samples;
  const itg_sequence_hooks *hooks;
  size_t sample;        // Index of the running one.
  int64_t rows, length; // Rows that count, and rows that there are; 0: all count.
  bool second_pass;
  const itg_tensor *not_finite;
  itg_status status;
  itg_diagnostic diagnostic;
  // First pass, one sample: the channels of entry i begin at offset[i].
  const int64_t *offset;
  float *low, *high;
  double *sum, *squares;
  float *more; // Of one more block of a tensor; room for two values of the widest tensor's channels.
  double *more_sums;
  // Second pass, all samples of the slot.
  uint64_t *histograms; // [entries][bins]
  uint32_t *scratch;
} slot;

static int64_t element_count(const itg_tensor *tensor) {
  size_t count = 0;
  return itg_shape_count(&tensor->shape, &count) ? (int64_t)count : 0;
}

// Elements of a tensor that count for the running sample: `blocks` runs of `count`, `step` apart, from `first` on.
typedef struct counted {
  int64_t first, count, step, blocks;
} counted;

static counted counted_elements(const slot *s, const itg_tensor *tensor) {
  const itg_shape *shape = &tensor->shape;
  const int64_t total = element_count(tensor);
  if (s->rows == 0 || shape->rank < 3 || shape->dims[1] != s->length) return (counted){0, total, total, 1};
  const int64_t step = total / shape->dims[0], row = step / s->length, skipped = s->hooks->skipped;
  return (counted){skipped * row, (s->rows - skipped) * row, step, shape->dims[0]};
}

static void merge_channels(slot *s, int64_t o, int64_t channels, const float *values, int64_t count) {
  float *low = s->more, *high = low + channels;
  itg_observe_channels(values, count / channels, channels, low, high, s->more_sums, s->more_sums + channels);
  for (int64_t c = 0; c < channels; c++) {
    s->low[o + c] = fminf(s->low[o + c], low[c]);
    s->high[o + c] = fmaxf(s->high[o + c], high[c]);
    s->sum[o + c] += s->more_sums[c];
    s->squares[o + c] += s->more_sums[channels + c];
  }
}

static bool observe(void *context, const itg_tensor *tensor, const void *data) {
  slot *s = context;
  if (s->hooks->keep && !s->second_pass) s->hooks->keep(s->samples->context, s->sample, tensor, data);
  const itg_tensor_statistics *entry = find(s->statistics, tensor);
  if (!entry) return true;
  const size_t i = (size_t)(entry - s->statistics->entries);
  const counted part = counted_elements(s, tensor);
  const int64_t o = s->offset[i], channels = entry->channels;
  for (int64_t b = 0; b < part.blocks; b++) {
    const float *values = (const float *)data + b * part.step + part.first;
    if (s->second_pass)
      itg_observe_histogram(values, part.count, entry->low, entry->high, ITG_HISTOGRAM_BINS,
                            s->histograms + i * ITG_HISTOGRAM_BINS, s->scratch);
    else if (b == 0)
      itg_observe_channels(values, part.count / channels, channels, s->low + o, s->high + o, s->sum + o,
                           s->squares + o);
    else
      merge_channels(s, o, channels, values, part.count);
  }
  for (int64_t c = 0; c < channels && !s->second_pass; c++) {
    if (!isfinite(s->sum[o + c]) || !isfinite(s->low[o + c]) || !isfinite(s->high[o + c])) {
      s->not_finite = tensor;
      return false;
    }
  }
  return true;
}

static void run_slot(void *context, size_t index) {
  slot *s = (slot *)context + index;
  s->status = itg_interpreter_run(s->state, (const void *const *)s->inputs, NULL, observe, s, &s->diagnostic);
}

static void combine(itg_statistics *statistics, const slot *s) {
  for (size_t i = 0; i < statistics->count; i++) {
    itg_tensor_statistics *entry = &statistics->entries[i];
    const int64_t o = s->offset[i];
    const counted part = counted_elements(s, statistics->tensors[i]);
    const int64_t count = part.count * part.blocks;
    for (int64_t c = 0; c < entry->channels; c++) {
      entry->channel_low[c] = fminf(entry->channel_low[c], s->low[o + c]);
      entry->channel_high[c] = fmaxf(entry->channel_high[c], s->high[o + c]);
      entry->channel_sum[c] += s->sum[o + c];
      entry->channel_squares[c] += s->squares[o + c];
    }
    entry->count += (uint64_t)count;
    entry->channel_count += (uint64_t)(count / entry->channels);
  }
}

static void finish_first_pass(itg_statistics *statistics) {
  for (size_t i = 0; i < statistics->count; i++) {
    itg_tensor_statistics *entry = &statistics->entries[i];
    for (int64_t c = 0; c < entry->channels; c++) {
      entry->low = fmin(entry->low, entry->channel_low[c]);
      entry->high = fmax(entry->high, entry->channel_high[c]);
      entry->sum += entry->channel_sum[c];
      entry->sum_squares += entry->channel_squares[c];
    }
  }
}

static void add_histograms(itg_statistics *statistics, const slot *s) {
  for (size_t i = 0; i < statistics->count; i++) {
    for (size_t b = 0; b < ITG_HISTOGRAM_BINS; b++)
      statistics->entries[i].histogram[b] += s->histograms[i * ITG_HISTOGRAM_BINS + b];
  }
}

typedef struct run_context {
  const itg_graph *graph;
  const itg_sample_source *samples;
  itg_sequence_hooks hooks;
  itg_pool *pool;
  itg_progress_function progress;
  void *progress_context;
  const itg_equalization *equalization; // NULL: statistics only.
  long long done, total;                // Samples of all passes, for the progress.
  itg_interpreter *interpreter;
  itg_statistics *statistics;
  slot *slots;
  size_t slot_count;
} run_context;

static itg_status make_slots(run_context *run, itg_arena *arena, itg_diagnostic *diagnostic) {
  const itg_statistics *statistics = run->statistics;
  int64_t *offset = itg_arena_array(arena, statistics->count, sizeof offset[0]);
  ITG_TRY_MEMORY(offset, diagnostic);
  for (size_t i = 1; i < statistics->count; i++) offset[i] = offset[i - 1] + statistics->entries[i - 1].channels;
  const size_t channels = (size_t)statistics->channel_total;
  size_t widest = 0;
  for (size_t i = 0; i < statistics->count; i++)
    widest = (size_t)statistics->entries[i].channels > widest ? (size_t)statistics->entries[i].channels : widest;
  for (size_t t = 0; t < run->slot_count; t++) {
    slot *s = &run->slots[t];
    *s = (slot){.statistics = statistics, .offset = offset, .samples = run->samples, .hooks = &run->hooks};
    s->low = itg_arena_array(arena, channels, sizeof s->low[0]);
    s->high = itg_arena_array(arena, channels, sizeof s->high[0]);
    s->sum = itg_arena_array(arena, channels, sizeof s->sum[0]);
    s->squares = itg_arena_array(arena, channels, sizeof s->squares[0]);
    s->more = itg_arena_array(arena, 2 * widest, sizeof s->more[0]);
    s->more_sums = itg_arena_array(arena, 2 * widest, sizeof s->more_sums[0]);
    ITG_TRY_MEMORY(s->more && s->more_sums, diagnostic);
    s->histograms = itg_arena_array(arena, statistics->count * ITG_HISTOGRAM_BINS, sizeof s->histograms[0]);
    s->scratch = itg_arena_array(arena, ITG_OBSERVE_LANES * ITG_HISTOGRAM_BINS, sizeof s->scratch[0]);
    s->inputs = itg_arena_array(arena, (size_t)run->graph->input_count, sizeof s->inputs[0]);
    ITG_TRY_MEMORY(s->low && s->high && s->sum && s->squares && s->histograms && s->scratch && s->inputs, diagnostic);
    for (int32_t i = 0; i < run->graph->input_count; i++) {
      size_t bytes;
      const itg_tensor *input = run->graph->inputs[i];
      if (!itg_shape_bytes(&input->shape, input->dtype, &bytes))
        ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, input->name, "input is too large");
      s->inputs[i] = itg_arena_allocate(arena, bytes);
      ITG_TRY_MEMORY(s->inputs[i], diagnostic);
    }
  }
  return ITG_OK;
}

// A constant that makes the results of a node infinite or NaN, or NULL.
static const itg_tensor *broken_constant(const itg_node *node) {
  for (int32_t i = 0; i < node->input_count; i++) {
    const itg_tensor *constant = node->inputs[i];
    size_t count;
    if (!itg_tensor_is_constant(constant) || constant->dtype != ITG_DTYPE_F32 ||
        !itg_shape_count(&constant->shape, &count))
      continue;
    for (size_t k = 0; k < count; k++) {
      float value;
      memcpy(&value, (const char *)constant->data + k * sizeof value, sizeof value); // Mapped data may be unaligned.
      if (!isfinite(value)) return constant;
    }
  }
  return NULL;
}

static itg_status slot_failure(const slot *s, size_t sample, itg_diagnostic *diagnostic) {
  const itg_tensor *broken = s->not_finite && s->not_finite->producer ? broken_constant(s->not_finite->producer) : NULL;
  if (broken)
    ITG_FAIL(
        diagnostic, ITG_ERROR_QUANTIZATION, broken->name,
        "this constant of the model holds infinities or NaN, so that %s does not give finite values: the model file "
        "itself is damaged",
        s->not_finite->producer->name);
  if (s->not_finite)
    ITG_FAIL(diagnostic, ITG_ERROR_QUANTIZATION, s->not_finite->name,
             "sample %zu gives infinities or NaN in this tensor; check the sample's preprocessing", sample);
  if (diagnostic) *diagnostic = s->diagnostic;
  return s->status;
}

static itg_status run_pass(run_context *run, bool second_pass, itg_diagnostic *diagnostic) {
  const size_t total = run->samples->count;
  for (size_t t = 0; t < run->slot_count; t++) run->slots[t].second_pass = second_pass;
  for (size_t begin = 0; begin < total; begin += run->slot_count) {
    const size_t count = total - begin < run->slot_count ? total - begin : run->slot_count;
    for (size_t t = 0; t < count; t++) {
      slot *s = &run->slots[t];
      s->sample = begin + t;
      ITG_TRY(run->samples->read(run->samples->context, s->sample, s->inputs, diagnostic));
      if (!run->hooks.rows) continue;
      s->rows = run->hooks.rows(run->samples->context, s->sample);
      s->length = run->graph->inputs[0]->shape.rank > 1 ? run->graph->inputs[0]->shape.dims[1] : 0;
    }
    itg_parallel_for(run->pool, count, run_slot, run->slots);
    for (size_t t = 0; t < count; t++) {
      if (run->slots[t].status != ITG_OK) return slot_failure(&run->slots[t], begin + t, diagnostic);
      if (!second_pass) combine(run->statistics, &run->slots[t]);
    }
    const long long done = (long long)(begin + count) + run->done;
    if (run->progress && run->progress(run->progress_context, "calibrate", done, run->total) != 0)
      ITG_FAIL(diagnostic, ITG_ERROR_CANCELLED, NULL, "calibration was cancelled");
  }
  run->done += (long long)total;
  return ITG_OK;
}

// What the re-basing of streams asks for; uses the first slot's memory, which no sample needs at that time.
static const float *read_magnitudes(void *context, const itg_tensor *tensor) {
  const run_context *run = context;
  const itg_tensor_statistics *entry = find(run->statistics, tensor);
  if (!entry) return NULL;
  float *magnitudes = run->slots[0].low;
  for (int64_t c = 0; c < entry->channels; c++)
    magnitudes[c] = fmaxf(fabsf(entry->channel_low[c]), fabsf(entry->channel_high[c]));
  return magnitudes;
}

static void scale_channels(void *context, const itg_tensor *tensor, const double *gains) {
  const run_context *run = context;
  itg_tensor_statistics *entry = find(run->statistics, tensor);
  for (int64_t c = 0; c < entry->channels; c++) {
    entry->channel_low[c] *= (float)gains[c];
    entry->channel_high[c] *= (float)gains[c];
    entry->channel_sum[c] *= gains[c];
    entry->channel_squares[c] *= gains[c] * gains[c];
  }
}

static itg_status create_states(run_context *run, itg_diagnostic *diagnostic) {
  ITG_TRY(itg_interpreter_create(run->graph, diagnostic, &run->interpreter));
  for (size_t t = 0; t < run->slot_count; t++)
    ITG_TRY(itg_interpreter_state_create(run->interpreter, diagnostic, &run->slots[t].state));
  return ITG_OK;
}

static void destroy_states(run_context *run) {
  for (size_t t = 0; run->slots && t < run->slot_count; t++) {
    itg_interpreter_state_destroy(run->slots[t].state);
    run->slots[t].state = NULL;
  }
  itg_interpreter_destroy(run->interpreter);
  run->interpreter = NULL;
}

// Makes room for the statistics of the graph as it is now.
static itg_status prepare(run_context *run, itg_arena *arena, itg_diagnostic *diagnostic) {
  itg_arena_free(&run->statistics->arena);
  *run->statistics = (itg_statistics){0};
  itg_arena_free(arena);
  ITG_TRY(make_entries(run->graph, diagnostic, run->statistics));
  ITG_TRY(make_slots(run, arena, diagnostic));
  return create_states(run, diagnostic);
}

// The graph must not change under its interpreter.
static itg_status equalize(run_context *run, itg_graph *graph, itg_arena *arena, itg_diagnostic *diagnostic) {
  const itg_equalization *equalization = run->equalization;
  bool rebased = false, migrated = false;
  destroy_states(run);
  const itg_methods_off off = equalization->methods_off;
  const bool products = equalization->operand_bits == 8 && itg_method_is_on(off, ITG_METHOD_CHANNEL_EQUALIZATION);
  if (itg_method_is_on(off, ITG_METHOD_STREAM_REBASING))
    ITG_TRY(itg_rebase_streams(graph, products, read_magnitudes, scale_channels, run, &rebased, diagnostic));
  if (itg_method_is_on(off, ITG_METHOD_SCALE_MIGRATION))
    ITG_TRY(itg_migrate_scales(graph, run->statistics, equalization->operand_bits, equalization->wide_stream, &migrated,
                               diagnostic));
  if (!migrated) return create_states(run, diagnostic);
  run->total += (long long)run->samples->count;
  ITG_TRY(prepare(run, arena, diagnostic));
  return run_pass(run, false, diagnostic);
}

static itg_status collect(run_context *run, itg_graph *equalized, itg_arena *arena, itg_diagnostic *diagnostic) {
  run->total = 2 * (long long)run->samples->count;
  ITG_TRY(prepare(run, arena, diagnostic));
  ITG_TRY(run_pass(run, false, diagnostic));
  if (equalized) ITG_TRY(equalize(run, equalized, arena, diagnostic));
  finish_first_pass(run->statistics);
  ITG_TRY(run_pass(run, true, diagnostic));
  for (size_t t = 0; t < run->slot_count; t++) add_histograms(run->statistics, &run->slots[t]);
  return ITG_OK;
}

// `equalized` is `graph` when it may be changed, else NULL.
static itg_status calibrate(run_context *run, itg_graph *equalized, itg_diagnostic *diagnostic, itg_statistics **out) {
  if (run->samples->count == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "calibration needs at least one sample");
  itg_arena arena = {0};
  const size_t threads = (size_t)itg_pool_thread_count(run->pool);
  run->statistics = calloc(1, sizeof *run->statistics);
  run->slot_count = run->samples->count < threads ? run->samples->count : threads;
  run->slots = calloc(run->slot_count, sizeof run->slots[0]);
  itg_status status = ITG_OK;
  if (!run->statistics || !run->slots)
    status = itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "out of memory");
  else
    status = collect(run, equalized, &arena, diagnostic);
  destroy_states(run);
  free(run->slots);
  itg_arena_free(&arena);
  if (status != ITG_OK) {
    itg_statistics_destroy(run->statistics);
    return status;
  }
  // Parts of sequences hand their samples on while they are calibrated: nobody can read them again.
  if (!run->hooks.rows && !run->hooks.keep) run->statistics->samples = *run->samples;
  *out = run->statistics;
  return ITG_OK;
}

itg_status itg_calibrate(const itg_graph *graph, const itg_sample_source *samples, itg_pool *pool,
                         itg_progress_function progress, void *progress_context, itg_diagnostic *diagnostic,
                         itg_statistics **out) {
  run_context run = {
      .graph = graph, .samples = samples, .pool = pool, .progress = progress, .progress_context = progress_context};
  return calibrate(&run, NULL, diagnostic, out);
}

itg_status itg_calibrate_and_equalize(itg_graph *graph, const itg_equalization *equalization,
                                      const itg_sample_source *samples, itg_pool *pool, itg_progress_function progress,
                                      void *progress_context, itg_diagnostic *diagnostic, itg_statistics **out) {
  run_context run = {.equalization = equalization,
                     .graph = graph,
                     .samples = samples,
                     .pool = pool,
                     .progress = progress,
                     .progress_context = progress_context};
  return calibrate(&run, graph, diagnostic, out);
}

itg_status itg_calibrate_sequences(const itg_graph *graph, const itg_sample_source *samples,
                                   const itg_sequence_hooks *hooks, itg_pool *pool, itg_diagnostic *diagnostic,
                                   itg_statistics **out) {
  run_context run = {.graph = graph, .samples = samples, .hooks = *hooks, .pool = pool};
  return calibrate(&run, NULL, diagnostic, out);
}
