// The table of systems on chip (target.def).
#ifndef ITG_NPU_TARGET_H
#define ITG_NPU_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct itg_target {
  const char *name;   // "qcs6490"
  uint32_t soc_model; // The vendor's number.
  uint32_t arch;      // Hexagon version: 68, 69, 73, ...
  uint32_t vtcm_megabytes;
  bool has_fp16;          // Float graphs.
  bool has_16x16;         // 16-bit operands on both sides of a product.
  const char *kernel_ids; // "457,480": the Linux kernel's numbers for it, /sys/devices/soc0/soc_id.
  const char *known_as;
} itg_target;

const itg_target *itg_target_list(size_t *count);
// By the Linux kernel's number; NULL when unknown.
const itg_target *itg_target_find_kernel_id(uint32_t soc_id);
// By name, letter case ignored. ITG_ERROR_ARGUMENT lists the nearest names.
ITG_MUST_USE itg_status itg_target_find(const char *name, itg_diagnostic *diagnostic, const itg_target **out);

#endif
