// What the vendor's error codes are called and what to do about them.
#ifndef ITG_NPU_QNN_CODES_H
#define ITG_NPU_QNN_CODES_H

#include <stdbool.h>
#include <stddef.h>

#include "npu/qnn/qnn_abi.h"

typedef struct itg_qnn_code {
  const char *name;      // The vendor's, or that of its group ("a QNN memory error").
  const char *next_step; // A literal.
} itg_qnn_code;

// Of the code in the low 16 bits; never NULL inside.
itg_qnn_code itg_qnn_code_find(itg_qnn_error error);

// Device nodes of the NPU, the usual one first.
enum { ITG_QNN_DEVICE_NODES = 4 };
extern const char *const itg_qnn_device_nodes[ITG_QNN_DEVICE_NODES];

// The device node of the NPU below `root` ("": this machine) that is there and that this user may not open; false when there is
// none or one that may be opened. The library then reports many different codes, none of which says so.
bool itg_qnn_closed_node(const char *root, char *path, size_t size);

#endif
