// Devices that sessions share: one open library, backend and device handle for each chip in a process, and a queue in front of it,
// because the vendor's interface takes one call at a time and an NPU runs one graph at a time.
#ifndef ITG_NPU_QNN_DEVICE_H
#define ITG_NPU_QNN_DEVICE_H

#include "npu/qnn/library.h"

typedef struct itg_qnn_device itg_qnn_device; // Any thread.

// Opens the device, or counts one more user of an open one (same `directory` and target). Errors: itg_qnn_library_open.
ITG_MUST_USE itg_status itg_qnn_device_acquire(const char *directory, const itg_target *target,
                                               itg_diagnostic *diagnostic, itg_qnn_device **out);
// The last user closes it. NULL is allowed.
void itg_qnn_device_release(itg_qnn_device *device);

// Waits for its turn, first come, first served; until itg_qnn_device_leave the library is the caller's.
const itg_qnn_library *itg_qnn_device_enter(itg_qnn_device *device);
void itg_qnn_device_leave(itg_qnn_device *device);
// Fixed while the device is open; needs no turn.
const itg_qnn_library *itg_qnn_device_library(const itg_qnn_device *device);

// Holds the queues of all open devices, and lets go of them: around fork(), so that a child that opens the library again finds
// none of its locks held by a thread that it does not have.
void itg_qnn_devices_hold(void);
void itg_qnn_devices_let_go(void);

#endif
