// Where tests against other implementations find what they need; each returns a static string.
#ifndef ITG_TESTS_SUPPORT_ORACLE_H
#define ITG_TESTS_SUPPORT_ORACLE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static inline const char *oracle_home(char *path, size_t size, const char *variable, const char *rest) {
  const char *given = getenv(variable), *home = getenv("HOME");
  snprintf(path, size, "%s%s", given ? given : home ? home : "", given ? "" : rest);
  return path;
}
static inline const char *oracle_models(void) {
  static char path[2048];
  return oracle_home(path, sizeof path, "ITG_MODELS", "/.cache/intaglio/models");
}
static inline const char *oracle_python(void) {
  static char path[2048];
  return oracle_home(path, sizeof path, "ITG_PYTHON", "/.cache/intaglio/python/bin/python");
}
static inline const char *oracle_shared(void) {
  static char path[2048];
  const char *given = getenv("ITG_SHARED");
  snprintf(path, sizeof path, "%s%s", given ? given : ITG_SOURCE_DIR, given ? "" : "/../shared");
  return path;
}
static inline int oracle_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}
// True when the interpreter has these modules ("cv2, PIL").
static inline int oracle_has(const char *modules) {
  char command[4096];
  snprintf(command, sizeof command, "'%s' -c 'import %s' >/dev/null 2>&1", oracle_python(), modules);
  return system(command) == 0;
}

#endif
