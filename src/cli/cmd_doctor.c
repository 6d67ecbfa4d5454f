// intaglio doctor: what this machine offers, what is missing for an NPU, and the next step.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/commands.h"
#include "intaglio/intaglio.h"

static const cli_option options[] = {
    {"report", 0, "FILE", "write everything into one text file for a bug report; names of users are left out"},
    {"root", 0, "DIR", "look at a recorded tree (sys, proc, dev, usr, vendor) instead of this machine"},
    CLI_OPTION_QNN_DIR,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
};

static const char *state_word(itg_finding_state state) {
  switch (state) {
  case ITG_FINDING_OK: return "ok";
  case ITG_FINDING_NOTE: return "note";
  case ITG_FINDING_MISSING: break;
  }
  return "missing";
}

// Adds text in which the folder of a user (/home/NAME, /Users/NAME) has lost its name.
static void set_text(json_t *object, const char *key, const char *text) {
  static const char *const homes[] = {"/home/", "/Users/"};
  char clean[1024];
  size_t used = 0;
  while (*text && used + 8 < sizeof clean) {
    size_t skipped = 0;
    for (size_t i = 0; i < sizeof homes / sizeof homes[0] && !skipped; i++) {
      const size_t length = strlen(homes[i]);
      if (strncmp(text, homes[i], length) != 0) continue;
      skipped = length + strcspn(text + length, "/ ;:,)\n");
      used += (size_t)snprintf(clean + used, sizeof clean - used, "%sUSER", homes[i]);
    }
    if (skipped)
      text += skipped;
    else
      clean[used++] = *text++;
  }
  clean[used < sizeof clean ? used : sizeof clean - 1] = 0;
  json_object_set_new(object, key, json_string(clean));
}

static void describe_machine(json_t *root) {
  struct utsname system;
  if (uname(&system) == 0) { // Not its name in the network: that is the user's.
    char text[256];
    snprintf(text, sizeof text, "%s %s, %s", system.sysname, system.release, system.machine);
    set_text(root, "system", text);
  }
  json_object_set_new(root, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
  static const char *const sets[] = {"avx2", "avxvnni", "avx512vnni", "neon", "neondot"};
  json_t *have = json_array();
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
    if (itg_cpu_has(sets[i])) json_array_append_new(have, json_string(sets[i]));
  json_object_set_new(root, "instruction_sets", have);
  const char *mask = getenv("INTAGLIO_CPU");
  if (mask) set_text(root, "INTAGLIO_CPU", mask);
  const double pages = (double)sysconf(_SC_PHYS_PAGES), free_pages = (double)sysconf(_SC_AVPHYS_PAGES);
  const double gibibyte = (double)sysconf(_SC_PAGESIZE) / (1 << 30);
  json_object_set_new(root, "memory_gib", json_real(pages * gibibyte));
  json_object_set_new(root, "memory_free_gib", json_real(free_pages * gibibyte));
}

static void describe_cache(json_t *root) {
  char path[1024];
  const char *set = getenv("INTAGLIO_CACHE"), *home = getenv("HOME");
  if (!set && !home) return;
  snprintf(path, sizeof path, "%s%s", set ? set : home, set ? "" : "/.cache/intaglio");
  struct stat info;
  const bool there = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  char text[1100];
  snprintf(text, sizeof text, "%s%s", path, there ? "" : " (not there yet)");
  set_text(root, "cache", text);
}

static json_t *describe(const itg_survey *survey) {
  json_t *root = json_object(), *list = json_array();
  json_object_set_new(root, "intaglio", json_string(ITG_VERSION));
  describe_machine(root);
  json_object_set_new(root, "jansson", json_string(jansson_version_str()));
  describe_cache(root);
  for (size_t i = 0; i < itg_survey_count(survey); i++) {
    const itg_finding *finding = itg_survey_finding(survey, i);
    json_t *entry = json_object();
    json_object_set_new(entry, "topic", json_string(finding->topic));
    json_object_set_new(entry, "state", json_string(state_word(finding->state)));
    set_text(entry, "fact", finding->fact);
    if (finding->next_step) set_text(entry, "next_step", finding->next_step);
    json_array_append_new(list, entry);
  }
  json_object_set_new(root, "npu", list);
  if (itg_survey_target(survey)) json_object_set_new(root, "target", json_string(itg_survey_target(survey)));
  json_object_set_new(root, "verdict", json_string(itg_survey_verdict(survey)));
  return root;
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static void print_text(FILE *stream, const json_t *root) {
  fprintf(stream, "intaglio    %s, .itg files of format 1\n", text_of(root, "intaglio"));
  fprintf(stream, "system      %s, %lld processors, %.1f GiB of memory, %.1f free\n", text_of(root, "system"),
          (long long)json_integer_value(json_object_get(root, "processors")),
          json_real_value(json_object_get(root, "memory_gib")),
          json_real_value(json_object_get(root, "memory_free_gib")));
  fprintf(stream, "kernels     reference");
  size_t index;
  json_t *entry;
  json_array_foreach(json_object_get(root, "instruction_sets"), index, entry)
      fprintf(stream, ", %s", json_string_value(entry));
  if (json_object_get(root, "INTAGLIO_CPU")) fprintf(stream, " (INTAGLIO_CPU=%s)", text_of(root, "INTAGLIO_CPU"));
  fprintf(stream, "\nlibraries   jansson %s\ncache       %s\n\n", text_of(root, "jansson"),
          json_object_get(root, "cache") ? text_of(root, "cache") : "unknown: neither INTAGLIO_CACHE nor HOME is set");
  json_array_foreach(json_object_get(root, "npu"), index, entry) {
    fprintf(stream, "%-8s%-17s%s\n", text_of(entry, "state"), text_of(entry, "topic"), text_of(entry, "fact"));
    if (json_object_get(entry, "next_step")) fprintf(stream, "%25s-> %s\n", "", text_of(entry, "next_step"));
  }
  fprintf(stream, "\n%s\n", text_of(root, "verdict"));
}

// The text and the same as JSON, for whoever reads the bug report.
static itg_status write_report(const char *path, const json_t *root, itg_diagnostic *diagnostic) {
  char *text = NULL, *json = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(4));
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream) {
    print_text(stream, root);
    fprintf(stream, "\n%s\n", json ? json : "");
    fclose(stream);
  }
  free(json);
  if (!text) {
    *diagnostic = (itg_diagnostic){.status = ITG_ERROR_MEMORY, .message = "out of memory"};
    return ITG_ERROR_MEMORY;
  }
  const itg_status status = itg_write_file(path, text, size, diagnostic);
  free(text);
  return status;
}

static int run_doctor(const cli_arguments *arguments) {
  itg_diagnostic diagnostic = {0};
  itg_survey *survey = NULL;
  if (itg_survey_create(cli_get(arguments, "root"), cli_get(arguments, "qnn-dir"), &diagnostic, &survey) != ITG_OK)
    return cli_fail(&diagnostic);
  json_t *root = describe(survey);
  itg_survey_destroy(survey);
  const char *report = cli_get(arguments, "report");
  int code = CLI_OK;
  if (report && write_report(report, root, &diagnostic) != ITG_OK) {
    code = cli_fail(&diagnostic);
  } else if (cli_has(arguments, "json")) {
    json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(4));
    putchar('\n');
  } else {
    print_text(stdout, root);
    if (report) printf("\nwritten to %s; read it before you send it\n", report);
  }
  json_decref(root);
  const int finished = cli_finish_output();
  return code != CLI_OK ? code : finished;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "show what this machine offers and what is missing for an NPU",
    .details =
        "Looks at the chip, the firmware and driver of its NPU, the device nodes and who may open them, the files "
        "on both sides and the vendor's library, and names the next step for whatever is missing. Nothing is "
        "changed and nothing is sent.",
    CLI_OPTIONS(options),
    .run = run_doctor,
};
