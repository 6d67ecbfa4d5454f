// A local server that speaks the hub's protocol (tests/hub/hub_server.py), with $HF_ENDPOINT set to it.
#ifndef ITG_TESTS_HUB_SERVER_H
#define ITG_TESTS_HUB_SERVER_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t hub_process;
static char hub_log[128];

static inline bool hub_possible(void) { return system("python3 -c 'import http.server' >/dev/null 2>&1") == 0; }

// Writes its files into `folder`; `repositories` (may be NULL) holds further models. False when it does not come up.
static inline bool hub_start(const char *folder, const char *repositories) {
  char port_path[128], script[4096], endpoint[64] = "";
  snprintf(port_path, sizeof port_path, "%s/port", folder);
  snprintf(hub_log, sizeof hub_log, "%s/hub-log", folder);
  snprintf(script, sizeof script, "%s/tests/hub/hub_server.py", ITG_SOURCE_DIR);
  hub_process = fork();
  if (hub_process == 0) {
    execlp("python3", "python3", script, port_path, hub_log, repositories, (char *)NULL);
    _exit(127);
  }
  for (int i = 0; i < 500 && !endpoint[0]; i++) {
    FILE *file = fopen(port_path, "r");
    int port = 0;
    if (file && fscanf(file, "%d", &port) == 1) snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d/", port);
    if (file) fclose(file);
    if (!port) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  unsetenv("HF_TOKEN");
  unsetenv("HF_HUB_OFFLINE");
  return endpoint[0] && setenv("HF_ENDPOINT", endpoint, 1) == 0;
}

static inline void hub_stop(void) {
  kill(hub_process, SIGTERM);
  waitpid(hub_process, NULL, 0);
}

// Times that a line of the server's log holds all of `what`.
static inline int hub_requests(const char *what) {
  char line[1024];
  int count = 0;
  FILE *file = fopen(hub_log, "r");
  while (file && fgets(line, sizeof line, file)) count += strstr(line, what) != NULL;
  if (file) fclose(file);
  return count;
}
static inline void hub_forget_requests(void) { unlink(hub_log); }

#endif
