// The files that lie between the vendor's library and the NPU: the FastRPC library on this side, shell and skeleton on the
// other, which the DSP's loader finds through DSP_LIBRARY_PATH and ADSP_LIBRARY_PATH (folders separated by ';').
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu/qnn/dsp_path.h"
#include "npu/survey/findings.h"

static const char *const library_folders[] = {"/usr/lib/aarch64-linux-gnu",
                                              "/usr/lib",
                                              "/usr/local/lib",
                                              "/lib64",
                                              "/usr/lib64",
                                              "/vendor/lib64",
                                              "/system/lib64"};
static bool find_in(const itg_survey *survey, const char *const *folders, size_t count, const char *file, char *found,
                    size_t size) {
  for (size_t i = 0; i < count; i++) {
    char pattern[512];
    if (snprintf(pattern, sizeof pattern, "%s/%s", folders[i], file) >= (int)sizeof pattern) continue;
    if (itg_survey_find(survey, pattern, found, size)) return true;
  }
  return false;
}

static bool find_in_dsp_folders(const itg_survey *survey, const char *file, char *found, size_t size) {
  for (size_t i = 0; itg_qnn_dsp_folder(i); i++) {
    const char *folder[] = {itg_qnn_dsp_folder(i)};
    if (find_in(survey, folder, 1, file, found, size)) return true;
  }
  return false;
}

// In the folders of an environment variable. A recorded tree has no environment.
static bool find_in_variable(const itg_survey *survey, const char *variable, const char *file, char *found,
                             size_t size) {
  const char *list = survey->is_recorded ? NULL : getenv(variable);
  while (list && *list) {
    const size_t length = strcspn(list, ";");
    char pattern[512];
    if (snprintf(pattern, sizeof pattern, "%.*s/%s", (int)length, list, file) < (int)sizeof pattern &&
        itg_survey_find(survey, pattern, found, size))
      return true;
    list += length + (list[length] == ';');
  }
  return false;
}

void itg_survey_files(itg_survey *survey) {
  char found[512], name[64], step[ITG_SURVEY_TEXT];
  if (find_in(survey, library_folders, sizeof library_folders / sizeof library_folders[0], "libcdsprpc.so*", found,
              sizeof found))
    itg_survey_add(survey, "FastRPC library", ITG_FINDING_OK, NULL, "%s", found);
  else
    itg_survey_add(survey, "FastRPC library", ITG_FINDING_MISSING,
                   "install the distribution's FastRPC package (libcdsprpc1, fastrpc or qcom-fastrpc1)",
                   "libcdsprpc.so is not in the usual folders");

  if (find_in_variable(survey, "DSP_LIBRARY_PATH", "fastrpc_shell_unsigned_3", found, sizeof found) ||
      find_in_dsp_folders(survey, "fastrpc_shell_unsigned_3", found, sizeof found))
    itg_survey_add(survey, "DSP shell", ITG_FINDING_OK, NULL, "%s", found);
  else
    itg_survey_add(
        survey, "DSP shell", ITG_FINDING_MISSING,
        "install the board's DSP files (hexagon-dsp-binaries, or the vendor's qairt-dsp-binaries or firmware "
        "package), or set DSP_LIBRARY_PATH to the folder that has them; in a container, mount that folder",
        "fastrpc_shell_unsigned_3 is not in the usual folders");

  if (!survey->target) return;
  snprintf(name, sizeof name, "libQnnHtpV%uSkel.so", survey->target->arch);
  const char *ours[] = {survey->qnn_directory};
  const bool in_path = find_in_variable(survey, "ADSP_LIBRARY_PATH", name, found, sizeof found);
  if (in_path || find_in_dsp_folders(survey, name, found, sizeof found)) {
    itg_survey_add(survey, "NPU skeleton", ITG_FINDING_OK, NULL, "%s", found);
  } else if (survey->qnn_directory[0] && find_in(survey, ours, 1, name, found, sizeof found)) {
    itg_survey_add(survey, "NPU skeleton", ITG_FINDING_OK, NULL, "%s (put on the DSP's search path at run time)",
                   found);
  } else {
    snprintf(
        step, sizeof step,
        "take it from the vendor's SDK (lib/hexagon-v%u/unsigned) or the onnxruntime-qnn package for aarch64, put it "
        "beside libQnnHtp.so, or set ADSP_LIBRARY_PATH to its folder",
        survey->target->arch);
    itg_survey_add(survey, "NPU skeleton", ITG_FINDING_MISSING, step, "%s was not found", name);
  }
}
