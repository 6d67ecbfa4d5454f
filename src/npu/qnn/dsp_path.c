// See dsp_path.h.
#include "npu/qnn/dsp_path.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *itg_qnn_dsp_folder(size_t index) {
  static const char *const folders[] = {"/usr/lib/dsp/cdsp",
                                        "/usr/lib/dsp",
                                        "/usr/lib/rfsa/adsp",
                                        "/usr/share/qcom/*/*/*/dsp/cdsp",
                                        "/usr/share/qcom/*/*/*/cdsp",
                                        "/vendor/dsp/cdsp",
                                        "/vendor/dsp",
                                        "/vendor/lib/rfsa/adsp",
                                        "/vendor/lib64/rfs/dsp",
                                        "/dsp/cdsp",
                                        "/dsp"};
  return index < sizeof folders / sizeof folders[0] ? folders[index] : NULL;
}

static void add(char *text, size_t size, const char *folder, size_t length) {
  const size_t used = strlen(text);
  if (used + length + 2 > size) return;
  snprintf(text + used, size - used, "%s%.*s", used ? ";" : "", (int)length, folder);
}

static bool matches(const char *pattern) {
  glob_t found = {0};
  const bool any = glob(pattern, 0, NULL, &found) == 0;
  globfree(&found);
  return any;
}

bool itg_qnn_dsp_path(const char *root, const char *library_path, char *text, size_t size) {
  char pattern[700];
  text[0] = 0;
  const char *slash = strrchr(library_path, '/');
  const size_t folder = slash ? (size_t)(slash - library_path) : 0;
  if (folder &&
      snprintf(pattern, sizeof pattern, "%.*s/libQnnHtpV*Skel.so", (int)folder, library_path) < (int)sizeof pattern &&
      matches(pattern))
    add(text, size, library_path, folder);
  for (size_t i = 0; itg_qnn_dsp_folder(i); i++) {
    glob_t found = {0};
    if (snprintf(pattern, sizeof pattern, "%s%s", root, itg_qnn_dsp_folder(i)) < (int)sizeof pattern &&
        glob(pattern, 0, NULL, &found) == 0) {
      for (size_t k = 0; k < found.gl_pathc; k++) add(text, size, found.gl_pathv[k], strlen(found.gl_pathv[k]));
    }
    globfree(&found);
  }
  return text[0] != 0;
}

void itg_qnn_set_dsp_path(const char *library_path) {
  char text[2048];
  if (!getenv("ADSP_LIBRARY_PATH") && itg_qnn_dsp_path("", library_path, text, sizeof text))
    (void)setenv("ADSP_LIBRARY_PATH", text, 0); // Without memory for it the library says that the skeleton is missing.
}
