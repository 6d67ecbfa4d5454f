// See networks.h.
#include "server/networks.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "intaglio/compiler.h"
#include "server/compiling.h"
#include "server/log.h"

// What stands behind an itg_network.
typedef struct opened {
  itg_model *model;
  itg_session *session;
  itg_session_network pair;
  itg_float_network *source;
  itg_network inner; // What the functions below hand on to.
  itg_networks *networks;
  size_t report;  // Its place in `networks`; ITG_NETWORKS: none.
  bool is_on_npu; // Or on the library that simulates one.
} opened;

const char *itg_place_name(itg_place place) {
  static const char *const names[] = {"NPU", "NPU, simulated", "CPU, integers", "CPU, float model"};
  return names[place];
}

// ---- float models ----

static itg_status open_float(const char *path, const char *const *shapes, size_t shape_count, opened *entry,
                             itg_diagnostic *diagnostic) {
  const itg_source_options options = {.struct_size = sizeof options, .shapes = shapes, .shape_count = shape_count};
  ITG_TRY(itg_float_network_open(path, &options, diagnostic, &entry->source));
  entry->inner = itg_network_from_float(entry->source);
  return ITG_OK;
}

// ---- compiled files ----

// The reason in the accuracy record of a file that was written although its result collapsed. A record that cannot be read
// vouches for nothing.
static bool is_collapsed(const itg_model *model, char reason[ITG_NETWORK_TEXT]) {
  size_t size = 0;
  const char *text = itg_model_metadata(model, "accuracy", &size);
  json_t *record = text ? json_loadb(text, size, 0, NULL) : NULL;
  const bool collapsed = (text && !record) || json_is_true(json_object_get(record, "collapsed"));
  const char *why = json_string_value(json_object_get(record, "reason"));
  if (collapsed)
    snprintf(reason, ITG_NETWORK_TEXT, "the compiled file lost what the model can do (%.150s)",
             why      ? why
             : record ? "collapsed"
                      : "its accuracy record cannot be read");
  json_decref(record);
  return collapsed;
}

// A run of zeros, with what the vendor's library says about it.
static itg_status prove(opened *entry, itg_diagnostic *diagnostic, itg_proof *out) {
  itg_status status = ITG_OK;
  for (size_t i = 0; status == ITG_OK && i < itg_model_input_count(entry->model); i++) {
    const size_t count = itg_model_input(entry->model, i)->count;
    float *zeros = calloc(count, sizeof *zeros);
    ITG_TRY_MEMORY(zeros, diagnostic);
    status = itg_session_set_input(entry->session, i, zeros, count, diagnostic);
    free(zeros);
  }
  return status == ITG_OK ? itg_session_proof(entry->session, diagnostic, out) : status;
}

// Errors leave no session.
static itg_status open_on_npu(const itg_network_options *options, const itg_session_options *session, opened *entry,
                              itg_network_report *report, itg_diagnostic *diagnostic) {
  itg_session_options on_npu = *session;
  itg_proof proof = {0};
  on_npu.backend = "qnn";
  on_npu.target = options->target;
  on_npu.qnn_directory = options->qnn_directory;
  on_npu.npu_performance = options->npu_performance;
  ITG_TRY(itg_session_create(entry->model, &on_npu, diagnostic, &entry->session));
  const itg_status status = prove(entry, diagnostic, &proof);
  if (status != ITG_OK) {
    itg_session_destroy(entry->session);
    entry->session = NULL;
    return status;
  }
  entry->is_on_npu = true;
  report->place = proof.on_device ? ITG_PLACE_NPU : ITG_PLACE_SIMULATED;
  snprintf(report->reason, sizeof report->reason, "%.250s", proof.sentence);
  return ITG_OK;
}

static itg_session_options cpu_options(const itg_network_options *options) {
  itg_session_options session;
  itg_session_options_default(&session);
  session.thread_count = options->thread_count;
  session.cpu = options->cpu;
  return session;
}

static itg_status open_session(const itg_network_options *options, opened *entry, itg_network_report *report,
                               itg_diagnostic *diagnostic) {
  const itg_session_options session = cpu_options(options);
  itg_diagnostic npu = {0};
  report->place = ITG_PLACE_CPU;
  const bool wants_npu = options->backend && strcmp(options->backend, "qnn") == 0;
  if (wants_npu && open_on_npu(options, &session, entry, report, &npu) != ITG_OK)
    snprintf(report->reason, sizeof report->reason, "not on the NPU: %.200s", npu.message);
  if (!entry->session) ITG_TRY(itg_session_create(entry->model, &session, diagnostic, &entry->session));
  entry->pair = (itg_session_network){entry->session, entry->model};
  entry->inner = itg_network_from_session(&entry->pair);
  return ITG_OK;
}

// After a run that failed: the same file on the CPU until it is opened the next time.
static itg_status move_to_cpu(opened *entry, const itg_diagnostic *failure, itg_diagnostic *diagnostic) {
  const itg_session_options options = cpu_options(entry->networks->options);
  itg_session *session = NULL;
  ITG_TRY(itg_session_create(entry->model, &options, diagnostic, &session));
  itg_session_destroy(entry->session);
  entry->session = entry->pair.session = session;
  entry->is_on_npu = false;
  itg_networks *networks = entry->networks;
  if (entry->report < ITG_NETWORKS) {
    itg_network_report *report = &networks->reports[entry->report];
    if (networks->lock) pthread_mutex_lock(networks->lock);
    report->place = ITG_PLACE_CPU;
    snprintf(report->reason, sizeof report->reason, "moved from the NPU after a failed run: %.200s", failure->message);
    if (networks->lock) pthread_mutex_unlock(networks->lock);
  }
  itg_log(ITG_LOG_ERROR, "%s: a network moved from the NPU to the CPU, its run failed: %s",
          networks->label ? networks->label : "a service", failure->message);
  return ITG_OK;
}

// ---- the source ----

static itg_status run(void *context, const float *const *inputs, float *const *outputs, itg_diagnostic *diagnostic) {
  opened *entry = context;
  itg_diagnostic why = {0};
  const itg_status status = entry->inner.run(entry->inner.context, inputs, outputs, &why);
  if (status == ITG_ERROR_EXECUTION && entry->is_on_npu) {
    ITG_TRY(move_to_cpu(entry, &why, diagnostic));
    return entry->inner.run(entry->inner.context, inputs, outputs, diagnostic);
  }
  if (status != ITG_OK && diagnostic) *diagnostic = why;
  return status;
}
static const itg_tensor_info *input(void *context, size_t index) {
  const itg_network *inner = &((opened *)context)->inner;
  return inner->input(inner->context, index);
}
static const itg_tensor_info *output(void *context, size_t index) {
  const itg_network *inner = &((opened *)context)->inner;
  return inner->output(inner->context, index);
}
static const char *text(void *context, const char *name, size_t *size) {
  const itg_network *inner = &((opened *)context)->inner;
  return inner->text ? inner->text(inner->context, name, size) : NULL;
}

static void free_opened(opened *entry) {
  itg_session_destroy(entry->session);
  itg_model_close(entry->model);
  itg_float_network_close(entry->source);
  free(entry);
}

static void close_network(void *context, itg_network *network) {
  (void)context;
  free_opened(network->context);
  *network = (itg_network){0};
}

static itg_status join(const char *folder, const char *name, const char *suffix, itg_diagnostic *diagnostic,
                       char path[PATH_MAX]) {
  const int length = snprintf(path, PATH_MAX, "%s/%s%s", folder, name, suffix);
  if (length < 0 || length >= PATH_MAX)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, name, "the path of the model's folder is too long");
  return ITG_OK;
}

// Why there is no compiled file: the compiler may have refused its result before.
static void read_refusal(const char *folder, const char *name, itg_network_report *report) {
  char path[PATH_MAX];
  itg_mapped_file file;
  snprintf(report->reason, sizeof report->reason, "there is no compiled file");
  if (!itg_refusal_path(folder, name, path, sizeof path) || itg_mapped_file_open(path, NULL, &file) != ITG_OK) return;
  report->refused = true;
  snprintf(report->reason, sizeof report->reason, "the compiler refused its result: %.*s",
           (int)(file.bytes.size < 200 ? file.bytes.size : 200), (const char *)file.bytes.data);
  itg_mapped_file_close(&file);
}

static itg_status open_either(const itg_networks *networks, const char *folder, const char *name,
                              const char *const *shapes, size_t shape_count, opened *entry, itg_network_report *report,
                              itg_diagnostic *diagnostic) {
  char compiled[PATH_MAX], source[PATH_MAX], suffix[160] = ".itg";
  const char *equals = shape_count ? strrchr(shapes[0], '=') : NULL;
  if (shape_count) snprintf(suffix, sizeof suffix, "-%.120s.itg", equals ? equals + 1 : shapes[0]);
  ITG_TRY(join(folder, name, suffix, diagnostic, compiled));
  ITG_TRY(join(folder, name, ".onnx", diagnostic, source));
  const bool has_source = access(source, R_OK) == 0;
  if (access(compiled, R_OK) == 0) {
    itg_diagnostic why = {0};
    itg_status status = itg_model_open(compiled, &why, &entry->model);
    if (status == ITG_OK && !is_collapsed(entry->model, report->reason))
      return open_session(networks->options, entry, report, diagnostic);
    report->refused = status == ITG_OK;
    if (status != ITG_OK) snprintf(report->reason, sizeof report->reason, "%.200s", why.message);
    itg_model_close(entry->model);
    entry->model = NULL;
    if (!has_source)
      ITG_FAIL(diagnostic, status == ITG_OK ? ITG_ERROR_QUANTIZATION : status, compiled,
               "%s, and there is no float model beside it", report->reason);
  } else if (!has_source) {
    ITG_FAIL(diagnostic, ITG_ERROR_IO, folder, "there is neither %s%s nor %s.onnx", name, suffix, name);
  } else {
    read_refusal(folder, name, report);
  }
  report->place = ITG_PLACE_FLOAT;
  return open_float(source, shapes, shape_count, entry, diagnostic);
}

// Its place in the list; ITG_NETWORKS when that is full.
static size_t add_report(itg_networks *networks, const itg_network_report *report) {
  if (networks->lock) pthread_mutex_lock(networks->lock);
  const size_t place = networks->count;
  if (place < ITG_NETWORKS) networks->reports[networks->count++] = *report;
  if (networks->lock) pthread_mutex_unlock(networks->lock);
  if (networks->label)
    itg_log(ITG_LOG_INFO, "%s: %s runs on: %s%s%s", networks->label, report->name, itg_place_name(report->place),
            report->reason[0] ? "; " : "", report->reason);
  return place;
}

static itg_status open_network(void *context, const char *folder, const char *name, const char *const *shapes,
                               size_t shape_count, itg_diagnostic *diagnostic, itg_network *out) {
  itg_networks *networks = context;
  itg_network_report report = {0};
  snprintf(report.name, sizeof report.name, "%s", name);
  opened *entry = calloc(1, sizeof *entry);
  ITG_TRY_MEMORY(entry, diagnostic);
  const itg_status status = open_either(networks, folder, name, shapes, shape_count, entry, &report, diagnostic);
  if (status != ITG_OK) {
    free_opened(entry);
    return status;
  }
  *out = entry->inner;
  out->context = entry;
  out->run = run;
  out->input = input;
  out->output = output;
  out->text = text;
  entry->networks = networks;
  entry->report = add_report(networks, &report);
  return ITG_OK;
}

itg_network_source itg_networks_source(itg_networks *networks) {
  return (itg_network_source){networks, open_network, close_network};
}
