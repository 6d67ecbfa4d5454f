// Votes for the NPU's clocks (HTP performance infrastructure): made when a session opens, withdrawn when it closes.
#ifndef ITG_NPU_QNN_PERFORMANCE_H
#define ITG_NPU_QNN_PERFORMANCE_H

#include "npu/qnn/library.h"

typedef struct itg_qnn_performance itg_qnn_performance; // A row of performance.def.

// By name: "burst", "high", "balanced", "power-saver", "low-power". NULL as a result for "default" (no vote: the library's own
// behaviour). ARGUMENT lists the names.
ITG_MUST_USE itg_status itg_qnn_performance_find(const char *name, itg_diagnostic *diagnostic,
                                                 const itg_qnn_performance **out);

// One open vote. Empty when the library has no such infrastructure, as on x86-64.
typedef struct itg_qnn_vote {
  const itg_qnn_infrastructure *infrastructure; // Owned by the vendor's library; NULL: no vote.
  uint32_t id;
} itg_qnn_vote;

// `mode` NULL: nothing. A library that refuses the vote is an error: the clocks would silently be others. Errors: DEVICE.
ITG_MUST_USE itg_status itg_qnn_vote_open(const itg_qnn_library *library, const itg_qnn_performance *mode,
                                          itg_diagnostic *diagnostic, itg_qnn_vote *out);
// Before the device is freed.
void itg_qnn_vote_close(itg_qnn_vote *vote);

#endif
