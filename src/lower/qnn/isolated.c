// The vendor's compiler in a child process (base/child.h): its death by signal, by the time limit or by the memory limit
// becomes an error here.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/child.h"
#include "lower/qnn/prepare.h"
#include "npu/qnn/device.h"

enum { DEFAULT_SECONDS = 600, SECONDS_A_MEBIBYTE = 6 };
#define DEFAULT_MEMORY ((size_t)8 << 30)
static const char name[] = "the vendor's QNN compiler";

// What the child leaves behind; ports, refusals and the binary follow.
typedef struct result_header {
  uint64_t complete; // Written last.
  int32_t status;
  uint32_t input_count, output_count;
  uint64_t size, op_count, refusals_size, peak_memory_bytes;
  itg_qnn_version core;
  char build[128];
  char message[384], subject[160];
} result_header;

typedef struct preparation {
  const itg_graph *graph;
  const itg_target *target;
  const itg_qnn_prepare_options *options;
} preparation;

static bool prepare_and_write(void *context, int file) {
  const preparation *task = context;
  itg_diagnostic why = {0};
  itg_qnn_blob blob = {0};
  result_header header = {.status = (int32_t)itg_qnn_prepare(task->graph, task->target, task->options, &why, &blob)};
  header.input_count = blob.input_count;
  header.output_count = blob.output_count;
  header.size = blob.size;
  header.op_count = blob.op_count;
  header.refusals_size = blob.refusals_size;
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) header.peak_memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
  memcpy(header.build, blob.build, sizeof header.build);
  header.core = blob.core;
  memcpy(header.message, why.message, sizeof header.message);
  memcpy(header.subject, why.subject, sizeof header.subject);
  bool written = itg_write_descriptor(file, &header, sizeof header);
  written = written && itg_write_descriptor(file, blob.inputs, blob.input_count * sizeof blob.inputs[0]);
  written = written && itg_write_descriptor(file, blob.outputs, blob.output_count * sizeof blob.outputs[0]);
  written = written && itg_write_descriptor(file, blob.refusals, blob.refusals_size);
  written = written && itg_write_descriptor(file, blob.data, blob.size);
  header.complete = 1;
  if (written && lseek(file, 0, SEEK_SET) == 0)
    written = itg_write_descriptor(file, &header.complete, sizeof header.complete);
  return written;
}

static itg_status read_result(itg_span bytes, itg_diagnostic *diagnostic, itg_qnn_blob *out) {
  result_header header;
  if (bytes.size < sizeof header)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL, "%s ended without a result; is there memory enough?", name);
  memcpy(&header, bytes.data, sizeof header);
  header.message[sizeof header.message - 1] = header.subject[sizeof header.subject - 1] = 0;
  header.build[sizeof header.build - 1] = 0;
  if (!header.complete)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL, "%s ended without a result; is there memory enough?", name);
  if (header.status != ITG_OK) ITG_FAIL(diagnostic, (itg_status)header.status, header.subject, "%s", header.message);
  const size_t inputs = header.input_count * sizeof(itg_qnn_port), outputs = header.output_count * sizeof(itg_qnn_port);
  itg_span first, second, refusals, data;
  if (!itg_span_cut(bytes, sizeof header, inputs, &first) ||
      !itg_span_cut(bytes, sizeof header + inputs, outputs, &second) ||
      !itg_span_cut(bytes, sizeof header + inputs + outputs, header.refusals_size, &refusals) ||
      !itg_span_cut(bytes, sizeof header + inputs + outputs + refusals.size, header.size, &data))
    ITG_FAIL(diagnostic, ITG_ERROR_INTERNAL, NULL, "the result of %s is incomplete", name);
  itg_qnn_blob blob = {.data = malloc(data.size + 1),
                       .size = data.size,
                       .inputs = malloc(inputs + 1),
                       .outputs = malloc(outputs + 1),
                       .input_count = header.input_count,
                       .output_count = header.output_count,
                       .refusals = malloc(refusals.size + 1),
                       .refusals_size = refusals.size,
                       .op_count = header.op_count,
                       .peak_memory_bytes = header.peak_memory_bytes};
  if (!blob.data || !blob.inputs || !blob.outputs || !blob.refusals) {
    itg_qnn_blob_free(&blob);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  memcpy(blob.data, data.data, data.size);
  memcpy(blob.inputs, first.data, inputs);
  memcpy(blob.outputs, second.data, outputs);
  memcpy(blob.refusals, refusals.data, refusals.size);
  memcpy(blob.build, header.build, sizeof blob.build);
  blob.core = header.core;
  *out = blob;
  return ITG_OK;
}

// The vendor's compiler takes about a second for two megabytes of weights where the machine is its own.
static int default_seconds(const itg_graph *graph) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < graph->tensor_count; i++) {
    size_t size;
    const itg_tensor *tensor = graph->tensors[i];
    if (tensor->data && itg_shape_bytes(&tensor->shape, tensor->dtype, &size)) bytes += size;
  }
  return DEFAULT_SECONDS + (int)(bytes >> 20) * SECONDS_A_MEBIBYTE;
}

itg_status itg_qnn_prepare_isolated(const itg_graph *graph, const itg_target *target,
                                    const itg_qnn_prepare_options *options, itg_diagnostic *diagnostic,
                                    itg_qnn_blob *out) {
  preparation task = {graph, target, options};
  const itg_child_limits limits = {.seconds =
                                       options->timeout_seconds ? options->timeout_seconds : default_seconds(graph),
                                   .memory_bytes = options->memory_bytes ? options->memory_bytes : DEFAULT_MEMORY,
                                   .before_fork = itg_qnn_devices_hold,
                                   .after_fork = itg_qnn_devices_let_go};
  itg_child_result result = {0};
  ITG_TRY(itg_child_run(name, "try another library version (--qnn-dir) or optimisation level", prepare_and_write, &task,
                        &limits, diagnostic, &result));
  const itg_status status = read_result(result.bytes, diagnostic, out);
  itg_child_result_free(&result);
  return status;
}
