// Where a service's networks run: the compiled file on the NPU or the CPU, or the float model, with the reason for it.
#ifndef ITG_SERVER_NETWORKS_H
#define ITG_SERVER_NETWORKS_H

#include <pthread.h>
#include <stdbool.h>

#include "intaglio/services.h"

typedef struct itg_network_options {
  const char *backend;         // "cpu" (or NULL) or "qnn".
  const char *target;          // "qnn": which context of a file; NULL when it holds one only.
  const char *qnn_directory;   // NULL: searched.
  const char *npu_performance; // As in itg_session_options.
  const char *cpu;             // As in itg_session_options.
  int thread_count;            // Of a session.
} itg_network_options;

typedef enum itg_place {
  ITG_PLACE_NPU = 0,
  ITG_PLACE_SIMULATED, // The vendor's library computed without an NPU.
  ITG_PLACE_CPU,       // A compiled file.
  ITG_PLACE_FLOAT,     // The interpreter.
} itg_place;

enum { ITG_NETWORKS = 16, ITG_NETWORK_TEXT = 256 };
typedef struct itg_network_report {
  char name[64]; // "model", "landmarks", ...
  bool refused;  // There was a compiled result, and it was too bad.
  itg_place place;
  char reason[ITG_NETWORK_TEXT]; // Why not the better place, or the proof of the best; may be empty.
} itg_network_report;

// A source of networks for one service, and what became of them. One thread at a time opens and closes; a service opens some
// of its networks late, during a request. Pointers are borrowed.
typedef struct itg_networks {
  const itg_network_options *options;
  pthread_mutex_t *lock; // Held while `reports` and `count` change, for those who look on; may be NULL.
  const char *label; // Of the service, in the log: where each network runs, once it is opened. NULL: nothing is logged.
  itg_network_report reports[ITG_NETWORKS];
  size_t count;
} itg_networks;

// A network whose run fails on the NPU (ITG_ERROR_EXECUTION) moves to the CPU, which answers that run; its report and the log say why.
// The source refuses a compiled file whose accuracy record says that it collapsed: the float model beside it is taken
// (or, without one, the error says so). A session on the NPU runs once before it counts as opened, and what the vendor's library
// measured of that run is the reason in the report; a session that cannot be opened or does not run leaves the file to the CPU.
itg_network_source itg_networks_source(itg_networks *networks);

// "NPU", "NPU, simulated", "CPU, integers", "CPU, float model".
const char *itg_place_name(itg_place place);

#endif
