// The vendor's compiler in a child process. The child builds the binary and hands it back through a memory file that both
// share; its death by signal, by the time limit or by the memory limit becomes an error here.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "lower/qnn/prepare.h"

enum { DEFAULT_SECONDS = 600, POLL_MILLISECONDS = 5 };
#define DEFAULT_MEMORY ((size_t)8 << 30)

// What the child leaves behind; ports and the binary follow.
typedef struct result_header {
  uint64_t complete; // Written last.
  int32_t status;
  uint32_t input_count, output_count;
  uint64_t size, op_count;
  itg_qnn_version core;
  char build[128];
  char message[384], subject[160];
} result_header;

static bool write_all(int file, const void *data, size_t size) {
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

static void child(const itg_graph *graph, const itg_target *target, const itg_qnn_prepare_options *options, int file) {
  const size_t memory = options->memory_bytes ? options->memory_bytes : DEFAULT_MEMORY;
  setrlimit(RLIMIT_AS, &(struct rlimit){memory, memory});
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  signal(SIGINT, SIG_DFL);
  // The vendor's code prints to standard output, which belongs to our caller.
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) {
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
  }
  itg_diagnostic why = {0};
  itg_qnn_blob blob = {0};
  result_header header = {.status = (int32_t)itg_qnn_prepare(graph, target, options, &why, &blob)};
  header.input_count = blob.input_count;
  header.output_count = blob.output_count;
  header.size = blob.size;
  header.op_count = blob.op_count;
  memcpy(header.build, blob.build, sizeof header.build);
  header.core = blob.core;
  memcpy(header.message, why.message, sizeof header.message);
  memcpy(header.subject, why.subject, sizeof header.subject);
  bool written = write_all(file, &header, sizeof header);
  written = written && write_all(file, blob.inputs, blob.input_count * sizeof blob.inputs[0]);
  written = written && write_all(file, blob.outputs, blob.output_count * sizeof blob.outputs[0]);
  written = written && write_all(file, blob.data, blob.size);
  header.complete = 1;
  if (written && lseek(file, 0, SEEK_SET) == 0) written = write_all(file, &header.complete, sizeof header.complete);
  _exit(written ? 0 : 1); // No exit handlers: the vendor's may hang.
}

static itg_status wait_for(pid_t pid, int seconds, itg_diagnostic *diagnostic) {
  const struct timespec pause = {.tv_nsec = POLL_MILLISECONDS * 1000000L};
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  int state;
  for (;;) {
    const pid_t done = waitpid(pid, &state, WNOHANG);
    if (done == pid) break;
    if (done < 0 && errno != EINTR)
      ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL, "lost the process that runs the QNN compiler: %s", strerror(errno));
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - start.tv_sec >= seconds) {
      kill(pid, SIGKILL);
      waitpid(pid, &state, 0);
      ITG_FAIL(diagnostic, ITG_ERROR_TIMEOUT, NULL, "the vendor's QNN compiler did not finish within %d seconds",
               seconds);
    }
    nanosleep(&pause, NULL);
  }
  if (WIFSIGNALED(state))
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL,
             "the vendor's QNN compiler crashed (signal %d, %s); try another library version (--qnn-dir) or "
             "optimisation level",
             WTERMSIG(state), strsignal(WTERMSIG(state)));
  return ITG_OK;
}

static itg_status read_result(itg_span bytes, itg_diagnostic *diagnostic, itg_qnn_blob *out) {
  result_header header;
  if (bytes.size < sizeof header)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL,
             "the vendor's QNN compiler ended without a result; is there memory enough?");
  memcpy(&header, bytes.data, sizeof header);
  header.message[sizeof header.message - 1] = header.subject[sizeof header.subject - 1] = 0;
  header.build[sizeof header.build - 1] = 0;
  if (!header.complete)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, NULL,
             "the vendor's QNN compiler ended without a result; is there memory enough?");
  if (header.status != ITG_OK) ITG_FAIL(diagnostic, (itg_status)header.status, header.subject, "%s", header.message);
  const size_t inputs = header.input_count * sizeof(itg_qnn_port), outputs = header.output_count * sizeof(itg_qnn_port);
  itg_span first, second, data;
  if (!itg_span_cut(bytes, sizeof header, inputs, &first) ||
      !itg_span_cut(bytes, sizeof header + inputs, outputs, &second) ||
      !itg_span_cut(bytes, sizeof header + inputs + outputs, header.size, &data))
    ITG_FAIL(diagnostic, ITG_ERROR_INTERNAL, NULL, "the result of the QNN compiler is incomplete");
  itg_qnn_blob blob = {.data = malloc(data.size + 1),
                       .size = data.size,
                       .inputs = malloc(inputs + 1),
                       .outputs = malloc(outputs + 1),
                       .input_count = header.input_count,
                       .output_count = header.output_count,
                       .op_count = header.op_count};
  if (!blob.data || !blob.inputs || !blob.outputs) {
    itg_qnn_blob_free(&blob);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  memcpy(blob.data, data.data, data.size);
  memcpy(blob.inputs, first.data, inputs);
  memcpy(blob.outputs, second.data, outputs);
  memcpy(blob.build, header.build, sizeof blob.build);
  blob.core = header.core;
  *out = blob;
  return ITG_OK;
}

itg_status itg_qnn_prepare_isolated(const itg_graph *graph, const itg_target *target,
                                    const itg_qnn_prepare_options *options, itg_diagnostic *diagnostic,
                                    itg_qnn_blob *out) {
  const int file = memfd_create("intaglio-qnn", MFD_CLOEXEC);
  if (file < 0) ITG_FAIL(diagnostic, ITG_ERROR_IO, NULL, "cannot create a memory file: %s", strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) child(graph, target, options, file);
  if (pid < 0) {
    close(file);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "cannot start a process for the QNN compiler: %s", strerror(errno));
  }
  itg_status status = wait_for(pid, options->timeout_seconds ? options->timeout_seconds : DEFAULT_SECONDS, diagnostic);
  struct stat info;
  if (status == ITG_OK && fstat(file, &info) == 0 && info.st_size > 0) {
    void *memory = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED) {
      status =
          itg_fail(diagnostic, ITG_ERROR_MEMORY, NULL, __FILE__, __LINE__, "cannot map the result of the QNN compiler");
    } else {
      status = read_result((itg_span){memory, (size_t)info.st_size}, diagnostic, out);
      munmap(memory, (size_t)info.st_size);
    }
  } else if (status == ITG_OK) {
    status = read_result((itg_span){NULL, 0}, diagnostic, out);
  }
  close(file);
  return status;
}
