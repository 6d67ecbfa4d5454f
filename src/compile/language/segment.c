// One part of a model through the compiler. See segment.h.
#include "compile/language/segment.h"

#include <stdlib.h>
#include <string.h>

#include "adapt/adapt.h"
#include "calibrate/calibrate.h"
#include "graph/sequence.h"
#include "lower/legalize.h"
#include "passes/passes.h"
#include "quantize/encodings.h"
#include "quantize/quantize.h"

void itg_stream_free(itg_stream *stream) {
  for (size_t i = 0; i < stream->count; i++) free(stream->samples[i].values);
  free(stream->samples);
  *stream = (itg_stream){0};
}

int64_t itg_stream_longest(const itg_stream *stream) {
  int64_t longest = 0;
  for (size_t i = 0; i < stream->count; i++) {
    if (stream->samples[i].rows > longest) longest = stream->samples[i].rows;
  }
  return longest;
}

static size_t element_count(const itg_tensor *tensor) {
  size_t count = 0;
  return itg_shape_count(&tensor->shape, &count) ? count : 0;
}

// Rotary tables of a part, and a position of 0: what every sample has alike.
typedef struct fixed_inputs {
  float *cosines, *sines;
  int64_t rows;
} fixed_inputs;

static itg_status make_fixed(const itg_graph *graph, const itg_language_config *config, itg_diagnostic *diagnostic,
                             fixed_inputs *out) {
  *out = (fixed_inputs){0};
  const itg_tensor *table = itg_graph_find(graph, "cosine");
  if (!table) return ITG_OK;
  const size_t count = element_count(table);
  out->rows = table->shape.dims[0];
  out->cosines = malloc(count * sizeof(float) + 1);
  out->sines = malloc(count * sizeof(float) + 1);
  ITG_TRY_MEMORY(out->cosines && out->sines, diagnostic);
  return itg_rope_tables(config, 0, out->rows, diagnostic, out->cosines, out->sines);
}

static void free_fixed(fixed_inputs *fixed) {
  free(fixed->cosines);
  free(fixed->sines);
}

// Values of a sample, repeated from its beginning up to the graph's rows (rows behind a sequence change nothing before it).
static void fill_rows(const itg_activations *sample, size_t count, float *out) {
  const size_t own = (size_t)sample->rows * sample->width;
  for (size_t at = 0; at < count && own; at += own)
    memcpy(out + at, sample->values, (count - at < own ? count - at : own) * sizeof *out);
}

// ---- calibrating ----

typedef struct segment {
  const itg_segment_options *options;
  itg_stream *stream;
  const itg_graph *graph;
  fixed_inputs fixed;
  float **outputs; // One a sample; NULL where nothing is kept.
  size_t output_width;
  // Keys and values of the prefix, [P,G*D] each; NULL for graphs without attention.
  const itg_tensor *cached[2];
  float *prefix[2];
} segment;

static itg_status read_sample(void *context, size_t index, void *const *inputs, itg_diagnostic *diagnostic) {
  (void)diagnostic;
  const segment *s = context;
  fill_rows(&s->stream->samples[index], element_count(s->graph->inputs[0]), inputs[0]);
  for (int32_t i = 1; i < s->graph->input_count; i++) {
    const itg_tensor *input = s->graph->inputs[i];
    const size_t bytes = element_count(input) * sizeof(float); // The position is one s32: as large.
    const float *table = strcmp(input->name, "cosine") == 0 ? s->fixed.cosines
                         : strcmp(input->name, "sine") == 0 ? s->fixed.sines
                                                            : NULL;
    if (table)
      memcpy(inputs[i], table, bytes);
    else if (!itg_tensor_is_state(input))
      memset(inputs[i], 0, bytes);
  }
  return ITG_OK;
}

static int64_t rows_of_sample(void *context, size_t index) {
  const segment *s = context;
  return s->stream->samples[index].rows;
}

// Rows of a sample's output: a pixel sample is one row and gives all of the graph's.
static int64_t output_rows(const itg_graph *graph, const itg_activations *sample) {
  const itg_tensor *input = graph->inputs[0], *output = graph->outputs[0];
  const bool sequence = input->shape.rank == 3 && input->shape.dims[1] == output->shape.dims[1];
  return sequence ? sample->rows : output->shape.dims[1];
}

static void keep_tensor(void *context, size_t index, const itg_tensor *tensor, const void *data) {
  const segment *s = context;
  for (int i = 0; index == 0 && i < 2; i++) { // The prefix is the same in all samples.
    if (s->prefix[i] && tensor == s->cached[i])
      memcpy(s->prefix[i], data, (size_t)(s->options->config->prefix_count * tensor->shape.dims[2]) * sizeof(float));
  }
  if (!tensor->is_output || !s->outputs[index]) return;
  const int64_t rows = output_rows(s->graph, &s->stream->samples[index]);
  memcpy(s->outputs[index], data, (size_t)rows * s->output_width * sizeof(float));
}

// Finds what attention caches, where there is a prefix to be baked.
static itg_status make_prefix(segment *s, itg_diagnostic *diagnostic) {
  ITG_FOR_EACH_NODE(node, s->graph) {
    if (node->op != ITG_OP_ATTENTION || s->options->config->prefix_count == 0) continue;
    for (int i = 0; i < 2; i++) {
      s->cached[i] = node->inputs[ITG_ATTENTION_K + i];
      s->prefix[i] = calloc((size_t)(s->options->config->prefix_count * s->cached[i]->shape.dims[2]), sizeof(float));
      ITG_TRY_MEMORY(s->prefix[i], diagnostic);
    }
  }
  return ITG_OK;
}

static itg_status make_outputs(segment *s, itg_diagnostic *diagnostic) {
  const itg_tensor *output = s->graph->outputs[0];
  s->output_width = (size_t)output->shape.dims[output->shape.rank - 1];
  s->outputs = calloc(s->stream->count + 1, sizeof s->outputs[0]);
  ITG_TRY_MEMORY(s->outputs, diagnostic);
  for (size_t i = 0; s->options->keep_outputs && i < s->stream->calibrating; i++) {
    const size_t rows = (size_t)output_rows(s->graph, &s->stream->samples[i]);
    s->outputs[i] = malloc(rows * s->output_width * sizeof(float) + 1);
    ITG_TRY_MEMORY(s->outputs[i], diagnostic);
  }
  return ITG_OK;
}

static void move_stream(segment *s) {
  for (size_t i = 0; i < s->stream->calibrating; i++) {
    itg_activations *sample = &s->stream->samples[i];
    free(sample->values);
    *sample = (itg_activations){s->outputs[i], output_rows(s->graph, sample), s->output_width};
    s->outputs[i] = NULL;
  }
}

static void free_segment(segment *s) {
  for (size_t i = 0; s->outputs && i < s->stream->count; i++) free(s->outputs[i]);
  free(s->outputs);
  free(s->prefix[0]);
  free(s->prefix[1]);
  free_fixed(&s->fixed);
}

static itg_status calibrate(itg_graph *graph, segment *s, itg_diagnostic *diagnostic, itg_statistics **statistics) {
  const itg_segment_options *options = s->options;
  s->graph = graph;
  ITG_TRY(make_fixed(graph, options->config, diagnostic, &s->fixed));
  ITG_TRY(make_outputs(s, diagnostic));
  ITG_TRY(make_prefix(s, diagnostic));
  const bool sequence = graph->inputs[0]->shape.rank == 3;
  const itg_sample_source source = {s, s->stream->calibrating, read_sample};
  // The first positions of a decoder are its prefix, which is baked in; the rows of an encoder are all its own.
  const itg_sequence_hooks hooks = {.rows = sequence ? rows_of_sample : NULL,
                                    .skipped = options->rows ? options->config->prefix_count : 0,
                                    .keep = keep_tensor};
  ITG_TRY(itg_calibrate_sequences(graph, &source, &hooks, options->pool, diagnostic, statistics));
  graph->stage = ITG_STAGE_CALIBRATED;
  return ITG_OK;
}

// Encodes [P,G*D] floats as a constant [G,P,D] in the codes of `like`.
static itg_tensor *bake(itg_graph *legal, const float *rows, int64_t count, const itg_shape *cache,
                        const itg_tensor *like, const char *name) {
  const int64_t groups = cache->dims[0], size = cache->dims[2];
  const itg_shape shape = itg_shape_of(3, (const int64_t[]){groups, count, size});
  itg_tensor *constant = itg_graph_add_constant(legal, name, like->dtype, &shape, NULL);
  if (!constant) return NULL;
  const double scale = like->encoding->scales[0];
  const int32_t zero = like->encoding->zero_points ? like->encoding->zero_points[0] : 0;
  for (int64_t i = 0; i < groups * count * size; i++) {
    const int64_t g = i / (count * size), p = i / size % count, d = i % size;
    const int32_t code = itg_encode(rows[(p * groups + g) * size + d], scale, zero, itg_code_min(like->dtype),
                                    itg_code_max(like->dtype));
    if (like->dtype == ITG_DTYPE_U8)
      ((uint8_t *)itg_tensor_writable(constant))[i] = (uint8_t)code;
    else
      ((uint16_t *)itg_tensor_writable(constant))[i] = (uint16_t)code;
  }
  return constant;
}

static itg_status bake_prefix(itg_graph *legal, const segment *s, itg_diagnostic *diagnostic) {
  static const char *const names[] = {"k_prefix", "v_prefix"};
  ITG_FOR_EACH_NODE(node, legal) {
    if (node->op != ITG_OP_Q_ATTENTION || !s->prefix[0]) continue;
    ITG_TRY_MEMORY(itg_node_resize_inputs(legal, node, ITG_ATTENTION_V_PREFIX + 1), diagnostic);
    for (int32_t i = 0; i < 2; i++) {
      itg_tensor *constant =
          bake(legal, s->prefix[i], s->options->config->prefix_count, &node->inputs[ITG_ATTENTION_K_CACHE + i]->shape,
               node->inputs[ITG_ATTENTION_K + i], names[i]);
      ITG_TRY_MEMORY(constant && itg_node_set_input(node, ITG_ATTENTION_K_PREFIX + i, constant), diagnostic);
    }
  }
  return ITG_OK;
}

// The graph is now quantized; gives it its final length and lowers it.
static itg_status finish(itg_graph *graph, const segment *s, itg_graph *artifact, itg_diagnostic *diagnostic,
                         itg_tensor **output) {
  const itg_segment_options *options = s->options;
  itg_graph *legal = NULL;
  if (options->rows) ITG_TRY(itg_graph_set_rows(graph, options->rows, options->context, diagnostic));
  ITG_TRY(itg_legalize(graph, options->target, diagnostic, &legal));
  itg_status status = bake_prefix(legal, s, diagnostic);
  if (status == ITG_OK) status = itg_graph_append(artifact, legal, diagnostic, output);
  itg_graph_destroy(legal);
  return status;
}

// What a part in front wrote keeps its encoding: quantization takes it as given.
static itg_status take_encoding(itg_graph *graph, const itg_graph *artifact, itg_diagnostic *diagnostic) {
  itg_tensor *input = graph->inputs[0];
  const itg_tensor *written = itg_graph_find(artifact, input->name);
  if (!written || !written->encoding) return ITG_OK;
  input->encoding = itg_encoding_create(graph, written->encoding->storage, -1, 1, written->encoding->scales,
                                        written->encoding->zero_points);
  ITG_TRY_MEMORY(input->encoding, diagnostic);
  return ITG_OK;
}

static itg_status compile(itg_graph *graph, segment *s, itg_graph *artifact, itg_diagnostic *diagnostic,
                          itg_tensor **output) {
  const itg_segment_options *options = s->options;
  itg_statistics *statistics = NULL;
  ITG_TRY(itg_passes_run(graph, NULL, NULL, diagnostic));
  // Samples that only judge see the float graph before it changes.
  if (options->keep_outputs && s->stream->count > s->stream->calibrating) {
    itg_float_segment *judged = NULL;
    ITG_TRY(itg_float_segment_create(graph, options->config, options->pool, diagnostic, &judged));
    const itg_status status =
        itg_float_segment_run(judged, s->stream->samples, s->stream->calibrating, s->stream->count, diagnostic);
    itg_float_segment_destroy(judged);
    ITG_TRY(status);
  }
  ITG_TRY(itg_adapt_run(graph, options->target, diagnostic));
  itg_status status = calibrate(graph, s, diagnostic, &statistics);
  if (status == ITG_OK) status = take_encoding(graph, artifact, diagnostic);
  if (status == ITG_OK)
    status = itg_quantize(graph, statistics, options->recipe, options->target, options->pool, diagnostic);
  itg_statistics_destroy(statistics);
  ITG_TRY(status);
  if (options->keep_outputs) move_stream(s); // Not before: fitting weights reads the samples once more.
  return finish(graph, s, artifact, diagnostic, output);
}

itg_status itg_segment_compile(itg_graph *graph, const itg_segment_options *options, itg_stream *stream,
                               itg_graph *artifact, itg_diagnostic *diagnostic, itg_tensor **output) {
  segment s = {.options = options, .stream = stream};
  const itg_status status = compile(graph, &s, artifact, diagnostic, output);
  free_segment(&s);
  itg_graph_destroy(graph);
  return status;
}

// ---- float alone ----

struct itg_float_segment {
  const itg_graph *graph;
  itg_pool *pool;
  fixed_inputs fixed;
  itg_interpreter *interpreter;
  itg_interpreter_state **states; // One a thread.
  float **inputs, **outputs;      // Likewise.
  size_t slots;
  itg_status *statuses;
  itg_diagnostic *diagnostics;
  itg_activations *batch; // Of the running loop.
};

static itg_status prepare_float(itg_float_segment *s, const itg_language_config *config, itg_diagnostic *diagnostic) {
  ITG_TRY(make_fixed(s->graph, config, diagnostic, &s->fixed));
  ITG_TRY(itg_interpreter_create(s->graph, diagnostic, &s->interpreter));
  s->states = calloc(s->slots, sizeof s->states[0]);
  s->inputs = calloc(s->slots, sizeof s->inputs[0]);
  s->outputs = calloc(s->slots, sizeof s->outputs[0]);
  s->statuses = calloc(s->slots, sizeof s->statuses[0]);
  s->diagnostics = calloc(s->slots, sizeof s->diagnostics[0]);
  ITG_TRY_MEMORY(s->states && s->inputs && s->outputs && s->statuses && s->diagnostics, diagnostic);
  for (size_t i = 0; i < s->slots; i++) {
    s->inputs[i] = malloc(element_count(s->graph->inputs[0]) * sizeof(float) + 1);
    s->outputs[i] = malloc(element_count(s->graph->outputs[0]) * sizeof(float) + 1);
    ITG_TRY_MEMORY(s->inputs[i] && s->outputs[i], diagnostic);
    ITG_TRY(itg_interpreter_state_create(s->interpreter, diagnostic, &s->states[i]));
  }
  return ITG_OK;
}

itg_status itg_float_segment_create(const itg_graph *graph, const itg_language_config *config, itg_pool *pool,
                                    itg_diagnostic *diagnostic, itg_float_segment **out) {
  itg_float_segment *s = calloc(1, sizeof *s);
  ITG_TRY_MEMORY(s, diagnostic);
  s->graph = graph;
  s->pool = pool;
  s->slots = (size_t)itg_pool_thread_count(pool);
  const itg_status status = prepare_float(s, config, diagnostic);
  if (status != ITG_OK) {
    itg_float_segment_destroy(s);
    return status;
  }
  *out = s;
  return ITG_OK;
}

void itg_float_segment_destroy(itg_float_segment *s) {
  if (!s) return;
  for (size_t i = 0; i < s->slots; i++) {
    if (s->states) itg_interpreter_state_destroy(s->states[i]);
    if (s->inputs) free(s->inputs[i]);
    if (s->outputs) free(s->outputs[i]);
  }
  free(s->states);
  free(s->inputs);
  free(s->outputs);
  free(s->statuses);
  free(s->diagnostics);
  free_fixed(&s->fixed);
  itg_interpreter_destroy(s->interpreter);
  free(s);
}

static void run_float(void *context, size_t slot) {
  itg_float_segment *s = context;
  const itg_graph *graph = s->graph;
  static const int32_t start = 0;
  enum { MAX_INPUTS = 6 }; // x, cosine, sine, position, and the caches of one layer, which are left out.
  const void *inputs[MAX_INPUTS] = {NULL};
  void *outputs[] = {s->outputs[slot]};
  fill_rows(&s->batch[slot], element_count(graph->inputs[0]), s->inputs[slot]);
  for (int32_t i = 0; i < graph->input_count && i < MAX_INPUTS; i++) {
    const char *name = graph->inputs[i]->name;
    inputs[i] = i == 0                          ? (const void *)s->inputs[slot]
                : strcmp(name, "cosine") == 0   ? s->fixed.cosines
                : strcmp(name, "sine") == 0     ? s->fixed.sines
                : strcmp(name, "position") == 0 ? (const void *)&start
                                                : NULL;
  }
  s->statuses[slot] = itg_interpreter_run(s->states[slot], inputs, outputs, NULL, NULL, &s->diagnostics[slot]);
}

itg_status itg_float_segment_run(itg_float_segment *s, itg_activations *samples, size_t first, size_t end,
                                 itg_diagnostic *diagnostic) {
  const itg_tensor *output = s->graph->outputs[0];
  const size_t width = (size_t)output->shape.dims[output->shape.rank - 1];
  for (size_t at = first; at < end; at += s->slots) {
    const size_t count = end - at < s->slots ? end - at : s->slots;
    s->batch = samples + at;
    itg_parallel_for(s->pool, count, run_float, s);
    for (size_t i = 0; i < count; i++) {
      itg_activations *sample = &samples[at + i];
      if (s->statuses[i] != ITG_OK) {
        if (diagnostic) *diagnostic = s->diagnostics[i];
        return s->statuses[i];
      }
      const int64_t rows = output_rows(s->graph, sample);
      float *values = malloc((size_t)rows * width * sizeof *values + 1);
      ITG_TRY_MEMORY(values, diagnostic);
      memcpy(values, s->outputs[i], (size_t)rows * width * sizeof *values);
      free(sample->values);
      *sample = (itg_activations){values, rows, width};
    }
  }
  return ITG_OK;
}
