// See fake_qnn.h. Graphs are not computed: every output byte is a byte of the first input with some bits turned.
#include "fake_qnn.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "intaglio/status.h"
#include "npu/qnn/qnn_abi.h"

enum { MAX_TENSORS = 512, MAX_PORTS = 16, MAX_NAME = 64, TURNED_BITS = 0x5a };

ITG_API fake_qnn_state *fake_qnn(void);
ITG_API itg_qnn_error QnnInterface_getProviders(const itg_qnn_provider ***list, uint32_t *count);

static fake_qnn_state *state;
static pid_t owner;
static atomic_int inside; // Calls in progress: the interface takes one at a time.

__attribute__((constructor)) static void prepare_state(void) {
  state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (state == MAP_FAILED) abort();
  *state = (fake_qnn_state){.core_major = 2, .core_minor = 36, .provider_count = 1, .fail_call = -1};
  owner = getpid();
}

fake_qnn_state *fake_qnn(void) { return state; }

// ---- complaints, failures, counting ----

static const char *const call_names[] = {
#define FAKE_TEXT(name, text, slot) text,
    FAKE_CALLS(FAKE_TEXT)
#undef FAKE_TEXT
};

static itg_qnn_log_callback log_callback;

__attribute__((format(printf, 1, 2))) static void log_line(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (log_callback) log_callback(format, ITG_QNN_LOG_ERROR, 0, arguments);
  va_end(arguments);
}

static void complain(fake_call call, const char *what) {
  if (!state->problem[0]) snprintf(state->problem, sizeof state->problem, "%s: %s", call_names[call], what);
}
#define MUST(call, condition)                     \
  do {                                            \
    if (!(condition)) complain(call, #condition); \
  } while (0)

// Counts a call; nonzero when it is to fail.
static itg_qnn_error enter(fake_call call) {
  const bool is_owner = getpid() == owner;
  if (atomic_fetch_add(&inside, 1) != 0) complain(call, "called while another call is in progress");
  const long number = ++state->call_count;
  if (is_owner) state->calls[call]++;
  const bool here = state->fail_where == FAKE_EVERYWHERE || (state->fail_where == FAKE_IN_PARENT) == is_owner;
  const bool fails = here && (state->fail_call == (int)call || (state->fail_call < 0 && state->fail_number == number));
  if (!fails) return 0;
  log_line("  <E> the fake library fails in %s", call_names[call]);
  return 0x100000000u | state->fail_code; // Only the low bits are the code.
}
static itg_qnn_error leave(itg_qnn_error error) {
  atomic_fetch_sub(&inside, 1);
  return error;
}
static void count(long change) {
  if (getpid() == owner) state->live += change;
}

// ---- objects; a handle points to one, and its first field says what it is ----

typedef enum kind { LOG = 0x106, BACKEND, DEVICE, CONTEXT, GRAPH, PROFILE, MEMORY } kind;
typedef struct object {
  kind kind;
} object;

typedef struct port {
  uint32_t id, data_type, bytes, is_input;
} port;

typedef struct context {
  kind kind;
  struct graph *graph;
  uint32_t soc;
} context;

typedef struct known_tensor {
  char name[MAX_NAME * 4];
  uint32_t type, data_type;
  uint64_t bytes;
  bool is_produced;
} known_tensor;

typedef struct graph {
  kind kind;
  char name[MAX_NAME];
  port ports[MAX_PORTS];
  uint32_t port_count;
  known_tensor tensors[MAX_TENSORS]; // The id is the index + 1.
  uint32_t tensor_count, node_count;
  bool is_final;
} graph;

typedef struct memory {
  kind kind;
  context *context;
  void *data;
  size_t bytes;
} memory;

typedef struct device {
  kind kind;
  uint32_t soc;
} device;

// The binary: what a real one says about its target in clear text, then the graph's ports.
typedef struct binary {
  char text[128];
  char graph_name[MAX_NAME];
  uint64_t nonce;
  uint32_t port_count;
  port ports[MAX_PORTS];
} binary;

static bool is(itg_qnn_handle handle, kind wanted) { return handle && ((object *)handle)->kind == wanted; }

static void *make(kind wanted, size_t size) {
  object *made = calloc(1, size);
  if (!made) abort();
  made->kind = wanted;
  count(1);
  return made;
}
static void dispose(fake_call call, itg_qnn_handle handle, kind wanted) {
  if (!is(handle, wanted)) {
    complain(call, "not a handle of this kind, or freed before");
    return;
  }
  ((object *)handle)->kind = 0;
  free(handle);
  count(-1);
}

// ---- log, backend, device ----

static itg_qnn_error log_create(itg_qnn_log_callback callback, int level, itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_LOG_CREATE);
  MUST(FAKE_LOG_CREATE, callback && out && level >= ITG_QNN_LOG_ERROR && level <= 5);
  if (error) return leave(error);
  log_callback = callback;
  *out = make(LOG, sizeof(object));
  return leave(0);
}
static itg_qnn_error log_free(itg_qnn_handle handle) {
  const itg_qnn_error error = enter(FAKE_LOG_FREE);
  dispose(FAKE_LOG_FREE, handle, LOG);
  return leave(error);
}
static itg_qnn_error backend_create(itg_qnn_handle log, const itg_qnn_config **configs, itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_BACKEND_CREATE);
  MUST(FAKE_BACKEND_CREATE, is(log, LOG) && !configs && out);
  if (error) return leave(error);
  *out = make(BACKEND, sizeof(object));
  return leave(0);
}
static itg_qnn_error backend_free(itg_qnn_handle handle) {
  const itg_qnn_error error = enter(FAKE_BACKEND_FREE);
  dispose(FAKE_BACKEND_FREE, handle, BACKEND);
  return leave(error);
}
static itg_qnn_error backend_get_build_id(const char **id) {
  const itg_qnn_error error = enter(FAKE_BACKEND_GET_BUILD_ID);
  MUST(FAKE_BACKEND_GET_BUILD_ID, id);
  if (error) return leave(error);
  *id = "v2.47.0.fake";
  return leave(0);
}
static itg_qnn_error device_create(itg_qnn_handle log, const itg_qnn_config **configs, itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_DEVICE_CREATE);
  MUST(FAKE_DEVICE_CREATE, is(log, LOG) && out);
  uint32_t soc = 30;
  if (configs) {
    MUST(FAKE_DEVICE_CREATE, configs[0] && configs[0]->option == 0 && configs[0]->custom && !configs[1]);
    const itg_qnn_htp_device_config *custom = configs[0]->custom;
    MUST(FAKE_DEVICE_CREATE, custom->option == 0 && custom->value_at_8 && custom->value_at_4 == custom->value_at_8);
    soc = custom->value_at_8;
  }
  if (error) return leave(error);
  device *made = make(DEVICE, sizeof *made);
  made->soc = soc;
  *out = made;
  return leave(0);
}
static long power_configs;
static itg_qnn_error device_free(itg_qnn_handle handle) {
  const itg_qnn_error error = enter(FAKE_DEVICE_FREE);
  if (power_configs) complain(FAKE_DEVICE_FREE, "power configurations are still open");
  dispose(FAKE_DEVICE_FREE, handle, DEVICE);
  return leave(error);
}

// ---- power ----

static itg_qnn_error power_create(uint32_t device_id, uint32_t core, uint32_t *id) {
  const itg_qnn_error error = enter(FAKE_POWER_CREATE);
  MUST(FAKE_POWER_CREATE, device_id == 0 && core == 0 && id);
  if (error) return leave(error);
  *id = 77;
  power_configs++;
  count(1);
  return leave(0);
}
static itg_qnn_error power_destroy(uint32_t id) {
  const itg_qnn_error error = enter(FAKE_POWER_DESTROY);
  MUST(FAKE_POWER_DESTROY, id == 77 && power_configs > 0);
  power_configs--;
  count(-1);
  return leave(error);
}
static itg_qnn_error power_set(uint32_t id, const itg_qnn_power_config **configs) {
  const itg_qnn_error error = enter(FAKE_POWER_SET);
  MUST(FAKE_POWER_SET, id == 77 && power_configs > 0 && configs);
  state->vote.polling = -1;
  for (size_t i = 0; configs && configs[i]; i++) {
    const itg_qnn_power_config *c = configs[i];
    MUST(FAKE_POWER_SET, c->option >= 1 && c->option <= 3);
    if (c->option == ITG_QNN_POWER_RPC_POLLING) {
      MUST(FAKE_POWER_SET, c->microseconds <= 9999);
      state->vote.polling = c->microseconds;
    }
    if (c->option != ITG_QNN_POWER_CLOCKS) continue;
    MUST(FAKE_POWER_SET, c->clocks.id == id && c->clocks.set_scaling == 1 && c->clocks.set_bus == 1);
    MUST(FAKE_POWER_SET, c->clocks.set_core == 1 && c->clocks.core_min <= c->clocks.core_target);
    MUST(FAKE_POWER_SET, c->clocks.core_target <= c->clocks.core_max && c->clocks.core_max <= 0xa0);
    MUST(FAKE_POWER_SET, c->clocks.bus_target == c->clocks.core_target);
    MUST(FAKE_POWER_SET, c->clocks.latency_microseconds >= 40 && c->clocks.latency_microseconds <= 2000);
    state->vote.corner = c->clocks.core_target;
    state->vote.latency = c->clocks.latency_microseconds;
    state->vote.scaling = c->clocks.scaling;
  }
  return leave(error);
}
static const itg_qnn_infrastructure infrastructure = {ITG_QNN_INFRASTRUCTURE_PERFORMANCE, power_create, power_destroy,
                                                      power_set, NULL};
static itg_qnn_error device_get_infrastructure(const itg_qnn_infrastructure **out) {
  const itg_qnn_error error = enter(FAKE_DEVICE_GET_INFRASTRUCTURE);
  MUST(FAKE_DEVICE_GET_INFRASTRUCTURE, out);
  if (error) return leave(error);
  *out = &infrastructure;
  return leave(0);
}

// ---- building a graph ----

static itg_qnn_error context_create(itg_qnn_handle backend, itg_qnn_handle device_handle,
                                    const itg_qnn_config **configs, itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_CONTEXT_CREATE);
  MUST(FAKE_CONTEXT_CREATE, is(backend, BACKEND) && is(device_handle, DEVICE) && !configs && out);
  if (error) return leave(error);
  context *made = make(CONTEXT, sizeof *made);
  made->soc = ((device *)device_handle)->soc;
  *out = made;
  return leave(0);
}
static itg_qnn_error context_free(itg_qnn_handle handle, itg_qnn_handle profile) {
  const itg_qnn_error error = enter(FAKE_CONTEXT_FREE);
  MUST(FAKE_CONTEXT_FREE, !profile);
  if (is(handle, CONTEXT)) free(((context *)handle)->graph);
  dispose(FAKE_CONTEXT_FREE, handle, CONTEXT);
  return leave(error);
}
static itg_qnn_error graph_create(itg_qnn_handle handle, const char *name, const itg_qnn_config **configs,
                                  itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_GRAPH_CREATE);
  MUST(FAKE_GRAPH_CREATE, is(handle, CONTEXT) && name && strlen(name) < MAX_NAME && out && configs);
  bool has_vtcm = false, has_level = false;
  for (size_t i = 0; configs && configs[i]; i++) {
    MUST(FAKE_GRAPH_CREATE, configs[i]->option == 0 && configs[i]->custom);
    const itg_qnn_htp_graph_config *custom = configs[i]->custom;
    has_vtcm |= custom->option == ITG_QNN_HTP_GRAPH_VTCM_MEGABYTES && custom->u32 >= 2 && custom->u32 <= 8;
    has_level |= custom->option == ITG_QNN_HTP_GRAPH_OPTIMIZATION && custom->optimization.type == 3 &&
                 custom->optimization.value >= 1 && custom->optimization.value <= 3;
  }
  MUST(FAKE_GRAPH_CREATE, has_vtcm && has_level);
  if (error) return leave(error);
  graph *made = calloc(1, sizeof *made);
  if (!made) abort();
  made->kind = GRAPH;
  snprintf(made->name, sizeof made->name, "%s", name);
  ((context *)handle)->graph = made;
  *out = made;
  return leave(0);
}

static uint64_t bytes_of(fake_call call, const itg_qnn_tensor_v1 *tensor) {
  uint64_t bytes = itg_qnn_type_bytes(tensor->data_type);
  MUST(call, bytes > 0 && tensor->rank >= 1 && tensor->rank <= 6 && tensor->dims);
  for (uint32_t i = 0; tensor->dims && i < tensor->rank; i++) {
    MUST(call, tensor->dims[i] > 0);
    bytes *= tensor->dims[i];
  }
  return bytes;
}

static void check_encoding(fake_call call, const itg_qnn_tensor_v1 *tensor) {
  const itg_qnn_quantization *q = &tensor->quantization;
  if (q->definition == ITG_QNN_UNDEFINED) {
    MUST(call, q->encoding == ITG_QNN_UNDEFINED);
    MUST(call, (tensor->data_type & 0xf00) != 0x300 && (tensor->data_type & 0xf00) != 0x400);
    return;
  }
  MUST(call, q->definition == ITG_QNN_ENCODING_DEFINED);
  if (q->encoding == ITG_QNN_ENCODING_SCALE_OFFSET) {
    MUST(call, isfinite(q->scale_offset.scale) && q->scale_offset.scale >= 0);
    return;
  }
  MUST(call, q->encoding == ITG_QNN_ENCODING_AXIS && q->axis.axis >= 0 && (uint32_t)q->axis.axis < tensor->rank);
  MUST(call, q->axis.entries && q->axis.count == tensor->dims[q->axis.axis]);
  for (uint32_t i = 0; q->axis.entries && i < q->axis.count; i++)
    MUST(call, isfinite(q->axis.entries[i].scale) && q->axis.entries[i].scale > 0);
}

// A tensor as tensorCreateGraphTensor and the validator see it.
static void check_tensor(fake_call call, const itg_qnn_tensor *tensor) {
  MUST(call, tensor->version == 1 && tensor->v1.name && tensor->v1.name[0] && tensor->v1.data_format == 0);
  MUST(call, tensor->v1.type == ITG_QNN_TENSOR_APP_WRITE || tensor->v1.type == ITG_QNN_TENSOR_APP_READ ||
                 tensor->v1.type == ITG_QNN_TENSOR_NATIVE || tensor->v1.type == ITG_QNN_TENSOR_STATIC);
  const uint64_t bytes = bytes_of(call, &tensor->v1);
  check_encoding(call, &tensor->v1);
  MUST(call, tensor->v1.memory_type == ITG_QNN_MEMORY_RAW);
  if (tensor->v1.type == ITG_QNN_TENSOR_STATIC)
    MUST(call, tensor->v1.buffer.data && tensor->v1.buffer.size == bytes);
  else
    MUST(call, !tensor->v1.buffer.data && tensor->v1.buffer.size == 0);
}

static itg_qnn_error tensor_create(itg_qnn_handle handle, itg_qnn_tensor *tensor) {
  const itg_qnn_error error = enter(FAKE_TENSOR_CREATE);
  MUST(FAKE_TENSOR_CREATE, is(handle, GRAPH) && tensor);
  check_tensor(FAKE_TENSOR_CREATE, tensor);
  if (error) return leave(error);
  graph *g = handle;
  MUST(FAKE_TENSOR_CREATE, !g->is_final && g->tensor_count < MAX_TENSORS);
  if (g->tensor_count == MAX_TENSORS) return leave(1002);
  for (uint32_t i = 0; i < g->tensor_count; i++)
    MUST(FAKE_TENSOR_CREATE, strcmp(g->tensors[i].name, tensor->v1.name) != 0);
  known_tensor *known = &g->tensors[g->tensor_count++];
  snprintf(known->name, sizeof known->name, "%s", tensor->v1.name);
  known->type = tensor->v1.type;
  known->data_type = tensor->v1.data_type;
  known->bytes = bytes_of(FAKE_TENSOR_CREATE, &tensor->v1);
  known->is_produced = known->type == ITG_QNN_TENSOR_APP_WRITE || known->type == ITG_QNN_TENSOR_STATIC;
  tensor->v1.id = g->tensor_count;
  const bool is_port = known->type == ITG_QNN_TENSOR_APP_WRITE || known->type == ITG_QNN_TENSOR_APP_READ;
  if (is_port && g->port_count < MAX_PORTS)
    g->ports[g->port_count++] =
        (port){g->tensor_count, known->data_type, (uint32_t)known->bytes, known->type == ITG_QNN_TENSOR_APP_WRITE};
  return leave(0);
}

static void check_op(fake_call call, const itg_qnn_op *op) {
  MUST(call, op->version == 1 && op->v1.name && op->v1.type && op->v1.package);
  MUST(call, op->v1.package && strcmp(op->v1.package, "qti.aisw") == 0);
  MUST(call, op->v1.input_count > 0 && op->v1.inputs && op->v1.output_count > 0 && op->v1.outputs);
  MUST(call, op->v1.parameter_count == 0 || op->v1.parameters);
  for (uint32_t i = 0; i < op->v1.parameter_count; i++) {
    const itg_qnn_parameter *p = &op->v1.parameters[i];
    MUST(call, p->name && (p->kind == ITG_QNN_PARAMETER_SCALAR || p->kind == ITG_QNN_PARAMETER_TENSOR));
    if (p->kind == ITG_QNN_PARAMETER_SCALAR)
      MUST(call, itg_qnn_type_bytes(p->scalar.data_type) > 0);
    else
      check_tensor(call, &p->tensor);
  }
  for (uint32_t i = 0; i < op->v1.input_count; i++) check_tensor(call, &op->v1.inputs[i]);
  for (uint32_t i = 0; i < op->v1.output_count; i++) check_tensor(call, &op->v1.outputs[i]);
}

static itg_qnn_error backend_validate(itg_qnn_handle backend, itg_qnn_op op) {
  const itg_qnn_error error = enter(FAKE_BACKEND_VALIDATE);
  MUST(FAKE_BACKEND_VALIDATE, is(backend, BACKEND));
  check_op(FAKE_BACKEND_VALIDATE, &op);
  return leave(error);
}

static itg_qnn_error graph_add_node(itg_qnn_handle handle, itg_qnn_op op) {
  const itg_qnn_error error = enter(FAKE_GRAPH_ADD_NODE);
  MUST(FAKE_GRAPH_ADD_NODE, is(handle, GRAPH));
  check_op(FAKE_GRAPH_ADD_NODE, &op);
  graph *g = handle;
  for (uint32_t i = 0; i < op.v1.input_count; i++) {
    const uint32_t id = op.v1.inputs[i].v1.id;
    MUST(FAKE_GRAPH_ADD_NODE, id >= 1 && id <= g->tensor_count && g->tensors[id - 1].is_produced);
  }
  for (uint32_t i = 0; i < op.v1.output_count; i++) {
    const uint32_t id = op.v1.outputs[i].v1.id;
    MUST(FAKE_GRAPH_ADD_NODE, id >= 1 && id <= g->tensor_count && !g->tensors[id - 1].is_produced);
    if (id >= 1 && id <= g->tensor_count) g->tensors[id - 1].is_produced = true;
  }
  g->node_count++;
  return leave(error);
}

static itg_qnn_error graph_finalize(itg_qnn_handle handle, itg_qnn_handle profile, itg_qnn_handle signal_handle) {
  const itg_qnn_error error = enter(FAKE_GRAPH_FINALIZE);
  MUST(FAKE_GRAPH_FINALIZE, is(handle, GRAPH) && !profile && !signal_handle);
  graph *g = handle;
  MUST(FAKE_GRAPH_FINALIZE, g->node_count > 0 && !g->is_final);
  for (uint32_t i = 0; i < g->tensor_count; i++) MUST(FAKE_GRAPH_FINALIZE, g->tensors[i].is_produced);
  g->is_final = error == 0;
  return leave(error);
}

// ---- binaries ----

static itg_qnn_error context_get_binary_size(itg_qnn_handle handle, uint64_t *size) {
  const itg_qnn_error error = enter(FAKE_CONTEXT_GET_BINARY_SIZE);
  MUST(FAKE_CONTEXT_GET_BINARY_SIZE, is(handle, CONTEXT) && size && ((context *)handle)->graph);
  if (error) return leave(error);
  *size = sizeof(binary) + 16; // An upper bound, as the real one may give.
  return leave(0);
}
static itg_qnn_error context_get_binary(itg_qnn_handle handle, void *buffer, uint64_t size, uint64_t *written) {
  const itg_qnn_error error = enter(FAKE_CONTEXT_GET_BINARY);
  MUST(FAKE_CONTEXT_GET_BINARY, is(handle, CONTEXT) && buffer && written && size >= sizeof(binary));
  if (error) return leave(error);
  const context *c = handle;
  MUST(FAKE_CONTEXT_GET_BINARY, c->graph && c->graph->is_final);
  const bool is_v68 = c->soc == 35 || c->soc == 93;
  binary out = {.nonce = state->nonce, .port_count = c->graph->port_count};
  snprintf(out.text, sizeof out.text, "soc_type=%u;arch=%d;vtcm_size=%d;", c->soc, is_v68 ? 68 : 73,
           (is_v68 ? 2 : 8) << 20);
  memcpy(out.graph_name, c->graph->name, sizeof out.graph_name);
  memcpy(out.ports, c->graph->ports, sizeof out.ports);
  memcpy(buffer, &out, sizeof out);
  *written = sizeof out;
  return leave(0);
}
static itg_qnn_error context_create_from_binary(itg_qnn_handle backend, itg_qnn_handle device_handle,
                                                const itg_qnn_config **configs, const void *buffer, uint64_t size,
                                                itg_qnn_handle *out, itg_qnn_handle profile) {
  const itg_qnn_error error = enter(FAKE_CONTEXT_CREATE_FROM_BINARY);
  MUST(FAKE_CONTEXT_CREATE_FROM_BINARY, is(backend, BACKEND) && is(device_handle, DEVICE) && !configs && out);
  MUST(FAKE_CONTEXT_CREATE_FROM_BINARY, buffer && size == sizeof(binary) && !profile);
  if (error) return leave(error);
  binary in;
  memcpy(&in, buffer, sizeof in);
  context *made = make(CONTEXT, sizeof *made);
  made->graph = calloc(1, sizeof *made->graph);
  if (!made->graph) abort();
  made->graph->kind = GRAPH;
  made->graph->is_final = true;
  memcpy(made->graph->name, in.graph_name, sizeof in.graph_name);
  memcpy(made->graph->ports, in.ports, sizeof in.ports);
  made->graph->port_count = in.port_count;
  *out = made;
  return leave(0);
}
static itg_qnn_error graph_retrieve(itg_qnn_handle handle, const char *name, itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_GRAPH_RETRIEVE);
  MUST(FAKE_GRAPH_RETRIEVE, is(handle, CONTEXT) && name && out);
  if (error) return leave(error);
  graph *g = ((context *)handle)->graph;
  if (strcmp(g->name, name) != 0) return leave(6001);
  *out = g;
  return leave(0);
}

// ---- shared memory ----

static itg_qnn_error memory_register(itg_qnn_handle handle, const itg_qnn_memory_descriptor *descriptors,
                                     uint32_t number, itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_MEMORY_REGISTER);
  MUST(FAKE_MEMORY_REGISTER, is(handle, CONTEXT) && descriptors && number == 1 && out);
  MUST(FAKE_MEMORY_REGISTER, descriptors->type == ITG_QNN_MEMORY_FILE && descriptors->file >= 0);
  MUST(FAKE_MEMORY_REGISTER, descriptors->shape.rank >= 1 && descriptors->shape.dims && !descriptors->shape.config);
  uint64_t bytes = itg_qnn_type_bytes(descriptors->data_type);
  for (uint32_t i = 0; i < descriptors->shape.rank; i++) bytes *= descriptors->shape.dims[i];
  struct stat info = {0};
  MUST(FAKE_MEMORY_REGISTER, fstat(descriptors->file, &info) == 0 && bytes > 0 && (uint64_t)info.st_size == bytes);
  if (error) return leave(error);
  void *data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors->file, 0);
  if (data == MAP_FAILED) return leave(8000);
  memory *made = make(MEMORY, sizeof *made);
  made->context = handle;
  made->data = data;
  made->bytes = (size_t)bytes;
  *out = made;
  return leave(0);
}
static itg_qnn_error memory_deregister(const itg_qnn_handle *handles, uint32_t number) {
  const itg_qnn_error error = enter(FAKE_MEMORY_DEREGISTER);
  MUST(FAKE_MEMORY_DEREGISTER, handles && number == 1 && is(handles[0], MEMORY));
  memory *m = handles[0];
  MUST(FAKE_MEMORY_DEREGISTER, is(m->context, CONTEXT));
  munmap(m->data, m->bytes);
  dispose(FAKE_MEMORY_DEREGISTER, m, MEMORY);
  return leave(error);
}

// ---- running ----

static void *data_of(const graph *g, const itg_qnn_tensor *tensor, bool is_input, uint32_t *bytes, bool *is_shared) {
  const port *found = NULL;
  for (uint32_t i = 0; i < g->port_count; i++) {
    if (g->ports[i].id == tensor->v1.id) found = &g->ports[i];
  }
  MUST(FAKE_GRAPH_EXECUTE, tensor->version == 1 && found && (found->is_input != 0) == is_input);
  if (!found) return NULL;
  *bytes = found->bytes;
  MUST(FAKE_GRAPH_EXECUTE, tensor->v1.data_type == found->data_type);
  if (tensor->v1.memory_type == ITG_QNN_MEMORY_REGISTERED) {
    const memory *m = tensor->v1.memory;
    MUST(FAKE_GRAPH_EXECUTE, is(tensor->v1.memory, MEMORY) && m->context->graph == g && m->bytes == found->bytes);
    *is_shared = true;
    return m->data;
  }
  MUST(FAKE_GRAPH_EXECUTE, tensor->v1.memory_type == ITG_QNN_MEMORY_RAW);
  MUST(FAKE_GRAPH_EXECUTE, tensor->v1.buffer.data && tensor->v1.buffer.size == found->bytes);
  return tensor->v1.buffer.data;
}

static itg_qnn_error graph_execute(itg_qnn_handle handle, const itg_qnn_tensor *inputs, uint32_t input_count,
                                   itg_qnn_tensor *outputs, uint32_t output_count, itg_qnn_handle profile,
                                   itg_qnn_handle signal_handle) {
  const itg_qnn_error error = enter(FAKE_GRAPH_EXECUTE);
  const bool is_child = getpid() != owner;
  MUST(FAKE_GRAPH_EXECUTE, is(handle, GRAPH) && inputs && outputs && (!profile || is(profile, PROFILE)));
  MUST(FAKE_GRAPH_EXECUTE, !signal_handle && input_count > 0 && output_count > 0);
  if (is_child) state->child_runs++;
  if (is_child && state->run_in_children == FAKE_CRASHES) raise(SIGSEGV);
  while (is_child && state->run_in_children == FAKE_HANGS) sleep(1);
  const graph *g = handle;
  MUST(FAKE_GRAPH_EXECUTE, g->is_final && input_count + output_count == g->port_count);
  if (error) return leave(error);
  bool is_shared = false;
  uint32_t size = 0, other = 0;
  const uint8_t *first = data_of(g, &inputs[0], true, &size, &is_shared);
  for (uint32_t i = 1; i < input_count; i++) data_of(g, &inputs[i], true, &other, &is_shared);
  for (uint32_t o = 0; o < output_count; o++) {
    uint32_t bytes = 0;
    uint8_t *to = data_of(g, &outputs[o], false, &bytes, &is_shared);
    for (uint32_t i = 0; to && first && i < bytes; i++) to[i] = first[i % size] ^ TURNED_BITS;
  }
  if (is_shared && !is_child) state->shared_runs++;
  return leave(0);
}

// ---- profiles ----

static itg_qnn_error profile_create(itg_qnn_handle backend, uint32_t level, itg_qnn_handle *out) {
  const itg_qnn_error error = enter(FAKE_PROFILE_CREATE);
  MUST(FAKE_PROFILE_CREATE, is(backend, BACKEND) && (level == 1 || level == 2) && out);
  if (error) return leave(error);
  *out = make(PROFILE, sizeof(object));
  return leave(0);
}
static itg_qnn_error profile_free(itg_qnn_handle handle) {
  const itg_qnn_error error = enter(FAKE_PROFILE_FREE);
  dispose(FAKE_PROFILE_FREE, handle, PROFILE);
  return leave(error);
}
static const uint64_t all_events[] = {ITG_QNN_EVENT_EXECUTE, 3001, 3003, 3004, 3002}, node_events[] = {404, 404};
static itg_qnn_error profile_get_events(itg_qnn_handle handle, const uint64_t **events, uint32_t *number) {
  const itg_qnn_error error = enter(FAKE_PROFILE_GET_EVENTS);
  MUST(FAKE_PROFILE_GET_EVENTS, is(handle, PROFILE) && events && number);
  if (error) return leave(error);
  *events = all_events;
  *number = state->is_hardware ? 5 : 4;
  return leave(0);
}
static itg_qnn_error profile_get_sub_events(uint64_t event, const uint64_t **events, uint32_t *number) {
  const itg_qnn_error error = enter(FAKE_PROFILE_GET_SUB_EVENTS);
  MUST(FAKE_PROFILE_GET_SUB_EVENTS, event == 3003 && events && number);
  if (error) return leave(error);
  *events = node_events;
  *number = 2;
  return leave(0);
}
static itg_qnn_error profile_get_event_data(uint64_t event, itg_qnn_event *out) {
  const itg_qnn_error error = enter(FAKE_PROFILE_GET_EVENT_DATA);
  MUST(FAKE_PROFILE_GET_EVENT_DATA, out);
  if (error) return leave(error);
  *out = (itg_qnn_event){.type = (uint32_t)event, .unit = 1, .value = event + 100000};
  return leave(0);
}

// ---- the entry point ----

itg_qnn_error QnnInterface_getProviders(const itg_qnn_provider ***list, uint32_t *number) {
  static itg_qnn_provider provider;
  static const itg_qnn_provider *providers[] = {&provider};
  provider = (itg_qnn_provider){.backend_id = ITG_QNN_BACKEND_HTP,
                                .name = "HTP_QTI_AISW",
                                .core = {state->core_major, state->core_minor, 0},
                                .functions = {.backend_create = backend_create,
                                              .backend_get_build_id = backend_get_build_id,
                                              .backend_validate_op = backend_validate,
                                              .backend_free = backend_free,
                                              .context_create = context_create,
                                              .context_get_binary_size = context_get_binary_size,
                                              .context_get_binary = context_get_binary,
                                              .context_create_from_binary = context_create_from_binary,
                                              .context_free = context_free,
                                              .graph_create = graph_create,
                                              .graph_add_node = graph_add_node,
                                              .graph_finalize = graph_finalize,
                                              .graph_retrieve = graph_retrieve,
                                              .graph_execute = graph_execute,
                                              .tensor_create_graph_tensor = tensor_create,
                                              .log_create = log_create,
                                              .log_free = log_free,
                                              .profile_create = profile_create,
                                              .profile_get_events = profile_get_events,
                                              .profile_get_sub_events = profile_get_sub_events,
                                              .profile_get_event_data = profile_get_event_data,
                                              .profile_free = profile_free,
                                              .memory_register = memory_register,
                                              .memory_deregister = memory_deregister,
                                              .device_get_infrastructure = device_get_infrastructure,
                                              .device_create = device_create,
                                              .device_free = device_free}};
  static const int slots[] = {
#define FAKE_SLOT(name, text, slot) slot,
      FAKE_CALLS(FAKE_SLOT)
#undef FAKE_SLOT
  };
  for (int i = 0; i < FAKE_CALL_COUNT; i++) {
    if (state->missing[i] && slots[i] >= 0) memset((char *)&provider.functions + slots[i] * 8, 0, 8);
  }
  *list = providers;
  *number = state->provider_count;
  return 0;
}
