// A provider library that is not the vendor's: it exports the same entry point, checks every structure it is given, counts calls
// and what is open, and fails where a test wants it to. The state lies in memory that forked children share.
#ifndef ITG_TESTS_FAKE_QNN_H
#define ITG_TESTS_FAKE_QNN_H

#include <stdbool.h>
#include <stdint.h>

// The functions it has, by slot of the vendor's table; the last ones belong to the performance infrastructure.
#define FAKE_CALLS(X)                                          \
  X(BACKEND_CREATE, "backendCreate", 1)                        \
  X(BACKEND_GET_BUILD_ID, "backendGetBuildId", 4)              \
  X(BACKEND_VALIDATE, "backendValidateOpConfig", 7)            \
  X(BACKEND_FREE, "backendFree", 8)                            \
  X(CONTEXT_CREATE, "contextCreate", 9)                        \
  X(CONTEXT_GET_BINARY_SIZE, "contextGetBinarySize", 11)       \
  X(CONTEXT_GET_BINARY, "contextGetBinary", 12)                \
  X(CONTEXT_CREATE_FROM_BINARY, "contextCreateFromBinary", 13) \
  X(CONTEXT_FREE, "contextFree", 14)                           \
  X(GRAPH_CREATE, "graphCreate", 15)                           \
  X(GRAPH_ADD_NODE, "graphAddNode", 18)                        \
  X(GRAPH_FINALIZE, "graphFinalize", 19)                       \
  X(GRAPH_RETRIEVE, "graphRetrieve", 20)                       \
  X(GRAPH_EXECUTE, "graphExecute", 21)                         \
  X(TENSOR_CREATE, "tensorCreateGraphTensor", 24)              \
  X(LOG_CREATE, "logCreate", 25)                               \
  X(LOG_FREE, "logFree", 27)                                   \
  X(PROFILE_CREATE, "profileCreate", 28)                       \
  X(PROFILE_GET_EVENTS, "profileGetEvents", 30)                \
  X(PROFILE_GET_SUB_EVENTS, "profileGetSubEvents", 31)         \
  X(PROFILE_GET_EVENT_DATA, "profileGetEventData", 32)         \
  X(PROFILE_FREE, "profileFree", 34)                           \
  X(MEMORY_REGISTER, "memRegister", 35)                        \
  X(MEMORY_DEREGISTER, "memDeRegister", 36)                    \
  X(DEVICE_GET_INFRASTRUCTURE, "deviceGetInfrastructure", 39)  \
  X(DEVICE_CREATE, "deviceCreate", 40)                         \
  X(DEVICE_FREE, "deviceFree", 43)                             \
  X(POWER_CREATE, "createPowerConfigId", -1)                   \
  X(POWER_SET, "setPowerConfig", -1)                           \
  X(POWER_DESTROY, "destroyPowerConfigId", -1)

typedef enum fake_call {
#define FAKE_NAME(name, text, slot) FAKE_##name,
  FAKE_CALLS(FAKE_NAME)
#undef FAKE_NAME
      FAKE_CALL_COUNT
} fake_call;

typedef enum fake_where { FAKE_EVERYWHERE = 0, FAKE_IN_PARENT, FAKE_IN_CHILDREN } fake_where;
typedef enum fake_run { FAKE_RUNS = 0, FAKE_CRASHES, FAKE_HANGS } fake_run;

typedef struct fake_qnn_state {
  // What it is and does.
  uint32_t core_major, core_minor;
  uint32_t provider_count;
  bool missing[FAKE_CALL_COUNT]; // No such function.
  int fail_call;                 // A fake_call, or -1.
  long fail_number;              // With fail_call -1: that call of all fails, counted from 1; 0: none.
  unsigned fail_code;
  fake_where fail_where;
  fake_run run_in_children;
  uint64_t nonce;   // Part of the binaries it makes: equal binaries are tried only once a process.
  bool is_hardware; // Reports accelerator RPC time.

  // What it saw. Counts of the process that loaded it, without its children.
  long calls[FAKE_CALL_COUNT], call_count, child_runs;
  long live; // Handles and registered memory that nobody freed.
  long shared_runs;
  struct {
    uint32_t corner, latency, scaling;
    long polling;
  } vote;            // Of the last setPowerConfig.
  char problem[300]; // The first argument that was wrong; also of children.
} fake_qnn_state;

typedef fake_qnn_state *(*fake_qnn_function)(void);

#endif
