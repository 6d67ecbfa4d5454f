// Which chip this is: the kernel's number for it, else the device tree.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "npu/survey/findings.h"

static const itg_target *find_by_name(const char *name, size_t length) {
  size_t count;
  const itg_target *targets = itg_target_list(&count);
  for (size_t i = 0; i < count; i++) {
    if (strlen(targets[i].name) == length && strncasecmp(targets[i].name, name, length) == 0) return &targets[i];
  }
  return NULL;
}

// compatible: "radxa,dragon-q6a qcom,qcm6490", from the board to the chip.
static const itg_target *find_in_compatible(const char *compatible, bool *is_qualcomm) {
  static const char vendor[] = "qcom,";
  for (const char *at = compatible; (at = strstr(at, vendor)) != NULL;) {
    *is_qualcomm = true;
    at += sizeof vendor - 1;
    const itg_target *target = find_by_name(at, strcspn(at, " -"));
    if (target) return target;
  }
  return NULL;
}

void itg_survey_soc(itg_survey *survey) {
  char id[32] = "", machine[64] = "", compatible[512] = "", board[128] = "";
  const bool has_id = itg_survey_read(survey, "/sys/devices/soc0/soc_id", id, sizeof id);
  itg_survey_read(survey, "/sys/devices/soc0/machine", machine, sizeof machine);
  itg_survey_read(survey, "/proc/device-tree/compatible", compatible, sizeof compatible);
  if (itg_survey_read(survey, "/proc/device-tree/model", board, sizeof board))
    itg_survey_add(survey, "board", ITG_FINDING_OK, NULL, "%s", board);
  survey->target = find_in_compatible(compatible, &survey->is_qualcomm);
  const itg_target *by_id = has_id ? itg_target_find_kernel_id((uint32_t)strtoul(id, NULL, 10)) : NULL;
  if (!by_id && machine[0]) by_id = find_by_name(machine, strlen(machine));
  if (by_id) {
    survey->target = by_id;
    survey->is_qualcomm = true;
  }
  if (!survey->is_qualcomm) {
    itg_survey_add(survey, "chip", ITG_FINDING_NOTE, NULL, "not one of Qualcomm's%s%s", machine[0] ? ": " : "",
                   machine);
    return;
  }
  if (!survey->target) {
    itg_survey_add(survey, "chip", ITG_FINDING_MISSING,
                   "this version does not know the chip, so no context can be made for it; report the soc_id and the "
                   "device tree's compatible string (intaglio doctor --report FILE)",
                   "soc_id %s, %s", has_id ? id : "unknown", compatible[0] ? compatible : machine);
    return;
  }
  const itg_target *target = survey->target;
  itg_survey_add(survey, "chip", ITG_FINDING_OK, NULL,
                 "%s%s%s, Hexagon v%u, %u MB VTCM, %s; compile for it with --target %s", target->known_as,
                 has_id ? ", soc_id " : "", has_id ? id : "", target->arch, target->vtcm_megabytes,
                 target->has_fp16 ? "FP16" : "integers only", target->name);
}
