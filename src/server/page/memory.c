// Memory from Linux's /proc (proc(5)): resident set of this process, total and available memory of the machine.
#include <stdio.h>
#include <unistd.h>

#include "server/page/page.h"

itg_memory_use itg_memory_now(void) {
  itg_memory_use use = {0};
  unsigned long pages = 0, resident = 0, kib;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file && fscanf(file, "%lu %lu", &pages, &resident) == 2) use.process = resident * (size_t)sysconf(_SC_PAGESIZE);
  if (file) fclose(file);
  file = fopen("/proc/meminfo", "re");
  char line[128];
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "MemTotal: %lu", &kib) == 1) use.total = (size_t)kib << 10;
    if (sscanf(line, "MemAvailable: %lu", &kib) == 1) use.available = (size_t)kib << 10;
  }
  if (file) fclose(file);
  return use;
}
