// The kernel table and the choice among its lines.
#include "kernels/kernels.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define ITG_KERNEL(symbol) extern const itg_kernel symbol;
#include "kernels/kernels.inc"
#undef ITG_KERNEL

static const itg_kernel *const kernels[] = {
#define ITG_KERNEL(symbol) &symbol,
#include "kernels/kernels.inc"
#undef ITG_KERNEL
};
enum { KERNEL_COUNT = sizeof kernels / sizeof kernels[0] };

const itg_kernel *const *itg_kernel_list(size_t *count) {
  *count = KERNEL_COUNT;
  return kernels;
}

const itg_kernel *itg_kernel_find(const itg_task *task, uint32_t isa_mask) {
  isa_mask |= 1u << ITG_ISA_REFERENCE;
  for (size_t i = KERNEL_COUNT; i-- > 0;) {
    const itg_kernel *kernel = kernels[i];
    if (kernel->op == task->op && (isa_mask >> kernel->isa & 1) && (!kernel->supports || kernel->supports(task)))
      return kernel;
  }
  return NULL;
}

static const char *const isa_names[ITG_ISA_COUNT] = {"reference", "avx2", "avxvnni", "avx512vnni", "neon",
                                                     "neondot",   "hvx",  "htp-v68", "htp-v73"};

const char *itg_isa_name(itg_isa isa) { return isa < ITG_ISA_COUNT ? isa_names[isa] : "?"; }

#if defined(__x86_64__)
// AVX-VNNI: leaf 7, sub-leaf 1, EAX bit 4 (older compilers have no name for it). The OS part was checked with AVX2.
static bool has_avxvnni(void) {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

static uint32_t detect(void) {
  uint32_t mask = 1u << ITG_ISA_REFERENCE;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    mask |= 1u << ITG_ISA_AVX2;
    if (has_avxvnni()) mask |= 1u << ITG_ISA_AVXVNNI;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
      mask |= 1u << ITG_ISA_AVX512VNNI;
  }
#endif
  return mask;
}

bool itg_isa_detect(const char *highest, uint32_t *mask) {
  uint32_t found = detect();
  if (highest) {
    int limit = -1;
    for (int i = 0; i < ITG_ISA_COUNT; i++) {
      if (strcmp(highest, isa_names[i]) == 0) limit = i;
    }
    if (limit < 0) return false;
    if (limit == ITG_ISA_HTP_V68 || limit == ITG_ISA_HTP_V73) found = 1u << ITG_ISA_REFERENCE | 1u << limit;
    found &= (2u << limit) - 1;
  }
  *mask = found;
  return true;
}
