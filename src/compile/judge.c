// See judge.h. Samples are read in order; a batch of them runs side by side, each through the interpreter and a session of
// one thread. Both programs are timed alone afterwards, on one thread each, so that the two numbers can be compared.
#include "compile/judge.h"

#include <math.h>
#include <string.h>

#include "compile/samples.h"
#include "compile/source.h"

enum { FLOAT_TIMINGS = 3, INTEGER_TIMINGS = 10 };
static const double ENOUGH = 1; // Seconds spent on timing one program.

typedef struct judge_lane { // One sample under way.
  itg_float_runner *runner;
  itg_session *session;
  void **inputs, **outputs; // Public values; outputs of the float network.
  float **answer;           // Outputs of the session.
  itg_session_feed feed;
  itg_status status;
  itg_diagnostic diagnostic;
} judge_lane;

typedef struct judge_state {
  const itg_float_network *network;
  const itg_model *model;
  const itg_judge_options *options;
  itg_diagnostic *diagnostic;
  itg_judgement *result;
  const itg_tensor_info *inputs, *outputs; // Of the float network.
  size_t input_count, output_count;
  judge_lane *lanes;
  size_t lane_count;
  float **reference;  // Outputs of the float network as floats.
  bool has_reference; // Of all samples already, in options->reference.
} judge_state;

static itg_status same_shape(const itg_tensor_info *source, const itg_tensor_info *compiled,
                             itg_diagnostic *diagnostic) {
  if (itg_shape_equal(&source->shape, &compiled->shape)) return ITG_OK;
  char expected[96], actual[96];
  ITG_FAIL(diagnostic, ITG_ERROR_SHAPE, source->name,
           "is %s in the float model and %s in the compiled file; were they made from the same model and --shape?",
           itg_shape_print(&source->shape, expected, sizeof expected),
           itg_shape_print(&compiled->shape, actual, sizeof actual));
}

static itg_status check_pair(const judge_state *judge) {
  const size_t inputs = itg_model_input_count(judge->model), outputs = itg_model_output_count(judge->model);
  if (inputs != judge->input_count || outputs != judge->output_count)
    ITG_FAIL(judge->diagnostic, ITG_ERROR_SHAPE, NULL,
             "the float model has %zu inputs and %zu outputs, the compiled file %zu and %zu; "
             "were they made from the same model?",
             judge->input_count, judge->output_count, inputs, outputs);
  for (size_t i = 0; i < inputs; i++)
    ITG_TRY(same_shape(&judge->inputs[i], itg_model_input(judge->model, i), judge->diagnostic));
  for (size_t i = 0; i < outputs; i++)
    ITG_TRY(same_shape(&judge->outputs[i], itg_model_output(judge->model, i), judge->diagnostic));
  return ITG_OK;
}

static itg_status float_buffers(judge_state *judge, const itg_tensor_info *infos, size_t count, float ***out) {
  itg_arena *arena = &judge->result->arena;
  float **buffers = itg_arena_array(arena, count, sizeof *buffers);
  ITG_TRY_MEMORY(buffers, judge->diagnostic);
  for (size_t i = 0; i < count; i++) {
    buffers[i] = itg_arena_array(arena, infos[i].count, sizeof(float));
    ITG_TRY_MEMORY(buffers[i], judge->diagnostic);
  }
  *out = buffers;
  return ITG_OK;
}

static itg_status prepare_lane(judge_state *judge, judge_lane *lane) {
  itg_arena *arena = &judge->result->arena;
  itg_session_options options;
  itg_session_options_default(&options);
  options.thread_count = 1;
  options.cpu = judge->options->cpu;
  options.backend = judge->options->backend;
  options.target = judge->options->target;
  options.qnn_directory = judge->options->qnn_directory;
  options.profile = 1;
  ITG_TRY(itg_session_workspace_size(judge->model, &options, judge->diagnostic, &judge->result->workspace_bytes));
  ITG_TRY(itg_session_create(judge->model, &options, judge->diagnostic, &lane->session));
  ITG_TRY(itg_float_runner_create(judge->network, judge->diagnostic, &lane->runner));
  ITG_TRY(itg_sample_buffers(judge->inputs, judge->input_count, arena, judge->diagnostic, &lane->inputs));
  ITG_TRY(itg_sample_buffers(judge->outputs, judge->output_count, arena, judge->diagnostic, &lane->outputs));
  ITG_TRY(float_buffers(judge, judge->outputs, judge->output_count, &lane->answer));
  return itg_session_feed_create(judge->inputs, judge->input_count, judge->model, arena, judge->diagnostic,
                                 &lane->feed);
}

static itg_status prepare_lanes(judge_state *judge) {
  const size_t samples = judge->options->samples.count;
  judge->lane_count = (size_t)itg_pool_thread_count(judge->options->pool);
  if (judge->lane_count > samples) judge->lane_count = samples;
  judge->lanes = itg_arena_array(&judge->result->arena, judge->lane_count, sizeof *judge->lanes);
  ITG_TRY_MEMORY(judge->lanes, judge->diagnostic);
  for (size_t i = 0; i < judge->lane_count; i++) ITG_TRY(prepare_lane(judge, &judge->lanes[i]));
  return float_buffers(judge, judge->outputs, judge->output_count, &judge->reference);
}

static itg_status prepare_reference(judge_state *judge) {
  itg_judge_reference *kept = judge->options->reference;
  judge->has_reference = kept && kept->outputs;
  if (!kept || judge->has_reference) return ITG_OK;
  const size_t samples = judge->options->samples.count;
  float **outputs = itg_arena_array(&kept->arena, samples * judge->output_count, sizeof *outputs);
  ITG_TRY_MEMORY(outputs, judge->diagnostic);
  for (size_t i = 0; i < samples * judge->output_count; i++) {
    outputs[i] = itg_arena_array(&kept->arena, judge->outputs[i % judge->output_count].count, sizeof(float));
    ITG_TRY_MEMORY(outputs[i], judge->diagnostic);
  }
  kept->outputs = outputs;
  return ITG_OK;
}

static itg_status prepare_accuracy(judge_state *judge) {
  itg_judgement *result = judge->result;
  const itg_samples *samples = &judge->options->samples;
  result->outputs = itg_arena_array(&result->arena, judge->output_count, sizeof *result->outputs);
  ITG_TRY_MEMORY(result->outputs, judge->diagnostic);
  for (size_t i = 0; i < judge->output_count; i++) {
    ITG_TRY(itg_accuracy_begin(judge->outputs[i].name, samples->count, judge->outputs[i].count, judge->diagnostic,
                               &result->outputs[i]));
    result->output_count++;
  }
  result->names = itg_arena_array(&result->arena, samples->count, sizeof *result->names);
  const char **groups = itg_arena_array(&result->arena, samples->count, sizeof *groups);
  ITG_TRY_MEMORY(result->names && groups, judge->diagnostic);
  for (size_t i = 0; i < samples->count; i++) {
    const char *name = samples->name ? samples->name(samples->context, i) : NULL;
    const char *group = samples->group ? samples->group(samples->context, i) : NULL;
    if (name)
      ITG_TRY_MEMORY(result->names[i] = itg_arena_string(&result->arena, name, strlen(name)), judge->diagnostic);
    if (!group) continue;
    ITG_TRY_MEMORY(groups[i] = itg_arena_string(&result->arena, group, strlen(group)), judge->diagnostic);
    result->groups = groups;
  }
  return ITG_OK;
}

static itg_status run_float(judge_lane *lane) {
  return itg_float_runner_run(lane->runner, (const void *const *)lane->inputs, lane->outputs, &lane->diagnostic);
}

static itg_status run_integer(const judge_state *judge, judge_lane *lane) {
  ITG_TRY(itg_session_feed_set(&lane->feed, lane->session, lane->inputs, &lane->diagnostic));
  ITG_TRY(itg_session_run(lane->session, &lane->diagnostic));
  for (size_t i = 0; i < judge->output_count; i++)
    ITG_TRY(itg_session_get_output(lane->session, i, lane->answer[i], judge->outputs[i].count, &lane->diagnostic));
  return ITG_OK;
}

static void run_lane(void *context, size_t index) {
  const judge_state *judge = context;
  judge_lane *lane = &judge->lanes[index];
  lane->status = judge->has_reference ? ITG_OK : run_float(lane);
  if (lane->status == ITG_OK) lane->status = run_integer(judge, lane);
}

static itg_status lane_status(judge_state *judge, const judge_lane *lane, itg_status status) {
  if (status != ITG_OK && judge->diagnostic) *judge->diagnostic = lane->diagnostic;
  return status;
}

// Where float itself says nothing (NaN, or infinities alone) no program can be right or wrong, and the measures, which pass
// over such elements, would call it perfect.
static itg_status check_reference(const judge_state *judge, size_t output, size_t sample, const float *reference) {
  const itg_tensor_info *info = &judge->outputs[output];
  size_t finite = 0, nan = 0;
  for (size_t k = 0; k < info->count; k++) {
    finite += isfinite(reference[k]) != 0;
    nan += isnan(reference[k]) != 0;
  }
  if (nan == 0 && (finite > 0 || info->count == 0)) return ITG_OK;
  const char *name = judge->result->names[sample];
  ITG_FAIL(judge->diagnostic, ITG_ERROR_QUANTIZATION, info->name,
           "the float model answers sample %zu%s%s%s with %s, so nothing can be judged on it; check the sample and its "
           "preprocessing",
           sample, name ? " (" : "", name ? name : "", name ? ")" : "", nan ? "NaN" : "nothing but infinities");
}

// Float answer `output` of `sample`, from the lane that ran it or from an earlier judgement; kept when somebody asked for that.
static const float *float_answer(judge_state *judge, const judge_lane *lane, size_t sample, size_t output) {
  itg_judge_reference *kept = judge->options->reference;
  const itg_tensor_info *info = &judge->outputs[output];
  float *values = kept ? kept->outputs[sample * judge->output_count + output] : judge->reference[output];
  if (!judge->has_reference) itg_public_to_float(info->dtype, lane->outputs[output], values, info->count);
  return values;
}

static itg_status run_batch(judge_state *judge, size_t first, size_t count) {
  const itg_samples *samples = &judge->options->samples;
  for (size_t k = 0; k < count; k++)
    ITG_TRY(samples->read(samples->context, first + k, judge->lanes[k].inputs, judge->diagnostic));
  itg_parallel_for(judge->options->pool, count, run_lane, judge);
  for (size_t k = 0; k < count; k++) {
    const judge_lane *lane = &judge->lanes[k];
    ITG_TRY(lane_status(judge, lane, lane->status));
    for (size_t i = 0; i < judge->output_count; i++) {
      const float *reference = float_answer(judge, lane, first + k, i);
      ITG_TRY(check_reference(judge, i, first + k, reference));
      itg_accuracy_add(&judge->result->outputs[i], first + k, reference, lane->answer[i]);
    }
  }
  return ITG_OK;
}

static itg_status time_float(judge_state *judge) {
  const double begin = itg_now();
  double best = INFINITY;
  for (int i = 0; i < FLOAT_TIMINGS && itg_now() - begin < ENOUGH; i++) {
    const double start = itg_now();
    ITG_TRY(run_float(&judge->lanes[0]));
    best = fmin(best, itg_now() - start);
  }
  judge->result->float_milliseconds = 1e3 * best;
  return ITG_OK;
}

static itg_status time_integer(judge_state *judge) {
  judge_lane *lane = &judge->lanes[0];
  const double begin = itg_now();
  double best = INFINITY;
  for (int i = 0; i < INTEGER_TIMINGS && itg_now() - begin < ENOUGH; i++) {
    const double start = itg_now();
    ITG_TRY(itg_session_run(lane->session, &lane->diagnostic));
    best = fmin(best, itg_now() - start);
  }
  judge->result->integer_milliseconds = 1e3 * best;
  return ITG_OK;
}

// Steps follow the nodes of the graph in order; nodes without a step (views) are passed over.
static itg_status describe_session(judge_state *judge, const itg_graph *legal) {
  const itg_session *session = judge->lanes[0].session;
  itg_judgement *result = judge->result;
  const size_t count = itg_session_step_count(session);
  const char *cpu = itg_session_cpu(session);
  result->cpu = itg_arena_string(&result->arena, cpu, strlen(cpu));
  result->layers = itg_arena_array(&result->arena, count, sizeof *result->layers);
  ITG_TRY_MEMORY(result->cpu && result->layers, judge->diagnostic);
  const itg_node *node = legal ? legal->first : NULL;
  for (size_t i = 0; i < count; i++) {
    itg_step_info step;
    ITG_TRY(itg_session_step(session, i, &step));
    itg_report_layer *layer = &result->layers[i];
    *layer = (itg_report_layer){.op = step.op,
                                .kernel = step.kernel,
                                .shape = {.rank = -1},
                                .multiply_accumulates = step.multiply_accumulates,
                                .microseconds = step.microseconds,
                                .loss = {NAN, NAN, NAN, NAN, NAN, 0, 0}};
    layer->name = itg_arena_string(&result->arena, step.name, strlen(step.name));
    ITG_TRY_MEMORY(layer->name, judge->diagnostic);
    const itg_node *match = node;
    while (match && !(strcmp(match->name, step.name) == 0 && strcmp(itg_op_name((int)match->op), step.op) == 0))
      match = match->next;
    if (!match) continue;
    if (match->output_count > 0 && match->outputs[0]) {
      layer->shape = match->outputs[0]->shape;
      layer->storage = match->outputs[0]->dtype;
    }
    if (match->input_count > 0 && match->inputs[0]) layer->input_storage = match->inputs[0]->dtype;
    node = match->next;
  }
  result->layer_count = count;
  return ITG_OK;
}

static itg_status tell_progress(const judge_state *judge, size_t done) {
  const itg_judge_options *options = judge->options;
  const char *stage = options->stage ? options->stage : "judging";
  if (options->progress &&
      options->progress(options->progress_context, stage, (long long)done, (long long)options->samples.count))
    ITG_FAIL(judge->diagnostic, ITG_ERROR_CANCELLED, NULL, "cancelled while %s", stage);
  return ITG_OK;
}

static itg_status run(judge_state *judge, const itg_graph *legal) {
  const itg_judge_options *options = judge->options;
  itg_judgement *result = judge->result;
  ITG_TRY(check_pair(judge));
  ITG_TRY(prepare_accuracy(judge));
  ITG_TRY(prepare_lanes(judge));
  ITG_TRY(prepare_reference(judge));
  const size_t samples = options->samples.count;
  for (size_t first = 0; first < samples; first += judge->lane_count) {
    ITG_TRY(tell_progress(judge, first));
    const size_t rest = samples - first;
    ITG_TRY(run_batch(judge, first, rest < judge->lane_count ? rest : judge->lane_count));
  }
  if (!options->is_trial) {
    ITG_TRY(lane_status(judge, &judge->lanes[0], time_float(judge)));
    ITG_TRY(lane_status(judge, &judge->lanes[0], time_integer(judge)));
    ITG_TRY(describe_session(judge, legal));
  }
  for (size_t i = 0; i < judge->output_count; i++)
    ITG_TRY(itg_accuracy_finish(&result->outputs[i], result->groups, judge->diagnostic));
  result->collapsed =
      itg_accuracy_collapsed(result->outputs, result->output_count, result->reason, sizeof result->reason);
  return tell_progress(judge, samples);
}

itg_status itg_judge(const itg_float_network *network, const itg_model *model, const itg_graph *legal,
                     const itg_judge_options *options, itg_diagnostic *diagnostic, itg_judgement *out) {
  if (options->samples.count == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "no samples to judge; give at least one");
  itg_judgement result = {0};
  judge_state judge = {.network = network,
                       .model = model,
                       .options = options,
                       .diagnostic = diagnostic,
                       .result = &result,
                       .inputs = itg_float_network_input(network, 0),
                       .outputs = itg_float_network_output(network, 0),
                       .input_count = itg_float_network_input_count(network),
                       .output_count = itg_float_network_output_count(network)};
  const itg_status status = run(&judge, legal);
  for (size_t i = 0; judge.lanes && i < judge.lane_count; i++) {
    itg_float_runner_destroy(judge.lanes[i].runner);
    itg_session_destroy(judge.lanes[i].session);
  }
  if (status != ITG_OK) {
    itg_judgement_free(&result);
    return status;
  }
  *out = result;
  return ITG_OK;
}

void itg_judgement_free(itg_judgement *judgement) {
  for (size_t i = 0; i < judgement->output_count; i++) itg_accuracy_free(&judgement->outputs[i]);
  itg_arena_free(&judgement->arena);
  *judgement = (itg_judgement){0};
}

void itg_judgement_describe(const itg_judgement *judgement, itg_report *report) {
  report->collapsed = judgement->collapsed;
  report->collapse_reason = judgement->reason;
  report->float_milliseconds = judgement->float_milliseconds;
  report->integer_milliseconds = judgement->integer_milliseconds;
  report->cpu = judgement->cpu;
  report->workspace_bytes = judgement->workspace_bytes;
  report->outputs = judgement->outputs;
  report->output_count = judgement->output_count;
  report->names = judgement->names;
  report->groups = judgement->groups;
  report->layers = judgement->layers;
  report->layer_count = judgement->layer_count;
  report->ablation = judgement->ablation;
  report->ablation_count = judgement->ablation_count;
  report->layer_samples = judgement->layers_result.samples;
  report->explained = judgement->layers_result.explained;
  report->layers_reason = judgement->layers_result.reason[0] ? judgement->layers_result.reason : NULL;
}
