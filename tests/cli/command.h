// Runs the command as a user would: a child process with its output caught, in a folder of its own.
#ifndef ITG_TESTS_COMMAND_H
#define ITG_TESTS_COMMAND_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/onnx_writer.h"
#include "tensor/npy.h"

enum { OUTPUT_LIMIT = 1 << 20 };
static char command_stdout[OUTPUT_LIMIT], command_stderr[OUTPUT_LIMIT];
static char work_folder[] = "/tmp/intaglio-cli-XXXXXX";

static inline void read_text(const char *path, char *text) {
  FILE *file = fopen(path, "rb");
  const size_t size = file ? fread(text, 1, OUTPUT_LIMIT - 1, file) : 0;
  text[size] = '\0';
  if (file) fclose(file);
}

static inline void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "wb");
  if (!file || fputs(text, file) < 0 || fclose(file) != 0) abort();
}

static inline void redirect(int descriptor, const char *path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
  close(file);
}

// Starts the command with words separated by single spaces; `out` is where standard output goes.
static inline pid_t start_command(const char *line, const char *out) {
  const pid_t child = fork();
  if (child != 0) return child;
  char copy[5200], *words[64];
  int count = 0;
  snprintf(copy, sizeof copy, "intaglio %s", line);
  for (char *word = strtok(copy, " "); word && count < 63; word = strtok(NULL, " ")) words[count++] = word;
  words[count] = NULL;
  redirect(STDOUT_FILENO, out);
  redirect(STDERR_FILENO, "stderr.txt");
  execv(ITG_BINARY_DIR "/intaglio", words);
  _exit(127);
}

// The exit code, or 1000 + signal.
static inline int finish_command(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) abort();
  read_text("stdout.txt", command_stdout);
  read_text("stderr.txt", command_stderr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline int command(const char *line) {
  const int code = finish_command(start_command(line, "stdout.txt"));
  if (code >= 126) print_message("intaglio %s -> %d\n%s", line, code, command_stderr);
  return code;
}

static inline int enter_work_folder(void **state) {
  (void)state;
  return mkdtemp(work_folder) && chdir(work_folder) == 0 ? 0 : -1;
}

static inline int leave_work_folder(void **state) {
  (void)state;
  char line[128];
  snprintf(line, sizeof line, "rm -rf %s", work_folder);
  return chdir("/") == 0 ? system(line) : -1;
}

static inline bool exists(const char *path) { return access(path, F_OK) == 0; }

// Files in the work folder whose name holds `part`.
static inline int count_files(const char *part) {
  DIR *folder = opendir(".");
  int count = 0;
  for (const struct dirent *entry; folder && (entry = readdir(folder));) count += strstr(entry->d_name, part) != NULL;
  if (folder) closedir(folder);
  return count;
}

static inline void write_model(const char *path, int64_t side, const char *unsupported) {
  const onnx_bytes model = onnx_small_embedder(side, unsupported);
  onnx_write_file(path, model.data, model.size);
  free(model.data);
}

// Random pictures [rows, 3, side, side] with a different brightness and tint each, so that samples can be told apart.
static inline void write_samples(const char *path, int64_t rows, int64_t side, uint32_t seed) {
  const size_t count = (size_t)(rows * 3 * side * side), plane = (size_t)(side * side);
  float *values = malloc(count * sizeof *values), tint = 0;
  if (!values) abort();
  for (size_t i = 0; i < count; i++) {
    if (i % plane == 0) tint = onnx_random(&seed);
    values[i] = tint + 0.3f * onnx_random(&seed);
  }
  const itg_shape shape = {4, {rows, 3, side, side}};
  if (itg_npy_write(path, ITG_DTYPE_F32, &shape, values, NULL) != ITG_OK) abort();
  free(values);
}

#endif
