// The list that a survey fills, and reading files below a root. Private to this folder.
#ifndef ITG_NPU_SURVEY_FINDINGS_H
#define ITG_NPU_SURVEY_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "intaglio/intaglio.h"
#include "npu/target.h"

enum { ITG_SURVEY_FINDINGS = 24, ITG_SURVEY_TEXT = 600 };

typedef struct itg_stored_finding {
  const char *topic; // A literal.
  itg_finding_state state;
  char fact[ITG_SURVEY_TEXT], next_step[ITG_SURVEY_TEXT];
} itg_stored_finding;

struct itg_survey {
  char root[512]; // "" for this machine, else the folder of a recorded tree.
  char qnn_directory[512];
  bool is_recorded;
  bool is_qualcomm;
  const itg_target *target; // Of this machine; NULL when unknown or not Qualcomm's.
  itg_stored_finding findings[ITG_SURVEY_FINDINGS];
  itg_finding views[ITG_SURVEY_FINDINGS];
  size_t count;
  char verdict[ITG_SURVEY_TEXT];
};

// Adds one; `next_step` may be NULL. More than fit are dropped: the surveys below add fewer.
__attribute__((format(printf, 5, 6))) void itg_survey_add(itg_survey *survey, const char *topic,
                                                          itg_finding_state state, const char *next_step,
                                                          const char *fact, ...);

// root + path; false when it is too long.
bool itg_survey_path(const itg_survey *survey, const char *path, char *out, size_t size);
// The text of a small file, without its end of line; NULs become blanks. False when it cannot be read.
bool itg_survey_read(const itg_survey *survey, const char *path, char *text, size_t size);
// The first match of a glob pattern below the root, without the root. False when there is none.
bool itg_survey_find(const itg_survey *survey, const char *pattern, char *found, size_t size);

// The parts, in the order of the report.
void itg_survey_soc(itg_survey *survey);     // soc.c: which chip.
void itg_survey_device(itg_survey *survey);  // device.c: firmware, driver, nodes, memory.
void itg_survey_files(itg_survey *survey);   // files.c: FastRPC library, shell and skeleton.
void itg_survey_library(itg_survey *survey); // library.c: the vendor's library, opened in a child process.

#endif
