// intaglio doctor: what this machine offers.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/commands.h"
#include "intaglio/intaglio.h"

static const cli_option options[] = {CLI_OPTION_HELP};

typedef struct cpu_feature {
  const char *name, *use;
  bool present;
} cpu_feature;

static void print_cpu(void) {
  struct utsname system;
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (uname(&system) == 0) printf("system      %s %s, %s\n", system.sysname, system.release, system.machine);
  printf("processors  %ld\n", processors);
#if defined(__x86_64__)
  const cpu_feature features[] = {
      {"avx2", "256-bit integer kernels", itg_cpu_has("avx2")},
      {"avxvnni", "8-bit dot products, 256 bits", itg_cpu_has("avxvnni")},
      {"avx512vnni", "8-bit dot products, 512 bits", itg_cpu_has("avx512vnni")},
  };
  for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
    printf("  %-11s %-4s %s\n", features[i].name, features[i].present ? "yes" : "no", features[i].use);
#endif
  const char *mask = getenv("INTAGLIO_CPU");
  printf("INTAGLIO_CPU  %s\n", mask ? mask : "not set: the best instruction set is used");
}

static void print_memory(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), available = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0)
    printf("memory      %.1f GiB, %.1f GiB free\n", (double)pages * (double)size / (1 << 30),
           (double)available * (double)size / (1 << 30));
}

static void print_cache(void) {
  char path[4096];
  const char *set = getenv("INTAGLIO_CACHE"), *home = getenv("HOME");
  if (!set && !home) {
    printf("cache       unknown: neither INTAGLIO_CACHE nor HOME is set\n");
    return;
  }
  snprintf(path, sizeof path, "%s%s", set ? set : home, set ? "" : "/.cache/intaglio");
  struct stat info;
  const bool there = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  printf("cache       %s%s\n", path, there ? "" : " (not there; ./setup creates it)");
}

static int run_doctor(const cli_arguments *arguments) {
  (void)arguments;
  printf("intaglio    %s, .itg files of format 1\n", ITG_VERSION);
  print_cpu();
  print_memory();
  printf("libraries   jansson %s\n", jansson_version_str());
  print_cache();
  return cli_finish_output();
}

const cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "show what this machine offers",
    CLI_OPTIONS(options),
    .run = run_doctor,
};
