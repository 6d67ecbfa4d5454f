// See context.h. Tensors are matched by id alone; name, type and shape need not be repeated (measured).
#include "npu/qnn/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

// Finds "key=" in the binary and copies its value up to ';' or the end of the text.
static bool find_option(const char *blob, size_t size, const char *key, char *value, size_t value_size) {
  const char *found = memmem(blob, size, key, strlen(key));
  if (!found) return false;
  const char *start = found + strlen(key);
  const size_t rest = size - (size_t)(start - blob);
  size_t length = 0;
  while (length < rest && length + 1 < value_size && start[length] > ' ' && start[length] != ';' && start[length] < 127)
    length++;
  memcpy(value, start, length);
  value[length] = 0;
  return length > 0;
}

itg_status itg_qnn_blob_inspect(const void *blob, size_t size, itg_diagnostic *diagnostic, itg_qnn_blob_target *out) {
  char soc[32], arch[16], vtcm[24];
  if (!find_option(blob, size, "soc_type=", soc, sizeof soc) || !find_option(blob, size, ";arch=", arch, sizeof arch) ||
      !find_option(blob, size, "vtcm_size=", vtcm, sizeof vtcm))
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, NULL,
             "not a context binary of the HTP: it does not say which chip it was made for");
  *out = (itg_qnn_blob_target){.arch = (uint32_t)strtoul(arch, NULL, 10), .vtcm_bytes = strtoull(vtcm, NULL, 10)};
  memcpy(out->soc, soc, sizeof out->soc);
  return ITG_OK;
}

itg_status itg_qnn_blob_check(const void *blob, size_t size, const itg_target *target, itg_diagnostic *diagnostic) {
  itg_qnn_blob_target made_for;
  ITG_TRY(itg_qnn_blob_inspect(blob, size, diagnostic, &made_for));
  if (made_for.arch != target->arch)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, target->name,
             "the context was made for Hexagon v%u (%s) and the chip is v%u; compile for %s", made_for.arch,
             made_for.soc, target->arch, target->name);
  if (made_for.vtcm_bytes > (uint64_t)target->vtcm_megabytes << 20)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, target->name,
             "the context needs %llu MB of VTCM and the chip has %u; compile for %s",
             (unsigned long long)(made_for.vtcm_bytes >> 20), target->vtcm_megabytes, target->name);
  return ITG_OK;
}

struct itg_qnn_context {
  const itg_qnn_library *library;
  itg_qnn_handle context, graph;
  uint32_t input_count, output_count;
  size_t *bytes;           // [inputs, outputs]
  itg_qnn_tensor *tensors; // [inputs, outputs]; a registered one keeps its handle.
};

itg_status itg_qnn_context_open(const itg_qnn_library *library, const void *blob, size_t size, const char *graph_name,
                                const itg_qnn_port *inputs, uint32_t input_count, const itg_qnn_port *outputs,
                                uint32_t output_count, itg_diagnostic *diagnostic, itg_qnn_context **out) {
  const itg_qnn_functions *f = library->functions;
  ITG_TRY(itg_qnn_library_require(library, ITG_QNN_TO_RUN, diagnostic));
  itg_qnn_take_log(NULL, 0); // Older lines are not about this.
  itg_qnn_context *c = calloc(1, sizeof *c);
  ITG_TRY_MEMORY(c, diagnostic);
  const size_t count = (size_t)input_count + output_count;
  *c = (itg_qnn_context){.library = library, .input_count = input_count, .output_count = output_count};
  c->bytes = calloc(count + 1, sizeof c->bytes[0]);
  c->tensors = calloc(count + 1, sizeof c->tensors[0]);
  if (!c->bytes || !c->tensors) {
    itg_qnn_context_close(c);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  for (size_t i = 0; i < count; i++) {
    const itg_qnn_port *port = i < input_count ? &inputs[i] : &outputs[i - input_count];
    c->bytes[i] = port->bytes;
    c->tensors[i].version = 1;
    c->tensors[i].v1.id = port->id;
    c->tensors[i].v1.type = i < input_count ? ITG_QNN_TENSOR_APP_WRITE : ITG_QNN_TENSOR_APP_READ;
    c->tensors[i].v1.data_type = port->data_type;
  }
  itg_status status = itg_qnn_check(
      f->context_create_from_binary(library->backend, library->device, NULL, blob, size, &c->context, NULL),
      "contextCreateFromBinary", graph_name, diagnostic);
  if (status == ITG_OK)
    status =
        itg_qnn_check(f->graph_retrieve(c->context, graph_name, &c->graph), "graphRetrieve", graph_name, diagnostic);
  if (status != ITG_OK) {
    itg_qnn_context_close(c);
    return status;
  }
  *out = c;
  return ITG_OK;
}

bool itg_qnn_context_share(itg_qnn_context *context, uint32_t index, int file, uint32_t rank, const uint32_t *dims) {
  const itg_qnn_functions *f = context->library->functions;
  itg_qnn_tensor_v1 *tensor = &context->tensors[index].v1;
  if (!f->memory_register || !f->memory_deregister) return false;
  const itg_qnn_memory_descriptor descriptor = {.shape = {rank, (uint32_t *)dims, NULL},
                                                .data_type = tensor->data_type,
                                                .type = ITG_QNN_MEMORY_FILE,
                                                .file = file};
  itg_qnn_handle handle = NULL;
  if (f->memory_register(context->context, &descriptor, 1, &handle) != 0 || !handle) return false;
  tensor->memory_type = ITG_QNN_MEMORY_REGISTERED;
  tensor->memory = handle;
  return true;
}

void itg_qnn_context_close(itg_qnn_context *context) {
  if (!context) return;
  const itg_qnn_functions *f = context->library->functions;
  for (size_t i = 0; context->tensors && i < (size_t)context->input_count + context->output_count; i++) {
    if (context->tensors[i].v1.memory_type == ITG_QNN_MEMORY_REGISTERED)
      f->memory_deregister(&context->tensors[i].v1.memory, 1);
  }
  if (context->context) f->context_free(context->context, NULL);
  free(context->bytes);
  free(context->tensors);
  free(context);
}

static void read_events(const itg_qnn_functions *f, itg_qnn_handle profile, itg_qnn_run_profile *out) {
  const uint64_t *events = NULL;
  uint32_t count = 0;
  if (f->profile_get_events(profile, &events, &count) != 0) return;
  for (uint32_t i = 0; i < count; i++) {
    itg_qnn_event event;
    if (f->profile_get_event_data(events[i], &event) != 0) continue;
    switch (event.type) {
    case ITG_QNN_EVENT_HOST_RPC_MICROSECONDS: out->host_rpc = event.value; break;
    case ITG_QNN_EVENT_ACCELERATOR_RPC_MICROSECONDS: out->accelerator_rpc = event.value; break;
    case ITG_QNN_EVENT_ACCELERATOR_MICROSECONDS: out->accelerator = event.value; break;
    case ITG_QNN_EVENT_ACCELERATOR_CYCLES: {
      out->accelerator_cycles = event.value;
      const uint64_t *nodes = NULL;
      uint32_t node_count = 0;
      if (f->profile_get_sub_events(events[i], &nodes, &node_count) == 0) out->op_count = node_count;
      break;
    }
    default: break;
    }
  }
}

itg_status itg_qnn_context_run(itg_qnn_context *context, const void *const *inputs, void *const *outputs,
                               itg_qnn_run_profile *profile, itg_diagnostic *diagnostic) {
  const itg_qnn_functions *f = context->library->functions;
  for (uint32_t i = 0; i < context->input_count + context->output_count; i++) {
    const bool is_input = i < context->input_count;
    if (context->tensors[i].v1.memory_type == ITG_QNN_MEMORY_REGISTERED) continue;
    if (context->bytes[i] > UINT32_MAX) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "a tensor has 4 GiB or more");
    context->tensors[i].v1.buffer.data = is_input ? (void *)inputs[i] : outputs[i - context->input_count];
    context->tensors[i].v1.buffer.size = (uint32_t)context->bytes[i];
  }
  itg_qnn_take_log(NULL, 0);
  itg_qnn_handle events = NULL;
  if (profile) {
    *profile = (itg_qnn_run_profile){0};
    ITG_TRY(itg_qnn_library_require(context->library, ITG_QNN_TO_PROFILE, diagnostic));
    ITG_TRY(itg_qnn_check(f->profile_create(context->library->backend, ITG_QNN_PROFILE_DETAILED, &events),
                          "profileCreate", NULL, diagnostic));
  }
  const itg_qnn_error error =
      f->graph_execute(context->graph, context->tensors, context->input_count, context->tensors + context->input_count,
                       context->output_count, events, NULL);
  if (profile) {
    read_events(f, events, profile);
    f->profile_free(events);
  }
  return itg_qnn_check_run(error, "graphExecute", NULL, diagnostic);
}
