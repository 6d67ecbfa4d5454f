// See file.h. A registry of a few open temporary names lets a signal handler remove them.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

itg_status itg_mapped_file_open(const char *path, itg_diagnostic *diagnostic, itg_mapped_file *out) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot open: %s", strerror(errno));
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "not a regular file");
  }
  itg_mapped_file file = {{NULL, (size_t)info.st_size}};
  if (info.st_size > 0) {
    void *memory = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory == MAP_FAILED) {
      const int error = errno;
      close(descriptor);
      ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot map %lld bytes: %s", (long long)info.st_size, strerror(error));
    }
    file.bytes.data = memory;
  }
  close(descriptor);
  *out = file;
  return ITG_OK;
}

void itg_mapped_file_close(itg_mapped_file *file) {
  if (file->bytes.data) munmap((void *)file->bytes.data, file->bytes.size);
  *file = (itg_mapped_file){0};
}

void itg_mapped_file_release_pages(const itg_mapped_file *file) {
  // A hint: without it the pages merely stay.
  if (file->bytes.data) (void)madvise((void *)file->bytes.data, file->bytes.size, MADV_DONTNEED);
}

struct itg_output_file {
  int descriptor;
  int slot;
  char *path;
  char *temporary;
  size_t filled;
  unsigned char buffer[1 << 16];
};

enum { MAX_OPEN_OUTPUTS = 64 };
static _Atomic(char *) open_outputs[MAX_OPEN_OUTPUTS];
static atomic_uint output_counter;

static void release(itg_output_file *file, bool remove_temporary) {
  if (file->descriptor >= 0) close(file->descriptor);
  if (remove_temporary) unlink(file->temporary);
  if (file->slot >= 0) atomic_store(&open_outputs[file->slot], NULL);
  free(file->temporary);
  free(file->path);
  free(file);
}

itg_status itg_output_file_create(const char *path, itg_diagnostic *diagnostic, itg_output_file **out) {
  struct stat info;
  if (!*path) ITG_FAIL(diagnostic, ITG_ERROR_IO, NULL, "the path of an output file is empty");
  const bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
  const bool present = stat(path, &info) == 0;
  if (is_link && !present)
    ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "is a symbolic link that leads nowhere; remove it or choose another path");
  if (present && !S_ISREG(info.st_mode))
    ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "exists and is not a regular file; choose another output path");
  itg_output_file *file = calloc(1, sizeof *file);
  ITG_TRY_MEMORY(file, diagnostic);
  file->descriptor = file->slot = -1;
  file->path = is_link ? realpath(path, NULL) : strdup(path); // Renaming onto a link would replace the link.
  const size_t length = (file->path ? strlen(file->path) : 0) + 48;
  file->temporary = malloc(length);
  if (!file->path || !file->temporary) {
    free(file->path);
    free(file->temporary);
    free(file);
    ITG_FAIL(diagnostic, ITG_ERROR_MEMORY, NULL, "out of memory");
  }
  snprintf(file->temporary, length, "%s.tmp-%ld-%u", file->path, (long)getpid(), atomic_fetch_add(&output_counter, 1));
  for (int i = 0; i < MAX_OPEN_OUTPUTS && file->slot < 0; i++) {
    char *expected = NULL;
    if (atomic_compare_exchange_strong(&open_outputs[i], &expected, file->temporary)) file->slot = i;
  }
  file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file->descriptor < 0) {
    const int error = errno;
    release(file, false);
    ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot create: %s; is the folder there and writable?", strerror(error));
  }
  *out = file;
  return ITG_OK;
}

static itg_status write_all(itg_output_file *file, const unsigned char *data, size_t size, itg_diagnostic *diagnostic) {
  while (size) {
    const ssize_t written = write(file->descriptor, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) ITG_FAIL(diagnostic, ITG_ERROR_IO, file->path, "cannot write: %s", strerror(errno));
    data += written;
    size -= (size_t)written;
  }
  return ITG_OK;
}

static itg_status flush(itg_output_file *file, itg_diagnostic *diagnostic) {
  const size_t size = file->filled;
  file->filled = 0;
  return write_all(file, file->buffer, size, diagnostic);
}

itg_status itg_output_file_write(itg_output_file *file, const void *data, size_t size, itg_diagnostic *diagnostic) {
  if (size > sizeof file->buffer - file->filled) ITG_TRY(flush(file, diagnostic));
  if (size > sizeof file->buffer) return write_all(file, data, size, diagnostic);
  if (size) memcpy(file->buffer + file->filled, data, size);
  file->filled += size;
  return ITG_OK;
}

const char *itg_output_file_flush(itg_output_file *file, itg_diagnostic *diagnostic) {
  return flush(file, diagnostic) == ITG_OK ? file->temporary : NULL;
}

itg_status itg_output_file_commit(itg_output_file *file, itg_diagnostic *diagnostic) {
  itg_status status = flush(file, diagnostic);
  if (status == ITG_OK && fsync(file->descriptor) != 0 && errno != EINVAL && errno != EROFS)
    status = itg_fail(diagnostic, ITG_ERROR_IO, file->path, __FILE__, __LINE__, "cannot sync: %s", strerror(errno));
  if (status == ITG_OK && rename(file->temporary, file->path) != 0)
    status = itg_fail(diagnostic, ITG_ERROR_IO, file->path, __FILE__, __LINE__, "cannot rename: %s", strerror(errno));
  release(file, status != ITG_OK);
  return status;
}

void itg_output_file_discard(itg_output_file *file) {
  if (file) release(file, true);
}

void itg_output_file_discard_all_from_signal(void) {
  for (int i = 0; i < MAX_OPEN_OUTPUTS; i++) {
    const char *name = atomic_load(&open_outputs[i]);
    if (name) unlink(name);
  }
}

itg_status itg_write_file(const char *path, const void *data, size_t size, itg_diagnostic *diagnostic) {
  itg_output_file *file = NULL;
  ITG_TRY(itg_output_file_create(path, diagnostic, &file));
  const itg_status status = itg_output_file_write(file, data, size, diagnostic);
  if (status != ITG_OK) {
    itg_output_file_discard(file);
    return status;
  }
  return itg_output_file_commit(file, diagnostic);
}
