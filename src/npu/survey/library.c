// The vendor's library: where it is, which version, whether it opens. It is opened in a child process, because a damaged or
// mismatched one may crash or hang.
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "npu/qnn/device.h"
#include "npu/qnn/library.h"
#include "npu/survey/findings.h"

// Core API 2.37 is QAIRT 2.48: boards with older firmware are reported to refuse its contexts.
enum { OPEN_SECONDS = 30, NEWEST_FOR_OLD_FIRMWARE = 36 };

typedef struct opened_library {
  itg_status status;
  char path[512], build[128], message[384];
  itg_qnn_version core;
} opened_library;

static bool open_and_describe(void *context, int file) {
  const itg_survey *survey = context;
  itg_qnn_library library = {0};
  itg_diagnostic why = {0};
  opened_library result = {0};
  result.status = itg_qnn_library_open(survey->qnn_directory[0] ? survey->qnn_directory : NULL, "libQnnHtp.so", NULL,
                                       &why, &library);
  if (result.status == ITG_OK) {
    memcpy(result.path, library.path, sizeof result.path);
    memcpy(result.build, library.build, sizeof result.build);
    result.core = library.core;
  } else {
    snprintf(result.message, sizeof result.message, "%s", why.message);
  }
  return itg_write_descriptor(file, &result, sizeof result);
}

// What the other files of the same version are for.
static void survey_companions(itg_survey *survey, const char *library) {
  static const struct {
    const char *file, *use;
  } companions[] = {{"libQnnSystem.so", "reads what is inside contexts"},
                    {"libHtpPrepare.so", "compiles for NPUs"},
                    {"libQnnHtpPrepare.so", "compiles for NPUs"},
                    {"libQnnSaver.so", "records calls"}};
  const char *slash = strrchr(library, '/');
  if (!slash) return;
  char list[400] = "";
  for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
    char path[600];
    const size_t used = strlen(list);
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - library), library, companions[i].file);
    FILE *file = fopen(path, "rb");
    if (!file) continue;
    fclose(file);
    snprintf(list + used, sizeof list - used, "%s%s (%s)", used ? ", " : "", companions[i].file, companions[i].use);
  }
  if (list[0]) itg_survey_add(survey, "beside it", ITG_FINDING_OK, NULL, "%s", list);
}

static const char install[] =
    "give --qnn-dir FOLDER, set INTAGLIO_QNN_DIR or QNN_SDK_ROOT, or install the Python package onnxruntime-qnn; the "
    "library is Qualcomm's and is never shipped with Intaglio";

static void survey_recorded(itg_survey *survey) {
  static const char *const folders[] = {"/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/lib", "/opt/qnn/lib",
                                        "/vendor/lib64"};
  char pattern[640], found[512];
  for (size_t i = 0; i <= sizeof folders / sizeof folders[0]; i++) {
    snprintf(pattern, sizeof pattern, "%s/libQnnHtp.so", i ? folders[i - 1] : survey->qnn_directory);
    if ((i || survey->qnn_directory[0]) && itg_survey_find(survey, pattern, found, sizeof found)) {
      itg_survey_add(survey, "QNN library", ITG_FINDING_OK, NULL, "%s (recorded, not opened)", found);
      return;
    }
  }
  itg_survey_add(survey, "QNN library", ITG_FINDING_MISSING, install, "libQnnHtp.so is not in the usual folders");
}

void itg_survey_library(itg_survey *survey) {
  if (survey->is_recorded) {
    survey_recorded(survey);
    return;
  }
  const itg_child_limits limits = {
      .seconds = OPEN_SECONDS, .before_fork = itg_qnn_devices_hold, .after_fork = itg_qnn_devices_let_go};
  itg_child_result result = {0};
  itg_diagnostic why = {0};
  opened_library opened = {0};
  itg_status status = itg_child_run("the QNN library", "it may be damaged or of another system; install it again",
                                    open_and_describe, survey, &limits, &why, &result);
  if (status == ITG_OK && result.bytes.size == sizeof opened) memcpy(&opened, result.bytes.data, sizeof opened);
  itg_child_result_free(&result);
  if (status != ITG_OK || opened.status != ITG_OK) {
    itg_survey_add(survey, "QNN library", ITG_FINDING_MISSING, install, "%s",
                   status != ITG_OK ? why.message : opened.message);
    return;
  }
  itg_survey_add(survey, "QNN library", ITG_FINDING_OK, NULL, "%s, build %s, core API %u.%u", opened.path, opened.build,
                 opened.core.major, opened.core.minor);
  survey_companions(survey, opened.path);
  // An older library on the board refuses contexts of a newer compiler, not the other way round.
  if (opened.core.minor > NEWEST_FOR_OLD_FIRMWARE)
    itg_survey_add(survey, "QNN version", ITG_FINDING_NOTE,
                   "where a board refuses the context (error 5000 and following, or 1008), compile with the library of "
                   "onnxruntime-qnn 2.3.0 (QAIRT 2.47): --qnn-dir FOLDER",
                   "QCS6490 boards with firmware c4-00004 are reported not to take contexts of core API 2.37 (QAIRT "
                   "2.48) and later");
}
