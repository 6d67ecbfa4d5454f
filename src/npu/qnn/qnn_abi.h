// The binary interface of the vendor's QNN libraries, as far as Intaglio uses it: our own declarations, checked by static
// asserts on every size and offset. No vendor header is needed; nothing is linked.
//
// The layout holds from core API 2.22 (QAIRT 2.29) on; the function table only ever grew at its end. A quantized tensor means
// real = (code + offset) * scale: offset is minus our zero point.
#ifndef ITG_NPU_QNN_ABI_H
#define ITG_NPU_QNN_ABI_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t itg_qnn_error; // 0: success; the code is in the low 16 bits.
typedef void *itg_qnn_handle;

enum {
  ITG_QNN_TYPE_S32_INTEGER = 0x032,
  ITG_QNN_TYPE_U32_INTEGER = 0x132,
  ITG_QNN_TYPE_F32 = 0x232,
  ITG_QNN_TYPE_S8 = 0x308,
  ITG_QNN_TYPE_S16 = 0x316,
  ITG_QNN_TYPE_S32 = 0x332,
  ITG_QNN_TYPE_U8 = 0x408,
  ITG_QNN_TYPE_U16 = 0x416,
  ITG_QNN_TYPE_BOOL = 0x508,
  ITG_QNN_UNDEFINED = 0x7fffffff,
};
enum {
  ITG_QNN_TENSOR_APP_WRITE = 0,
  ITG_QNN_TENSOR_APP_READ = 1,
  ITG_QNN_TENSOR_NATIVE = 3,
  ITG_QNN_TENSOR_STATIC = 4
};
enum { ITG_QNN_ENCODING_SCALE_OFFSET = 0, ITG_QNN_ENCODING_AXIS = 1, ITG_QNN_ENCODING_DEFINED = 1 };
enum { ITG_QNN_PARAMETER_SCALAR = 0, ITG_QNN_PARAMETER_TENSOR = 1 };
enum { ITG_QNN_BACKEND_HTP = 6, ITG_QNN_BACKEND_SAVER = 2 };
enum { ITG_QNN_LOG_ERROR = 1, ITG_QNN_LOG_WARN = 2, ITG_QNN_LOG_INFO = 3 };
enum { ITG_QNN_PROFILE_BASIC = 1, ITG_QNN_PROFILE_DETAILED = 2 };
enum { // Profile event types.
  ITG_QNN_EVENT_EXECUTE = 400,
  ITG_QNN_EVENT_NODE = 404,
  ITG_QNN_EVENT_HOST_RPC_MICROSECONDS = 3001,
  ITG_QNN_EVENT_ACCELERATOR_RPC_MICROSECONDS = 3002, // Only real hardware reports it.
  ITG_QNN_EVENT_ACCELERATOR_CYCLES = 3003,           // Its NODE children are the operations.
  ITG_QNN_EVENT_ACCELERATOR_MICROSECONDS = 3004,     // The simulator reports it too: no proof of a device.
};
enum { ITG_QNN_ERROR_VALIDATION = 3110 };

typedef struct itg_qnn_scale_offset {
  float scale;
  int32_t offset;
} itg_qnn_scale_offset;

typedef struct itg_qnn_axis_encoding {
  int32_t axis;
  uint32_t count;
  itg_qnn_scale_offset *entries;
} itg_qnn_axis_encoding;

typedef struct itg_qnn_quantization {
  uint32_t definition; // ITG_QNN_ENCODING_DEFINED or ITG_QNN_UNDEFINED
  uint32_t encoding;
  union {
    itg_qnn_scale_offset scale_offset;
    itg_qnn_axis_encoding axis;
    char size[32];
  };
} itg_qnn_quantization;

typedef struct itg_qnn_buffer {
  void *data;
  uint32_t size;
} itg_qnn_buffer;

typedef struct itg_qnn_tensor_v1 {
  uint32_t id; // Given by tensorCreateGraphTensor.
  const char *name;
  uint32_t type;
  uint32_t data_format; // 0: dense
  uint32_t data_type;
  itg_qnn_quantization quantization;
  uint32_t rank;
  uint32_t *dims;
  uint32_t memory_type; // ITG_QNN_MEMORY_RAW: buffer, _REGISTERED: memory
  union {
    itg_qnn_buffer buffer;
    itg_qnn_handle memory;
  };
} itg_qnn_tensor_v1;

typedef struct itg_qnn_tensor {
  uint32_t version; // 1
  union {
    itg_qnn_tensor_v1 v1;
    char size[136];
  };
} itg_qnn_tensor;

typedef struct itg_qnn_scalar {
  uint32_t data_type;
  union {
    float f32;
    int32_t s32;
    uint32_t u32;
    uint64_t u64;
    uint8_t boolean;
  };
} itg_qnn_scalar;

typedef struct itg_qnn_parameter {
  uint32_t kind;
  const char *name;
  union {
    itg_qnn_scalar scalar;
    itg_qnn_tensor tensor;
  };
} itg_qnn_parameter;

typedef struct itg_qnn_op {
  uint32_t version; // 1
  struct {
    const char *name, *package, *type;
    uint32_t parameter_count;
    itg_qnn_parameter *parameters;
    uint32_t input_count;
    itg_qnn_tensor *inputs;
    uint32_t output_count;
    itg_qnn_tensor *outputs;
  } v1;
} itg_qnn_op;

// Options of backend, device, context and graph: an array of pointers ended by NULL.
typedef struct itg_qnn_config {
  uint32_t option; // 0: custom
  union {
    void *custom;
    uint64_t value;
  };
} itg_qnn_config;

// HTP device option 0 is the SoC. From core API 2.36 (as measured) the value lies at offset 8; older headers had it at 4.
typedef struct itg_qnn_htp_device_config {
  uint32_t option;
  uint32_t value_at_4;
  uint32_t value_at_8;
  uint32_t reserved[9];
} itg_qnn_htp_device_config;

enum { ITG_QNN_HTP_GRAPH_OPTIMIZATION = 1, ITG_QNN_HTP_GRAPH_VTCM_MEGABYTES = 3 };
enum { ITG_QNN_HTP_OPTIMIZATION_FINALIZE_LEVEL = 3 };
typedef struct itg_qnn_htp_graph_config {
  uint32_t option;
  union {
    struct {
      uint32_t type;
      float value;
    } optimization;
    uint32_t u32;
    uint64_t u64;
    char size[48];
  };
} itg_qnn_htp_graph_config;

typedef struct itg_qnn_event {
  uint32_t type, unit; // Units: 1 microseconds, 2 bytes, 3 cycles, 4 count.
  uint64_t value;
  const char *identifier;
} itg_qnn_event;

// Memory that both sides of FastRPC see, registered with a context for one tensor.
enum { ITG_QNN_MEMORY_RAW = 0, ITG_QNN_MEMORY_REGISTERED = 1 };
enum { ITG_QNN_MEMORY_FILE = 1 }; // Type of a descriptor: rpcmem's file descriptor.
typedef struct itg_qnn_memory_descriptor {
  struct {
    uint32_t rank;
    uint32_t *dims;
    const char *config; // NULL
  } shape;
  uint32_t data_type;
  uint32_t type;
  union {
    int file;
    char size[16];
  };
} itg_qnn_memory_descriptor;

// HTP performance infrastructure: votes for clocks and sleep, each belonging to a power configuration.
enum { ITG_QNN_INFRASTRUCTURE_PERFORMANCE = 0 };
enum { ITG_QNN_POWER_CLOCKS = 1, ITG_QNN_POWER_RPC_LATENCY = 2, ITG_QNN_POWER_RPC_POLLING = 3 };
typedef struct itg_qnn_power_config {
  uint32_t option;
  union {
    struct {
      uint32_t id;
      uint32_t set_scaling, scaling; // Whether the DSP scales clocks by itself.
      uint32_t power_mode;
      uint32_t set_latency, latency_microseconds;
      uint32_t set_sleep_disable, sleep_disable;
      uint32_t set_bus, bus_min, bus_target, bus_max; // Voltage corners.
      uint32_t set_core, core_min, core_target, core_max;
    } clocks;
    uint32_t microseconds;
  };
} itg_qnn_power_config;

typedef struct itg_qnn_infrastructure {
  uint32_t type;
  itg_qnn_error (*create_power_config)(uint32_t device, uint32_t core, uint32_t *id);
  itg_qnn_error (*destroy_power_config)(uint32_t id);
  itg_qnn_error (*set_power_config)(uint32_t id, const itg_qnn_power_config **configs);
  void *set_memory_config;
} itg_qnn_infrastructure;

typedef void (*itg_qnn_log_callback)(const char *format, int level, uint64_t timestamp, va_list arguments);

// The function table, up to the last slot used. `unused` keeps the order visible; the numbers are slot numbers.
typedef struct itg_qnn_functions {
  void *property_has_capability; // 0
  itg_qnn_error (*backend_create)(itg_qnn_handle log, const itg_qnn_config **, itg_qnn_handle *backend);
  void *backend_set_config;
  void *backend_get_api_version;
  itg_qnn_error (*backend_get_build_id)(const char **id); // 4
  void *backend_register_op_package;
  void *backend_get_supported_operations;
  itg_qnn_error (*backend_validate_op)(itg_qnn_handle backend, itg_qnn_op op); // 7, by value
  itg_qnn_error (*backend_free)(itg_qnn_handle backend);
  itg_qnn_error (*context_create)(itg_qnn_handle backend, itg_qnn_handle device, const itg_qnn_config **,
                                  itg_qnn_handle *context); // 9
  void *context_set_config;
  itg_qnn_error (*context_get_binary_size)(itg_qnn_handle context, uint64_t *size); // 11
  itg_qnn_error (*context_get_binary)(itg_qnn_handle context, void *buffer, uint64_t size, uint64_t *written);
  itg_qnn_error (*context_create_from_binary)(itg_qnn_handle backend, itg_qnn_handle device, const itg_qnn_config **,
                                              const void *buffer, uint64_t size, itg_qnn_handle *context,
                                              itg_qnn_handle profile); // 13
  itg_qnn_error (*context_free)(itg_qnn_handle context, itg_qnn_handle profile);
  itg_qnn_error (*graph_create)(itg_qnn_handle context, const char *name, const itg_qnn_config **,
                                itg_qnn_handle *graph); // 15
  void *graph_create_subgraph;
  void *graph_set_config;
  itg_qnn_error (*graph_add_node)(itg_qnn_handle graph, itg_qnn_op op); // 18, by value
  itg_qnn_error (*graph_finalize)(itg_qnn_handle graph, itg_qnn_handle profile, itg_qnn_handle signal);
  itg_qnn_error (*graph_retrieve)(itg_qnn_handle context, const char *name, itg_qnn_handle *graph);
  itg_qnn_error (*graph_execute)(itg_qnn_handle graph, const itg_qnn_tensor *inputs, uint32_t input_count,
                                 itg_qnn_tensor *outputs, uint32_t output_count, itg_qnn_handle profile,
                                 itg_qnn_handle signal); // 21
  void *graph_execute_async;
  void *tensor_create_context_tensor;
  itg_qnn_error (*tensor_create_graph_tensor)(itg_qnn_handle graph, itg_qnn_tensor *tensor); // 24
  itg_qnn_error (*log_create)(itg_qnn_log_callback callback, int level, itg_qnn_handle *log);
  void *log_set_level;
  itg_qnn_error (*log_free)(itg_qnn_handle log); // 27
  itg_qnn_error (*profile_create)(itg_qnn_handle backend, uint32_t level, itg_qnn_handle *profile);
  void *profile_set_config;
  itg_qnn_error (*profile_get_events)(itg_qnn_handle profile, const uint64_t **events, uint32_t *count); // 30
  itg_qnn_error (*profile_get_sub_events)(uint64_t event, const uint64_t **events, uint32_t *count);
  itg_qnn_error (*profile_get_event_data)(uint64_t event, itg_qnn_event *data); // 32
  void *profile_get_extended_event_data;
  itg_qnn_error (*profile_free)(itg_qnn_handle profile); // 34
  itg_qnn_error (*memory_register)(itg_qnn_handle context, const itg_qnn_memory_descriptor *descriptors, uint32_t count,
                                   itg_qnn_handle *handles); // 35
  itg_qnn_error (*memory_deregister)(const itg_qnn_handle *handles, uint32_t count);
  void *device_get_platform_info, *device_free_platform_info;
  itg_qnn_error (*device_get_infrastructure)(const itg_qnn_infrastructure **infrastructure);           // 39
  itg_qnn_error (*device_create)(itg_qnn_handle log, const itg_qnn_config **, itg_qnn_handle *device); // 40
  void *device_set_config, *device_get_info;
  itg_qnn_error (*device_free)(itg_qnn_handle device); // 43
  void *signal_functions[4];
} itg_qnn_functions;

typedef struct itg_qnn_version {
  uint32_t major, minor, patch;
} itg_qnn_version;

typedef struct itg_qnn_provider {
  uint32_t backend_id;
  const char *name;
  itg_qnn_version core, backend;
  itg_qnn_functions functions;
} itg_qnn_provider;

typedef itg_qnn_error (*itg_qnn_get_providers)(const itg_qnn_provider ***list, uint32_t *count);

// Bytes of one element of a data type: its last two hexadecimal digits are the bits in decimal notation. 0 for others.
static inline uint32_t itg_qnn_type_bytes(uint32_t data_type) {
  switch (data_type & 0xff) {
  case 0x08: return 1;
  case 0x16: return 2;
  case 0x32: return 4;
  case 0x64: return 8;
  default: return 0;
  }
}

#define ITG_QNN_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has another size in the vendor's ABI")
#define ITG_QNN_AT(type, member, at) _Static_assert(offsetof(type, member) == (at), #type "." #member " lies elsewhere")
ITG_QNN_SIZE(itg_qnn_scale_offset, 8);
ITG_QNN_SIZE(itg_qnn_axis_encoding, 16);
ITG_QNN_AT(itg_qnn_axis_encoding, entries, 8);
ITG_QNN_SIZE(itg_qnn_quantization, 40);
ITG_QNN_AT(itg_qnn_quantization, scale_offset, 8);
ITG_QNN_SIZE(itg_qnn_buffer, 16);
ITG_QNN_SIZE(itg_qnn_tensor_v1, 112);
ITG_QNN_AT(itg_qnn_tensor_v1, name, 8);
ITG_QNN_AT(itg_qnn_tensor_v1, type, 16);
ITG_QNN_AT(itg_qnn_tensor_v1, data_type, 24);
ITG_QNN_AT(itg_qnn_tensor_v1, quantization, 32);
ITG_QNN_AT(itg_qnn_tensor_v1, rank, 72);
ITG_QNN_AT(itg_qnn_tensor_v1, dims, 80);
ITG_QNN_AT(itg_qnn_tensor_v1, memory_type, 88);
ITG_QNN_AT(itg_qnn_tensor_v1, buffer, 96);
ITG_QNN_SIZE(itg_qnn_tensor, 144);
ITG_QNN_AT(itg_qnn_tensor, v1, 8);
ITG_QNN_SIZE(itg_qnn_scalar, 16);
ITG_QNN_AT(itg_qnn_scalar, f32, 8);
ITG_QNN_SIZE(itg_qnn_parameter, 160);
ITG_QNN_AT(itg_qnn_parameter, scalar, 16);
ITG_QNN_SIZE(itg_qnn_op, 80);
ITG_QNN_AT(itg_qnn_op, v1.parameters, 40);
ITG_QNN_AT(itg_qnn_op, v1.inputs, 56);
ITG_QNN_AT(itg_qnn_op, v1.outputs, 72);
ITG_QNN_SIZE(itg_qnn_config, 16);
ITG_QNN_SIZE(itg_qnn_htp_graph_config, 56);
ITG_QNN_AT(itg_qnn_htp_graph_config, optimization, 8);
ITG_QNN_AT(itg_qnn_htp_device_config, value_at_8, 8);
ITG_QNN_SIZE(itg_qnn_event, 24);
ITG_QNN_SIZE(itg_qnn_memory_descriptor, 48);
ITG_QNN_AT(itg_qnn_memory_descriptor, data_type, 24);
ITG_QNN_AT(itg_qnn_memory_descriptor, file, 32);
ITG_QNN_SIZE(itg_qnn_power_config, 68);
ITG_QNN_AT(itg_qnn_power_config, clocks, 4);
ITG_QNN_SIZE(itg_qnn_infrastructure, 40);
ITG_QNN_AT(itg_qnn_infrastructure, create_power_config, 8);
ITG_QNN_SIZE(itg_qnn_functions, 48 * 8);
#define ITG_QNN_SLOT(member, slot) ITG_QNN_AT(itg_qnn_functions, member, (slot)*8)
ITG_QNN_SLOT(backend_create, 1);
ITG_QNN_SLOT(backend_get_build_id, 4);
ITG_QNN_SLOT(backend_validate_op, 7);
ITG_QNN_SLOT(backend_free, 8);
ITG_QNN_SLOT(context_create, 9);
ITG_QNN_SLOT(context_get_binary_size, 11);
ITG_QNN_SLOT(context_get_binary, 12);
ITG_QNN_SLOT(context_create_from_binary, 13);
ITG_QNN_SLOT(context_free, 14);
ITG_QNN_SLOT(graph_create, 15);
ITG_QNN_SLOT(graph_add_node, 18);
ITG_QNN_SLOT(graph_finalize, 19);
ITG_QNN_SLOT(graph_retrieve, 20);
ITG_QNN_SLOT(graph_execute, 21);
ITG_QNN_SLOT(tensor_create_graph_tensor, 24);
ITG_QNN_SLOT(log_create, 25);
ITG_QNN_SLOT(log_free, 27);
ITG_QNN_SLOT(profile_create, 28);
ITG_QNN_SLOT(profile_get_events, 30);
ITG_QNN_SLOT(profile_get_sub_events, 31);
ITG_QNN_SLOT(profile_get_event_data, 32);
ITG_QNN_SLOT(profile_free, 34);
ITG_QNN_SLOT(memory_register, 35);
ITG_QNN_SLOT(memory_deregister, 36);
ITG_QNN_SLOT(device_get_infrastructure, 39);
ITG_QNN_SLOT(device_create, 40);
ITG_QNN_SLOT(device_free, 43);
ITG_QNN_AT(itg_qnn_provider, name, 8);
ITG_QNN_AT(itg_qnn_provider, core, 16);
ITG_QNN_AT(itg_qnn_provider, backend, 28);
ITG_QNN_AT(itg_qnn_provider, functions, 40);

#endif
