// The report as JSON. See report.h; the schema is in docs/FORMATS.md.
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "report/report.h"
#include "tensor/dtype.h"

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }
// Names come from files and may hold any bytes; what is not UTF-8 has no JSON string.
static json_t *text(const char *value) {
  json_t *string = value ? json_string(value) : NULL;
  return string ? string : json_null();
}
static json_t *integer(size_t value) { return json_integer((json_int_t)value); }
static void set(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }

static json_t *output_json(const itg_output_accuracy *output) {
  json_t *object = json_object();
  set(object, "output", text(output->name));
  set(object, "samples", integer(output->samples));
  set(object, "cosine_mean", number(output->cosine_mean));
  set(object, "cosine_min", number(output->cosine_min));
  set(object, "centred_cosine_mean", number(output->centred_cosine_mean));
  set(object, "float_variation", number(output->float_variation));
  set(object, "spread_ratio", number(output->spread_ratio));
  set(object, "sqnr_db", number(output->sqnr_db));
  set(object, "pair_agreement", number(output->pair_agreement));
  set(object, "pair_error_mean", number(output->pair_error_mean));
  set(object, "pair_shift", number(output->pair_shift));
  set(object, "norm_ratio", number(output->norm_ratio));
  set(object, "retrieval_overlap", number(output->retrieval_overlap));
  if (output->retrieval_neighbours) set(object, "retrieval_neighbours", integer(output->retrieval_neighbours));
  set(object, "float_margin", number(output->float_margin));
  set(object, "integer_margin", number(output->integer_margin));
  set(object, "float_verification", number(output->float_verification));
  set(object, "integer_verification", number(output->integer_verification));
  return object;
}

static json_t *accuracy_json(const itg_report *report) {
  json_t *object = json_object(), *outputs = json_array();
  set(object, "judged_on", json_string(report->judged_on_calibration ? "calibration" : "held-out"));
  set(object, "samples", integer(report->judge_count));
  set(object, "collapsed", json_boolean(report->collapsed));
  if (report->collapsed) set(object, "reason", text(report->collapse_reason));
  for (size_t i = 0; i < report->output_count; i++)
    json_array_append_new(outputs, output_json(&report->outputs[i].summary));
  set(object, "outputs", outputs);
  char sentence[256];
  itg_report_loss_sentence(report, sentence, sizeof sentence);
  if (*sentence) set(object, "loss", text(sentence));
  return object;
}

static char *dump(json_t *object, size_t flags) {
  char *result = json_dumps(object, flags | JSON_REAL_PRECISION(9));
  json_decref(object);
  return result;
}

char *itg_report_accuracy_json(const itg_report *report) { return dump(accuracy_json(report), JSON_COMPACT); }

static json_t *samples_json(const itg_report *report) {
  json_t *samples = json_array();
  for (size_t i = 0; i < report->judge_count; i++) {
    json_t *sample = json_object(), *cosines = json_array();
    if (report->names) set(sample, "name", text(report->names[i]));
    if (report->groups) set(sample, "group", text(report->groups[i]));
    for (size_t k = 0; k < report->output_count; k++)
      json_array_append_new(cosines, number(report->outputs[k].cosine[i]));
    set(sample, "cosine", cosines);
    json_array_append_new(samples, sample);
  }
  return samples;
}

static void set_loss(json_t *object, const itg_layer_loss *loss) {
  set(object, "local_db", number(loss->local_db));
  set(object, "accumulated_db", number(loss->accumulated_db));
  set(object, "loss_share", number(loss->share));
  set(object, "saturated", number(loss->saturated));
  if (!isnan(loss->gain)) set(object, "gain", number(loss->gain));
  set(object, "channels", integer(loss->channels));
  set(object, "dead_channels", integer(loss->dead_channels));
}

static json_t *loss_json(const itg_report *report) {
  json_t *object = json_object();
  char sentence[256];
  itg_report_loss_sentence(report, sentence, sizeof sentence);
  set(object, "samples", integer(report->layer_samples));
  set(object, "explained", number(report->explained));
  set(object, "summary", text(sentence));
  const itg_report_layer *worst = itg_report_first_offender(report);
  set(object, "first_offender", worst ? text(worst->name) : json_null());
  size_t alarms = 0;
  for (size_t i = 0; i < report->layer_count; i++) alarms += itg_layer_is_alarming(&report->layers[i].loss);
  set(object, "alarming_layers", integer(alarms));
  return object;
}

static json_t *ablation_json(const itg_report *report) {
  json_t *rows = json_array();
  for (size_t i = 0; i < report->ablation_count; i++) {
    const itg_ablation *row = &report->ablation[i];
    json_t *object = json_object();
    set(object, "method", text(row->method));
    set(object, "effect", text(row->effect));
    set(object, "cosine_mean", number(row->cosine_mean));
    set(object, "cosine_min", number(row->cosine_min));
    set(object, "noise", number(row->noise));
    set(object, "bought_db", number(row->bought_db));
    if (row->failure) set(object, "failure", text(row->failure));
    json_array_append_new(rows, object);
  }
  return rows;
}

static json_t *mixed_json(const itg_report_mixed *mixed) {
  json_t *object = json_object();
  set(object, "cost", number(mixed->cost));
  set(object, "stream_cost", number(mixed->stream_cost));
  set(object, "choices", integer(mixed->choice_count));
  set(object, "wide", integer(mixed->picked_count));
  set(object, "cosine_mean", number(mixed->cosine_mean));
  set(object, "noise", number(mixed->noise));
  set(object, "predicted_noise", number(mixed->predicted_noise));
  set(object, "selecting_samples", integer(mixed->selection_count));
  set(object, "sensitivity_samples", integer(mixed->sensitivity_samples));
  set(object, "selected_on", json_string(mixed->selected_on_calibration ? "calibration" : "held-out"));
  return object;
}

static json_t *layers_json(const itg_report *report) {
  json_t *layers = json_array();
  for (size_t i = 0; i < report->layer_count; i++) {
    const itg_report_layer *layer = &report->layers[i];
    json_t *object = json_object();
    set(object, "name", text(layer->name));
    set(object, "op", text(layer->op));
    set(object, "kernel", text(layer->kernel));
    if (layer->shape.rank >= 0) {
      json_t *shape = json_array();
      for (int32_t d = 0; d < layer->shape.rank; d++) json_array_append_new(shape, json_integer(layer->shape.dims[d]));
      set(object, "shape", shape);
    }
    if (layer->input_storage != ITG_DTYPE_NONE) set(object, "input", text(itg_dtype_name(layer->input_storage)));
    if (layer->storage != ITG_DTYPE_NONE) set(object, "output", text(itg_dtype_name(layer->storage)));
    set(object, "multiply_accumulates", json_integer(layer->multiply_accumulates));
    set(object, "microseconds", number(layer->microseconds));
    if (layer->loss.channels > 0) set_loss(object, &layer->loss);
    json_array_append_new(layers, object);
  }
  return layers;
}

static json_t *placements_json(const itg_placement *placements, size_t count, bool with_costs) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) {
    const itg_placement *p = &placements[i];
    json_t *object = json_object(), *nodes = json_array();
    set(object, "target", text(p->target));
    set(object, "library", text(p->build));
    set(object, "nodes", integer(p->node_count));
    set(object, "nodes_on_npu", integer(p->npu_node_count));
    set(object, "operations", integer(p->operation_count));
    if (with_costs) {
      set(object, "context_bytes", integer(p->context_bytes));
      set(object, "prepare_seconds", number(p->prepare_seconds));
      set(object, "prepare_peak_bytes", integer(p->prepare_peak_bytes));
    }
    for (size_t k = 0; k < p->node_count - p->npu_node_count; k++) {
      json_t *node = json_object();
      set(node, "name", text(p->cpu_nodes[k].name));
      set(node, "op", text(p->cpu_nodes[k].op));
      set(node, "where", text(p->cpu_nodes[k].is_behind ? "CPU, behind" : "CPU, before"));
      set(node, "reason", text(p->cpu_nodes[k].reason));
      if (nodes) json_array_append_new(nodes, node);
    }
    set(object, "on_cpu", nodes);
    if (list) json_array_append_new(list, object);
  }
  return list;
}

char *itg_report_placement_json(const itg_placement *placements, size_t count) {
  return dump(placements_json(placements, count, false), JSON_COMPACT);
}

char *itg_report_json(const itg_report *report) {
  json_t *root = json_object();
  if (!root) return NULL;
  set(root, "intaglio", json_string(ITG_VERSION));
  set(root, "command", text(report->command));
  set(root, "source", text(report->source));
  set(root, "compiled", text(report->compiled));
  set(root, "precision", text(report->precision));
  json_t *bytes = json_object();
  set(bytes, "source", integer(report->source_bytes));
  set(bytes, "compiled", integer(report->file_bytes));
  set(bytes, "workspace", integer(report->workspace_bytes));
  set(bytes, "peak_memory", integer(report->peak_memory_bytes));
  set(root, "bytes", bytes);
  json_t *time = json_object();
  set(time, "float_milliseconds", number(report->float_milliseconds));
  set(time, "integer_milliseconds", number(report->integer_milliseconds));
  set(time, "cpu", text(report->cpu));
  for (size_t i = 0; i < report->phase_count; i++) {
    char key[64];
    snprintf(key, sizeof key, "%s_seconds", report->phases[i].name);
    set(time, key, number(report->phases[i].seconds));
  }
  set(root, "time", time);
  set(root, "calibration_samples", integer(report->calibration_count));
  set(root, "accuracy", accuracy_json(report));
  set(root, "samples", samples_json(report));
  if (report->layer_samples || report->layers_reason) set(root, "loss", loss_json(report));
  if (report->mixed) set(root, "mixed", mixed_json(report->mixed));
  if (report->ablation_count) set(root, "ablation", ablation_json(report));
  set(root, "layers", layers_json(report));
  if (report->placement_count)
    set(root, "placements", placements_json(report->placements, report->placement_count, true));
  return dump(root, JSON_INDENT(1));
}
