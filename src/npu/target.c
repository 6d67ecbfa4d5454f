// Looking up systems on chip.
#include "npu/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/edit_distance.h"

static const itg_target targets[] = {
#define ITG_TARGET(name, soc, arch, vtcm, fp16, wide, ids, known) {name, soc, arch, vtcm, fp16, wide, ids, known},
#include "npu/target.def"
#undef ITG_TARGET
};
enum { TARGET_COUNT = sizeof targets / sizeof targets[0], MAX_NAME = 32 };

const itg_target *itg_target_list(size_t *count) {
  *count = TARGET_COUNT;
  return targets;
}

const itg_target *itg_target_find_kernel_id(uint32_t soc_id) {
  for (size_t i = 0; i < TARGET_COUNT; i++) {
    for (const char *at = targets[i].kernel_ids; *at;) {
      char *end;
      if (strtoul(at, &end, 10) == soc_id) return &targets[i];
      at = *end ? end + 1 : end;
    }
  }
  return NULL;
}

itg_status itg_target_find(const char *name, itg_diagnostic *diagnostic, const itg_target **out) {
  for (size_t i = 0; i < TARGET_COUNT; i++) {
    if (strcasecmp(name, targets[i].name) == 0) {
      *out = &targets[i];
      return ITG_OK;
    }
  }
  char near[128] = "";
  if (strlen(name) <= MAX_NAME) {
    size_t best = MAX_NAME;
    for (size_t i = 0; i < TARGET_COUNT; i++) {
      const size_t d = itg_edit_distance(name, targets[i].name);
      best = d < best ? d : best;
    }
    for (size_t i = 0, used = 0; i < TARGET_COUNT && used < sizeof near; i++) {
      if (itg_edit_distance(name, targets[i].name) != best) continue;
      const int written = snprintf(near + used, sizeof near - used, "%s%s", used ? ", " : "", targets[i].name);
      used += written > 0 ? (size_t)written : 0;
    }
  }
  ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "unknown target; the nearest names are: %s",
           near[0] ? near : "qcs6490, sm8550, sm8750");
}
