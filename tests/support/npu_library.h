// Whether the vendor's NPU library is on this machine.
#ifndef ITG_TESTS_NPU_LIBRARY_H
#define ITG_TESTS_NPU_LIBRARY_H

#include <stdio.h>

#include "npu/qnn/library.h"

// 77 for main when there is no vendor's library on this machine, else 0.
static inline int npu_skip(void) {
  itg_qnn_library probe = {0};
  itg_diagnostic why = {0};
  if (itg_qnn_library_open(NULL, "libQnnHtp.so", NULL, &why, &probe) != ITG_OK) {
    printf("skipped: %s\n", why.message);
    return 77;
  }
  itg_qnn_library_close(&probe);
  return 0;
}

#endif
