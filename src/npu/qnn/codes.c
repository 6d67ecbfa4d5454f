// See codes.h.
#include "npu/qnn/codes.h"

#include <stdio.h>
#include <unistd.h>

static const struct {
  unsigned number;
  itg_qnn_code code;
} codes[] = {
#define ITG_QNN_CODE(number, name, next_step) {number, {name, next_step}},
#include "npu/qnn/codes.def"
#undef ITG_QNN_CODE
};

itg_qnn_code itg_qnn_code_find(itg_qnn_error error) {
  static const char step[] = "run intaglio doctor";
  const unsigned number = (unsigned)(error & 0xffff);
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    if (codes[i].number == number) return codes[i].code;
  }
  switch (number / 1000) {
  case 1: return (itg_qnn_code){"a common QNN error", step};
  case 2: return (itg_qnn_code){"a QNN property error", step};
  case 3: return (itg_qnn_code){"a QNN op package error", "intaglio inspect --target says what the chip takes"};
  case 4: return (itg_qnn_code){"a QNN backend error", step};
  case 5: return (itg_qnn_code){"a QNN context error", "compile the model again with this library (--qnn-dir)"};
  case 6: return (itg_qnn_code){"a QNN graph error", "compile the model again with this library (--qnn-dir)"};
  case 7: return (itg_qnn_code){"a QNN tensor error", "compile the model again with this library (--qnn-dir)"};
  case 8: return (itg_qnn_code){"a QNN memory error", "run intaglio doctor: shared memory may be missing"};
  case 9: return (itg_qnn_code){"a QNN signal error", step};
  case 11: return (itg_qnn_code){"a QNN log error", step};
  case 12: return (itg_qnn_code){"a QNN profile error", "run without --proof"};
  case 13: return (itg_qnn_code){"a QNN performance error", "try another --npu-performance"};
  case 14: return (itg_qnn_code){"a QNN device error", step};
  default: return (itg_qnn_code){"an unknown QNN error", step};
  }
}

const char *const itg_qnn_device_nodes[ITG_QNN_DEVICE_NODES] = {"/dev/fastrpc-cdsp", "/dev/fastrpc-cdsp-secure",
                                                                "/dev/adsprpc-smd", "/dev/adsprpc-smd-secure"};

bool itg_qnn_closed_node(const char *root, char *path, size_t size) {
  bool closed = false;
  for (size_t i = 0; i < ITG_QNN_DEVICE_NODES; i++) {
    char full[600];
    if (snprintf(full, sizeof full, "%s%s", root, itg_qnn_device_nodes[i]) >= (int)sizeof full ||
        access(full, F_OK) != 0)
      continue;
    if (access(full, R_OK | W_OK) == 0) return false;
    if (!closed) snprintf(path, size, "%s", itg_qnn_device_nodes[i]);
    closed = true;
  }
  return closed;
}
