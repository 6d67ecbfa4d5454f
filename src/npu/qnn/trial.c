// See trial.h.
#include "npu/qnn/trial.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "npu/qnn/device.h"

// A simulated run may take minutes: one that is still going after RUN_SECONDS has not crashed, and counts as passed. On hardware a
// run takes milliseconds, and one of RUN_SECONDS hangs.
enum { TRIAL_SECONDS = 120, RUN_SECONDS = 10, REMEMBERED = 256 };
#if defined(__x86_64__)
enum { IS_SIMULATED = 1 };
#else
enum { IS_SIMULATED = 0 };
#endif
#define TRIAL_MEMORY ((size_t)16 << 30)

typedef struct trial {
  const char *directory;
  const itg_target *target;
  const itg_qnn_stored *stored;
  const char *graph_name;
} trial;

typedef struct trial_result {
  int32_t status;
  char message[384], subject[160];
} trial_result;

// ---- what the vendor's System library says about a binary ----

typedef struct system_functions {
  itg_qnn_error (*context_create)(itg_qnn_handle *context);
  itg_qnn_error (*context_get_binary_info)(itg_qnn_handle context, void *binary, uint64_t size, const void **info,
                                           uint64_t *info_size);
  void *others[14];
} system_functions;

typedef struct system_provider {
  uint32_t backend_id;
  const char *name;
  itg_qnn_version version;
  system_functions functions;
} system_provider;
ITG_QNN_AT(system_provider, functions, 32);

typedef itg_qnn_error (*get_system_providers)(const system_provider ***list, uint32_t *count);

typedef struct graph_info { // Versions 1 to 3 begin alike.
  uint32_t version;
  const char *name;
  uint32_t input_count;
  const itg_qnn_tensor *inputs;
  uint32_t output_count;
  const itg_qnn_tensor *outputs;
} graph_info;
ITG_QNN_AT(graph_info, name, 8);
ITG_QNN_AT(graph_info, inputs, 24);
ITG_QNN_AT(graph_info, outputs, 40);

// Where the number of graphs and their list lie in the binary's description, by its version.
static bool find_graphs(const char *info, uint32_t *count, const graph_info **graphs) {
  uint32_t version;
  memcpy(&version, info, sizeof version);
  if (version < 1 || version > 3) return false;
  const size_t at = version == 3 ? 96 : 120;
  memcpy(count, info + at, sizeof *count);
  memcpy(graphs, info + at + 8, sizeof *graphs);
  return *graphs != NULL;
}

static uint64_t bytes_of(const itg_qnn_tensor *tensor) {
  uint64_t bytes = itg_qnn_type_bytes(tensor->v1.data_type);
  for (uint32_t i = 0; i < tensor->v1.rank; i++) {
    if (tensor->v1.dims[i] && bytes > UINT32_MAX / tensor->v1.dims[i]) return 0;
    bytes *= tensor->v1.dims[i];
  }
  return bytes;
}

static itg_status compare(const itg_qnn_tensor *tensors, uint32_t tensor_count, const itg_qnn_port *ports,
                          uint32_t port_count, const char *what, itg_diagnostic *diagnostic) {
  if (tensor_count != port_count)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL, "the NPU context has %u %s and the file says %u", tensor_count, what,
             port_count);
  for (uint32_t i = 0; i < port_count; i++) {
    uint32_t k = 0;
    while (k < tensor_count && tensors[k].v1.id != ports[i].id) k++;
    if (k == tensor_count || tensors[k].v1.data_type != ports[i].data_type || bytes_of(&tensors[k]) != ports[i].bytes)
      ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, ports[i].name, "the NPU context's %s are not those that the file names",
               what);
  }
  return ITG_OK;
}

static itg_status check_ports(const trial *t, itg_diagnostic *diagnostic) {
  itg_qnn_library library = {0};
  // A board may come without it.
  if (itg_qnn_shared_object_open(t->directory, "libQnnSystem.so", NULL, &library) != ITG_OK) return ITG_OK;
  get_system_providers get = NULL;
  void *symbol = dlsym(library.handle, "QnnSystemInterface_getProviders");
  memcpy(&get, &symbol, sizeof get);
  const system_provider **list = NULL;
  uint32_t count = 0;
  if (!get || get(&list, &count) != 0 || count == 0) return ITG_OK;
  const system_functions *f = &list[0]->functions;
  itg_qnn_handle context = NULL;
  const void *info = NULL;
  uint64_t size = 0;
  uint32_t graph_count = 0;
  const graph_info *graph = NULL;
  if (f->context_create(&context) != 0 ||
      f->context_get_binary_info(context, (void *)(uintptr_t)t->stored->blob.data, t->stored->blob.size, &info,
                                 &size) != 0 ||
      !info || !find_graphs(info, &graph_count, &graph))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, t->target->name, "the vendor's library cannot read the NPU context");
  if (graph_count != 1 || !graph->name || strcmp(graph->name, t->graph_name) != 0)
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, t->target->name, "the NPU context holds another graph");
  ITG_TRY(compare(graph->inputs, graph->input_count, t->stored->inputs, t->stored->header.input_count, "inputs",
                  diagnostic));
  return compare(graph->outputs, graph->output_count, t->stored->outputs, t->stored->header.output_count, "outputs",
                 diagnostic);
}

// ---- in the child ----

static trial_result result_of(itg_status status, const itg_diagnostic *why) {
  trial_result result = {.status = (int32_t)status};
  memcpy(result.message, why->message, sizeof result.message);
  memcpy(result.subject, why->subject, sizeof result.subject);
  return result;
}

// For the alarm's handler: what to write when the run has not ended in time.
static trial_result late_result;
static int late_file;

static void on_alarm(int signal_number) {
  (void)signal_number;
  _exit(write(late_file, &late_result, sizeof late_result) == (ssize_t)sizeof late_result ? 0 : 1);
}

static void limit_run(int file) {
  itg_diagnostic why = {0};
  itg_status status = ITG_OK;
  if (!IS_SIMULATED)
    status =
        itg_fail(&why, ITG_ERROR_TIMEOUT, NULL, __FILE__, __LINE__,
                 "the NPU did not finish one run of the context within %d s; compile the model again", RUN_SECONDS);
  late_result = result_of(status, &why);
  late_file = file;
  signal(SIGALRM, on_alarm);
  alarm(RUN_SECONDS);
}

// One run on zeros: binaries with their checksums made right load and crash only here.
static itg_status run_on_zeros(itg_qnn_context *context, const itg_qnn_stored *stored, int file,
                               itg_diagnostic *diagnostic) {
  const uint32_t inputs = stored->header.input_count, count = inputs + stored->header.output_count;
  void **buffers = calloc((size_t)count + 1, sizeof buffers[0]);
  ITG_TRY_MEMORY(buffers, diagnostic);
  for (uint32_t i = 0; i < count; i++) {
    buffers[i] = calloc(i < inputs ? stored->inputs[i].bytes : stored->outputs[i - inputs].bytes, 1);
    ITG_TRY_MEMORY(buffers[i], diagnostic); // This process ends soon.
  }
  limit_run(file);
  const itg_status status =
      itg_qnn_context_run(context, (const void *const *)buffers, buffers + inputs, NULL, diagnostic);
  alarm(0);
  return status;
}

static itg_status load(const trial *t, int file, itg_diagnostic *diagnostic) {
  enum { BROKEN_SYSTEM_MINOR = 33 };
  itg_qnn_library library = {0};
  ITG_TRY(itg_qnn_library_open(t->directory, "libQnnHtp.so", t->target, diagnostic, &library));
  const itg_qnn_stored *stored = t->stored;
  ITG_TRY(itg_qnn_stored_check_library(stored, &library, diagnostic));
  if (library.core.minor != BROKEN_SYSTEM_MINOR) ITG_TRY(check_ports(t, diagnostic));
  itg_qnn_context *context = NULL;
  ITG_TRY(itg_qnn_context_open(&library, stored->blob.data, stored->blob.size, t->graph_name, stored->inputs,
                               stored->header.input_count, stored->outputs, stored->header.output_count, diagnostic,
                               &context));
  return run_on_zeros(context, stored, file, diagnostic);
}

static bool try_and_write(void *context, int file) {
  itg_diagnostic why = {0};
  const trial_result result = result_of(load(context, file, &why), &why);
  return itg_write_descriptor(file, &result, sizeof result);
}

// ---- binaries that passed ----

static struct {
  pthread_mutex_t lock;
  uint64_t hashes[REMEMBERED];
  size_t count;
} passed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool has_passed(uint64_t hash) {
  bool found = false;
  pthread_mutex_lock(&passed.lock);
  for (size_t i = 0; i < passed.count && i < REMEMBERED; i++) found = found || passed.hashes[i] == hash;
  pthread_mutex_unlock(&passed.lock);
  return found;
}

static void remember(uint64_t hash) {
  pthread_mutex_lock(&passed.lock);
  passed.hashes[passed.count++ % REMEMBERED] = hash;
  pthread_mutex_unlock(&passed.lock);
}

itg_status itg_qnn_stored_try(const itg_qnn_stored *stored, const char *directory, const itg_target *target,
                              const char *graph_name, itg_diagnostic *diagnostic) {
  const uint64_t hash = stored->header.blob_hash;
  if (has_passed(hash)) return ITG_OK;
  trial task = {directory, target, stored, graph_name};
  const itg_child_limits limits = {.seconds = TRIAL_SECONDS,
                                   .memory_bytes = TRIAL_MEMORY,
                                   .before_fork = itg_qnn_devices_hold,
                                   .after_fork = itg_qnn_devices_let_go};
  itg_child_result child = {0};
  ITG_TRY(itg_child_run("the vendor's QNN library, trying the file's NPU context,",
                        "the file is damaged or made to harm; compile the model again", try_and_write, &task, &limits,
                        diagnostic, &child));
  trial_result result = {.status = ITG_ERROR_INTERNAL};
  if (child.bytes.size == sizeof result) memcpy(&result, child.bytes.data, sizeof result);
  itg_child_result_free(&child);
  result.message[sizeof result.message - 1] = result.subject[sizeof result.subject - 1] = 0;
  if (result.status != ITG_OK)
    ITG_FAIL(diagnostic, (itg_status)result.status, result.subject, "%s",
             result.message[0] ? result.message : "the trial of the NPU context ended without a result");
  remember(hash);
  return ITG_OK;
}
