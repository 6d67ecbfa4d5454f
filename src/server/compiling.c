// See compiling.h.
#include "server/compiling.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "server/log.h"

extern char **environ;

enum {
  MAX_JOBS = 64,
  COMPILE_NICENESS = 10, // Requests come first.
  EXIT_COLLAPSED = 1,    // Of the compile command.
};

typedef enum job_state { JOB_WAITING = 0, JOB_RUNNING, JOB_DONE, JOB_TAKEN, JOB_FAILED } job_state;

typedef struct compile_job {
  itg_service_kind kind;
  job_state state;
  char model[128], folder[PATH_MAX], network[64], problem[200];
} compile_job;

struct itg_compile_service {
  itg_compile_service_options options;
  pthread_mutex_t lock;
  pthread_cond_t more;
  compile_job *jobs[MAX_JOBS]; // Never removed: a job that failed is not tried twice in one run.
  size_t count;
  bool ending;
  pid_t child; // 0: none.
  pthread_t thread;
};

bool itg_refusal_path(const char *folder, const char *network, char *path, size_t size) {
  const int length = snprintf(path, size, "%s/%s.refused.txt", folder, network);
  return length > 0 && (size_t)length < size;
}

// ---- the command line ----

enum { MAX_WORDS = 24 };
typedef struct command_line {
  const char *words[MAX_WORDS + 1];
  size_t count;
  char source[PATH_MAX], output[PATH_MAX], faces[PATH_MAX];
} command_line;

static void add(command_line *line, const char *word, const char *value) {
  if (line->count + 2 > MAX_WORDS) return;
  line->words[line->count++] = word;
  if (value) line->words[line->count++] = value;
}

// False when the command cannot make samples for this network.
static bool build_command(const itg_compile_service *service, const compile_job *job, command_line *line) {
  const itg_compile_service_options *options = &service->options;
  if ((size_t)snprintf(line->source, PATH_MAX, "%s/%s.onnx", job->folder, job->network) >= PATH_MAX) return false;
  if ((size_t)snprintf(line->output, PATH_MAX, "%s/%s.itg", job->folder, job->network) >= PATH_MAX) return false;
  if ((size_t)snprintf(line->faces, PATH_MAX, "%s/../detection", job->folder) >= PATH_MAX) return false;
  add(line, "intaglio", "compile");
  add(line, line->source, NULL);
  add(line, "-o", line->output);
  add(line, "--calibration", options->calibration);
  add(line, "--split", NULL);
  add(line, "--limit", "64");
  switch (job->kind) {
  case ITG_SERVICE_FACE_DETECTION:
    if (strcmp(job->network, "model") != 0) return false;
    add(line, "--kind", "face-detection");
    break;
  case ITG_SERVICE_CLIP_VISUAL: add(line, "--kind", "clip-visual"); break;
  case ITG_SERVICE_FACE_RECOGNITION:
    add(line, "--kind", "face-recognition");
    add(line, "--face-models", line->faces);
    break;
  default: return false;
  }
  // Small faces are lost where 8 bits hold the boxes: .58 of them are found, all with 16 bits.
  const char *usual = job->kind == ITG_SERVICE_FACE_DETECTION ? "a16w8" : NULL;
  const char *precision = options->precision ? options->precision : usual;
  if (precision) add(line, "--precision", precision);
  if (options->target) add(line, "--target", options->target);
  if (options->qnn_directory) add(line, "--qnn-dir", options->qnn_directory);
  return true;
}

// ---- the child ----

static pid_t start_child(const char *program, const command_line *line, int *output) {
  int ends[2];
  pid_t child = 0;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (pipe2(ends, O_CLOEXEC) != 0) return 0;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none); // The server blocks signals; the child must not inherit that.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  if (posix_spawn(&child, program, &actions, &attributes, (char *const *)(uintptr_t)line->words, environ) != 0)
    child = 0;
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (child == 0) {
    close(ends[0]);
    return 0;
  }
  setpriority(PRIO_PROCESS, (id_t)child, COMPILE_NICENESS);
  *output = ends[0];
  return child;
}

// Logs what the child says; keeps its last line.
static void follow(const compile_job *job, int output, char *last, size_t size) {
  FILE *stream = fdopen(output, "r");
  char line[512];
  if (!stream) {
    close(output);
    return;
  }
  while (fgets(line, sizeof line, stream)) {
    line[strcspn(line, "\r\n")] = '\0';
    if (!line[0]) continue;
    itg_log(ITG_LOG_INFO, "compiling %s '%s' %s: %s", itg_service_task(job->kind), job->model, job->network, line);
    snprintf(last, size, "%.199s", line);
  }
  fclose(stream);
}

static void write_refusal(const compile_job *job, const char *reason) {
  char path[PATH_MAX];
  itg_diagnostic why = {0};
  if (itg_refusal_path(job->folder, job->network, path, sizeof path) &&
      itg_write_file(path, reason, strlen(reason), &why) != ITG_OK)
    itg_log(ITG_LOG_WARNING, "cannot keep the reason for refusing '%s': %s", job->model, why.message);
}

// Without the lock.
static void run_job(itg_compile_service *service, const compile_job *job, char problem[200], bool *done) {
  command_line line = {0};
  char last[400] = "";
  int output = -1, state = 0;
  *done = false;
  if (!build_command(service, job, &line)) {
    snprintf(problem, 200, "no calibration for this kind of network; compile it by hand (intaglio compile --help)");
    return;
  }
  itg_log(ITG_LOG_INFO, "compiling %s '%s' %s with the photographs of %s; the float model serves meanwhile",
          itg_service_task(job->kind), job->model, job->network, service->options.calibration);
  const pid_t child = start_child(service->options.program, &line, &output);
  if (child == 0) {
    snprintf(problem, 200, "the compiler could not be started: %s", strerror(errno));
    return;
  }
  pthread_mutex_lock(&service->lock);
  service->child = child;
  if (service->ending) kill(child, SIGTERM);
  pthread_mutex_unlock(&service->lock);
  follow(job, output, last, sizeof last);
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  pthread_mutex_lock(&service->lock);
  service->child = 0;
  const bool ending = service->ending;
  pthread_mutex_unlock(&service->lock);
  *done = WIFEXITED(state) && WEXITSTATUS(state) == 0;
  if (*done || ending) return;
  if (WIFSIGNALED(state))
    snprintf(problem, 200, "the compiler was ended by signal %d (out of memory?)", WTERMSIG(state));
  else
    snprintf(problem, 200, "%.199s", last[0] ? last : "the compiler failed without a message");
  if (WIFEXITED(state) && WEXITSTATUS(state) == EXIT_COLLAPSED) write_refusal(job, problem);
}

static compile_job *next_job(itg_compile_service *service) {
  for (size_t i = 0; i < service->count; i++)
    if (service->jobs[i]->state == JOB_WAITING) return service->jobs[i];
  return NULL;
}

static void *work(void *argument) {
  itg_compile_service *service = argument;
  pthread_mutex_lock(&service->lock);
  while (!service->ending) {
    compile_job *job = next_job(service);
    if (!job) {
      pthread_cond_wait(&service->more, &service->lock);
      continue;
    }
    char problem[200] = "";
    bool done;
    job->state = JOB_RUNNING;
    pthread_mutex_unlock(&service->lock);
    run_job(service, job, problem, &done);
    if (problem[0])
      itg_log(ITG_LOG_WARNING, "%s '%s' %s stays a float model on the CPU: %s", itg_service_task(job->kind), job->model,
              job->network, problem);
    pthread_mutex_lock(&service->lock);
    job->state = done ? JOB_DONE : JOB_FAILED;
    memcpy(job->problem, problem, sizeof job->problem);
  }
  pthread_mutex_unlock(&service->lock);
  return NULL;
}

// ---- what others call ----

itg_status itg_compile_service_create(const itg_compile_service_options *options, itg_diagnostic *diagnostic,
                                      itg_compile_service **out) {
  itg_compile_service *service = calloc(1, sizeof *service);
  ITG_TRY_MEMORY(service, diagnostic);
  service->options = *options;
  pthread_mutex_init(&service->lock, NULL);
  pthread_cond_init(&service->more, NULL);
  if (pthread_create(&service->thread, NULL, work, service) != 0) {
    free(service);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "no thread to be had");
  }
  *out = service;
  return ITG_OK;
}

void itg_compile_service_destroy(itg_compile_service *service) {
  if (!service) return;
  pthread_mutex_lock(&service->lock);
  service->ending = true;
  if (service->child > 0) kill(service->child, SIGTERM); // The command removes its unfinished file.
  pthread_cond_signal(&service->more);
  pthread_mutex_unlock(&service->lock);
  pthread_join(service->thread, NULL);
  for (size_t i = 0; i < service->count; i++) free(service->jobs[i]);
  pthread_cond_destroy(&service->more);
  pthread_mutex_destroy(&service->lock);
  free(service);
}

void itg_compile_service_request(itg_compile_service *service, itg_service_kind kind, const char *model,
                                 const char *folder, const char *network) {
  pthread_mutex_lock(&service->lock);
  bool known = service->count == MAX_JOBS;
  for (size_t i = 0; !known && i < service->count; i++)
    known = strcmp(service->jobs[i]->folder, folder) == 0 && strcmp(service->jobs[i]->network, network) == 0;
  compile_job *job = known ? NULL : calloc(1, sizeof *job);
  if (job) { // Without memory for it, the float model just goes on.
    job->kind = kind;
    snprintf(job->model, sizeof job->model, "%s", model);
    snprintf(job->folder, sizeof job->folder, "%s", folder);
    snprintf(job->network, sizeof job->network, "%s", network);
    service->jobs[service->count++] = job;
    pthread_cond_signal(&service->more);
  }
  pthread_mutex_unlock(&service->lock);
}

bool itg_compile_service_take_result(itg_compile_service *service, const char *folder) {
  bool changed = false;
  pthread_mutex_lock(&service->lock);
  for (size_t i = 0; i < service->count; i++) {
    compile_job *job = service->jobs[i];
    if (job->state != JOB_DONE || strcmp(job->folder, folder) != 0) continue;
    job->state = JOB_TAKEN;
    changed = true;
  }
  pthread_mutex_unlock(&service->lock);
  return changed;
}

void itg_compile_service_status(itg_compile_service *service, const char *folder, bool *running, char *problem,
                                size_t size) {
  pthread_mutex_lock(&service->lock);
  for (size_t i = 0; i < service->count; i++) {
    const compile_job *job = service->jobs[i];
    if (strcmp(job->folder, folder) != 0) continue;
    *running = *running || job->state == JOB_WAITING || job->state == JOB_RUNNING;
    if (job->problem[0]) snprintf(problem, size, "%s", job->problem);
  }
  pthread_mutex_unlock(&service->lock);
}
