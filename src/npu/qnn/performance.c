// See performance.h.
#include "npu/qnn/performance.h"

#include <string.h>

struct itg_qnn_performance {
  const char *name;
  uint32_t scaling, power_mode, latency_microseconds, sleep_disable;
  uint32_t lowest, wanted, highest;
  uint32_t polling_microseconds;
};

static const itg_qnn_performance modes[] = {
#define ITG_QNN_PERFORMANCE(name, scaling, mode, latency, awake, lowest, wanted, highest, polling) \
  {name, scaling, mode, latency, awake, lowest, wanted, highest, polling},
#include "npu/qnn/performance.def"
#undef ITG_QNN_PERFORMANCE
};

itg_status itg_qnn_performance_find(const char *name, itg_diagnostic *diagnostic, const itg_qnn_performance **out) {
  *out = NULL;
  if (strcmp(name, "default") == 0) return ITG_OK;
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    if (strcmp(modes[i].name, name) != 0) continue;
    *out = &modes[i];
    return ITG_OK;
  }
  ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name,
           "unknown NPU performance mode; there are burst, high, balanced, power-saver, low-power and default");
}

static itg_status vote(const itg_qnn_vote *open, const itg_qnn_performance *mode, itg_diagnostic *diagnostic) {
  enum { RPC_LATENCY_MICROSECONDS = 100 };
  itg_qnn_power_config clocks = {.option = ITG_QNN_POWER_CLOCKS};
  clocks.clocks.id = open->id;
  clocks.clocks.set_scaling = clocks.clocks.set_latency = clocks.clocks.set_sleep_disable = 1;
  clocks.clocks.set_bus = clocks.clocks.set_core = 1;
  clocks.clocks.scaling = mode->scaling;
  clocks.clocks.power_mode = mode->power_mode;
  clocks.clocks.latency_microseconds = mode->latency_microseconds;
  clocks.clocks.sleep_disable = mode->sleep_disable;
  clocks.clocks.bus_min = clocks.clocks.core_min = mode->lowest;
  clocks.clocks.bus_target = clocks.clocks.core_target = mode->wanted;
  clocks.clocks.bus_max = clocks.clocks.core_max = mode->highest;
  const itg_qnn_power_config latency = {.option = ITG_QNN_POWER_RPC_LATENCY, .microseconds = RPC_LATENCY_MICROSECONDS};
  const itg_qnn_power_config polling = {.option = ITG_QNN_POWER_RPC_POLLING,
                                        .microseconds = mode->polling_microseconds};
  const itg_qnn_power_config *configs[] = {&clocks, &latency, mode->polling_microseconds ? &polling : NULL, NULL};
  return itg_qnn_check(open->infrastructure->set_power_config(open->id, configs), "setPowerConfig", mode->name,
                       diagnostic);
}

itg_status itg_qnn_vote_open(const itg_qnn_library *library, const itg_qnn_performance *mode,
                             itg_diagnostic *diagnostic, itg_qnn_vote *out) {
  *out = (itg_qnn_vote){0};
  const itg_qnn_infrastructure *infrastructure = NULL;
  if (!mode || !library->device || !library->functions->device_get_infrastructure) return ITG_OK;
  if (library->functions->device_get_infrastructure(&infrastructure) != 0 || !infrastructure ||
      infrastructure->type != ITG_QNN_INFRASTRUCTURE_PERFORMANCE || !infrastructure->create_power_config ||
      !infrastructure->set_power_config || !infrastructure->destroy_power_config)
    return ITG_OK;
  itg_qnn_vote open = {infrastructure, 0};
  ITG_TRY(itg_qnn_check(infrastructure->create_power_config(0, 0, &open.id), "createPowerConfigId", mode->name,
                        diagnostic));
  const itg_status status = vote(&open, mode, diagnostic);
  if (status != ITG_OK) {
    itg_qnn_vote_close(&open);
    return status;
  }
  *out = open;
  return ITG_OK;
}

void itg_qnn_vote_close(itg_qnn_vote *vote_to_close) {
  if (vote_to_close->infrastructure) vote_to_close->infrastructure->destroy_power_config(vote_to_close->id);
  *vote_to_close = (itg_qnn_vote){0};
}
