// See child.h. The result travels through a memory file that both processes share.
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MILLISECONDS = 5 };

bool itg_write_descriptor(int file, const void *data, size_t size) {
  const char *bytes = data;
  while (size) {
    const ssize_t written = write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= (size_t)written;
  }
  return true;
}

// Bytes of address space in use. A child starts with its parent's, which may be large.
static size_t inherited_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "re");
  unsigned long pages = 0;
  if (!file) return 0;
  if (fscanf(file, "%lu", &pages) != 1) pages = 0;
  fclose(file);
  return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void run_child(itg_child_work work, void *context, const itg_child_limits *limits, int file) {
  const size_t memory = inherited_bytes() + limits->memory_bytes;
  if (limits->memory_bytes) setrlimit(RLIMIT_AS, &(struct rlimit){memory, memory});
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  // A handler of the program's would hide a crash, or go on with what is the parent's.
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP,  SIGPIPE, SIGSEGV, SIGBUS,
                                SIGILL, SIGFPE,  SIGABRT, SIGSYS,  SIGTRAP};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) signal(signals[i], SIG_DFL);
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) {
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
  }
  _exit(work(context, file) ? 0 : 1); // No exit handlers: those of foreign code may hang.
}

static itg_status wait_for(pid_t pid, const char *name, const char *remedy, int seconds, itg_diagnostic *diagnostic) {
  const struct timespec pause = {.tv_nsec = POLL_MILLISECONDS * 1000000L};
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  int state;
  for (;;) {
    const pid_t done = waitpid(pid, &state, WNOHANG);
    if (done == pid) break;
    if (done < 0 && errno != EINTR)
      ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL, "lost the process of %s: %s", name, strerror(errno));
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - start.tv_sec >= seconds) {
      kill(pid, SIGKILL);
      waitpid(pid, &state, 0);
      ITG_FAIL(diagnostic, ITG_ERROR_TIMEOUT, NULL, "%s did not finish within %d seconds", name, seconds);
    }
    nanosleep(&pause, NULL);
  }
  if (WIFSIGNALED(state))
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL, "%s crashed (signal %d, %s)%s%s", name, WTERMSIG(state),
             strsignal(WTERMSIG(state)), remedy ? "; " : "", remedy ? remedy : "");
  return ITG_OK;
}

static itg_status map_result(int file, const char *name, itg_diagnostic *diagnostic, itg_child_result *out) {
  struct stat info;
  if (fstat(file, &info) != 0 || info.st_size == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL, "%s ended without a result; is there memory enough?", name);
  void *memory = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "cannot map the result of %s", name);
  out->bytes = (itg_span){memory, (size_t)info.st_size};
  return ITG_OK;
}

itg_status itg_child_run(const char *name, const char *remedy, itg_child_work work, void *context,
                         const itg_child_limits *limits, itg_diagnostic *diagnostic, itg_child_result *out) {
  const int file = memfd_create("intaglio-child", MFD_CLOEXEC);
  if (file < 0) ITG_FAIL(diagnostic, ITG_ERROR_IO, NULL, "cannot create a memory file: %s", strerror(errno));
  if (limits->before_fork) limits->before_fork();
  const pid_t pid = fork();
  if (pid == 0) run_child(work, context, limits, file);
  if (limits->after_fork) limits->after_fork();
  if (pid < 0) {
    close(file);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "cannot start a process for %s: %s", name, strerror(errno));
  }
  itg_status status = wait_for(pid, name, remedy, limits->seconds, diagnostic);
  if (status == ITG_OK) status = map_result(file, name, diagnostic, out);
  close(file);
  return status;
}

void itg_child_result_free(itg_child_result *result) {
  if (result->bytes.data) munmap((void *)(uintptr_t)result->bytes.data, result->bytes.size);
  *result = (itg_child_result){0};
}
