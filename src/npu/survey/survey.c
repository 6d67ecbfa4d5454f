// A survey of what this machine has and lacks for an NPU: the findings, their order and the verdict. Every path is read below a
// root, so that recorded trees of other machines can be surveyed (and tested) the same way.
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npu/survey/findings.h"

void itg_survey_add(itg_survey *survey, const char *topic, itg_finding_state state, const char *next_step,
                    const char *fact, ...) {
  if (survey->count == ITG_SURVEY_FINDINGS) return;
  itg_stored_finding *finding = &survey->findings[survey->count];
  finding->topic = topic;
  finding->state = state;
  va_list arguments;
  va_start(arguments, fact);
  vsnprintf(finding->fact, sizeof finding->fact, fact, arguments);
  va_end(arguments);
  snprintf(finding->next_step, sizeof finding->next_step, "%s", next_step ? next_step : "");
  survey->views[survey->count++] = (itg_finding){topic, state, finding->fact, next_step ? finding->next_step : NULL};
}

bool itg_survey_path(const itg_survey *survey, const char *path, char *out, size_t size) {
  return snprintf(out, size, "%s%s", survey->root, path) < (int)size;
}

bool itg_survey_read(const itg_survey *survey, const char *path, char *text, size_t size) {
  char full[1024];
  if (!itg_survey_path(survey, path, full, sizeof full)) return false;
  const int file = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  ssize_t length = read(file, text, size - 1);
  close(file);
  if (length < 0) return false;
  while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == 0)) length--;
  for (ssize_t i = 0; i < length; i++) {
    if ((unsigned char)text[i] < ' ') text[i] = ' '; // A device tree separates its strings by NULs.
  }
  text[length] = 0;
  return true;
}

bool itg_survey_find(const itg_survey *survey, const char *pattern, char *found, size_t size) {
  char full[1024];
  if (!itg_survey_path(survey, pattern, full, sizeof full)) return false;
  glob_t matches = {0};
  const bool any = glob(full, 0, NULL, &matches) == 0 && matches.gl_pathc > 0;
  if (any) snprintf(found, size, "%s", matches.gl_pathv[0] + strlen(survey->root));
  globfree(&matches);
  return any;
}

static void conclude(itg_survey *survey) {
  const itg_stored_finding *missing = NULL;
  size_t count = 0;
  for (size_t i = 0; i < survey->count; i++) {
    if (survey->findings[i].state != ITG_FINDING_MISSING) continue;
    if (!missing) missing = &survey->findings[i];
    count++;
  }
  if (!survey->is_qualcomm)
    snprintf(survey->verdict, sizeof survey->verdict, "%s",
             missing ? "No NPU that Intaglio knows; models run on the CPU. To compile for an NPU here, see what is "
                       "missing above."
                     : "No NPU that Intaglio knows; models run on the CPU, and the vendor's library compiles for NPUs "
                       "and simulates them here.");
  else if (missing)
    snprintf(survey->verdict, sizeof survey->verdict,
             "The NPU cannot be used yet (%zu thing%s missing); models run on the CPU. First: %.400s", count,
             count > 1 ? "s" : "", missing->next_step);
  else
    snprintf(survey->verdict, sizeof survey->verdict,
             "Nothing is missing for the NPU. Prove it: intaglio bench MODEL.itg --backend qnn --proof");
}

itg_status itg_survey_create(const char *root, const char *qnn_directory, itg_diagnostic *diagnostic,
                             itg_survey **out) {
  itg_survey *survey = calloc(1, sizeof *survey);
  ITG_TRY_MEMORY(survey, diagnostic);
  survey->is_recorded = root != NULL;
  if (snprintf(survey->root, sizeof survey->root, "%s", root ? root : "") >= (int)sizeof survey->root ||
      snprintf(survey->qnn_directory, sizeof survey->qnn_directory, "%s", qnn_directory ? qnn_directory : "") >=
          (int)sizeof survey->qnn_directory) {
    free(survey);
    ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, NULL, "the name of a folder is longer than 511 bytes");
  }
  struct stat info;
  if (root && (stat(root, &info) != 0 || !S_ISDIR(info.st_mode))) {
    free(survey);
    ITG_FAIL(diagnostic, ITG_ERROR_IO, root,
             "is no folder; give the one that holds sys, proc and dev of the recorded machine");
  }
  itg_survey_soc(survey);
  if (survey->is_qualcomm) {
    itg_survey_device(survey);
    itg_survey_files(survey);
  }
  itg_survey_library(survey);
  conclude(survey);
  *out = survey;
  return ITG_OK;
}

void itg_survey_destroy(itg_survey *survey) { free(survey); }
size_t itg_survey_count(const itg_survey *survey) { return survey->count; }
const itg_finding *itg_survey_finding(const itg_survey *survey, size_t index) {
  return index < survey->count ? &survey->views[index] : NULL;
}
const char *itg_survey_target(const itg_survey *survey) { return survey->target ? survey->target->name : NULL; }
const char *itg_survey_verdict(const itg_survey *survey) { return survey->verdict; }
